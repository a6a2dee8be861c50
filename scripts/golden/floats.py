"""Prints the checksums in tests/core/dtype.cpp: every code of the narrow floats decoded, and doubles rounded to them once.

    scripts/golden/floats.py          needs numpy and ml_dtypes, which are the oracle of the decoding and, in float16, of the rounding

The other types are rounded here to the nearest code, ties to the even one, since ml_dtypes rounds doubles through float; out of range
is the largest value for one byte (as ONNX's Cast saturates) and infinity for bfloat16. ml_dtypes agrees within the range.
"""
import ml_dtypes
import numpy as np

MASK = (1 << 64) - 1


def splitmix(count, state):
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def doubles(count, low, high):
    """Signs and exponents in [low, high) at random; some with few bits of mantissa, so that ties occur."""
    z = list(splitmix(2 * count, 42))
    out = []
    for a, b in zip(z[::2], z[1::2]):
        m = b >> 12
        bits = 4 if a >> 60 < 4 else 12 if a >> 60 < 8 else 52
        out.append((-1.0 if a >> 40 & 1 else 1.0) * (1 + (m >> (52 - bits)) * 2.0**-bits) * 2.0 ** (low + a % (high - low)))
    return out


def rounded(x, table, name, bits):
    values, codes = table
    a, last = abs(x), int(codes[-1])
    j = int(np.searchsorted(values, a))
    if j >= len(values):
        code = last if bits == 8 or a < values[-1] + (values[-1] - values[-2]) / 2 else last + 1
    elif values[j] == a:
        code = int(codes[j])
    else:
        below, above = a - values[j - 1], values[j] - a
        code = int(codes[j - 1] if below < above or (below == above and codes[j - 1] % 2 == 0) else codes[j])
    return code if x > 0 or (name.endswith("fnuz") and code == 0) else code | 1 << (bits - 1)


for name, dtype, bits, low, high in [("float16", np.float16, 16, -27, 17), ("bfloat16", ml_dtypes.bfloat16, 16, -140, 128),
                                     ("float8e4m3fn", ml_dtypes.float8_e4m3fn, 8, -12, 9), ("float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 8, -13, 8),
                                     ("float8e5m2", ml_dtypes.float8_e5m2, 8, -19, 16), ("float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 8, -20, 16)]:
    unsigned = np.uint16 if bits == 16 else np.uint8
    codes = np.arange(1 << bits, dtype=unsigned)
    decoded = codes.view(dtype).astype(np.float32)
    words = decoded.view(np.uint32).copy()
    words[np.isnan(decoded)] = 0x7FC00000
    positive = codes[: 1 << (bits - 1)]
    positive = positive[np.isfinite(decoded[: len(positive)])]
    x = doubles(20000, low, high)
    if name == "float16":
        with np.errstate(over="ignore"):
            encoded = np.array(x).astype(np.float16).view(np.uint16)
    else:
        table = decoded[positive].astype(np.float64), positive
        encoded = np.array([rounded(v, table, name, bits) for v in x], dtype=unsigned)
    order = "<u2" if bits == 16 else "u1"
    print(f"{{dtype::{name}, {low}, {high}, 0x{fnv(words.astype('<u4').tobytes()):016x}ull, 0x{fnv(encoded.astype(order).tobytes()):016x}ull}},")
