# SPDX-License-Identifier: MIT
"""What lies behind the subjects: skies, hills, water, meadows and plain papers with patterns."""

import math

import numpy

from painter import darker, ellipse, hsv, lighter, mix, ribbon

PAPER_SHARE = 0.25  # this share of the pictures shows the subject on plain paper instead of in a scene


def on_paper(rng):
    return rng.random() < PAPER_SHARE


def cloud(painter, x, y, scale, colour, opacity):
    rng = painter.rng
    with painter.frame(x, y, scale):
        across = numpy.linspace(-1.1, 1.1, 160)
        height = numpy.zeros_like(across)  # of the highest of five discs at every place
        for middle in numpy.linspace(-0.8, 0.8, 5):
            radius = 0.45 * (1 - 0.45 * abs(middle)) * rng.uniform(0.8, 1.15)
            inside = radius**2 - (across - middle) ** 2
            height = numpy.maximum(height, numpy.sqrt(numpy.maximum(inside, 0)) + 0.5 * radius * (inside > 0))
        covered = height > 0
        upper = numpy.stack([across, -height], axis=1)[covered]
        lower = numpy.stack([across, 0.12 * numpy.sqrt(numpy.maximum(1 - (across / 1.1) ** 2, 0))], axis=1)[covered]
        painter.shape(numpy.concatenate([upper, lower[::-1]]), colour, opacity=opacity)


def stars(painter, count):
    for _ in range(count):
        x, y = painter.rng.uniform(-1, 1, 2)
        painter.disc(x, y, painter.rng.uniform(0.006, 0.018), (255, 250, 225), opacity=painter.rng.uniform(0.4, 1))


def sky(painter, kinds=("day", "day", "dusk", "dawn", "night")):
    """Paint a sky and return which kind it is."""
    rng = painter.rng
    kind = str(rng.choice(kinds))
    if kind == "day":
        hue = rng.uniform(0.52, 0.61)
        painter.gradient(
            [hsv(hue, rng.uniform(0.5, 0.8), rng.uniform(0.75, 0.95)), hsv(hue - 0.03, rng.uniform(0.1, 0.3), 0.98)]
        )
    elif kind == "dusk":
        painter.gradient(
            [
                hsv(rng.uniform(0.66, 0.8), 0.55, rng.uniform(0.4, 0.65)),
                hsv(rng.uniform(0.9, 1.0), 0.5, 0.85),
                hsv(rng.uniform(0.05, 0.11), 0.6, 0.98),
            ]
        )
    elif kind == "dawn":
        painter.gradient(
            [
                hsv(rng.uniform(0.5, 0.65), 0.35, 0.85),
                hsv(rng.uniform(0.95, 1.08), 0.22, 0.98),
                hsv(rng.uniform(0.1, 0.14), 0.35, 1.0),
            ]
        )
    else:
        hue = rng.uniform(0.6, 0.74)
        painter.gradient([hsv(hue, 0.8, rng.uniform(0.12, 0.25)), hsv(hue - 0.04, 0.6, rng.uniform(0.35, 0.5))])
        stars(painter, int(rng.integers(12, 45)))
    tint = {"day": (255, 255, 255), "dusk": (255, 205, 190), "dawn": (255, 245, 240), "night": (120, 130, 180)}
    for _ in range(int(rng.integers(0, 4))):
        cloud(
            painter,
            rng.uniform(-1, 1),
            rng.uniform(-0.9, 0.1),
            rng.uniform(0.15, 0.35),
            tint[kind],
            0.25 if kind == "night" else 0.75,
        )
    return kind


def light_of(kind):
    """How far colours of the land are darkened under a kind of sky."""
    return {"day": 0.0, "dawn": 0.08, "dusk": 0.25, "night": 0.42}[kind]


def hills(painter, level, kind, hue=None):
    """Two or three rounded hills; the front one reaches `level` at its middle."""
    rng = painter.rng
    hue = rng.uniform(0.2, 0.38) if hue is None else hue
    count = int(rng.integers(2, 4))
    across = numpy.linspace(-1.1, 1.1, 60)
    for index in range(count):
        distance = count - 1 - index
        phase, waves = rng.uniform(0, 2 * math.pi), rng.uniform(1.2, 2.6)
        height = level - 0.14 * distance + rng.uniform(0.03, 0.09) * numpy.sin(waves * across + phase)
        colour = hsv(hue + 0.03 * distance, 0.6 - 0.13 * distance, 0.68 + 0.08 * distance)
        colour = darker(colour, light_of(kind))
        outline = numpy.concatenate([numpy.stack([across, height], axis=1), [[1.1, 1.1], [-1.1, 1.1]]])
        painter.shape(outline, lighter(colour, 0.12), darker(colour, 0.2), shadow=0.25)


