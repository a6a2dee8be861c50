"""Fine-tuning: the bytes of the program's model, progress, and every way to end a run."""

import os
import signal
import threading

import pytest
from conftest import DEMO

import graft

DATA, FROM = DEMO / "new_pictures", DEMO / "model.onnx"
HOW = {"from_": FROM, "epochs": 3, "lr": 0.01, "seed": 3, "device": "cpu"}


def test_a_run_writes_the_model_that_the_program_writes(program, tmp_path):
    events = []
    done = graft.finetune(DATA, out=tmp_path / "python", progress=events.append, **HOW)
    said = program("finetune", DATA, "--from", FROM, "--out", tmp_path / "program", "--epochs", 3, "--lr", 0.01, "--seed", 3)
    assert (tmp_path / "python/model.onnx").read_bytes() == (tmp_path / "program/model.onnx").read_bytes()
    assert done.best_top1 == said["best_top1"]
    assert done.best_epoch == said["best_epoch"]
    assert (done.training_pictures, done.validation_pictures) == (said["training_images"], said["validation_images"])
    assert (done.epochs, done.classes, done.stopped, done.bad_pictures) == (3, 4, False, 0)
    assert done.model == str(tmp_path / "python/model.onnx")
    assert graft.load(done.model).classify(DEMO / "unseen_pictures/umbrella-1.png", top=1)[0].label in ("balloon", "butterfly", "mushroom", "umbrella")

    # The classes of the data are the model's now.
    scored, told = graft.load(done.model, device="cpu").evaluate(DATA), program("evaluate", done.model, DATA)
    assert (scored.top1, scored.top5, scored.loss, scored.macro_f1) == (told["top1"], told["top5"], told["loss"], told["macro_f1"])
    assert (scored.pictures, scored.bad_pictures, scored.classes) == (told["images"], 0, 4)
    with pytest.raises(graft.GraftError) as raised:
        graft.load(FROM, device="cpu").evaluate(DATA)
    assert raised.value.code == "data.class_mismatch"

    epochs = [p for p in events if p.event == "epoch"]
    assert [p.epoch for p in epochs] == [1, 2, 3]
    assert max(p.top1 for p in epochs) == done.best_top1
    steps = [p for p in events if p.event == "step"]
    assert steps[-1].step == steps[-1].steps and steps[-1].epochs == 3
    assert {p.event for p in events} >= {"step", "validation", "epoch"}


def test_progress_stops_a_run_and_resume_ends_it(tmp_path):
    done = graft.finetune(DATA, out=tmp_path, progress=lambda p: p.epoch < 2, **HOW)
    assert done.stopped and done.epochs < 3
    assert (tmp_path / "checkpoint.safetensors").exists()
    assert not graft.finetune(DATA, out=tmp_path, resume=True, **HOW).stopped


def test_an_exception_of_progress_is_raised_behind_an_orderly_end(tmp_path):
    def fail(progress):
        if progress.event == "epoch":
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        graft.finetune(DATA, out=tmp_path, progress=fail, **HOW)
    assert (tmp_path / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("watched", [True, False])
def test_ctrl_c_ends_a_run_in_order(tmp_path, watched):
    # What a script starts in the background may ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            graft.finetune(DATA, out=tmp_path, progress=(lambda p: None) if watched else None, **{**HOW, "epochs": 1000})
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "checkpoint.safetensors").exists()


def test_options_of_the_program_are_taken_and_others_refused(tmp_path):
    done = graft.finetune(DATA, out=tmp_path / "a", freeze="trunk", class_weights=[1, 2, 1, 1], optimizer="sgd", momentum=0.5, batch_norm="frozen", **{**HOW, "epochs": 1})
    assert done.epochs == 1
    for wrong, code in (
        ({"epoch": 3}, "usage"),
        ({"optimizer": "adamm"}, "usage"),
        ({"epochs": 0}, "usage"),
        ({"class_weights": [1, 2]}, "usage"),
    ):
        with pytest.raises(graft.GraftError) as raised:
            graft.finetune(DATA, out=tmp_path / "b", **{**HOW, **wrong})
        assert raised.value.code == code
    with pytest.raises(graft.GraftError) as raised:
        graft.finetune(DATA, out=tmp_path / "a", **HOW)
    assert raised.value.code == "train.out_in_use"
    with pytest.raises(graft.GraftError) as raised:
        graft.finetune(tmp_path / "none", out=tmp_path / "c", **HOW)
    assert raised.value.code == "data.open"
