#!/usr/bin/env python3
"""How fast the page of `graft export --html` is in headless Chromium, beside the program and ONNX Runtime on one thread of this machine.

    bench/page.py MODEL PICTURE DATA [--preprocess SPEC] [--rounds N] [--skip-training]

Prints the milliseconds of a run of one picture, median and fastest, and the seconds that teaching DATA (a folder of classes) takes, the last layer and the whole network.
Needs what scripts/page_check.py needs. GRAFT names the program.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnxruntime
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAFT = os.environ.get("GRAFT", str(ROOT / "build/release/graft"))


def graft(*arguments, isa=None):
    done = subprocess.run([GRAFT, *map(str, arguments), "--json", "-q"], capture_output=True, text=True, check=True, env={**os.environ, **({"GRAFT_ISA": isa} if isa else {})})
    return json.loads(done.stdout)


def by_onnxruntime(model, rounds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    batch = numpy.random.default_rng(0).random([1, *given.shape[1:]], dtype=numpy.float32)
    taken = []
    for _ in range(rounds + 3):
        began = time.perf_counter()
        session.run(None, {given.name: batch})
        taken.append(1e3 * (time.perf_counter() - began))
    return told_of(taken[3:])


def told_of(taken):
    """A busy machine moves medians; the fastest round is what it can do."""
    return f"{statistics.median(taken):.1f} ms, the fastest {min(taken):.1f}"


def in_page(page, picture, rounds):
    page.set_input_files("#file", str(picture))
    page.wait_for_selector("#answers li")
    return page.evaluate("""async rounds => {
        const taken = [];
        for (let i = 0; i < rounds + 3; ++i) {
            const picture = await contents(tried.picture.blob, tried.picture.name);
            taken.push((await engine.call("classify", { picture, top: 5 }, moved(picture))).ms);
        }
        return taken.slice(3);
    }""", rounds)


def teach(page, learns):
    page.check(f"[name=learns][value={learns}]")
    began = time.time()
    page.click("#train")
    while page.evaluate("busy()"):
        page.wait_for_timeout(50)
    return f"{time.time() - began:.1f} s, {page.inner_text('#score')}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path), parser.add_argument("picture", type=pathlib.Path), parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--preprocess"), parser.add_argument("--rounds", type=int, default=20), parser.add_argument("--skip-training", action="store_true")
    o = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp())
    how = ["--preprocess", o.preprocess] if o.preprocess else []
    html = work / "page.html"
    print(f"page: {graft('export', o.model, '--html', html, *how)['bytes']} bytes")
    for isa in ("baseline", None):
        told = graft("bench", o.model, "--threads", 1, "--rounds", o.rounds, isa=isa)
        print(f"graft bench, {told['isa']}: {told_of(told['latency_ms'])}")
    print(f"ONNX Runtime {onnxruntime.__version__}: {by_onnxruntime(o.model, o.rounds)}")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        began = time.time()
        page.goto(html.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached", timeout=120000)
        print(f"in the page: open after {time.time() - began:.2f} s; {told_of(in_page(page, o.picture, o.rounds))}, preparing the picture included")
        if not o.skip_training:
            page.set_input_files("#folder", str(o.data))
            page.wait_for_timeout(1000)
            for learns in ("trunk", "none"):
                print(f"  {'the last layer' if learns == 'trunk' else 'the whole network'}: {teach(page, learns)}")
                began = time.time()
                made = graft("finetune", o.data, "--from", o.model, "--out", work / learns, "--freeze", learns, "--threads", 1, *how)
                print(f"  graft finetune, {time.time() - began:.1f} s: {100 * made['best_top1']:.1f} %")
        browser.close()


if __name__ == "__main__":
    main()
