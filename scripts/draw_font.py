#!/usr/bin/env python3
"""Draws the font of captions and tables in pictures: writes include/graft/train/bitmap_font.hpp.

    scripts/draw_font.py                 writes the header
    scripts/draw_font.py --sheet FILE    also a sheet of all letters, as PNG; needs Pillow

A letter is lines of one pixel on a cell of 8 x 13: words are lines through points, each a column 0..6 and a row 0..c. Capitals stand in
the rows 2..a, small letters in 5..a; accents take the rows 0 and 1 above capitals, which are drawn a row lower for them, and 2 and 3 above small letters.
"""
import argparse
import pathlib

PAGE = pathlib.Path(__file__).resolve().parent.parent / "include/graft/train/bitmap_font.hpp"

LETTERS = {
    " ": "", "!": "32-37 39-3a", '"': "22-24 42-44", "#": "22-2a 42-4a 04-64 08-68", "$": "54-43-13-04-05-16-46-57-58-49-19-08 31-3b",
    "%": "02-12-13-03-02 52-0a 49-59-5a-4a-49", "&": "6a-14-13-22-32-43-44-08-09-1a-3a-67", "'": "32-34", "(": "42-24-28-4a", ")": "22-44-48-2a",
    "*": "33-39 14-58 54-18", "+": "34-38 16-56", ",": "39-3a-2b", "-": "16-56", ".": "29-39-3a-2a-29", "/": "52-0a",
    "0": "12-42-53-59-4a-1a-09-03-12 18-44", "1": "14-32-3a 1a-5a", "2": "03-12-42-53-55-0a-5a", "3": "03-12-42-53-55-46-26 46-57-59-4a-1a-09",
    "4": "4a-42-07-57", "5": "52-02-05-45-56-59-4a-1a-09", "6": "53-42-12-03-09-1a-4a-59-57-46-06", "7": "02-52-53-28-2a",
    "8": "12-42-53-55-46-16-05-03-12 16-07-09-1a-4a-59-57-46", "9": "56-16-05-03-12-42-53-59-4a-1a-09", ":": "25-35-36-26-25 29-39-3a-2a-29",
    ";": "25-35-36-26-25 39-3a-2b", "<": "52-16-5a", "=": "05-55 08-58", ">": "12-56-1a", "?": "03-12-42-53-54-36-37 39-3a",
    "@": "5a-1a-09-03-12-42-53-57-37-35-55", "A": "0a-05-22-32-55-5a 07-57", "B": "02-42-53-55-46-06 46-57-59-4a-0a-02", "C": "53-42-12-03-09-1a-4a-59",
    "D": "02-32-54-58-3a-0a-02", "E": "52-02-0a-5a 06-46", "F": "52-02-0a 06-46", "G": "53-42-12-03-09-1a-4a-59-57-37", "H": "02-0a 52-5a 06-56",
    "I": "12-52 32-3a 1a-5a", "J": "52-59-4a-1a-09-08", "K": "02-0a 52-16-06 16-5a", "L": "02-0a-5a", "M": "0a-02-35-62-6a", "N": "0a-02-04-59-5a-52",
    "O": "12-42-53-59-4a-1a-09-03-12", "P": "0a-02-42-53-56-47-07", "Q": "12-42-53-59-4a-1a-09-03-12 38-6b", "R": "0a-02-42-53-56-47-07 27-5a",
    "S": "53-42-12-03-05-16-46-57-59-4a-1a-09", "T": "02-62 32-3a", "U": "02-09-1a-4a-59-52", "V": "02-05-17-18-3a-58-57-65-62", "W": "02-0a-37-6a-62",
    "X": "02-03-59-5a 52-53-09-0a", "Y": "02-03-36-63-62 36-3a", "Z": "02-52-53-09-0a-5a", "[": "42-22-2a-4a", "\\": "02-5a", "]": "22-42-4a-2a",
    "^": "15-33-55", "_": "0b-6b", "`": "22-33", "a": "15-45-56-5a 57-17-08-09-1a-3a-58", "b": "02-0a 08-06-15-45-56-59-4a-1a-09", "c": "56-45-15-06-09-1a-4a-59",
    "d": "52-5a 57-56-45-15-06-09-1a-4a-59", "e": "08-58-56-45-15-06-09-1a-4a", "f": "53-42-32-23-2a 05-45", "g": "5a-5b-4c-1c 55-5a 57-56-45-15-06-09-1a-4a-59",
    "h": "02-0a 06-15-45-56-5a", "i": "32-33 15-35-3a 1a-5a", "j": "42-43 25-45-4b-3c-1c", "k": "02-0a 45-27-07 27-5a", "l": "12-32-3a 1a-5a",
    "m": "05-0a 06-15-25-36-3a 36-45-55-66-6a", "n": "05-0a 06-15-45-56-5a", "o": "15-45-56-59-4a-1a-09-06-15", "p": "05-0c 06-15-45-56-59-4a-1a-09",
    "q": "55-5c 56-45-15-06-09-1a-4a-59", "r": "05-0a 07-25-45-56", "s": "56-45-15-06-17-47-58-59-4a-1a-09", "t": "23-29-3a-4a-59 05-45", "u": "05-09-1a-3a-58 55-5a",
    "v": "05-06-39-3a-39-66-65", "w": "05-08-1a-2a-38-37-38-4a-5a-68-65", "x": "05-5a 55-0a", "y": "05-09-1a-4a-59 55-5b-4c-1c", "z": "05-55-0a-5a",
    "{": "52-42-33-35-26-37-39-4a-5a", "|": "31-3b", "}": "12-22-33-35-46-37-39-2a-1a", "~": "07-16-26-37-47-56",
    "\xa0": "", "¡": "32-33 35-3a", "¢": "56-45-15-06-09-1a-4a-59 33-3c", "£": "53-42-32-23-29-0a-5a 06-46", "¤": "15-45-48-18-15 04-15 54-45 09-18 59-48",
    "¥": "02-03-36-63-62 36-3a 16-56 18-58", "¦": "31-35 38-3b", "§": "52-41-21-12-13-24-44-55-57-48-28-17-15-24 48-59-5a-4b-2b-1a", "¨": "12-12 42-42",
    "©": "12-52-63-69-5a-1a-09-03-12 45-44-24-25-27-28-48-47", "ª": "12-32-43-46 44-24-15-26-46 18-48", "«": "25-07-29 55-37-59", "¬": "06-56-58", "\xad": "16-56",
    "®": "12-52-63-69-5a-1a-09-03-12 28-24-34-45-36-26 36-48", "¯": "12-52", "°": "22-32-43-44-35-25-14-13-22", "±": "34-38 16-56 1a-5a", "²": "12-32-43-44-17-47",
    "³": "12-32-43-34-24 34-45-46-37-17", "´": "42-33", "µ": "05-0c 09-1a-3a-58 55-5a", "¶": "5a-52-12-03-05-16-36 32-3a", "·": "26-36-37-27-26", "¸": "3a-4b-3c-2c",
    "¹": "13-22-27 17-37", "º": "22-32-43-45-36-26-15-13-22 18-48", "»": "05-27-09 35-57-39", "¼": "12-15 62-0a 47-49-69 67-6b", "½": "12-15 62-0a 47-67-68-4b-6b",
    "¾": "02-22-13-24-15-05 62-0a 47-49-69 67-6b", "¿": "32-33 35-36-18-09-1a-4a-59",
    "Æ": "0a-32-62 32-3a-6a 36-56 17-37", "Ð": "12-32-54-58-3a-1a-12 06-36", "×": "14-58 54-18", "Ø": "12-42-53-59-4a-1a-09-03-12 0a-52", "Þ": "02-0a 04-44-55-57-48-08",
    "ß": "0a-03-12-32-43-44-35-46-57-59-4a-2a", "æ": "05-25-36-39-4a-6a 36-45-55-66-68-38-18-09-1a-2a-39", "ð": "12-56-59-4a-1a-09-07-16-46-57 14-42",
    "÷": "34-34 16-56 38-38", "ø": "15-45-56-59-4a-1a-09-06-15 0a-55", "þ": "02-0c 06-15-45-56-59-4a-1a-09",
}
# Rows 0 and 1; small letters have them two rows lower.
ACCENTS = {"grave": "10-21", "acute": "40-31", "circumflex": "11-20-30-41", "tilde": "01-10-20-31-41-50", "diaeresis": "10-11 40-41", "ring": "20-30-41-32-22-11-20"}
CEDILLA = "3a-3b-2c-1c"
ACCENTED = {
    "grave": "ÀA ÈE ÌI ÒO ÙU àa èe ìı òo ùu", "acute": "ÁA ÉE ÍI ÓO ÚU ÝY áa ée íı óo úu ýy", "circumflex": "ÂA ÊE ÎI ÔO ÛU âa êe îı ôo ûu",
    "tilde": "ÃA ÑN ÕO ãa ñn õo", "diaeresis": "ÄA ËE ÏI ÖO ÜU äa ëe ïı öo üu ÿy", "ring": "ÅA åa",
}
DOTLESS_I = "15-35-3a 1a-5a"


