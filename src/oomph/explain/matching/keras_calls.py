"""Recognises an error by the function of Keras that refuses a call, whatever its words. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from oomph.explain.catalogue.fault import Remedy
from oomph.explain.evidence.tracebacks import package
from oomph.explain.facts.fact import LogFacts
from oomph.explain.public_names.table import keras_names
from oomph.files.patterns import lazy_pattern

_REFUSALS = frozenset({"TypeError", "ValueError", "AttributeError", "NotImplementedError", "RuntimeError"})
_OF_KERAS = frozenset({"keras", "tf_keras", "tensorflow"})
_CALLED = lazy_pattern(
    r"(?:(?P<owner>[A-Z]\w{1,60})\.)?(?P<function>[a-z]\w{2,60})\(\) "
    r"(?P<what>got multiple values|takes|missing|got an?)\b"
)
_OVERRIDDEN = frozenset(
    {"call", "build", "get_config", "from_config", "train_step", "test_step", "compute_output_shape", "compute_loss"}
)
"""Methods that programs define themselves, so that the error may be about their own."""
_OWNERS = ("layers.Layer", "Model", "optimizers.Optimizer", "metrics.Metric", "callbacks.Callback")
_PARAMETER = lazy_pattern(r"`(?P<parameter>[a-z]\w{2,40})`(?: argument| as a list)")
_TAKES_PARAMETERS = ("keras.Model.compile", "keras.Model.fit", "keras.Model.evaluate", "keras.Model.predict")
_SHUFFLED = "got multiple values"


class RefusedCall(NamedTuple):
    """A function of Keras that does not accept its arguments."""

    function: str
    """Its name, such as "Layer.add_weight"."""
    is_shuffled: bool = False
    """True if it takes its arguments in another order than the caller, as releases do."""


def refused_call(facts: LogFacts) -> RefusedCall | None:
    """Return the function of Keras that refused a call, or None if the last error is about something else."""
    message = " ".join(facts.error.message) if facts.error else ""
    called = _CALLED.search(message)
    if called is not None and (name := _of_keras(called["owner"] or "", called["function"])):
        return RefusedCall(name, called["what"] == _SHUFFLED)
    if (found := _PARAMETER.search(message)) is not None:
        names = keras_names()
        taking = (each for each in _TAKES_PARAMETERS if names.lifetime(each, found["parameter"]) is not None)
        if (function := next(taking, None)) is not None:
            return RefusedCall(function.removeprefix("keras."))
    return None


def is_raised_by_keras(facts: LogFacts) -> bool:
    """True if the innermost frame of the traceback is in Keras or TensorFlow, or if they refused a call."""
    inner, own = facts.library_place, facts.own_place
    if facts.error is None or facts.error.type_name not in _REFUSALS:
        return False
    if inner is not None and package(inner.file) in _OF_KERAS and (own is None or (own.line or 0) < (inner.line or 0)):
        return True
    return refused_call(facts) is not None


def call_remedy(facts: LogFacts) -> Remedy | None:
    """Return how to call a function whose arguments have another order in this release, or None."""
    refused = refused_call(facts)
    if refused is None or not refused.is_shuffled:
        return None
    method = refused.function.rpartition(".")[2]
    return Remedy(
        f"Give {method} its arguments by name, {method}(name=..., shape=...): their order is not the same in all "
        f"releases of Keras"
        if method == "add_weight"
        else f"Give {method} its arguments by name: their order is not the same in all releases of Keras"
    )


def _of_keras(owner: str, function: str) -> str:
    if function in _OVERRIDDEN:
        return ""
    names = keras_names()
    if owner:
        return f"{owner}.{function}" if next(names.ending_in(f"{owner}.{function}"), None) else ""
    holders = (each for each in _OWNERS if names.lifetime(f"keras.{each}.{function}") is not None)
    holder = next(holders, "")
    return f"{re.sub(r'.*[.]', '', holder)}.{function}" if holder else ""
