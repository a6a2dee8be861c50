# SPDX-License-Identifier: MIT
"""What stands on the ground: tree, house and flower.

Each function paints a whole picture: its background, then the subject.
"""

import math

import numpy

from backgrounds import hills, light_of, on_paper, paper, sky
from painter import darker, ellipse, hsv, lighter, ribbon, smooth


def tree(painter):
    rng = painter.rng
    kind = "day"
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter)
        hills(painter, rng.uniform(0.5, 0.72), kind)
    dim = light_of(kind) * 0.5
    conifer = rng.random() < 0.4
    bark = darker(hsv(rng.uniform(0.05, 0.09), rng.uniform(0.45, 0.65), rng.uniform(0.4, 0.6)), dim)
    hue = rng.uniform(0.22, 0.4) if conifer or rng.random() < 0.7 else rng.uniform(0.02, 0.13)  # summer or autumn
    leaf = darker(hsv(hue, rng.uniform(0.55, 0.85), rng.uniform(0.5, 0.8)), dim)
    with painter.frame(
        rng.uniform(-0.3, 0.3), rng.uniform(-0.1, 0.1), rng.uniform(0.6, 0.85), rng.uniform(-0.08, 0.08)
    ):
        painter.shape(ellipse(0, 0.98, 0.5, 0.07), (15, 20, 40), opacity=0.25)
        if conifer:
            painter.shape([[-0.09, 0.5], [0.09, 0.5], [0.12, 1], [-0.12, 1]], bark, darker(bark), shadow=0.2)
            layers, width = int(rng.integers(3, 6)), rng.uniform(0.5, 0.7)
            for index in range(layers):
                low = 0.7 - 1.25 * index / layers
                half = width * (1 - 0.75 * index / layers)
                top = low - 1.25 / layers - 0.3
                painter.shape(
                    smooth(
                        [
                            [-half, low],
                            [-half * 0.45, low - 0.16],
                            [-0.03, top],
                            [0.03, top],
                            [half * 0.45, low - 0.16],
                            [half, low],
                            [0, low + 0.07],
                        ],
                        6,
                    ),
                    lighter(leaf, 0.18),
                    darker(leaf, 0.2),
                    shadow=0.3,
                )
            return
        painter.shape(
            [[-0.08, -0.1], [0.08, -0.1], [0.1, 0.75], [0.2, 1], [-0.2, 1], [-0.1, 0.75]],
            bark,
            darker(bark),
            shadow=0.25,
        )
        for side in (-1, 1):
            painter.shape(ribbon([[0, 0.45], [side * 0.2, 0.2], [side * 0.3, 0]], 0.11, 0.05), bark)
        reach, count = rng.uniform(0.42, 0.52), int(rng.integers(6, 9))
        for size, tone, lift in ((1.0, darker(leaf, 0.22), 0.04), (0.93, leaf, 0.0), (0.6, lighter(leaf, 0.2), -0.1)):
            for index in range(count):
                turn = 2 * math.pi * index / count + 0.4
                painter.disc(
                    reach * size * 0.95 * math.cos(turn),
                    -0.35 + lift + reach * size * 0.75 * math.sin(turn),
                    0.34 * size,
                    tone,
                    shadow=0.15 if size == 1.0 else 0.0,
                )
            painter.disc(0, -0.35 + lift, 0.42 * size, tone)
        if rng.random() < 0.4:
            fruit = hsv(rng.choice([0.0, 0.08, 0.95]), 0.8, 0.92)
            for _ in range(10):
                turn, far = rng.uniform(0, 2 * math.pi), rng.uniform(0.1, 0.6)
                painter.disc(far * math.cos(turn), -0.33 + 0.75 * far * math.sin(turn), 0.055, fruit, darker(fruit))


