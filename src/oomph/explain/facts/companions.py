"""The packages that build on TensorFlow and Keras, and which of their generations each needs. Pure.

One row for each package. "Keras 2" is the Keras of TensorFlow up to 2.15, or the package tf_keras with a later one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from oomph.explain.facts.version_range import Version
from oomph.files.patterns import lazy_pattern


class Companion(NamedTuple):
    """A package that builds on TensorFlow or Keras."""

    package: str
    """Its name in the package index."""
    folder: str
    """The name by which a program imports it."""
    keras_3_since: Version | None = None
    """Its first release that works with Keras 3; None if it only works with Keras 2."""
    keras_2_until: Version | None = None
    """Its last release that works with Keras 2, or None if all do."""
    same_as_tensorflow: bool = False
    """True if each release belongs to the release of TensorFlow with the same first two numbers."""
    successor: str = ""
    """The package to use in its place, as it is no longer maintained."""
    also: str = ""
    """The further thing to do, in the way of this package."""
    aliases: tuple[str, ...] = ()
    """The short name that programs give it, and names that only it has."""


_ANY: Version = (0,)

COMPANIONS = (
    Companion("alibi", "alibi"),
    Companion("autokeras", "autokeras", (2,)),
    Companion("coremltools", "coremltools"),
    Companion("csbdeep", "csbdeep", (0, 8, 1)),
    Companion("deepctr", "deepctr"),
    Companion("deepface", "deepface"),
    Companion("efficientnet", "efficientnet"),
    Companion("horovod", "horovod", aliases=("hvd",)),
    Companion("keras-contrib", "keras_contrib", successor="tf_keras or your own copy of the layer"),
    Companion("keras-cv", "keras_cv", (0, 6), successor="keras-hub"),
    Companion("keras-hub", "keras_hub", _ANY, (0,)),
    Companion("keras-nlp", "keras_nlp", (0, 6), successor="keras-hub"),
    Companion("keras-rl2", "rl"),
    Companion("keras-tuner", "keras_tuner", (1, 4)),
    Companion("keras2onnx", "keras2onnx", successor="tf2onnx"),
    Companion("onnx2keras", "onnx2keras"),
    Companion("qkeras", "qkeras"),
    Companion("ray", "ray"),
    Companion("retina-face", "retinaface"),
    Companion("scikeras", "scikeras", (0, 13), (0, 12)),
    Companion("segmentation-models", "segmentation_models", also="set SM_FRAMEWORK=tf.keras too"),
    Companion("spektral", "spektral"),
    Companion(
        "tensorflow-addons",
        "tensorflow_addons",
        aliases=("tfa",),
        successor="the layers, losses and optimizers of Keras itself",
    ),
    Companion("tensorflow-decision-forests", "tensorflow_decision_forests", aliases=("tfdf",)),
    Companion("tensorflow-hub", "tensorflow_hub"),
    Companion(
        "tensorflow-model-optimization",
        "tensorflow_model_optimization",
        aliases=("tfmot", "prune_low_magnitude", "quantize_annotate_layer", "quantize_model"),
    ),
    Companion("tensorflow-probability", "tensorflow_probability", aliases=("tfp", "DistributionLambda")),
    Companion("tensorflow-ranking", "tensorflow_ranking"),
    Companion("tensorflow-recommenders", "tensorflow_recommenders", aliases=("tfrs",)),
    Companion("tensorflow-similarity", "tensorflow_similarity"),
    Companion("tensorflow-text", "tensorflow_text", _ANY, same_as_tensorflow=True),
    Companion("tensorflowjs", "tensorflowjs", aliases=("tfjs",), also="save the model with it, and convert that"),
    Companion("tf-agents", "tf_agents"),
    Companion("tf-models-official", "official"),
    Companion("tf2onnx", "tf2onnx", also="or convert a SavedModel, written by model.export(path)"),
    Companion("transformers", "transformers"),
)
_BY_NAME = {
    name.lower(): each
    for each in COMPANIONS
    for name in (each.folder, each.package, each.package.replace("-", "_"), *each.aliases)
}
_LONG = "|".join(
    re.sub(r"[-_]", "[-_ ]", name)
    for name in sorted(_BY_NAME, key=len, reverse=True)
    if name not in ("ray", "rl", "official", "alibi") and "-" not in name
)
NAMES = rf"(?:{_LONG})"
"""A regular expression for their names, without those that are plain words."""
_MENTIONED = lazy_pattern(rf"(?<![\w.-])(?P<name>{NAMES})(?![\w-])", re.IGNORECASE)
_STARTS = lazy_pattern(
    r"(?i)eras|ensor|onnx|horovod|hvd|csbdeep|transformers|coreml|deep|tf[_-]|tf[mpdrja]|retina|effic|segm|spek"
    r"|prune_low|quantize_|DistributionL"
)
WORDS = frozenset(
    {"horovod", "Horovod", "csbdeep", "CSBDeep", "scikeras", "tensorflowjs", "transformers", "coremltools", "deepface"}
    | {"onnx", "deepctr", "retinaface", "efficientnet", "spektral", "qkeras", "autokeras", "segmentation"}
    | {"tfmot", "tfp", "tfdf", "tfrs", "tfjs", "hvd", "tfa", "prune", "quantize"}
)
"""Words in lines that name them."""


@cache
def companion(name: str) -> Companion | None:
    """Return the companion that has this name in the index or in a program, or None."""
    return _BY_NAME.get(name.lower().replace(" ", "_"))


@cache
def companion_folders() -> frozenset[str]:
    """Return the names by which programs import them."""
    return frozenset(each.folder for each in COMPANIONS)


def mentioned_in(text: str) -> list[Companion]:
    """Return the companions that a line names."""
    if _STARTS.search(text) is None:
        return []
    return [each for found in _MENTIONED.finditer(text) if (each := companion(found["name"])) is not None]
