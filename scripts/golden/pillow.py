"""Records what Pillow makes of small pictures drawn here, for tests/data: python scripts/golden/pillow.py (needs Pillow >= 13, numpy)."""
import base64, io, struct, zlib
from pathlib import Path
import numpy as np
import PIL
from PIL import Image, ImageOps

HERE = Path(__file__).resolve().parents[2] / "tests" / "data"
FILTERS = ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]


def noise(height, width, channels):
    """The same bytes as `noise` in tests/data/resize.cpp."""
    out, state = bytearray(), 12345
    for _ in range(height * width * channels):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 24)
    return np.frombuffer(bytes(out), "u1").reshape(height, width, channels)


def waves(height, width):
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([128 + 90 * np.sin(x / 3), 128 + 90 * np.cos(y / 2), 40 + 6 * x + 3 * y], 2).clip(0, 255).astype("u1")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, rows, before=b"", split=None, interlaced=0):
    data = zlib.compress(rows, 9)
    step = split or len(data)
    parts = b"".join(chunk(b"IDAT", data[i:i + step]) for i in range(0, len(data), step))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)) + before + parts + chunk(b"IEND", b"")


def rows(height, n, filters=(0, 1, 2, 3, 4)):
    body = noise(height, n, 1).tobytes()
    return b"".join(bytes([filters[y % len(filters)]]) + body[y * n:(y + 1) * n] for y in range(height))


