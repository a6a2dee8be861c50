# SPDX-License-Identifier: MIT
"""What stands in the sky or against it: sun, moon and mountain.

Each function paints a whole picture: its background, then the subject.
"""

import math

import numpy

from backgrounds import hills, light_of, on_paper, paper, sky, waves
from painter import darker, ellipse, hsv, lighter, mix, ribbon


def sun(painter):
    rng = painter.rng
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter, ("day", "day", "dusk", "dawn"))
        if rng.random() < 0.4:
            hills(painter, rng.uniform(0.75, 0.95), kind)
    hue = rng.uniform(0.08, 0.155)
    bright, deep = hsv(hue + 0.02, rng.uniform(0.55, 0.8), 1.0), hsv(hue - 0.04, 0.88, rng.uniform(0.92, 1.0))
    count = int(rng.integers(8, 17))
    style = rng.choice(["pointed", "bars", "alternating", "wavy"])
    radius = rng.uniform(0.46, 0.6)
    with painter.frame(*rng.uniform(-0.3, 0.3, 2), rng.uniform(0.5, 0.85), rng.uniform(0, 2 * math.pi)):
        painter.glow(0, 0, 1.7, (255, 244, 190), 0.8)
        for index in range(count):
            with painter.frame(0, 0, 1, 2 * math.pi * index / count):
                reach = 0.78 if style == "alternating" and index % 2 else 1.0
                half = math.pi / count * radius * (0.95 if style == "pointed" else 0.75)
                if style == "bars":
                    painter.line([[radius + 0.12, 0], [0.95, 0]], half * 1.1, deep)
                elif style == "wavy":
                    along = numpy.linspace(radius * 0.9, 1.0, 16)
                    middle = numpy.stack([along, 0.05 * numpy.sin((along - radius) * 14)], axis=1)
                    painter.shape(ribbon(middle, half * 1.6, 0.01), deep)
                else:
                    start = radius + (0.05 if style == "pointed" else -0.05)
                    painter.shape([[start, -half], [reach, 0], [start, half]], deep)
        painter.disc(0, 0, radius, bright, deep, shadow=0.15)
        painter.disc(0, 0, radius * 0.86, lighter(bright, 0.3), bright, opacity=0.8)


def moon(painter):
    rng = painter.rng
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter, ("night", "night", "night", "dusk"))
        if rng.random() < 0.4:
            hills(painter, rng.uniform(0.75, 0.95), kind)
    pale = hsv(rng.uniform(0.1, 0.17), rng.uniform(0.05, 0.4), rng.uniform(0.92, 1.0))
    grey = darker(pale, 0.22)
    with painter.frame(*rng.uniform(-0.3, 0.3, 2), rng.uniform(0.45, 0.75), rng.uniform(-0.7, 0.7), rng.random() < 0.5):
        painter.glow(0, 0, 1.9, (235, 235, 255), rng.uniform(0.25, 0.5))
        if rng.random() < 0.25:  # a full moon
            outline, places = ellipse(0, 0, 0.9), rng.uniform(-0.6, 0.6, (9, 2))
        else:  # a crescent: a disc without the part that a second disc covers
            inner, offset = rng.uniform(0.72, 0.88), rng.uniform(0.38, 0.55)
            cosine = (1 + offset**2 - inner**2) / (2 * offset)
            first = math.acos(cosine)
            second = math.atan2(math.sin(first), cosine - offset)
            outline = numpy.concatenate(
                [
                    ellipse(0, 0, 1, start=first, end=2 * math.pi - first),
                    ellipse(offset, 0, inner, start=2 * math.pi - second, end=second),
                ]
            )
            turn = numpy.linspace(2.0, 4.3, 6) + rng.uniform(-0.15, 0.15, 6)
            places = numpy.stack([numpy.cos(turn), numpy.sin(turn)], axis=1) * rng.uniform(0.6, 0.9, (6, 1))
        painter.shape(outline, lighter(pale, 0.5), pale, shadow=0.2)
        clip = painter.mask(outline)
        for x, y in places:
            radius = rng.uniform(0.05, 0.17)
            painter.disc(x, y, radius, grey, opacity=0.7, clip=clip)
            painter.disc(x + 0.02, y + 0.025, radius * 0.82, mix(grey, pale, 0.5), opacity=0.8, clip=clip)


def mountain(painter):
    rng = painter.rng
    kind = "day"
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter)
    dim = light_of(kind) * 0.6
    rock = darker(
        hsv(
            rng.choice([0.07, 0.58, 0.62, 0.7, 0.75]) + rng.uniform(-0.03, 0.03),
            rng.uniform(0.15, 0.4),
            rng.uniform(0.4, 0.65),
        ),
        dim,
    )
    snow = darker((250, 252, 255), dim * 0.5)
    count = int(rng.integers(1, 4))
    centres = rng.uniform(-0.15, 0.15) + (numpy.arange(count) - (count - 1) / 2) * rng.uniform(0.6, 0.8)
    base = rng.uniform(0.55, 0.8)
    for index in rng.permutation(count):
        far = rng.uniform(0.0, 0.3)
        tone = lighter(rock, far)
        top = rng.uniform(-0.8, -0.4) if index == count // 2 else rng.uniform(-0.45, 0.0)
        tall, wide = base - top, rng.uniform(0.62, 0.85) * (base - top)
        with painter.frame(centres[index], top, 1, mirror=rng.random() < 0.5):
            down = numpy.linspace(0, 1, 9)
            rough = rng.uniform(-0.03, 0.03, (3, 9)) * (down > 0) * (down < 1)
            left = numpy.stack([-wide * (down + rough[0]), tall * down], axis=1)
            right = numpy.stack([wide * (down + rough[1]), tall * down], axis=1)
            fold = numpy.stack([wide * (0.28 * down + 2.2 * rough[2]), tall * down], axis=1)
            outline = numpy.concatenate([left, right[::-1]])
            painter.shape(outline, lighter(tone, 0.12), tone, shadow=0.3)
            clip = painter.mask(outline)
            line, teeth = rng.uniform(0.26, 0.42), int(rng.integers(4, 7))
            edge = numpy.linspace(-1, 1, 2 * teeth + 1)
            depth = (
                tall
                * line
                * numpy.where(numpy.arange(2 * teeth + 1) % 2, 1.3, 0.85)
                * rng.uniform(0.85, 1.15, 2 * teeth + 1)
            )
            painter.shape(
                numpy.concatenate([[[0, -0.1]], numpy.stack([edge * wide * line * 1.6, depth], axis=1)]),
                snow,
                clip=clip,
            )
            painter.shape(numpy.concatenate([fold, right[::-1]]), darker(tone, 0.75), opacity=0.38, clip=clip)
    if rng.random() < 0.65:
        hills(painter, base - 0.02, kind)
    else:
        waves(painter, base - 0.08, darker(hsv(rng.uniform(0.48, 0.6), 0.5, 0.75), dim), 3)
