# SPDX-License-Identifier: MIT
"""What the demo's network has never seen and learns in the demo: balloon, butterfly, mushroom and umbrella.

Each function paints a whole picture: its background, then the subject.
"""

import math

import numpy

from backgrounds import hills, light_of, on_paper, paper, sky, waves
from painter import darker, ellipse, hsv, lighter, ribbon, smooth


def balloon(painter):
    """A hot-air balloon."""
    rng = painter.rng
    kind = "day"
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter, ("day", "day", "dawn", "dusk"))
        if rng.random() < 0.6:
            hills(painter, rng.uniform(0.75, 1.0), kind)
    dim = light_of(kind) * 0.5
    first = darker(hsv(rng.random(), rng.uniform(0.6, 0.9), rng.uniform(0.8, 1.0)), dim)
    second = darker(hsv(rng.random(), rng.uniform(0.0, 0.7), rng.uniform(0.85, 1.0)), dim)
    straw = darker(hsv(rng.uniform(0.06, 0.1), 0.6, rng.uniform(0.5, 0.7)), dim)
    with painter.frame(*rng.uniform(-0.25, 0.25, 2), rng.uniform(0.6, 0.85), rng.uniform(-0.12, 0.12)):
        wide, mouth = rng.uniform(0.58, 0.7), rng.uniform(0.1, 0.16)
        for side in (-1, 1):
            for at in (0.35, 1.0):
                painter.shape(ribbon([[side * mouth * at * 1.2, 0.36], [side * 0.12 * at, 0.74]], 0.02), darker(straw, 0.4))
        painter.shape([[-0.15, 0.72], [0.15, 0.72], [0.12, 0.98], [-0.12, 0.98]], lighter(straw, 0.15), darker(straw, 0.2), shadow=0.3)
        painter.shape([[-0.17, 0.7], [0.17, 0.7], [0.17, 0.76], [-0.17, 0.76]], darker(straw, 0.3))
        down = numpy.linspace(0, 1, 40)

        def edge(at):
            """A line from top to mouth, `at` -1 to 1 across."""
            half = wide * numpy.sin(numpy.minimum(down * 1.9, 1) * math.pi / 2) ** 0.62
            low = numpy.clip((down - 0.52) / 0.48, 0, 1)
            half = half + (mouth - wide) * (low**1.5)
            return numpy.stack([at * half, -0.98 + 1.4 * down], axis=1)

        outline = numpy.concatenate([edge(-1), edge(1)[::-1]])
        painter.shape(outline, lighter(first, 0.1), darker(first, 0.12), shadow=0.3)
        clip = painter.mask(outline)
        style = rng.choice(["gores", "gores", "bands", "zigzag"])
        if style == "gores":
            cuts = numpy.sin(numpy.linspace(-math.pi / 2, math.pi / 2, 2 * int(rng.integers(2, 5)) + 2))
            for left, right in zip(cuts[::2], cuts[1::2], strict=False):
                painter.shape(numpy.concatenate([edge(left), edge(right)[::-1]]), second, darker(second, 0.15))
        elif style == "bands":
            for y in numpy.linspace(-0.7, 0.25, int(rng.integers(2, 5))):
                across = numpy.linspace(-0.8, 0.8, 30)
                painter.shape(ribbon(numpy.stack([across, y + 0.1 * (1 - across**2)], axis=1), 0.15), second, clip=clip)
        else:
            teeth = int(rng.integers(4, 8))
            across = numpy.linspace(-0.8, 0.8, 2 * teeth + 1)
            height = rng.uniform(-0.5, -0.2) + 0.13 * (numpy.arange(2 * teeth + 1) % 2)
            painter.shape(ribbon(numpy.stack([across, height], axis=1), rng.uniform(0.12, 0.22)), second, clip=clip)
        painter.shape(ellipse(-wide * 0.45, -0.5, 0.12, 0.3, 0.3), (255, 255, 255), opacity=0.3, clip=clip)


