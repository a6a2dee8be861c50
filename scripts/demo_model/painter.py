# SPDX-License-Identifier: MIT
"""A small painter on top of Pillow: filled shapes in a movable, rotatable coordinate frame.

The painter works on a canvas several times larger than the picture; `finish` reduces it, which is
what makes every edge smooth. Coordinates of the frame: x to the right, y downwards, the subject
fills about [-1, 1] in both. Without a frame set, the whole picture is [-1, 1] x [-1, 1].
"""

import colorsys
import contextlib
import math

import numpy
from PIL import Image, ImageChops, ImageDraw, ImageFilter

SHADOW_REDUCTION = 8  # shadows are soft: they are drawn and blurred at an eighth of the canvas


def hsv(hue, saturation, value):
    """An RGB triple of bytes; hue in turns, so 0 is red, 1/3 green, 2/3 blue."""
    channels = colorsys.hsv_to_rgb(hue % 1.0, min(max(saturation, 0), 1), min(max(value, 0), 1))
    return tuple(round(255 * channel) for channel in channels)


def mix(first, second, amount):
    """The colour `amount` of the way from `first` to `second`."""
    return tuple(round(a + (b - a) * amount) for a, b in zip(first, second, strict=True))


def darker(colour, amount=0.25):
    return mix(colour, (20, 20, 50), amount)


def lighter(colour, amount=0.35):
    return mix(colour, (255, 255, 245), amount)


def ellipse(x, y, radius_x, radius_y=None, angle=0.0, start=0.0, end=2 * math.pi, count=72):
    """Points of an ellipse, or of an arc of it from `start` to `end`, turned by `angle`."""
    radius_y = radius_x if radius_y is None else radius_y
    turn = numpy.linspace(start, end, count)
    across, down = radius_x * numpy.cos(turn), radius_y * numpy.sin(turn)
    return numpy.stack(
        [x + across * math.cos(angle) - down * math.sin(angle), y + across * math.sin(angle) + down * math.cos(angle)],
        axis=1,
    )


def smooth(points, steps=10):
    """A closed Catmull-Rom curve through `points`."""
    points = numpy.asarray(points, dtype=float)
    before, after, beyond = (numpy.roll(points, shift, axis=0) for shift in (1, -1, -2))
    curve = []
    for t in numpy.linspace(0, 1, steps, endpoint=False):
        curve.append(
            0.5
            * (
                2 * points
                + (after - before) * t
                + (2 * before - 5 * points + 4 * after - beyond) * t**2
                + (3 * points - before - 3 * after + beyond) * t**3
            )
        )
    return numpy.stack(curve, axis=1).reshape(-1, 2)


def ribbon(points, width, end_width=None):
    """The outline of a line of a given width that may taper towards its end."""
    points = numpy.asarray(points, dtype=float)
    direction = numpy.gradient(points, axis=0)
    direction /= numpy.maximum(numpy.linalg.norm(direction, axis=1, keepdims=True), 1e-9)
    normal = numpy.stack([-direction[:, 1], direction[:, 0]], axis=1)
    end_width = width if end_width is None else end_width
    half = numpy.linspace(width / 2, end_width / 2, len(points))[:, None]
    return numpy.concatenate([points + normal * half, (points - normal * half)[::-1]])


