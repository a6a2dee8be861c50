#!/usr/bin/env python3
"""Puts the page together: the markup with its style, its scripts and the engine, in one file without a model.

    apps/page/assemble.py ENGINE.wasm PAGE.html
"""
import base64
import pathlib
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = ("engine.js", "pictures.js", "try.js", "collect.js", "teach.js", "main.js")


def replaced(text, old, new):
    if text.count(old) != 1:
        sys.exit(f"page.html has {old!r} {text.count(old)} times, and not once")
    return text.replace(old, new)


def main():
    engine, target = map(pathlib.Path, sys.argv[1:])
    page = (HERE / "page.html").read_text()
    page = replaced(page, "/* style.css */\n", (HERE.parent / "style.css").read_text())
    page = replaced(page, "/* page.css */\n", (HERE / "page.css").read_text())
    page = replaced(page, "/* worker.js */\n", (HERE / "worker.js").read_text())
    page = replaced(page, "/* page scripts */\n", "".join((HERE / name).read_text() for name in SCRIPTS))
    packed = base64.b64encode(zlib.compress(engine.read_bytes(), 9)).decode()
    page = replaced(page, 'id="engine"></script>', f'id="engine">{packed}</script>')
    target.write_text(page)


if __name__ == "__main__":
    main()