def butterfly(painter):
    rng = painter.rng
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter, ("day", "day", "dawn"))
        if rng.random() < 0.7:
            hills(painter, rng.uniform(0.3, 0.9), kind)
    hue = rng.random()
    wing = hsv(hue, rng.uniform(0.55, 0.95), rng.uniform(0.8, 1.0))
    inner = hsv(hue + rng.choice([-0.1, 0.08, 0.45]), rng.uniform(0.4, 0.9), rng.uniform(0.85, 1.0))
    rim = darker(wing, rng.uniform(0.4, 0.85))
    body = darker(hsv(rng.uniform(0.03, 0.12), 0.5, 0.35), 0.3)
    reach, tall, lower = rng.uniform(0.8, 0.98), rng.uniform(0.62, 0.85), rng.uniform(0.5, 0.75)
    folded = rng.uniform(0.55, 1.0)  # how far the wings are open
    spots = int(rng.integers(0, 4))
    upper_wing = numpy.array([[0.03, -0.05], [0.25, -tall * 0.75], [reach * 0.7, -tall], [reach, -tall * 0.8], [reach * 0.85, -tall * 0.25], [0.4, 0.05]])
    lower_wing = numpy.array([[0.03, 0.0], [0.45, 0.02], [lower + 0.12, 0.25], [lower, 0.62], [lower * 0.6, 0.78], [0.2, 0.4]])
    with painter.frame(*rng.uniform(-0.15, 0.15, 2), rng.uniform(0.62, 0.9), rng.uniform(-0.7, 0.7)):
        for side in (-1, 1):
            for points in (lower_wing, upper_wing):
                place = points * [side * folded, 1]
                middle = place.mean(axis=0)
                painter.shape(smooth(place), rim, darker(rim, 0.2), shadow=0.3)
                painter.shape(smooth(middle + (place - middle) * 0.84), lighter(wing, 0.2), wing)
                painter.shape(smooth(middle + (place - middle) * 0.48), inner, lighter(inner, 0.2), opacity=0.85)
                for index in range(spots):
                    spot = place[2] + (place[3 if index < 2 else 4] - place[2]) * (0.5 * index + 0.2)
                    spot = middle + (spot - middle) * 0.78
                    painter.disc(*spot, 0.055, lighter(inner, 0.7), opacity=0.9)
            curl = numpy.linspace(0, 1, 12)
            feeler = numpy.stack([side * (0.03 + 0.26 * curl**1.4), -0.4 - 0.42 * curl + 0.08 * curl**4], axis=1)
            painter.line(feeler, 0.025, body)
        painter.shape(ellipse(0, 0.08, 0.065, 0.46), lighter(body, 0.2), body, shadow=0.3)
        painter.disc(0, -0.4, 0.085, body)


def mushroom(painter):
    rng = painter.rng
    kind = "day"
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter)
        hills(painter, rng.uniform(0.35, 0.75), kind)
    dim = light_of(kind) * 0.5
    cap = darker(hsv(rng.choice([0.0, 0.02, 0.06, 0.09, 0.75]) + rng.uniform(-0.02, 0.02), rng.uniform(0.5, 0.9), rng.uniform(0.55, 0.95)), dim)
    stem = darker(hsv(rng.uniform(0.08, 0.14), rng.uniform(0.05, 0.25), rng.uniform(0.85, 1.0)), dim)
    grass = darker(hsv(rng.uniform(0.22, 0.36), 0.65, 0.6), dim)
    dots = darker((255, 252, 240), dim)
    for number in range(int(rng.integers(1, 3))):
        place = rng.uniform(-0.2, 0.2) if number == 0 else rng.choice([-0.6, 0.6])
        scale = rng.uniform(0.65, 0.85) if number == 0 else rng.uniform(0.3, 0.4)
        with painter.frame(place, rng.uniform(-0.05, 0.15) if number == 0 else 0.5, scale, rng.uniform(-0.15, 0.15), rng.random() < 0.5):
            half, top, low = rng.uniform(0.65, 0.95), rng.uniform(-0.95, -0.6), rng.uniform(-0.05, 0.15)
            slim = rng.uniform(0.14, 0.26)
            painter.shape(ellipse(0, 0.92, slim * 2.6, 0.07), (15, 20, 40), opacity=0.25)
            foot = [[-slim, low - 0.1], [slim, low - 0.1], [slim * 0.9, 0.5], [slim * 1.35, 0.88], [0, 0.96], [-slim * 1.35, 0.88], [-slim * 0.9, 0.5]]
            painter.shape(smooth(foot, 8), stem, darker(stem, 0.22), shadow=0.3)
            if rng.random() < 0.5:
                ring = [[-slim, low + 0.15], [slim, low + 0.15], [slim * 1.7, low + 0.34], [0, low + 0.3], [-slim * 1.7, low + 0.34]]
                painter.shape(smooth(ring, 6), lighter(stem, 0.4), darker(stem, 0.1), shadow=0.2)
            painter.shape(ellipse(0, low, half * 0.92, 0.13), darker(stem, 0.25), darker(stem, 0.4))
            turn = numpy.linspace(math.pi, 2 * math.pi, 40)
            dome = numpy.stack([half * numpy.cos(turn), low + (low - top) * numpy.sin(turn) * (1 - 0.12 * numpy.cos(turn) ** 2)], axis=1)
            brim = numpy.stack([half * numpy.cos(turn[::-1]), low - 0.09 * numpy.sin(turn[::-1])], axis=1)
            outline = numpy.concatenate([dome, brim])
            painter.shape(outline, lighter(cap, 0.18), darker(cap, 0.18), shadow=0.35)
            clip = painter.mask(outline)
            if rng.random() < 0.75:
                for index in range(int(rng.integers(6, 13))):
                    far, angle = math.sqrt(rng.random()) * 0.9, rng.uniform(math.pi, 2 * math.pi)
                    dot = ellipse(half * far * math.cos(angle), low + (low - top) * far * math.sin(angle), rng.uniform(0.05, 0.12), rng.uniform(0.05, 0.1))
                    painter.shape(dot, dots, opacity=0.95, clip=clip)
            painter.shape(ellipse(-half * 0.35, low + (top - low) * 0.62, half * 0.22, 0.07, -0.5), (255, 255, 255), opacity=0.3, clip=clip)
            for x in rng.uniform(-0.6, 0.6, 9):
                blade = [[x, 1.0], [x + rng.uniform(-0.08, 0.08), rng.uniform(0.68, 0.85)]]
                painter.shape(ribbon(blade, 0.06, 0.005), grass)


