#!/usr/bin/env python3
"""How `graft serve` holds under load, under slow clients, and beside a server of FastAPI and ONNX Runtime.

    bench/serve.py MODEL.onnx PICTURE.jpg [--preprocess SPEC] [--part load|reload|slow|batches|rival|clients ...] [--seconds 60] [--connections 64] [--precision P]

load     wrk posts the picture; every answer is compared with the first: wrong ones, requests a second, latencies, memory at the start and at the end
reload   the same load, while SIGHUP has the model read anew each second
slow     1,000 connections of slowhttptest (heads, then bodies, then readers that take their answers slowly) beside 100 good requests a second, each timed
batches  the same load with --max-batch 1 and with the default, in turn
rival    the same load on thirty lines of FastAPI, Pillow and ONNX Runtime, in turn
clients  tritonclient's metadata and infer calls, and Prometheus' parser on /metrics

Needs wrk and slowhttptest (Debian), and for `rival` and `clients` an interpreter with numpy, pillow, onnxruntime, fastapi, uvicorn, tritonclient[http] and
prometheus_client. GRAFT names the program (default build/release/graft).
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAFT = os.environ.get("GRAFT", str(ROOT / "build/release/graft"))
LUA = """
local f = io.open("%s", "rb"); wrk.method = "POST"; wrk.body = f:read("*a"); f:close()
wrk.headers["Content-Type"] = "image/jpeg"
wrk.path = "/v1/predict"
local threads = {}
function setup(t) table.insert(threads, t) end
function init() wrong = 0; busy = 0; right = 0 end
function response(status, headers, body)
  if status == 503 then busy = busy + 1
  elseif status == 200 and string.match(body, '"index":(%%d+)') == "%s" then right = right + 1
  else wrong = wrong + 1 end
