"""check: what is wrong with a compiled model and its data, before it is trained."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from oomph.errors import ExamineError
from oomph.preflight.document import Checked, as_document, checked_of
from oomph.preflight.examine import examine
from oomph.preflight.facts.fit import FIT
from oomph.preflight.rules import RULES
from oomph.recovery.script.script_line import calling
from oomph.tensorflow.checking.training_facts import training_facts
from oomph.tensorflow.planning.samples import first_batch
from oomph.tensorflow.planning.subject import build
from oomph.tensorflow.state import iterators, training_state
from oomph.tensorflow.state.optimizers import optimizers_of


def check(model: Any, x: Any, y: Any = None, **arguments: Any) -> Checked:
    """Say what is wrong with a training before it begins. Nothing is trained, and nothing is lost.

        found = oomph.check(model, images, labels, epochs=10, validation_split=0.1)
        assert not found.has_errors, found

    A few steps are tried on a few samples. Afterwards the variables and the random generators are what they were; a
    model or an optimizer that was not built is built. A generator is not read, since its elements would be missing
    later.

    Args:
        model: a compiled Keras model.
        x, y: as for `fit`.
        arguments: the others of `fit`: sample_weight, batch_size, epochs, validation_data, callbacks, ...

    Returns:
        The findings. An error means that the training will fail or cannot learn.

    Raises:
        ExamineError: the model is not compiled.
        TypeError: an argument that `fit` does not take.
    """
    if not getattr(model, "compiled", False):
        raise ExamineError("the model is not compiled")
    line, given = calling(), _arguments(model, x, y, arguments)
    is_built = _build(model, given)
    with _untouched(model):
        place = "the model" if line is None else line.site
        training = training_facts(model, FIT, given, place, tries=is_built, ends=False)
    return checked_of(as_document(examine(training, RULES), training))


def _arguments(model: Any, x: Any, y: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every argument of this call of fit by its name; a generator is left out."""
    bound = inspect.signature(model.fit).bind(None if iterators.is_one_pass(x) else x, y, **arguments)
    bound.apply_defaults()
    return dict(bound.arguments)


def _build(model: Any, given: dict[str, Any]) -> bool:
    """Create what fit would create before its first step. Returns whether all of it exists now.

    What a trial creates could not be put back to where the script would have begun.
    """
    if given["x"] is None:
        return False
    try:
        build(model, first_batch(model, given))
    except ExamineError:
        return False  # the rules say why
    return bool(model.built and model.optimizer.built)


@contextmanager
def _untouched(model: Any) -> Iterator[None]:
    """Put the variables and the random generators back at the end of the block."""
    random = training_state.random_state()
    values = [(variable, np.array(variable)) for variable in _variables(model)]
    try:
        yield
    finally:
        for variable, value in values:
            variable.assign(value)
        training_state.restore_random_state(random)


def _variables(model: Any) -> list[Any]:
    slots = [variable for optimizer in optimizers_of(model) for variable in optimizer.variables]
    return [*model.variables, *slots, *model.metrics_variables]
