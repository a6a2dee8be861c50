# SPDX-License-Identifier: MIT
"""What swims: fish and boat.

Each function paints a whole picture: its background, then the subject.
"""

import math

import numpy

from backgrounds import light_of, on_paper, paper, sky, under_water, waves
from painter import darker, ellipse, hsv, lighter, ribbon, smooth


def fish(painter):
    rng = painter.rng
    if on_paper(rng):
        paper(painter)
    else:
        under_water(painter)
    hue = rng.random()
    body = hsv(hue, rng.uniform(0.55, 0.9), rng.uniform(0.8, 1.0))
    trim = hsv(hue + rng.choice([-0.08, 0.08, 0.45]), rng.uniform(0.5, 0.9), rng.uniform(0.75, 1.0))
    tall = rng.uniform(0.36, 0.58)
    with painter.frame(
        *rng.uniform(-0.2, 0.2, 2), rng.uniform(0.6, 0.85), rng.uniform(-0.35, 0.35), rng.random() < 0.5
    ):
        fork = rng.uniform(0.55, 0.8)
        painter.shape(
            smooth(
                [
                    [-0.45, 0],
                    [-0.75, -tall * 0.7],
                    [-1.0, -tall * 0.95],
                    [-fork - 0.18, 0],
                    [-1.0, tall * 0.95],
                    [-0.75, tall * 0.7],
                ],
                8,
            ),
            lighter(trim, 0.2),
            darker(trim, 0.15),
            shadow=0.25,
        )
        painter.shape(
            smooth([[-0.35, -tall * 0.6], [-0.2, -tall - 0.22], [0.3, -tall - 0.12], [0.45, -tall * 0.6]], 8),
            trim,
            darker(trim, 0.15),
            shadow=0.15,
        )
        painter.shape(
            smooth([[-0.2, tall * 0.6], [-0.3, tall + 0.2], [0.05, tall + 0.1], [0.2, tall * 0.7]], 8),
            trim,
            darker(trim, 0.2),
        )
        outline = smooth(
            [
                [-0.62, 0.06],
                [-0.25, tall * 0.8],
                [0.25, tall],
                [0.72, tall * 0.62],
                [0.96, 0.04],
                [0.72, -tall * 0.62],
                [0.25, -tall],
                [-0.25, -tall * 0.8],
                [-0.62, -0.06],
            ]
        )
        painter.shape(outline, lighter(body, 0.15), darker(body, 0.12), shadow=0.3)
        clip = painter.mask(outline)
        painter.shape(ellipse(0.2, tall * 0.85, 0.8, tall * 0.5), lighter(body, 0.7), opacity=0.55, clip=clip)
        marking = rng.choice(["stripes", "scales", "plain", "spots"])
        if marking == "stripes":
            for x in numpy.linspace(-0.35, 0.3, int(rng.integers(2, 5))):
                curve = [[x + 0.1 * math.cos(y), y * tall] for y in numpy.linspace(-1.1, 1.1, 12)]
                painter.shape(ribbon(curve, rng.uniform(0.07, 0.14)), lighter(trim, 0.5), opacity=0.9, clip=clip)
        elif marking == "scales":
            for column, x in enumerate(numpy.arange(-0.5, 0.35, 0.13)):
                for y in numpy.arange(-0.6, 0.65, 0.17):
                    arc = ellipse(x, y + 0.085 * (column % 2), 0.085, start=-1.4, end=1.4, count=14)
                    painter.shape(ribbon(arc, 0.025), darker(body, 0.3), opacity=0.7, clip=clip)
        elif marking == "spots":
            for _ in range(12):
                painter.disc(
                    rng.uniform(-0.5, 0.35), rng.uniform(-tall, tall) * 0.8, rng.uniform(0.03, 0.08), trim, clip=clip
                )
        painter.shape(
            ribbon(ellipse(0.2, 0, 0.28, tall * 0.8, start=-0.95, end=0.95, count=20), 0.035),
            darker(body, 0.35),
            opacity=0.7,
        )
        painter.shape(
            smooth([[0.22, 0.08], [0.02, 0.0], [-0.15, 0.2], [0.0, 0.3]], 8),
            lighter(trim, 0.15),
            darker(trim, 0.1),
            shadow=0.2,
        )
        painter.disc(0.66, -tall * 0.25, 0.1, (255, 255, 255))
        painter.disc(0.68, -tall * 0.25, 0.06, (25, 25, 40))
        painter.disc(0.7, -tall * 0.25 - 0.025, 0.02, (255, 255, 255))