class Painter:
    def __init__(self, size, oversample, rng):
        self.size, self.pixels, self.rng = size, size * oversample, rng
        self.image = Image.new("RGB", (self.pixels, self.pixels))
        self.matrix, self.centre = numpy.eye(2), numpy.zeros(2)

    @contextlib.contextmanager
    def frame(self, x, y, scale, angle=0.0, mirror=False):
        """Paint relative to (x, y), scaled, turned by `angle` and possibly mirrored."""
        saved = self.matrix, self.centre
        cosine, sine = math.cos(angle), math.sin(angle)
        flip = numpy.diag([-1.0 if mirror else 1.0, 1.0])
        self.centre = self.centre + self.matrix @ numpy.array([x, y])
        self.matrix = self.matrix @ (scale * numpy.array([[cosine, -sine], [sine, cosine]]) @ flip)
        yield self
        self.matrix, self.centre = saved

    def to_pixels(self, points):
        placed = numpy.asarray(points, dtype=float) @ self.matrix.T + self.centre
        return (placed + 1) * (self.pixels / 2)

    def mask(self, points):
        """The area inside `points` as a grey image, to be handed to `shape` as `clip`."""
        mask = Image.new("L", self.image.size)
        ImageDraw.Draw(mask).polygon([tuple(p) for p in self.to_pixels(points)], fill=255)
        return mask

    def shape(self, points, colour, end_colour=None, opacity=1.0, shadow=0.0, clip=None):
        """Fill a polygon; from `colour` at its top to `end_colour` at its bottom if given."""
        corners = self.to_pixels(points)
        if shadow:
            self.cast_shadow(corners, shadow)
        low = numpy.clip(numpy.floor(corners.min(axis=0)), 0, self.pixels).astype(int)
        high = numpy.clip(numpy.ceil(corners.max(axis=0)) + 1, 0, self.pixels).astype(int)
        width, height = (int(extent) for extent in high - low)
        if width <= 0 or height <= 0:
            return
        box = (int(low[0]), int(low[1]), int(high[0]), int(high[1]))
        mask = Image.new("L", (width, height))
        ImageDraw.Draw(mask).polygon([tuple(p) for p in corners - low], fill=round(255 * opacity))
        if clip is not None:
            mask = ImageChops.multiply(mask, clip.crop(box))
        paint = Image.new("RGB", (width, height), colour)
        if end_colour is not None:
            amount = Image.linear_gradient("L").resize((width, height))
            paint = Image.composite(Image.new("RGB", (width, height), end_colour), paint, amount)
        self.image.paste(paint, box, mask)

    def cast_shadow(self, corners, strength):
        edge = self.pixels // SHADOW_REDUCTION
        mask = Image.new("L", (edge, edge))
        moved = corners / SHADOW_REDUCTION + numpy.array([0.008, 0.016]) * edge
        ImageDraw.Draw(mask).polygon([tuple(p) for p in moved], fill=round(255 * strength))
        mask = mask.filter(ImageFilter.GaussianBlur(edge * 0.018))
        self.image.paste((15, 20, 50), (0, 0), mask.resize(self.image.size, Image.BILINEAR))

    def disc(self, x, y, radius, colour, end_colour=None, **options):
        self.shape(ellipse(x, y, radius), colour, end_colour, **options)

    def line(self, points, width, colour, end_width=None, **options):
        """A line with round ends."""
        self.shape(ribbon(points, width, end_width), colour, **options)
        self.disc(*points[0], width / 2, colour)
        self.disc(*points[-1], (width if end_width is None else end_width) / 2, colour)

    def glow(self, x, y, radius, colour, opacity):
        """A soft light around a point."""
        centre = self.to_pixels([[x, y]])[0]
        reach = radius * math.sqrt(abs(numpy.linalg.det(self.matrix))) * self.pixels / 2
        edge = 181  # the value of Pillow's radial gradient at the middle of its edges
        light = Image.radial_gradient("L").point(lambda v: round(255 * opacity * max(0, 1 - v / edge) ** 2))
        light = light.resize((max(1, round(2 * reach)),) * 2, Image.BILINEAR)
        self.image.paste(colour, tuple(round(c - reach) for c in centre), light)

    def gradient(self, colours, angle=0.0):
        """Cover the canvas with colours that blend from top to bottom, turned by `angle`."""
        axis = numpy.linspace(-1, 1, 128)
        reach = abs(math.cos(angle)) + abs(math.sin(angle))
        amount = (axis[:, None] * math.cos(angle) + axis[None, :] * math.sin(angle)) / reach
        stops = numpy.linspace(-1, 1, len(colours))
        channels = [numpy.interp(amount, stops, [c[i] for c in colours]) for i in range(3)]
        image = Image.fromarray(numpy.stack(channels, axis=2).round().astype(numpy.uint8))
        self.image = image.resize(self.image.size, Image.BICUBIC)

    def finish(self, texture):
        """Reduce to the picture and lay a cloudy variation of brightness over it."""
        picture = numpy.asarray(self.image.resize((self.size, self.size), Image.LANCZOS), dtype=float)
        coarse = Image.fromarray(self.rng.normal(0, texture, (7, 7)).astype(numpy.float32))
        cloudy = numpy.asarray(coarse.resize((self.size, self.size), Image.BICUBIC))
        picture *= 1 + cloudy[:, :, None]
        return Image.fromarray(numpy.clip(picture, 0, 255).round().astype(numpy.uint8))