def interlaced(height, width, bits):
    """Rows of the seven passes of Adam7."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    sizes = [((height - y + down - 1) // down, (width - x + right - 1) // right) for x, y, right, down in passes]
    return b"".join(rows(h, (w * bits + 7) // 8, (1, 2, 3, 4, 0)) for h, w in sizes if h > 0 and w > 0)


def bmp(width, height, bits, palette, pixels, compression=0, masks=b"", colours=0):
    offset = 54 + len(masks) + len(palette)
    return (b"BM" + struct.pack("<IHHI", offset + len(pixels), 0, 0, offset)
            + struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(pixels), 0, 0, colours, 0) + masks + palette + pixels)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def pictures():
    exif = lambda n: b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([n]) + b"\0\0\0\0\0\0\0"
    for colour, depth, samples in [(0, 1, 1), (0, 2, 1), (0, 4, 1), (0, 8, 1), (0, 16, 1), (2, 8, 3), (2, 16, 3), (4, 8, 2), (4, 16, 2), (6, 8, 4), (6, 16, 4)]:
        yield f"png colour {colour} depth {depth}", png(7, 6, depth, colour, rows(6, (7 * depth * samples + 7) // 8))
    for depth in (1, 2, 4, 8):
        palette = chunk(b"PLTE", noise(1, 3 * min(1 << depth, 100), 1).tobytes()) + chunk(b"tRNS", b"\0\x80")
        yield f"png palette depth {depth}", png(7, 6, depth, 3, rows(6, (7 * depth + 7) // 8, (0,)), palette)
    for n in range(1, 9):
        yield f"png exif {n}", png(3, 2, 8, 2, rows(2, 9), chunk(b"eXIf", exif(n)))
    yield "png split into many chunks", png(7, 6, 8, 2, rows(6, 21), split=5)
    for name, colour, depth, samples in [("gray, 1 bit", 0, 1, 1), ("rgb", 2, 8, 3), ("rgb and alpha, 16 bits", 6, 16, 4)]:
        for height, width in [(9, 11), (1, 3)]:
            yield f"png interlaced, {name}, {width}x{height}", png(width, height, depth, colour, interlaced(height, width, depth * samples), interlaced=1)
    frames = [Image.fromarray(noise(5, 4, 3) ^ flip) for flip in (0, 255)]
    yield "png animated", saved(frames[0], "PNG", save_all=True, append_images=frames[1:])
    yield "png animated, its default image no frame", saved(frames[0], "PNG", save_all=True, default_image=True, append_images=frames[1:])
    body = noise(1, 600, 1).tobytes()
    for bits, width in [(1, 13), (4, 5), (8, 5), (16, 5), (24, 5), (32, 5)]:
        stride = (width * bits + 31) // 32 * 4
        palette = body[:4 << bits] if bits < 8 else (body * 2)[:1024] if bits == 8 else b""
        yield f"bmp {bits} bits", bmp(width, 3, bits, palette, body[:stride * 3])
    yield "bmp top down", bmp(5, -3, 24, b"", body[:48])
    yield "bmp 565", bmp(5, 3, 16, b"", body[:36], 3, struct.pack("<III", 0xF800, 0x7E0, 0x1F))
    yield "bmp rle8", bmp(4, 2, 8, (body * 2)[:1024], b"\x03\x07\x01\x09\0\0\0\x04\x01\x02\x03\x04\0\x01", 1)
    yield "bmp rle4", bmp(5, 2, 4, body[:64], b"\x05\x71\0\0\0\x05\x12\x34\x50\0\0\x01", 2)
    yield "pbm plain", b"P1\n# c\n5 2\n1 0 1 0 1\n01010"
    yield "pbm", b"P4 10 2\n" + body[:4]
    yield "pgm plain", b"P2 3 2 100\n0 1 2 50 99 100\n"
    yield "pgm", b"P5 3 2 255\n" + body[:6]
    yield "pgm of 16 bits", b"P5 3 2 65535\n" + body[:12]
    yield "pgm of 10 bits", b"P5 3 1 1000\n\0\0\1\x2c\3\xe8"
    yield "ppm plain", b"P3 2 1 7\n0 1 2 3 # a comment\n 4 7"
    yield "ppm", b"P6 3 2 255\n" + body[:18]
    yield "ppm of 16 bits", b"P6 2 1 65535\n" + body[:12]
    image = Image.fromarray(waves(12, 17))
    turned = Image.Exif()
    turned[0x112] = 6
    yield "jpeg 4:2:0", saved(image, "JPEG", quality=80)
    yield "jpeg 4:4:4, progressive, exif 6", saved(image, "JPEG", quality=90, subsampling=0, progressive=True, exif=turned.tobytes())
    yield "jpeg gray", saved(image.convert("L"), "JPEG", quality=80)
    cmyk = saved(image.convert("CMYK"), "JPEG", quality=90)
    yield "jpeg cmyk, as Adobe writes it", cmyk
    at = cmyk.find(b"\xff\xee")
    yield "jpeg cmyk without a marker", cmyk[:at] + cmyk[at + 2 + struct.unpack(">H", cmyk[at + 2:at + 4])[0]:]
    # The last byte of Adobe's marker says how the colours lie: 2 is YCCK. Pillow writes CMYK only, and reads both.
    yield "jpeg ycck", cmyk[:at + 15] + b"\x02" + cmyk[at + 16:]
    yield from webps()


def webps():
    image, alpha = Image.fromarray(waves(12, 17)), Image.fromarray(noise(12, 17, 4))
    turned = Image.Exif()
    turned[0x112] = 6
    yield "webp lossless", saved(image, "WEBP", lossless=True)
    yield "webp lossless, noise", saved(Image.fromarray(noise(9, 5, 3)), "WEBP", lossless=True)
    yield "webp lossless, few colours", saved(Image.fromarray(waves(12, 17) // 96 * 96), "WEBP", lossless=True)
    yield "webp lossless, colours under alpha", saved(alpha, "WEBP", lossless=True, exact=True)
    yield "webp lossy", saved(image, "WEBP", quality=70)
    yield "webp lossy, large", saved(Image.fromarray(waves(61, 75)), "WEBP", quality=40)
    yield "webp lossy, with alpha", saved(alpha, "WEBP", quality=60)
    yield "webp lossy, one pixel", saved(Image.fromarray(waves(1, 1)), "WEBP", quality=60)
    for n in range(1, 9):
        turned[0x112] = n
        yield f"webp exif {n}", saved(Image.fromarray(waves(4, 3)), "WEBP", lossless=True, exif=turned.tobytes())
    marked = saved(image, "WEBP", lossless=True, exif=turned.tobytes())
    yield "webp exif that the header does not name", marked[:20] + bytes([marked[20] & ~8]) + marked[21:]
    yield "webp xmp 3", saved(image, "WEBP", lossless=True, xmp=b'<x:xmpmeta><rdf:Description tiff:Orientation="3"/></x:xmpmeta>')
    frames = [Image.fromarray(waves(12, 17) ^ flip) for flip in (0, 255)]
    yield "webp animated", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    yield "webp animated, lossy", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], quality=50)
    # A first frame that is smaller than the animation: of 17x12 on 23x19, at (4, 6).
    part = saved(image, "WEBP", lossless=True)[12:]
    three = lambda n: struct.pack("<I", n)[:3]
    frame = three(2) + three(3) + three(16) + three(11) + three(100) + b"\0" + part
    body = riff(b"VP8X", b"\x02\0\0\0" + three(22) + three(18)) + riff(b"ANIM", b"\xff\x80\x40\xff\0\0") + riff(b"ANMF", frame)
    yield "webp animated, a small first frame", riff(b"RIFF", b"WEBP" + body)


def riff(kind, data):
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def rgb(data):
    """Pillow's pixels: EXIF applied, 16-bit gray by its high byte, alpha dropped."""
    image = Image.open(io.BytesIO(data))
    image.load()
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image).astype("u4") >> 8).astype("u1"))
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def main():
    text = "// Made by scripts/golden/pillow.py: pictures drawn there, and what Pillow makes of them.\n"
    text += f"// Pillow {PIL.__version__}. `file` and `pixels` are base64; `pixels` only where decoders may differ, else their CRC-32 counts.\n#pragma once\n\n#include <cstdint>\n\n"
    text += "struct golden_picture {\n    const char* name;\n    int height, width;\n    std::uint32_t crc;\n    const char *file, *pixels;\n};\n\n"
    text += "inline constexpr golden_picture golden_pictures[] = {\n"
    wrap = lambda b: "\n        ".join(f'"{s[i:i + 110]}"' for s in [base64.b64encode(b).decode()] for i in range(0, max(1, len(s)), 110))
    for name, data in pictures():
        pixels = rgb(data)
        lossy = name.startswith("jpeg")
        text += f'    {{"{name}", {pixels.shape[0]}, {pixels.shape[1]}, 0x{zlib.crc32(pixels.tobytes()):08x},\n        {wrap(data)},\n        {wrap(pixels.tobytes()) if lossy else "nullptr"}}},\n'
    text += "};\n\nstruct golden_resize {\n    int height, width, channels, to_height, to_width, filter;\n    std::uint32_t crc;\n};\n\n"
    text += "// Of `noise` pictures; filters count nearest, box, bilinear, hamming, bicubic, lanczos.\ninline constexpr golden_resize golden_resizes[] = {\n"
    sizes = [(64, 48, 3, 20, 31), (20, 31, 3, 64, 48), (50, 50, 1, 50, 7), (33, 5, 3, 90, 5), (300, 9, 3, 11, 6), (9, 200, 1, 30, 17), (1, 1, 3, 5, 4), (90, 40, 3, 30, 39), (200, 150, 3, 1, 1), (120, 100, 3, 119, 99)]
    for h, w, c, to_h, to_w in sizes:
        source = noise(h, w, c)
        image = Image.fromarray(source[:, :, 0] if c == 1 else source)
        for i, name in enumerate(FILTERS):
            out = np.asarray(image.resize((to_w, to_h), getattr(Image, name.upper())))
            text += f"    {{{h}, {w}, {c}, {to_h}, {to_w}, {i}, 0x{zlib.crc32(np.ascontiguousarray(out).tobytes()):08x}}},\n"
    (HERE / "golden.hpp").write_text(text + "};\n")


if __name__ == "__main__":
    main()
