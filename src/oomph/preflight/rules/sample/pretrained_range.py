"""Images on another scale than the pretrained model was trained on."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule
from oomph.preflight.rules.scaling import computes_first

_BYTES = ("efficientnet", "convnext", "mobilenetv3", "regnet")
"""They scale 0..255 themselves. Source: keras.applications, preprocess_input of each."""
_SIGNED = ("mobilenet", "inception", "xception", "nasnet", "resnet50v2", "resnet101v2", "resnet152v2")
_CAFFE = ("vgg", "resnet50", "resnet101", "resnet152")
_SCALES = ("Rescaling", "Normalization", "Lambda", "TrueDivide", "Multiply", "Subtract")


def _find(training: Training) -> Iterator[Finding]:
    kind, own = _backbone(training)
    for part in training.data.of("x"):
        sample = part.sample
        if (
            not kind
            or own
            or sample is None
            or len(part.shape or ()) != 4
            or sample.maximum is None
            or sample.minimum is None
        ):
            continue
        low, high = sample.minimum, sample.maximum
        wrong = ""
        if kind == "bytes" and high <= 1.01:
            wrong = "takes pixels of 0..255, and scales them itself"
        elif kind == "signed" and high > 2:
            wrong = "takes -1..1"
        elif kind == "caffe" and low >= 0 and high <= 1.01:
            wrong = "takes pixels of 0..255 less their mean"
        if wrong:
            yield Finding(
                f"{part.name} goes from {low:.3g} to {high:.3g}, and the pretrained model {wrong}",
                "Use preprocess_input of its module on images of 0..255",
                "images = keras.applications....preprocess_input(images)",
            )


def _backbone(training: Training) -> tuple[str, bool]:
    """The range of the pretrained model, and whether something before it scales the images."""
    name = training.model.pretrained.lower()
    if not name:
        return "", False
    own = any(layer.kind in _SCALES or not layer.is_keras for layer in training.model.layers[:3])
    kinds = (("bytes", _BYTES), ("signed", _SIGNED), ("caffe", _CAFFE))
    kind = next((kind for kind, names in kinds if name.startswith(names)), "")
    if kind == "bytes":  # it holds layers that scale, so that only what makes pixels larger is the user's own
        own = any(layer.kind == "Rescaling" and _enlarges(layer["scale"]) for layer in training.model.layers[:3])
    return kind, own or computes_first(training.model)


def _enlarges(scale: object) -> bool:
    return isinstance(scale, (int, float)) and scale > 1


RULE = Rule(
    code="CHK420",
    name="pretrained-range",
    severity=WARNING,
    depth=SAMPLE,
    why="Its weights are right for one range only: what it sees is nearly black, or all white.",
    wrong="EfficientNetB0 on images of 0..1",
    right="images of 0..255: the model scales them itself",
    find=_find,
    hides=("image-range", "scaled-twice"),
)
