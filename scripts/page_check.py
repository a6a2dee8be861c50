#!/usr/bin/env python3
"""Uses the page of `graft export --html` in headless Chromium, as a person does, and compares what it says with the program and with ONNX Runtime.

    scripts/page_check.py [FOLDER]

Opens the page from file://, names the demo's pictures, teaches new classes (the last layer, and the whole network), saves model.onnx and the page, stops a
training, and runs axe-core. Writes desktop.png, dark.png, phone.png, map.png and taught.png into FOLDER. Ends with 1 where an answer is not the program's, where axe-core finds
a violation, where the console says an error, or where the page asks for anything. Needs the page (scripts/page), the program, Chromium (Debian: chromium)
and, from PyPI, playwright, axe-playwright-python, onnxruntime, numpy and pillow. GRAFT names the program (default build/release/graft); with
GRAFT_SHARED, flowers of its pack are taught too.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy
import onnxruntime
from PIL import Image
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAFT = os.environ.get("GRAFT", str(ROOT / "build/release/graft"))
DEMO = ROOT / "apps/graft/demo"
VIEWS = {"desktop": ({"width": 1200, "height": 900}, "light"), "dark": ({"width": 1200, "height": 900}, "dark"), "phone": ({"width": 390, "height": 844}, "light")}
problems = []


def graft(*arguments, isa=None):
    done = subprocess.run([GRAFT, *map(str, arguments), "--json", "-q"], capture_output=True, text=True, env={**os.environ, **({"GRAFT_ISA": isa} if isa else {})})
    if done.returncode:
        sys.exit(f"graft {' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout)


def expect(holds, what):
    print(f"{'ok' if holds else 'WRONG'}: {what}", flush=True)
    if not holds:
        problems.append(what)


def until(page, holds, seconds=120):
    """The page's policy lets nobody evaluate text in it, so that it is asked again and again."""
    for _ in range(seconds * 20):
        if page.evaluate(f"Boolean({holds})"):
            return
        page.wait_for_timeout(50)
    sys.exit(f"after {seconds} s it does not hold that {holds}")


class Page:
    """A page in the browser, with what it must never do being watched."""

    def __init__(self, browser, path, name="desktop"):
        size, scheme = VIEWS[name]
        self.name = name
        self.page = browser.new_page(viewport=size, color_scheme=scheme, accept_downloads=True)
        self.page.on("console", lambda m: problems.append(f"{name}: console: {m.text}") if m.type == "error" else None)
        self.page.on("pageerror", lambda e: problems.append(f"{name}: {e}"))
        self.page.on("request", lambda r: problems.append(f"{name}: asks for {r.url}") if r.url != path.as_uri() and not r.url.startswith("blob:null/") else None)
        began = time.time()
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=60000)
        self.start_seconds = time.time() - began
        if self.page.locator("#about.bad").count():
            sys.exit(f"{path.name}: {self.page.inner_text('#about')}")

    def ask(self, picture):
        """What the engine says of a picture, at full precision: through the page's own functions."""
        self.page.set_input_files("#file", str(picture))
        until(self.page, f"tried.picture && tried.picture.name === {json.dumps(picture.name)}")
        return self.page.evaluate("async () => { const p = await contents(tried.picture.blob, tried.picture.name);"
                                  " return engine.call('classify', { picture: p, top: 1000 }, moved(p)); }")

    def teach(self, folder, learns, epochs=None):
        self.page.set_input_files("#folder", str(folder))
        until(self.page, "!document.getElementById('train').disabled")
        self.page.check(f"[name=learns][value={learns}]")
        if epochs:
            self.page.fill("#epochs", str(epochs))
        began = time.time()
        self.page.click("#train")
        self.page.wait_for_selector("#result:not([hidden])", timeout=300000)
        until(self.page, "!busy()")
        return {"seconds": time.time() - began, "history": self.page.evaluate("run.history"),
                "held_out": self.page.locator("#held-out figure").count(), "wrong": self.page.locator("#held-out .wrong").count()}

    def download(self, button, to):
        with self.page.expect_download() as info:
            self.page.click(button)
        info.value.save_as(to)
        return to

    def axe(self, when):
        found = Axe().run(self.page).response
        for v in found["violations"]:
            problems.append(f"{self.name}, {when}: axe: {v['id']}: {v['help']}: {v['nodes'][0]['html'][:160]}")
        expect(not found["violations"], f"{self.name}, {when}: axe-core finds {len(found['violations'])} violations, {len(found['passes'])} rules pass")
        expect(not self.page.evaluate("document.documentElement.scrollWidth > innerWidth"), f"{self.name}, {when}: the page is no wider than the window")


def largest_difference(page_answer, program_answer):
    given = {one["index"]: one["probability"] for one in program_answer["top"]}
    return max(abs(one["probability"] - given[one["index"]]) for one in page_answer["top"])


