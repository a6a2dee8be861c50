"""Classifiers: names and probabilities are the program's to the bit, whatever form a picture comes in."""

import threading

import numpy as np
import pytest
from conftest import DEMO

import graft

MOON, FISH = DEMO / "pictures/moon-1.png", DEMO / "pictures/fish-2.png"


def answers(predictions):
    return [(p.index, p.label, p.probability) for p in predictions]


def as_tuples(results):
    return [[(t["index"], t["label"], t["probability"]) for t in one["top"]] for one in results]


def test_pictures_are_named_as_the_program_names_them(model, program):
    all_of_them = sorted(DEMO.glob("pictures/*.png"))
    said = as_tuples(program("classify", DEMO / "model.onnx", *all_of_them, "--top", 4)["results"])
    assert [answers(one) for one in model.classify(all_of_them, top=4)] == said
    alone = as_tuples(program("classify", DEMO / "model.onnx", MOON, "--top", 3)["results"])[0]
    assert answers(model.classify(MOON, top=3)) == alone
    assert alone[0][1] == "moon"
    assert [found[0].label for found in model.classify(all_of_them, top=1)] == [path.name.split("-")[0] for path in all_of_them]


def test_a_picture_may_be_a_path_its_bytes_or_pixels(model):
    image = pytest.importorskip("PIL.Image")
    expected = model.classify(MOON)
    pixels = np.asarray(image.open(MOON).convert("RGB"))
    for picture in (str(MOON), MOON.read_bytes(), bytearray(MOON.read_bytes()), pixels, image.open(MOON).convert("RGB"), np.asfortranarray(pixels)):
        assert model.classify(picture) == expected
    assert model.classify([MOON, pixels, FISH.read_bytes()]) == [expected, expected, model.classify(FISH)]
    assert model.classify(np.stack([pixels, pixels])) == [expected, expected]
    assert model.classify([]) == []
    gray = pixels[:, :, 0].copy()
    assert model.classify(gray) == model.classify(np.repeat(gray[:, :, None], 3, axis=2))


def test_a_classifier_is_told_labels_and_preprocessing(model, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("\n".join("abcdefgh") + "\n")
    told = model.classifier(labels=names, preprocess="unit,crop=64")
    assert told.labels == tuple("abcdefgh")
    assert "crop=64" in told.preprocess
    assert told.classify(MOON, top=1)[0].label in told.labels
    assert model.classifier().labels[4] == "moon"
    for wrong, code in (({"labels": "none.txt"}, "file.open"), ({"preprocess": "nonsense"}, "usage.preprocess"), ({"output": "none"}, "input.name")):
        with pytest.raises(graft.GraftError) as raised:
            model.classifier(**wrong)
        assert raised.value.code == code


def test_what_is_no_picture_raises(model):
    for wrong, code in (
        (DEMO / "none.png", "image.open"),
        (DEMO / "README.md", "image.unsupported"),
        (MOON.read_bytes()[:100], "image.truncated"),
        (np.zeros((8, 8, 3), np.float32), "usage"),
        (np.zeros((8, 8, 4), np.uint8), "usage"),
        (np.zeros((0, 8, 3), np.uint8), "image.dimensions"),
    ):
        with pytest.raises(graft.GraftError) as raised:
            model.classify(wrong)
        assert raised.value.code == code
    with pytest.raises(graft.GraftError):
        model.classify(MOON, top=0)


def test_eight_threads_classify_by_one_model(model):
    expected, wrong = model.classify(MOON), []

    def work():
        for _ in range(20):
            if model.classify(MOON) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
