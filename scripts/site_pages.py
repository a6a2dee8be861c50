"""The pages of the documentation as a site: a hook of mkdocs, which scripts/site runs.

Lays every tracked page, and the pictures that pages show, into build/site/source under its own path. What a page links to and is no page, a program or a folder, becomes a page of
its text or a list. The reference of the API comes from Doxygen (site_api.py).
"""
import os
import pathlib
import re
import shutil
import subprocess

import site_api

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "build/site/source"
FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".rs": "rust", ".inl": "cpp", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".html": "html", "": "bash"}
LARGEST_SHOWN = 1 << 18
PICTURES = {".png", ".svg", ".jpg"}


def tracked():
    """The files of the repository, those not yet committed among them."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [pathlib.PurePosixPath(line) for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


class Site:
    def __init__(self):
        self.files = tracked()
        self.known = set(self.files)
        self.folders = {parent for f in self.files for parent in f.parents}
        self.made = set()

    def write(self, path, text):
        to = SOURCE / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text)

    def page_of(self, target):
        """The page that stands for a file or a folder of the repository, made where it is not one itself; None where there is no such thing."""
        if target in self.known and target.suffix == ".md":
            return target
        if target in self.known and target.suffix in PICTURES:
            (SOURCE / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / target, SOURCE / target)
            return target
        page = pathlib.PurePosixPath("source", f"{target}.md")
        if target in self.known:
            self.add_text(target, page)
        elif target in self.folders:
            if (target / "README.md") in self.known:
                return target / "README.md"
            self.add_folder(target, page)
        else:
            return None
        return page

    def add_text(self, target, page):
        if page in self.made:
            return
        self.made.add(page)
        size = (ROOT / target).stat().st_size
        try:
            text = (ROOT / target).read_text() if size <= LARGEST_SHOWN else f"{size} bytes: too much for a page"
        except UnicodeDecodeError:
            text = f"{size} bytes that are no text"
        fence = "`" * max(3, max((len(run) + 1 for run in re.findall(r"`+", text)), default=3))
        self.write(page, f"---\nsearch: {{exclude: true}}\n---\n# {target}\n\n{fence}{LANGUAGES.get(target.suffix, 'text')}\n{text.rstrip()}\n{fence}\n")

    def add_folder(self, target, page):
        if page in self.made:
            return
        self.made.add(page)
        inside = sorted({f.relative_to(target).parts[0] for f in self.files if target in f.parents})
        lines = [f"- [{name}]({self.relative(self.page_of(target / name), page)})" for name in inside]
        self.write(page, f"# {target}\n\n" + "\n".join(lines) + "\n")

    @staticmethod
    def relative(to, page):
        return os.path.relpath(to, page.parent)

    def linked(self, text, page):
        """The page with every link to what is no page led to the one that stands for it. Links that lead nowhere stay, for mkdocs to complain of."""

        def led(found):
            target = found[1]
            if re.match(r"[a-z]+:", target):
                return target
            there = pathlib.PurePosixPath(os.path.normpath(page.parent / target))
            shown = self.page_of(there)
            return self.relative(shown, page) if shown else target

        # Behind a block's language stands what check_docs.py does with it.
        return "".join(re.sub(r"^(```\w*).*", r"\1", part, count=1) if part.startswith("```") else LINK.sub(led, part) for part in FENCE.split(text))

    def add_pages(self):
        for page in self.files:
            if page.suffix == ".md":
                text = (ROOT / page).read_text()
                for picture in re.findall(r'(?:src|srcset)="([^":]+)"', text):
                    self.page_of(pathlib.PurePosixPath(os.path.normpath(page.parent / picture)))
                self.write(page, self.linked(text, page))


def on_config(config):
    """mkdocs calls this before it looks for pages."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    site = Site()
    site.add_pages()
    for style in config.extra_css:
        shutil.copyfile(ROOT / style, SOURCE / style)
    for entry in config.nav:
        if "API" in entry:
            entry["API"] = site_api.write_pages(ROOT, SOURCE / "api")
    return config