def compare_answers(page, model, pictures, what, within=1e-5):
    """To which difference of probabilities the page and the program agree, by the vectors of this machine and by those of its baseline."""
    told = [page.ask(p) for p in pictures]
    for isa in (None, "baseline"):
        by_program = graft("classify", model, *pictures, "--top", "1000", isa=isa)["results"]
        worst = max(largest_difference(a, b) for a, b in zip(told, by_program))
        same = all(a["top"][0]["label"] == b["top"][0]["label"] for a, b in zip(told, by_program))
        expect(same and worst < within, f"{what}: {len(pictures)} pictures, the same names as the program ({isa or 'this machine'}), probabilities differ by {worst:.1e} at most")
    return told


def compare_with_onnxruntime(model, page, pictures, work):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    worst = 0.0
    for i, picture in enumerate(pictures):
        tensor = work / f"in{i}.npy"
        graft("preprocess", picture, "--model", model, "--output", tensor)
        logits = session.run(None, {session.get_inputs()[0].name: numpy.load(tensor)})[0][0].astype(float)
        by_runtime = numpy.exp(logits - logits.max())
        by_runtime /= by_runtime.sum()
        worst = max(worst, *(abs(one["probability"] - by_runtime[one["index"]]) for one in page.ask(picture)["top"]))
    expect(worst < 1e-5, f"model.onnx in ONNX Runtime: probabilities differ from the page's by {worst:.1e} at most")


def compare_training(page, model, data, learns, work, epochs=10, unseen=DEMO / "unseen_pictures", preprocess=None):
    """Teaches in the page and by the program, from the same pictures."""
    told = page.teach(data, learns, epochs)
    began = time.time()
    out = work / f"{data.name}-{learns}"
    by_program = graft("finetune", data, "--from", model, "--out", out, "--freeze", learns, "--epochs", epochs, "--threads", 1, "--overwrite",
                       *(["--preprocess", preprocess] if preprocess else []))
    seconds = time.time() - began
    top1 = max(r["top1"] for r in told["history"])
    expect(abs(top1 - by_program["best_top1"]) < 0.02,
           f"{data.name}, {learns} frozen: {100 * top1:.1f} % right in the page ({told['seconds']:.1f} s), {100 * by_program['best_top1']:.1f} % by graft finetune ({seconds:.1f} s, 1 thread)")
    expect(told["wrong"] == round((1 - top1) * told["held_out"]), f"{data.name}: {told['wrong']} of {told['held_out']} held-out pictures are shown as wrong")
    saved = page.download("#save", work / "model.onnx")
    unseen = sorted(p for p in unseen.rglob("*") if p.is_file())[:12]
    photos = [p for p in unseen if p.suffix == ".jpg"]
    if photos:  # a program with libjpeg decodes them by that, the page by stb_image
        compare_answers(page, saved, photos, f"{data.name}, model.onnx that was saved, JPEG", within=0.02)
        unseen = [as_png(p, work) for p in photos]
    compare_answers(page, saved, unseen, f"{data.name}, model.onnx that was saved")
    compare_with_onnxruntime(saved, page, unseen, work)
    return saved


def as_png(photo, folder):
    made = folder / f"{photo.stem}.png"
    Image.open(photo).convert("RGB").save(made)
    return made


def twenty_each(source, classes, to):
    for name in classes:
        (to / name).mkdir(parents=True)
        for picture in sorted((source / name).iterdir())[:20]:
            shutil.copy(picture, to / name)
    return to


