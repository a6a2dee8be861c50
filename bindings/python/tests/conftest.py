"""What the tests are made with: the demo of the checkout, and the program, which GRAFT_PROGRAM names (build/release/graft where it is not set)."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import graft

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEMO = ROOT / "apps/graft/demo"
PROGRAM = pathlib.Path(os.environ.get("GRAFT_PROGRAM", ROOT / "build/release/graft"))


@pytest.fixture
def demo():
    return DEMO


@pytest.fixture
def model():
    return graft.load(DEMO / "model.onnx", device="cpu")


@pytest.fixture
def program():
    """Runs the program, and returns what it prints as JSON."""

    def run(*arguments):
        done = subprocess.run([PROGRAM, *map(str, arguments), "--device", "cpu", "--json", "-q"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def pictures():
    """A batch as the demo's model takes it, the same every time."""

    def make(batch, seed=0):
        return np.random.default_rng(seed).standard_normal((batch, 3, 64, 64), dtype=np.float32)

    return make


def resident_bytes():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
