#!/usr/bin/env python3
"""Pictures of report.html and of what `graft compare --out` writes, and what axe-core says of them.

    scripts/report_pictures.py FOLDER PAGE.html...

Writes NAME-light.png, -dark.png and -phone.png of each page, and -large.png of a picture that was pressed. Ends with 1 where axe-core finds a violation, where the console says
an error, where the page asks for anything, where it is wider than its window, or where a picture is not enlarged by the keyboard, closed by Escape, and a command not copied. Needs Chromium
(Debian: chromium) and, from PyPI, playwright and axe-playwright-python.
"""
import argparse
import os
import pathlib
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

VIEWS = {"light": ({"width": 1200, "height": 900}, "light"), "dark": ({"width": 1200, "height": 900}, "dark"), "phone": ({"width": 390, "height": 844}, "light")}


def use(page, path, problems):
    """A picture by keyboard, and a command by its button."""
    pictures = page.locator(".enlarge")
    if pictures.count():
        pictures.first.focus()
        page.keyboard.press("Enter")
        if not page.locator("dialog[open] img").count():
            problems.append("Enter on a picture does not enlarge it")
        page.screenshot(path=path)
        page.keyboard.press("Escape")
        if page.locator("dialog[open]").count():
            problems.append("Escape does not close it")
        if "enlarge" not in (page.evaluate("document.activeElement.className") or ""):
            problems.append("the focus is not back on the picture")
    buttons = page.locator(".command + .copy")
    if buttons.count():
        buttons.first.click()
        page.wait_for_timeout(100)
        if page.evaluate("navigator.clipboard.readText()") != page.locator(".command").first.text_content():
            problems.append("the button does not copy its command")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path), parser.add_argument("pages", type=pathlib.Path, nargs="+")
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
        for file in o.pages:
            for view, (size, scheme) in VIEWS.items():
                name, problems = f"{file.parent.name}-{file.stem}-{view}", []
                page = browser.new_context(viewport=size, color_scheme=scheme, permissions=["clipboard-read", "clipboard-write"]).new_page()
                page.on("console", lambda m: problems.append(f"console: {m.text}") if m.type == "error" else None)
                page.on("pageerror", lambda e: problems.append(f"{e}"))
                address = file.resolve().as_uri()
                page.on("request", lambda r: problems.append(f"asks for {r.url[:80]}") if not r.url.startswith((address, "data:")) else None)
                page.goto(address)
                results = Axe().run(page)
                for v in results.response["violations"]:
                    problems.append(f"axe: {v['id']}: {v['help']}: {len(v['nodes'])} times, {v['nodes'][0]['html'][:160]}")
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    problems.append("the page is wider than the window")
                page.screenshot(path=o.folder / f"{name}.png", full_page=True)
                if view == "light":
                    use(page, o.folder / f"{file.parent.name}-{file.stem}-large.png", problems)
                print(f"{name}: axe-core: {len(results.response['violations'])} violations, {len(results.response['passes'])} rules passed")
                for p in problems:
                    print(f"  {p}")
                failed |= bool(problems)
                page.context.close()
        browser.close()
    sys.exit(failed)


if __name__ == "__main__":
    main()
