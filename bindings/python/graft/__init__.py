"""Runs and fine-tunes ONNX image models.

    model = graft.load("model.onnx")
    scores = model.run({"input": pictures})["scores"]    # numpy in, numpy out, without copies
    print(model.classify("photo.jpg", top=3))
    graft.finetune("photos/", from_="model.onnx", out="tuned", epochs=10)
"""

from ._classifier import Classifier, Evaluation, Picture, Prediction
from ._finetune import Progress, TrainingResult, finetune
from ._library import GraftError, version
from ._model import Model, Value, load

__version__ = version()

__all__ = ["Classifier", "Evaluation", "GraftError", "Model", "Picture", "Prediction", "Progress", "TrainingResult", "Value", "finetune", "load"]
