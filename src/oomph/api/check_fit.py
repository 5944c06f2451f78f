"""check: finds mistakes in a compiled model and its data before training."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.errors import ExamineError
from oomph.keras_bridge.models import optimizer_variables_of, require_compiled
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.pipelines import datasets
from oomph.keras_bridge.pipelines.rebuilding import linear, rebuilt
from oomph.planning.live.samples import first_batch
from oomph.planning.live.subject import build
from oomph.preflight.document import Checked, as_document, checked_of
from oomph.preflight.live.training_facts import training_facts
from oomph.preflight.rule import examine
from oomph.preflight.rules import RULES
from oomph.reach.request import FIT
from oomph.resume.loop import loops
from oomph.resume.state import iterators, training_state
from oomph.script.script_line import calling


def check(model: Any, x: Any, y: Any = None, **arguments: Any) -> Checked:
    """Find mistakes in the model and its data before training starts. Nothing is trained or lost.

        found = oomph.check(model, images, labels, epochs=10, validation_split=0.1)
        assert not found.has_errors, found

    A few steps are tried on a few samples. Afterwards, the variables and random generators have their original state,
    except that a model or optimizer that was not built is now built. Generators are not read, since their elements
    would be missing later. The same applies to pipelines that change variables, and to those that are reshuffled in
    each epoch and cannot be rebuilt.

    Args:
        model: a compiled Keras model.
        x, y: as for `fit`.
        arguments: any other arguments of `fit`: sample_weight, batch_size, epochs, validation_data, callbacks, ...

    Returns:
        The findings. An error means that training will fail or cannot learn.

    Raises:
        ExamineError: if the model is not compiled.
        TypeError: if `fit` does not accept an argument.
    """
    require_compiled(model)
    line, asked = calling(), _arguments(model, x, y, arguments)
    given = _without_state(asked)
    is_built = _build(model, given)
    with _untouched(model), loops.trying_out():
        place = "the model" if line is None else line.site
        training = training_facts(model, FIT, given, place, tries=is_built, ends=False)
    if asked["validation_data"] is not None:  # it may have been left out above
        training = replace(training, fit=replace(training.fit, has_validation=True))
    return checked_of(as_document(examine(training, RULES), training))


_DATA = ("x", "validation_data")


def _without_state(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, but with copies of pipelines that reading would change, or without these pipelines.

    Reading a pipeline that is reshuffled for every iterator uses up the orders of later epochs. Such a pipeline is
    copied; a pipeline that cannot be rebuilt, or that changes variables, is left out.
    """
    random = training_state.random_state()
    pipelines_of = {name: given[name] for name in _DATA if isinstance(given.get(name), tf.data.Dataset)}
    copies = {name: _copy(each) for name, each in pipelines_of.items()}
    training_state.restore_random_state(random)
    return given | copies


def _copy(dataset: Any) -> Any:
    if datasets.changes_variables(dataset):
        return None
    if not datasets.shuffles(dataset):
        return dataset
    made = rebuilt(linear(dataset), {})
    shares = made is not None and datasets.shuffles(linear(made)[0])
    return None if shares else made


def _arguments(model: Any, x: Any, y: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments of this call to `fit` by name, leaving out `x` if it is a generator."""
    signature = inspect.signature(inspect.unwrap(KERAS.trainer.value().fit))
    bound = signature.bind(model, None if iterators.is_one_pass(x) else x, y, **arguments)
    bound.apply_defaults()
    return dict(list(bound.arguments.items())[1:])


def _build(model: Any, given: dict[str, Any]) -> bool:
    """Create the variables that `fit` would create before its first step; return True if all of them now exist.

    A variable created during a trial step could not be reset to its initial value.
    """
    if given["x"] is None:
        return False
    try:
        build(model, first_batch(model, given))
    except ExamineError:
        return False  # the rules will report the reason
    return bool(model.built and model.optimizer.built)


@contextmanager
def _untouched(model: Any) -> Iterator[None]:
    """Restore the variables and random generators when the block exits."""
    random = training_state.random_state()
    values = [(variable, np.array(variable)) for variable in _variables(model)]
    try:
        yield
    finally:
        for variable, value in values:
            variable.assign(value)
        training_state.restore_random_state(random)


def _variables(model: Any) -> list[Any]:
    return [*model.variables, *optimizer_variables_of(model), *model.metrics_variables]