end
function done(summary, latency)
  local r, b, w = 0, 0, 0
  for _, t in ipairs(threads) do r = r + t:get("right"); b = b + t:get("busy"); w = w + t:get("wrong") end
  print(string.format("RESULT %%d %%d %%d %%.3f %%.3f %%.3f %%.3f %%d", r, b, w, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3, latency:percentile(99) / 1e3,
        latency.max / 1e3, summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
"""
RIVAL = """
import io, json, sys
import fastapi, numpy, onnxruntime, uvicorn
from PIL import Image
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
mean, std = numpy.array([0.485, 0.456, 0.406], numpy.float32), numpy.array([0.229, 0.224, 0.225], numpy.float32)
app = fastapi.FastAPI()

def prepare(data):
    image = Image.open(io.BytesIO(data)).convert("RGB")
    scale = 256 / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.BILINEAR)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    pixels = numpy.asarray(image.crop((left, top, left + 224, top + 224)), numpy.float32) / 255
    return ((pixels - mean) / std).transpose(2, 0, 1)[None]

def infer(data):
    scores = session.run(None, {name: prepare(data)})[0][0]
    e = numpy.exp(scores - scores.max())
    p = e / e.sum()
    return {"results": [{"top": [{"index": int(i), "probability": float(p[i])} for i in numpy.argsort(-p)[:5]]}]}

@app.post("/v1/predict")
async def predict(request: fastapi.Request):
    data = await request.body()
    return await fastapi.concurrency.run_in_threadpool(infer, data)

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def memory_mb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


@contextlib.contextmanager
def serving(command, port, check):
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                if ask(port, *check)[0] in (200, 405):
                    break
            if process.poll() is not None:
                sys.exit(f"{command[0]} ended with {process.returncode}")
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def graft(o, port, *more):
    return [GRAFT, "serve", o.model, "--port", str(port), "--preprocess", o.preprocess, "--precision", o.precision, *more]


def wrk(o, port, seconds, index):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA % (o.picture, index))
        script.flush()
        out = subprocess.run(["wrk", "-t1", f"-c{o.connections}", f"-d{seconds}s", "--timeout", "30s", "-s", script.name, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True).stdout
    right, busy, wrong, p50, p90, p99, most, errors = map(float, out.split("RESULT ")[1].split())
    return {"a second": right / seconds, "right": int(right), "busy": int(busy), "wrong": int(wrong), "errors": int(errors), "p50 ms": p50, "p90 ms": p90, "p99 ms": p99, "most ms": most}


def told(name, r):
    print(f"{name}: {r['a second']:.1f} a second; right {r['right']}, busy {r['busy']}, wrong {r['wrong']}, errors {r['errors']}; ms: half {r['p50 ms']:.1f}, 90 % {r['p90 ms']:.1f}, "
          f"99 % {r['p99 ms']:.1f} ({r['p99 ms'] / r['p50 ms']:.2f} of the half), most {r['most ms']:.1f}", flush=True)


def first_index(port, picture):
    return json.loads(ask(port, "POST", "/v1/predict", picture, {"Content-Type": "image/jpeg"})[1])["results"][0]["top"][0]["index"]


def load(o, picture):
    port = free_port()
    with serving(graft(o, port), port, ("GET", "/healthz")) as server:
        index = first_index(port, picture)
        wrk(o, port, min(10, o.seconds), index)
        before, files = memory_mb(server.pid), len(os.listdir(f"/proc/{server.pid}/fd"))
        told("load", wrk(o, port, o.seconds, index))
        time.sleep(1)
        print(f"memory {before:.1f} -> {memory_mb(server.pid):.1f} MB, open files {files} -> {len(os.listdir(f'/proc/{server.pid}/fd'))}")


def reload(o, picture):
    port = free_port()
    with serving(graft(o, port), port, ("GET", "/healthz")) as server:
        index, done = first_index(port, picture), threading.Event()

        def ask_anew():
            while not done.wait(1):
                server.send_signal(signal.SIGHUP)
        thread = threading.Thread(target=ask_anew)
        thread.start()
        told("reload", wrk(o, port, o.seconds, index))
        done.set()
        thread.join()
        print("models read:", re.findall(r'^graft_reloads_total.*$', ask(port, "GET", "/metrics")[1].decode(), re.M), f"memory {memory_mb(server.pid):.1f} MB")


def slow(o, picture):
    port = free_port()
    kinds = {"heads": ["-H"], "bodies": ["-B", "-s", "100000"], "readers": ["-X", "-w", "10", "-y", "20", "-n", "5", "-z", "10"]}
    with serving(graft(o, port), port, ("GET", "/healthz")):
        for kind, flags in kinds.items():
            address = f"http://127.0.0.1:{port}/" + ("v1/predict" if kind == "bodies" else "")
            attack = subprocess.Popen(["slowhttptest", "-c", "1000", "-r", "500", "-i", "2", "-l", str(o.seconds), "-u", address, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            took, statuses, lock, began = [], [], threading.Lock(), time.time()

            def one():
                start = time.time()
                try:
                    status = ask(port, "GET", "/healthz")[0] if len(took) % 10 else ask(port, "POST", "/v1/predict", picture, {"Content-Type": "image/jpeg"})[0]
                except OSError:
                    status = 0
                with lock:
                    took.append(time.time() - start), statuses.append(status)
            threads = []
            for i in range(100 * o.seconds):
                time.sleep(max(0, began + i / 100 - time.time()))
                threads.append(threading.Thread(target=one))
                threads[-1].start()
            for t in threads:
                t.join()
            attack.kill()
            attack.wait()
            print(f"1000 slow {kind}: {len(took)} good requests, {sum(s == 200 for s in statuses)} answered with 200; seconds: half {statistics.median(took):.4f}, most {max(took):.3f}", flush=True)


def batches(o, picture):
    rates = {}
    for turn in range(o.rounds):
        for name, flags in (("each alone", ["--max-batch", "1"]), ("batches", [])):
            port = free_port()
            with serving(graft(o, port, *flags), port, ("GET", "/healthz")):
                r = wrk(o, port, o.seconds, first_index(port, picture))
                told(name, r)
                rates.setdefault(name, []).append(r["a second"])
    print(f"batches / each alone: {statistics.median(rates['batches']) / statistics.median(rates['each alone']):.2f}")


def rival(o, picture):
    rates = {}
    for turn in range(o.rounds):
        for name in ("FastAPI and ONNX Runtime", "graft"):
            port = free_port()
            with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
                script.write(RIVAL)
                script.flush()
                command = graft(o, port) if name == "graft" else [sys.executable, script.name, o.model, str(port)]
                with serving(command, port, ("GET", "/v1/predict")) as server:
                    r = wrk(o, port, o.seconds, first_index(port, picture))
                    told(name, r)
                    print(f"    {memory_mb(server.pid):.0f} MB")
                    rates.setdefault(name, []).append(r["a second"])
    print(f"graft / FastAPI and ONNX Runtime: {statistics.median(rates['graft']) / statistics.median(rates['FastAPI and ONNX Runtime']):.2f}")


def clients(o, picture):
    import numpy
    import onnxruntime
    import prometheus_client.parser
    import tritonclient.http as triton
    port = free_port()
    with serving(graft(o, port), port, ("GET", "/healthz")):
        client, name = triton.InferenceServerClient(f"127.0.0.1:{port}"), pathlib.Path(o.model).stem
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(name) and not client.is_model_ready("another")
        print("server:", client.get_server_metadata())
        about = client.get_model_metadata(name)
        print("model:", about)
        print("index:", client.get_model_repository_index())
        source, x = about["inputs"][0], numpy.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=numpy.float32)
        want = onnxruntime.InferenceSession(o.model, providers=["CPUExecutionProvider"]).run(None, {source["name"]: x})[0]
        for binary in (True, False):
            given = triton.InferInput(source["name"], list(x.shape), source["datatype"])
            given.set_data_from_numpy(x, binary_data=binary)
            out = client.infer(name, [given], outputs=[triton.InferRequestedOutput(about["outputs"][0]["name"], binary_data=binary)], request_id="7")
            print(f"infer, binary {binary}: id {out.get_response()['id']}, largest difference from ONNX Runtime {numpy.abs(out.as_numpy(about['outputs'][0]['name']) - want).max():.2e}")
        try:
            client.infer("another", [given])
        except triton.InferenceServerException as e:
            print("refused:", e)
        families = list(prometheus_client.parser.text_string_to_metric_families(ask(port, "GET", "/metrics")[1].decode()))
        print(f"/metrics: {len(families)} families, {sum(len(f.samples) for f in families)} samples: " + ", ".join(f.name for f in families))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"), parser.add_argument("picture")
    parser.add_argument("--preprocess", default="imagenet"), parser.add_argument("--precision", default="auto", help="graft's; the rival's is the model's")
    parser.add_argument("--part", nargs="+", default=["load", "reload", "slow", "batches", "rival", "clients"])
    parser.add_argument("--seconds", type=int, default=60), parser.add_argument("--connections", type=int, default=64), parser.add_argument("--rounds", type=int, default=3)
    o = parser.parse_args()
    picture = pathlib.Path(o.picture).read_bytes()
    for part in o.part:
        print(f"== {part}", flush=True)
        {"load": load, "reload": reload, "slow": slow, "batches": batches, "rival": rival, "clients": clients}[part](o, picture)


if __name__ == "__main__":
    main()