def lines(text):
    """Lists of points of each word."""
    return [[(int(p[0], 16), int(p[1], 16)) for p in word.split("-")] for word in text.split()]


def draw(cell, strokes):
    for points in strokes:
        for (x0, y0), (x1, y1) in zip(points, points[1:] or points):
            steps = max(abs(x1 - x0), abs(y1 - y0), 1)
            for i in range(steps + 1):
                cell.add((round(x0 + (x1 - x0) * i / steps + 1e-9), round(y0 + (y1 - y0) * i / steps + 1e-9)))


def glyphs():
    found = {}
    for letter, text in LETTERS.items():
        found[letter] = set()
        draw(found[letter], lines(text))
    for base, letter in (("C", "Ç"), ("c", "ç")):
        found[letter] = set(found[base])
        draw(found[letter], lines(CEDILLA))
    for accent, pairs in ACCENTED.items():
        for letter, base in pairs.split():
            capital, cell = base.isupper(), set()
            strokes = lines(DOTLESS_I if base == "ı" else LETTERS[base])
            draw(cell, [[(x, 3 + round((y - 2) * 7 / 8)) for x, y in s] for s in strokes] if capital else strokes)
            centre = 1 if base in "Iı" or (base == "Y" and accent == "acute") else 0
            draw(cell, [[(x + centre, y + (0 if capital else 1 if accent == "ring" else 2)) for x, y in s] for s in lines(ACCENTS[accent])])
            found[letter] = cell
    return found