def main():
    work = pathlib.Path(tempfile.mkdtemp())
    shots = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else work
    shots.mkdir(parents=True, exist_ok=True)
    html = work / "demo.html"
    made = graft("export", DEMO / "model.onnx", "--html", html)
    print(f"page with the demo's model: {made['bytes']} bytes")
    pictures = sorted(DEMO.glob("pictures/*.png"))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
                                       args=["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"])
        page = Page(browser, html)
        print(f"open after {page.start_seconds:.2f} s")
        expect(not page.page.evaluate("crossOriginIsolated"), "a page from file:// is not cross-origin isolated: there are no threads to be had")
        page.page.keyboard.press("Tab"), page.page.keyboard.press("Tab"), page.page.keyboard.press("Tab")
        expect(page.page.evaluate("document.activeElement.id") == "file", "the third Tab, behind the page's two links, goes to the choice of a file")
        told = compare_answers(page, DEMO / "model.onnx", pictures, "demo")
        expect(all(t["top"][0]["label"] == p.name.split("-")[0] for t, p in zip(told, pictures)), "every picture of the demo is named right")
        page.axe("tried")
        Image.open(pictures[0]).convert("RGB").save(work / "boat.webp", lossless=True)
        compare_answers(page, DEMO / "model.onnx", [work / "boat.webp"], "WebP, which the browser decodes")
        page.page.set_input_files("#file", str(pictures[0]))
        page.page.wait_for_selector("#answers button")
        page.page.focus("#answers button")
        page.page.keyboard.press("Enter")
        until(page.page, "document.getElementById('picture').alt === 'The places that spoke for boat'")
        written = graft("explain", DEMO / "model.onnx", pictures[0], "--out", work / "maps", "--label", "boat", isa="baseline")["results"][0]["file"]
        drawn = page.page.evaluate("async index => { const p = await contents(tried.picture.blob, 'boat');"
                                   " return [...(await engine.call('explain', { picture: p, index }, moved(p))).png]; }", told[0]["top"][0]["index"])
        expect(bytes(drawn) == pathlib.Path(written).read_bytes(), "the map is the file that graft explain writes")
        page.page.screenshot(path=shots / "map.png")
        page.axe("explained")
        page.page.keyboard.press("Enter")
        expect(page.page.get_attribute("#picture", "alt") == "The picture that was given", "a class that is pressed again shows the picture")
        page.page.set_input_files("#open", {"name": "broken.onnx", "mimeType": "application/octet-stream", "buffer": b"no model"})
        page.page.wait_for_selector("#latency.bad")
        expect("model." in page.page.inner_text("#latency"), f"a file that is no model is told: {page.page.inner_text('#latency')[:100]}")
        expect(page.ask(pictures[0])["top"][0]["label"] == "boat", "and the model before it still answers")
        data = twenty_each(DEMO / "new_pictures", ["balloon", "butterfly", "mushroom"], work / "demo60")
        compare_training(page, DEMO / "model.onnx", data, "trunk", work)
        page.axe("taught")
        page.page.screenshot(path=shots / "taught.png", full_page=True)

        again = Page(browser, page.download("#save-page", work / "taught.html"))
        expect("balloon" in again.page.inner_text("#about"), "the page that was saved has the taught model in it")
        compare_answers(again, work / "model.onnx", sorted(DEMO.glob("unseen_pictures/*.png"))[:3], "the page that was saved")
        again.page.close()

        page.page.fill("#epochs", "500")
        page.page.check("[name=learns][value=none]")
        page.page.click("#train")
        until(page.page, "run.history.length > 0")
        page.page.click("#stop")
        until(page.page, "!busy()")
        expect(page.page.inner_text("#status").startswith("Stopped after"), "a training that is stopped keeps the best network so far")
        page.page.close()

        whole = Page(browser, html)
        compare_training(whole, DEMO / "model.onnx", data, "none", work, 6)
        whole.page.close()
        if os.environ.get("GRAFT_SHARED"):
            pack = pathlib.Path(os.environ["GRAFT_SHARED"]) / "pack"
            flowers = twenty_each(pack / "data/flowers5/train", ["daisy", "roses", "sunflowers"], work / "flowers60")
            unseen = twenty_each(pack / "data/flowers5/val", ["daisy", "roses", "sunflowers"], work / "unseen")
            network, spec = pack / "models/mobilenetv1_025_128_fp32_op10.onnx", "crop=128,fraction=0.875,mean=128,scale=0.0078125"
            graft("export", network, "--html", work / "mobilenet.html", "--preprocess", spec)
            large = Page(browser, work / "mobilenet.html")
            compare_training(large, network, flowers, "trunk", work, unseen=unseen, preprocess=spec)
            large.page.close()

        camera = Page(browser, html)
        camera.page.click("#camera")
        camera.page.wait_for_selector("#answers li", timeout=30000)
        camera.page.click("#camera")
        camera.page.click("#record-camera")
        until(camera.page, "recorder.video.videoWidth > 0")
        # A frame that is being encoded comes after the button was let go of, and a busy machine takes its time for each.
        for i, box in enumerate(camera.page.get_by_role("button", name="Record", exact=True).all()):
            box.hover(), camera.page.mouse.down(), until(camera.page, f"boxes[{i}].pictures.length >= 2"), camera.page.mouse.up()
            until(camera.page, f"!boxes[{i}].recording")
        print("ok: the camera records as long as Record is held")
        before = camera.page.evaluate("boxes[0].pictures.length")
        camera.page.get_by_role("button", name="Record", exact=True).first.focus()
        camera.page.keyboard.down(" "), until(camera.page, f"boxes[0].pictures.length > {before}"), camera.page.keyboard.up(" ")
        until(camera.page, "!boxes[0].recording")
        print("ok: the space bar held on Record records too")
        before = camera.page.evaluate("boxes[0].pictures.length")
        camera.page.locator(".thumbs button").first.click()
        expect(camera.page.evaluate("boxes[0].pictures.length") == before - 1, "a picture that is pressed is removed")
        for where, holds in (("#boxes .card", f"boxes[0].pictures.length === {before}"), ("#drop", "tried.picture?.name === 'dropped.png'")):
            camera.page.evaluate("""async ([where, bytes]) => {
                const transfer = new DataTransfer();
                transfer.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
                document.querySelector(where).dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
            }""", [where, list(pictures[0].read_bytes())])
            until(camera.page, holds)
        print("ok: a drop on a box adds to it, a drop on the stage is tried")
        camera.page.close()

        for name in VIEWS:
            view = Page(browser, html, name)
            view.page.set_input_files("#file", str(pictures[0]))
            view.page.wait_for_selector("#answers li")
            view.page.set_input_files("#folder", str(data))
            until(view.page, "!document.getElementById('train').disabled")
            view.axe("to be taught")
            view.page.screenshot(path=shots / f"{name}.png", full_page=name == "phone")
            view.page.close()
        browser.close()
    for p in problems:
        print(p, file=sys.stderr)
    print(f"{'no' if not problems else len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
