"""Checks a training that has been reached. Runs in the script's process, which ends afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.check.document import as_document
from oomph.check.examine import examine as apply
from oomph.check.rules import RULES
from oomph.errors import ExamineError
from oomph.tensorflow.checking.reading import Limits
from oomph.tensorflow.checking.training_facts import training_facts
from oomph.tensorflow.reaching.reached import Reached

_FULL = Limits(seconds=float("inf"), size=1 << 60, batches=1 << 60, samples=1 << 60)


def examine(reached: Reached, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is wrong with a training, as JSON.

    Args:
        reached: the training.
        arguments: `full`: whether all of the data are read.

    Raises:
        ExamineError: it cannot be checked; the message says why.
    """
    if reached.model is None:
        raise ExamineError("no model holds the weights that the optimizer updates")
    place = reached.place.site if reached.place is not None else reached.kind
    limits = _FULL if arguments.get("full") else Limits()
    training = training_facts(
        reached.model, reached.kind, reached.fit_arguments, place, limits, reached.tell, optimizer=reached.optimizer
    )
    return as_document(apply(training, RULES), training)
