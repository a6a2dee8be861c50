#!/usr/bin/env python3
"""The pictures of the documentation, made anew by the program from the demo's network and pictures.

    scripts/doc_pictures.py [NAME...]      report, terminal, page, augmentation; all where none is named

Writes docs/images. Needs the program (GRAFT names it; default build/release/graft), Chromium (Debian: chromium) and, from PyPI, playwright, axe-playwright-python, Pillow, pyte and rich.
"""
import argparse
import contextlib
import fcntl
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

import pyte
from PIL import Image
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
GRAFT = os.environ.get("GRAFT", "build/release/graft")  # from the repository, as people type it
DEMO = "apps/graft/demo"
LEARNING = ["finetune", f"{DEMO}/new_pictures", "--from", f"{DEMO}/model.onnx", "--out", "build/demo", "--overwrite", "--epochs", "20", "--lr", "0.01"]
COLUMNS, ROWS = 120, 60
# rich's own asks another machine for a font.
DRAWING = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@contextlib.contextmanager
def browser():
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
        yield started
        started.close()


def shrink(path, width, colors=256):
    """The picture no wider than that and in a palette: a third of the bytes."""
    picture = Image.open(path).convert("RGB")
    if picture.width > width:
        picture = picture.resize((width, round(picture.height * width / picture.width)), Image.LANCZOS)
    picture.quantize(colors, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)


def on_terminal(screen, command):
    """Runs a command of the program on a terminal of the screen's size, behind a prompt that shows it."""
    stream = pyte.ByteStream(screen)
    stream.feed(f"\x1b[1m$ graft {' '.join(command)}\x1b[0m\r\n".encode())
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    environment.pop("NO_COLOR", None)
    child = subprocess.Popen([GRAFT, *command], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment)
    os.close(theirs)
    while True:
        try:
            said = os.read(ours, 65536)
        except OSError:  # a terminal whose last program has ended
            break
        if not said:
            break
        stream.feed(said)
    os.close(ours)
    if child.wait() != 0:
        sys.exit("\n".join(screen.display))


def rich_color(name):
    """A colour of pyte's as rich has it."""
    if name == "default":
        return None
    if len(name) == 6 and all(c in "0123456789abcdef" for c in name):
        return f"#{name}"
    return {"brown": "yellow"}.get(name, name.replace("bright", "bright_"))


def drawn(screen, title):
    """What the screen shows, as an SVG picture."""
    last = max(y for y in range(screen.lines) if screen.display[y].strip())
    console = Console(width=COLUMNS, record=True, file=open(os.devnull, "w"), force_terminal=True, legacy_windows=False)
    for y in range(last + 1):
        line = Text()
        for x in range(COLUMNS):
            cell = screen.buffer[y][x]
            line.append(cell.data, Style(color=rich_color(cell.fg), bgcolor=rich_color(cell.bg), bold=cell.bold))
        line.rstrip()
        console.print(line)
    return console.export_svg(title=title, code_format=DRAWING, unique_id="graft")


def terminal():
    for name, command, colors in (("finetune", LEARNING, 64), ("classify", ["classify", "build/demo/model.onnx", f"{DEMO}/unseen_pictures", "--top", "2"], 256)):
        screen = pyte.Screen(COLUMNS, ROWS)
        on_terminal(screen, command)
        with browser() as started:
            page = started.new_page(viewport={"width": 1464, "height": 800})
            page.set_content(f'<body style="margin: 0">{drawn(screen, "graft")}</body>')
            page.locator("svg").screenshot(path=IMAGES / f"{name}.png")
        shrink(IMAGES / f"{name}.png", 1100, colors)


def report():
    subprocess.run([GRAFT, *LEARNING], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with browser() as started:
        for name, scheme in (("report", "light"), ("report-dark", "dark")):
            page = started.new_page(viewport={"width": 1000, "height": 1160}, color_scheme=scheme)
            page.goto(f"file://{ROOT}/build/demo/report.html")
            page.screenshot(path=IMAGES / f"{name}.png")
            shrink(IMAGES / f"{name}.png", 1000)


def page():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "scripts/page_pictures.py", folder, f"{DEMO}/model.onnx", "--picture", f"{DEMO}/pictures/boat-1.png"], cwd=ROOT, check=True)
        for name, view in (("page", "map"), ("page-dark", "dark")):
            shutil.copyfile(f"{folder}/{view}.png", IMAGES / f"{name}.png")
            shrink(IMAGES / f"{name}.png", 1200)


def augmentation():
    subprocess.run([GRAFT, "augment", f"{DEMO}/new_pictures", "--preview", IMAGES / "augmentation.png", "--images", "4", "--quiet"], cwd=ROOT, check=True)
    shrink(IMAGES / "augmentation.png", 1078)


def main():
    makers = {maker.__name__: maker for maker in (report, terminal, page, augmentation)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(makers))
    names = parser.parse_args().names
    if unknown := set(names) - set(makers):
        parser.error(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(makers)}")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in names or makers:
        makers[name]()


if __name__ == "__main__":
    main()