def rows_of(cell):
    assert all(0 <= x < 8 and 0 <= y < 13 for x, y in cell), cell
    return [sum(0x80 >> x for x in range(8) if (x, y) in cell) for y in range(13)]


def sheet(path, all_rows):
    from PIL import Image
    texts = ["".join(chr(c) for c in range(a, a + 32)) for a in (32, 64, 96, 160, 192, 224)]
    texts += ["The quick brown fox jumps over 13 lazy dogs", "boat 98.2 %  taken for fish", "Übergröße: naïve café, señor, Ångström", "mushroom butterfly umbrella (12/15)"]
    image = Image.new("L", (8 * max(map(len, texts)) + 8, 15 * len(texts) + 8), 255)
    for r, text in enumerate(texts):
        for i, c in enumerate(text):
            for y, bits in enumerate(all_rows.get(c, [0] * 13)):
                for x in range(8):
                    if bits & 0x80 >> x:
                        image.putpixel((4 + 8 * i + x, 4 + 15 * r + y), 0)
    image.resize((image.width * 3, image.height * 3), Image.NEAREST).save(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sheet")
    options = parser.parse_args()
    found = {letter: rows_of(cell) for letter, cell in glyphs().items()}
    codes = [*range(0x20, 0x7F), *range(0xA0, 0x100)]
    missing = [chr(c) for c in codes if chr(c) not in found]
    assert not missing, missing
    text = ["// A font of one size for captions and tables in pictures: cells of 8 x 13, ASCII and Latin-1; written by scripts/draw_font.py.", "#pragma once", "",
            '#include "../config.hpp"', "", "#include <cstdint>", "", "GRAFT_BEGIN_NAMESPACE", "namespace detail {", "",
            "constexpr int font_width = 8, font_height = 13;", "",
            "// Rows of the characters U+0020 to U+007E, then U+00A0 to U+00FF; the highest bit is the pixel on the left.",
            f"inline constexpr std::uint8_t font_rows[{len(codes)}][font_height] = {{"]
    for c in codes:
        text.append("    {" + ", ".join(f"{b:d}" for b in found[chr(c)]) + "},")
    text += ["};", "", "} // namespace detail", "GRAFT_END_NAMESPACE"]
    PAGE.write_text("\n".join(text) + "\n")
    print(PAGE)
    if options.sheet:
        sheet(options.sheet, found)


if __name__ == "__main__":
    main()
