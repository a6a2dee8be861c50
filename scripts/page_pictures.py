#!/usr/bin/env python3
"""Pictures of the page that `graft serve` has at /, as a person uses it, and what axe-core says of it.

    scripts/page_pictures.py FOLDER MODEL.onnx... --picture PICTURE [--preprocess SPEC]

Writes desktop.png, dark.png, phone.png and map.png (a class pressed), after a picture was chosen by keyboard. Ends with 1 where axe-core finds a violation, where the console
says an error, or where the page asks for anything from another address. Needs Chromium (Debian: chromium) and, from PyPI, playwright and axe-playwright-python.
GRAFT names the program (default build/release/graft).
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAFT = os.environ.get("GRAFT", str(ROOT / "build/release/graft"))
VIEWS = {"desktop": ({"width": 1200, "height": 760}, "light"), "dark": ({"width": 1200, "height": 760}, "dark"), "phone": ({"width": 390, "height": 844}, "light")}


def until(page, holds):
    """The page's policy lets nobody evaluate text in it, so that it is asked again and again."""
    for _ in range(600):
        if page.evaluate(f"Boolean({holds})"):
            return
        page.wait_for_timeout(100)
    sys.exit(f"after a minute it does not hold that {holds}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path), parser.add_argument("models", nargs="+")
    parser.add_argument("--picture", required=True), parser.add_argument("--preprocess", default="")
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    command = [GRAFT, "serve", *o.models, "--port", "0", *(["--preprocess", o.preprocess] if o.preprocess else [])]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    problems = []
    try:
        address = ""
        for line in server.stderr:
            if found := re.search(r"http://\S+", line):
                address = found[0]
                break
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
            for name, (size, scheme) in VIEWS.items():
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.on("console", lambda m: problems.append(f"{name}: console: {m.text}") if m.type == "error" else None)
                page.on("pageerror", lambda e: problems.append(f"{name}: {e}"))
                page.on("request", lambda r: problems.append(f"{name}: asks for {r.url}") if not r.url.startswith((address, "blob:", "data:")) else None)
                page.goto(address)
                page.wait_for_selector("#models input", state="attached")
                page.keyboard.press("Tab")  # to the first thing that can be used, which chooses a file
                focused = page.evaluate("document.activeElement.id")
                if focused != "file":
                    problems.append(f"{name}: Tab goes to {focused or 'nothing'} and not to the choice of a file")
                page.set_input_files("#file", o.picture)
                until(page, "document.querySelectorAll('article[aria-busy]').length === 0 && document.querySelectorAll('.class').length > 0")
                results = Axe().run(page)
                for v in results.response["violations"]:
                    problems.append(f"{name}: axe: {v['id']}: {v['help']}: {v['nodes'][0]['html'][:120]}")
                print(f"{name}: axe-core: {len(results.response['violations'])} violations, {len(results.response['passes'])} rules passed")
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    problems.append(f"{name}: the page is wider than the window")
                page.screenshot(path=o.folder / f"{name}.png", full_page=name == "phone")
                if name == "desktop":
                    page.focus(".class")
                    page.keyboard.press("Enter")
                    until(page, "document.querySelector('.class[aria-pressed=\"true\"]') && !document.querySelector('.class[aria-busy]')")
                    page.wait_for_timeout(300)
                    page.screenshot(path=o.folder / "map.png")
                page.close()
            browser.close()
    finally:
        server.terminate()
        server.wait(30)
    for p in problems:
        print(p)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