def umbrella(painter):
    rng = painter.rng
    kind = "day"
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter, ("day", "dawn", "dusk", "night"))
        ground = rng.random()
        if ground < 0.35:
            hills(painter, rng.uniform(0.6, 0.95), kind)
        elif ground < 0.6:
            waves(painter, rng.uniform(0.4, 0.7), darker(hsv(rng.uniform(0.48, 0.62), 0.6, 0.75), light_of(kind) * 0.7), 3)
    dim = light_of(kind) * 0.4
    first = darker(hsv(rng.random(), rng.uniform(0.55, 0.95), rng.uniform(0.7, 1.0)), dim)
    second = first if rng.random() < 0.4 else darker(hsv(rng.random(), rng.uniform(0.0, 0.8), rng.uniform(0.85, 1.0)), dim)
    wood = darker(hsv(rng.uniform(0.05, 0.1), rng.uniform(0.2, 0.7), rng.uniform(0.3, 0.6)), dim)
    rain = rng.random() < 0.35
    with painter.frame(*rng.uniform(-0.15, 0.15, 2), rng.uniform(0.65, 0.9), rng.uniform(-0.5, 0.5), rng.random() < 0.5):
        hook = rng.uniform(0.1, 0.16)
        bend = ellipse(hook, 0.8, hook, hook * 1.1, start=math.pi, end=0.1, count=20)
        painter.line(numpy.concatenate([[[0, -0.95]], bend]), 0.045, wood)
        half, top, low, panels = rng.uniform(0.8, 0.98), -0.85, rng.uniform(-0.12, 0.05), int(rng.integers(4, 8))
        turn = numpy.linspace(math.pi, 2 * math.pi, 48)
        dome = numpy.stack([half * numpy.cos(turn), low + (low - top) * numpy.sin(turn)], axis=1)
        cuts = -half * numpy.cos(numpy.linspace(0, math.pi, panels + 1))
        scallops = []
        for left, right in zip(cuts[:-1], cuts[1:], strict=True):
            along = numpy.linspace(0, 1, 10)
            arch = 0.35 * (right - left) * numpy.sin(along * math.pi)
            scallops.append(numpy.stack([left + (right - left) * along, low - arch], axis=1))
        outline = numpy.concatenate([dome, numpy.concatenate(scallops)[::-1]])
        painter.shape(outline, lighter(first, 0.15), darker(first, 0.12), shadow=0.35)
        clip = painter.mask(outline)
        up = numpy.linspace(0, 1, 16)
        for index, (left, right) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            sides = [numpy.stack([x * numpy.cos(up * math.pi / 2), low + (top - low) * numpy.sin(up * math.pi / 2)], axis=1) for x in (left, right)]
            if index % 2:
                painter.shape(numpy.concatenate([sides[0], sides[1][::-1]]), lighter(second, 0.15), darker(second, 0.15), clip=clip)
            painter.shape(ribbon(sides[0], 0.018), darker(first, 0.35), opacity=0.6, clip=clip)
        painter.line([[0, -0.97], [0, top]], 0.04, wood)
    if rain:
        for _ in range(26):
            x, y, length = rng.uniform(-1.1, 1), rng.uniform(-1.1, 1), rng.uniform(0.05, 0.12)
            painter.shape(ribbon([[x, y], [x + length * 0.4, y + length]], 0.014), (225, 235, 255), opacity=0.6)
