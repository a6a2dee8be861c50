"""Fine-tuning: from a model and labelled pictures to a model of their classes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from ._library import Errors, ProgressFunction, ResultStruct, address_of, lib, options, utf8

_EVENTS = ("step", "validation", "epoch", "note", "warning")
_Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Progress:
    """Where a run of training is."""

    event: str
    """"step": an update was made; "validation": `step` of `steps` pictures have been scored; "epoch": an epoch has ended and was scored; "note" and "warning":
    `text` says what."""
    epoch: int
    """From 1; 0 before the first."""
    epochs: int
    step: int
    steps: int
    loss: float
    """Of the training so far in this epoch; of an epoch's end, of the validation part."""
    top1: float
    """A share from 0 to 1, of the same."""
    learning_rate: float
    images_per_s: float
    seconds_left: float
    text: str


@dataclass(frozen=True)
class TrainingResult:
    """What came of a run of training."""

    best_top1: float
    """Of the validation part, of the epoch that was kept: a share from 0 to 1."""
    best_loss: float
    best_epoch: int
    """From 1; 0 where none ended."""
    epochs: int
    """That have ended, over all resumed parts."""
    images_per_s: float
    seconds: float
    bad_pictures: int
    """That could not be read."""
    training_pictures: int
    validation_pictures: int
    classes: int
    stopped: bool
    """Whether the progress function stopped it: `resume=True` goes on from there."""
    model: str
    """The path of the ONNX file."""


class _Teller:
    """Calls the user's function from the thread that trains, and keeps what it raises, which must not pass through C."""

    def __init__(self, function: Optional[Callable[[Progress], Any]]) -> None:
        self.function = function
        self.raised: Optional[BaseException] = None
        self._handler: Any = None
        self._interrupt: Optional[tuple[int, Any]] = None

    def __call__(self, at: Any, _context: Any) -> int:
        if self.raised is not None:
            return 1
        try:
            self._answer_interrupt()
            if self.function is None:
                return 0
            p = at.contents
            event = _EVENTS[p.event] if p.event < len(_EVENTS) else ""
            if not event:
                return 0
            told = Progress(
                event, p.epoch, p.epochs, p.step, p.steps, p.loss, p.top1, p.learning_rate, p.images_per_s, p.seconds_left, p.text.decode(errors="replace")
            )
            return int(self.function(told) is False)
        except BaseException as raised:  # KeyboardInterrupt among them
            self.raised = raised
            return 1

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Answers Ctrl-C where what its handler raises can be kept. Python would answer at any line, that of a call from C among them."""
        self._handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(self._handler):
            yield
            return
        signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, self._handler)
            self._answer_interrupt()

    def _note(self, number: int, frame: Any) -> None:
        self._interrupt = (number, frame)

    def _answer_interrupt(self) -> None:
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            self._handler(*interrupt)


def finetune(
    data: _Path,
    *,
    from_: _Path,
    out: _Path,
    epochs: Optional[int] = None,
    batch: Optional[int] = None,
    lr: Optional[float] = None,
    freeze: Union[str, int, None] = None,
    augment: Optional[str] = None,
    class_weights: Union[str, Sequence[float], None] = None,
    resume: Optional[bool] = None,
    overwrite: Optional[bool] = None,
    device: Optional[str] = None,
    precision: Optional[str] = None,
    threads: Optional[int] = None,
    seed: Optional[int] = None,
    progress: Optional[Callable[[Progress], Any]] = None,
    **more: Any,
) -> TrainingResult:
    """Turns a model and labelled pictures into a model of their classes, as `graft finetune` does.

    `data`: an image folder, an IDX pair, CIFAR files or a CSV file. `from_`: an ONNX file. `out`: the folder that gets model.onnx, checkpoint.safetensors,
    metrics.jsonl and TensorBoard events. Options, `more` among them, are those of the program (docs/finetuning.md), with `_` for `-`; what is None is
    decided by what is trained. `progress` is called from the thread that trains; where it returns False the run writes its checkpoint and ends in order,
    and so it does before an exception of `progress`, or KeyboardInterrupt, is raised here. Other threads run meanwhile. Raises GraftError: data.*, train.*,
    those of loading, checkpoint.*, resume.mismatch, file.write, usage.
    """
    given = {
        "epochs": epochs,
        "batch": batch,
        "lr": lr,
        "freeze": freeze,
        "augment": augment,
        "class_weights": class_weights,
        "resume": resume,
        "overwrite": overwrite,
        "device": device,
        "precision": precision,
        "threads": threads,
        "seed": seed,
        **more,
    }
    how = options(given)
    teller = _Teller(progress)
    called = ProgressFunction(teller)
    result = ResultStruct(size=ctypes.sizeof(ResultStruct))
    try:
        with teller.interruptible():
            Errors().call(lib.finetune, utf8(data), utf8(from_), utf8(out), address_of(how), called, None, ctypes.addressof(result))
    finally:
        if teller.raised is not None:
            raise teller.raised
    return TrainingResult(
        result.best_top1,
        result.best_loss,
        result.best_epoch,
        result.epochs,
        result.images_per_s,
        result.seconds,
        result.bad_pictures,
        result.training_pictures,
        result.validation_pictures,
        result.classes,
        bool(result.stopped),
        os.path.join(os.fsdecode(out), "model.onnx"),
    )