def boat(painter):
    rng = painter.rng
    kind, plain = "day", on_paper(rng)
    water = hsv(rng.uniform(0.48, 0.63), rng.uniform(0.5, 0.8), rng.uniform(0.55, 0.85))
    if plain:
        paper(painter)
    else:
        kind = sky(painter)
        water = darker(water, light_of(kind) * 0.7)
        waves(painter, rng.uniform(0.05, 0.3), water, 3)
    dim = light_of(kind) * 0.4
    hull = darker(
        hsv(rng.choice([0.0, 0.03, 0.07, 0.58, 0.62, 0.35]), rng.uniform(0.4, 0.8), rng.uniform(0.5, 0.85)), dim
    )
    sail = darker(hsv(rng.random(), rng.uniform(0.0, 0.5), rng.uniform(0.9, 1.0)), dim)
    with painter.frame(
        rng.uniform(-0.2, 0.2),
        rng.uniform(-0.1, 0.1),
        rng.uniform(0.65, 0.85),
        rng.uniform(-0.12, 0.12),
        rng.random() < 0.5,
    ):
        deck = 0.42
        if rng.random() < 0.7:  # a sailing boat
            painter.shape(
                [[-0.03, -1.0], [0.03, -1.0], [0.03, deck + 0.1], [-0.03, deck + 0.1]], darker(hsv(0.08, 0.5, 0.5), dim)
            )
            boom = rng.uniform(0.18, 0.3)
            painter.shape(
                numpy.concatenate(
                    [
                        [[0.06, -0.92]],
                        [
                            [0.06 + 0.66 * t + 0.12 * math.sin(math.pi * t), -0.92 + (0.92 + boom) * t]
                            for t in numpy.linspace(0, 1, 20)
                        ],
                        [[0.06, boom]],
                    ]
                ),
                lighter(sail, 0.5),
                sail,
                shadow=0.3,
            )
            second = sail if rng.random() < 0.5 else darker(hsv(rng.random(), 0.6, 0.9), dim)
            painter.shape(
                [[-0.06, -0.75], [-0.06, boom], [rng.uniform(-0.65, -0.5), boom]],
                lighter(second, 0.3),
                second,
                shadow=0.3,
            )
            flag = hsv(rng.random(), 0.8, 0.9)
            painter.shape([[0.0, -1.08], [-0.24, -1.0], [0.0, -0.92]], flag, darker(flag))
        else:  # a steamer
            white = darker((250, 248, 240), dim)
            painter.shape([[0.0, -0.5], [0.24, -0.5], [0.27, 0.1], [-0.03, 0.1]], hull, darker(hull), shadow=0.25)
            painter.shape([[-0.01, -0.4], [0.25, -0.4], [0.255, -0.27], [-0.015, -0.27]], white)
            painter.shape(
                [[-0.45, 0.02], [0.5, 0.02], [0.55, deck + 0.05], [-0.5, deck + 0.05]],
                white,
                darker(white, 0.12),
                shadow=0.25,
            )
            for x in (-0.28, 0.02, 0.32):
                painter.disc(x, 0.2, 0.085, darker(white, 0.4))
                painter.disc(x, 0.2, 0.065, (255, 226, 130) if dim else hsv(0.55, 0.4, 0.85))
            for step in range(4):
                painter.disc(0.12 - 0.16 * step, -0.62 - 0.14 * step, 0.1 + 0.035 * step, (240, 240, 245), opacity=0.55)
        outline = smooth(
            [
                [-0.92, deck - 0.04],
                [-0.3, deck + 0.03],
                [0.4, deck + 0.02],
                [0.95, deck - 0.1],
                [0.66, 0.86],
                [0.0, 0.93],
                [-0.62, 0.86],
            ],
            8,
        )
        painter.shape(outline, lighter(hull, 0.12), darker(hull, 0.25), shadow=0.35)
        stripe = ribbon([[-1.0, deck + 0.12], [-0.3, deck + 0.18], [0.4, deck + 0.17], [1.0, deck + 0.06]], 0.08)
        painter.shape(stripe, lighter(hull, 0.75), clip=painter.mask(outline))
        crest = painter.centre[1] + 0.74 * painter.matrix[1, 1]
    if not plain or rng.random() < 0.6:
        waves(painter, crest, water, 2, opacity=0.9)