def waves(painter, level, colour, count, opacity=1.0):
    """Bands of waves from `level` down to the lower edge, each in front of the one before."""
    rng = painter.rng
    across = numpy.linspace(-1.2, 1.2, 120)
    for index in range(count):
        depth = index / max(count, 1)
        length, swell = rng.uniform(9, 15), rng.uniform(0.015, 0.035)
        height = level + (1 - level) * depth + swell * numpy.sin(length * across + rng.uniform(0, 6))
        outline = numpy.concatenate([numpy.stack([across, height], axis=1), [[1.2, 1.2], [-1.2, 1.2]]])
        shade = mix(lighter(colour, 0.2), darker(colour, 0.25), depth)
        painter.shape(outline, lighter(shade, 0.15), shade, opacity=opacity, shadow=0.12)


def under_water(painter):
    rng = painter.rng
    hue = rng.uniform(0.46, 0.62)
    painter.gradient([hsv(hue, 0.45, 0.95), hsv(hue + 0.03, 0.75, 0.7), hsv(hue + 0.06, 0.85, rng.uniform(0.3, 0.5))])
    for _ in range(int(rng.integers(2, 5))):
        x, lean, width = rng.uniform(-1, 1), rng.uniform(-0.4, 0.4), rng.uniform(0.05, 0.15)
        beam = [[x - width / 2, -1.1], [x + width / 2, -1.1], [x + lean + width * 2, 1.1], [x + lean - width, 1.1]]
        painter.shape(beam, (255, 255, 255), opacity=0.1)
    if rng.random() < 0.6:
        sand = hsv(rng.uniform(0.08, 0.13), 0.4, 0.75)
        across = numpy.linspace(-1.1, 1.1, 40)
        height = rng.uniform(0.72, 0.9) + 0.04 * numpy.sin(4 * across + rng.uniform(0, 6))
        painter.shape(
            numpy.concatenate([numpy.stack([across, height], axis=1), [[1.1, 1.1], [-1.1, 1.1]]]), sand, darker(sand)
        )
    for _ in range(int(rng.integers(0, 6))):
        x, reach, sway = rng.uniform(-1, 1), rng.uniform(0.3, 0.8), rng.uniform(0, 6)
        up = numpy.linspace(0, 1, 20)
        stalk = numpy.stack([x + 0.06 * numpy.sin(7 * up + sway), 1.02 - reach * up], axis=1)
        painter.shape(ribbon(stalk, 0.09, 0.02), darker(hsv(rng.uniform(0.3, 0.45), 0.7, 0.6), 0.15))
    for _ in range(int(rng.integers(3, 12))):
        x, y = rng.uniform(-1, 1, 2)
        radius = rng.uniform(0.015, 0.05)
        painter.disc(x, y, radius, (255, 255, 255), opacity=0.35)
        painter.disc(x - radius * 0.3, y - radius * 0.3, radius * 0.3, (255, 255, 255), opacity=0.7)


def paper(painter):
    """A plain background of any colour, often with a quiet pattern."""
    rng = painter.rng
    hue, saturation, value = rng.random(), rng.uniform(0.08, 0.6), rng.uniform(0.55, 1.0)
    base = hsv(hue, saturation, value)
    painter.gradient(
        [base, hsv(hue + rng.uniform(-0.12, 0.12), saturation * rng.uniform(0.5, 1.4), value * 0.9)],
        rng.uniform(0, 2 * math.pi),
    )
    pattern = rng.choice(["none", "dots", "stripes", "rings", "bokeh"])
    tone = lighter(base, 0.3) if rng.random() < 0.5 else darker(base, 0.12)
    spacing = rng.uniform(0.16, 0.35)
    with painter.frame(0, 0, 1, rng.uniform(0, math.pi)):
        if pattern == "dots":
            for x in numpy.arange(-1.5, 1.5, spacing):
                for y in numpy.arange(-1.5, 1.5, spacing):
                    painter.shape(ellipse(x, y, spacing * 0.18, count=20), tone, opacity=0.6)
        elif pattern == "stripes":
            for x in numpy.arange(-1.6, 1.6, spacing):
                painter.shape(
                    [[x, -1.6], [x + spacing / 2, -1.6], [x + spacing / 2, 1.6], [x, 1.6]], tone, opacity=0.45
                )
        elif pattern == "rings":
            for radius in numpy.arange(1.6, 0.1, -spacing):
                painter.disc(0, 0, radius, tone, opacity=0.2)
        elif pattern == "bokeh":
            for _ in range(14):
                painter.disc(*rng.uniform(-1.3, 1.3, 2), rng.uniform(0.05, 0.3), tone, opacity=0.25)