def house(painter):
    rng = painter.rng
    kind = "day"
    if on_paper(rng):
        paper(painter)
    else:
        kind = sky(painter)
        hills(painter, rng.uniform(0.4, 0.6), kind)
    dim = light_of(kind) * 0.5
    wall = darker(hsv(rng.random(), rng.uniform(0.1, 0.5), rng.uniform(0.8, 1.0)), dim)
    roof = darker(hsv(rng.choice([0.0, 0.03, 0.07, 0.6, 0.95]), rng.uniform(0.5, 0.75), rng.uniform(0.45, 0.8)), dim)
    door = darker(hsv(rng.random(), 0.6, 0.55), dim)
    glass = (255, 226, 130) if kind in ("night", "dusk") else hsv(0.55, 0.25, 0.9)
    half, eaves, ridge = rng.uniform(0.62, 0.82), rng.uniform(-0.2, 0.0), rng.uniform(-0.95, -0.75)
    with painter.frame(
        rng.uniform(-0.25, 0.25),
        rng.uniform(-0.1, 0.15),
        rng.uniform(0.6, 0.85),
        rng.uniform(-0.06, 0.06),
        rng.random() < 0.5,
    ):
        if rng.random() < 0.75:
            brick = darker(hsv(0.02, 0.5, 0.6), dim)
            painter.shape([[0.3, -1.0], [0.48, -1.0], [0.48, -0.1], [0.3, -0.1]], brick, shadow=0.2)
            painter.shape([[0.27, -1.05], [0.51, -1.05], [0.51, -0.97], [0.27, -0.97]], darker(brick))
            for step in range(int(rng.integers(0, 4))):
                painter.disc(0.4 + 0.1 * step, -1.17 - 0.17 * step, 0.08 + 0.03 * step, (245, 245, 250), opacity=0.6)
        painter.shape(
            [[-half, eaves], [half, eaves], [half, 0.85], [-half, 0.85]], wall, darker(wall, 0.12), shadow=0.35
        )
        peak = 0.0 if rng.random() < 0.6 else half * 0.6
        gable = [[-half, eaves], [0, ridge + 0.1], [half, eaves]]
        if peak == 0.0:
            painter.shape(gable, lighter(wall, 0.1), wall)
        painter.shape(
            [[-half - 0.14, eaves + 0.06], [-peak - 0.01, ridge], [peak + 0.01, ridge], [half + 0.14, eaves + 0.06]],
            lighter(roof, 0.15),
            roof,
            shadow=0.35,
        )
        middle = rng.uniform(-0.35, 0.35)
        painter.shape(
            [[middle - 0.17, 0.3], [middle + 0.17, 0.3], [middle + 0.17, 0.85], [middle - 0.17, 0.85]],
            lighter(door, 0.1),
            door,
        )
        painter.disc(middle + 0.1, 0.6, 0.03, (250, 215, 110))
        for x in (-half * 0.6, half * 0.6):
            if abs(x - middle) < 0.4:
                x = middle + math.copysign(0.42, x - middle)
            if abs(x) + 0.15 < half:
                pane = numpy.array([[-0.14, -0.14], [0.14, -0.14], [0.14, 0.14], [-0.14, 0.14]])
                painter.shape(pane * 1.2 + [x, 0.28], (250, 248, 240))
                painter.shape(pane + [x, 0.28], lighter(glass), glass)
                painter.shape(pane * [0.12, 1] + [x, 0.28], (250, 248, 240))
                painter.shape(pane * [1, 0.12] + [x, 0.28], (250, 248, 240))
        if peak == 0.0 and rng.random() < 0.6:
            painter.disc(0, (eaves + ridge) / 2 + 0.05, 0.12, (250, 248, 240))
            painter.disc(0, (eaves + ridge) / 2 + 0.05, 0.09, glass)


def flower(painter):
    rng = painter.rng
    kind = "day"
    if on_paper(rng) or rng.random() < 0.2:
        paper(painter)
    else:
        kind = sky(painter, ("day", "day", "dawn", "dusk"))
        hills(painter, rng.uniform(0.55, 0.9), kind)
    dim = light_of(kind) * 0.4
    green = darker(hsv(rng.uniform(0.25, 0.4), rng.uniform(0.5, 0.8), rng.uniform(0.45, 0.7)), dim)
    petal = darker(
        hsv(
            rng.choice([rng.uniform(0.72, 1.03), rng.uniform(0.55, 1.15)]),
            rng.uniform(0.1, 0.85),
            rng.uniform(0.88, 1.0),
        ),
        dim,
    )
    heart = darker(hsv(rng.uniform(0.06, 0.15), 0.8, rng.uniform(0.5, 1.0)), dim)
    count, layers = int(rng.integers(5, 14)), int(rng.integers(1, 3))
    sharp = rng.random() < 0.4
    with painter.frame(
        rng.uniform(-0.3, 0.3),
        rng.uniform(-0.05, 0.15),
        rng.uniform(0.65, 0.85),
        rng.uniform(-0.15, 0.15),
        rng.random() < 0.5,
    ):
        bend = rng.uniform(-0.2, 0.2)
        down = numpy.linspace(0, 1, 30)
        stem = numpy.stack([bend * numpy.sin(down * math.pi), -0.3 + 1.9 * down], axis=1)
        painter.shape(ribbon(stem, 0.07, 0.1), green, darker(green, 0.2), shadow=0.25)
        for side, low in ((-1, 0.55), (1, rng.uniform(0.6, 0.85))):
            x = bend * math.sin((low + 0.3) / 1.9 * math.pi)
            leaf = smooth(
                [
                    [x, low + 0.05],
                    [x + side * 0.22, low - 0.2],
                    [x + side * 0.56, low - 0.26],
                    [x + side * 0.3, low + 0.05],
                ],
                8,
            )
            painter.shape(leaf, lighter(green, 0.2), green, shadow=0.2)
            painter.shape(ribbon([[x, low + 0.05], [x + side * 0.5, low - 0.23]], 0.025, 0.005), lighter(green, 0.4))
        with painter.frame(0, -0.35, 1, rng.uniform(0, 2 * math.pi)):
            for layer in range(layers):
                reach = (0.62, 0.45)[layer]
                width = min(math.pi * reach * 0.62 / count * 1.25, 0.24)
                tone = petal if layer == 0 else lighter(petal, 0.3)
                for index in range(count):
                    with painter.frame(0, 0, 1, 2 * math.pi * (index + layer / 2) / count):
                        outline = (
                            smooth([[0.05, 0], [reach * 0.5, -width], [reach, 0], [reach * 0.5, width]], 8)
                            if sharp
                            else ellipse(reach * 0.55, 0, reach * 0.5, width, count=36)
                        )
                        painter.shape(outline, lighter(tone, 0.15), darker(tone, 0.1), shadow=0.15)
                        painter.shape(
                            ribbon([[0.15, 0], [reach * 0.75, 0]], 0.03, 0.005), darker(tone, 0.2), opacity=0.5
                        )
            radius = rng.uniform(0.15, 0.22)
            painter.disc(0, 0, radius, lighter(heart, 0.2), darker(heart, 0.15), shadow=0.3)
            for index in range(24):
                far, turn = radius * 0.85 * math.sqrt(index / 24), 2.4 * index
                painter.disc(far * math.cos(turn), far * math.sin(turn), 0.018, darker(heart, 0.35))
