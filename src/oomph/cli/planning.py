"""Has a training planned in the script's process: of `oomph plan` and `oomph run --plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oomph.cli import examining
from oomph.errors import ExamineError

if TYPE_CHECKING:
    from oomph.memory.estimate import Plan
    from oomph.reaching.request import Request

_EXAMINER = "oomph.tensorflow.planning.examine:examine"


def request_for(words: Sequence[str], python: str | None, device: dict[str, Any]) -> Request:
    """What `oomph run --plan` asks: the first training with its own batch. Raises UsageError."""
    return request_with(words, python, {"batches": [], "policy": None, "optimizer": None, "device": device}, 1)


def request_with(words: Sequence[str], python: str | None, arguments: dict[str, Any], fit: int) -> Request:
    """What is asked of a script; `arguments` are those of the examiner. Raises UsageError."""
    from oomph.memory.counting import counting_environ

    return examining.request_with("plan", words, python, arguments, fit, _EXAMINER, counting_environ())


def planned(request: Request) -> Plan:
    """Run the script up to its training and plan that. Raises ExamineError."""
    from oomph.memory.document import plan_of

    found = examining.examined(request, "plan", "planned")
    try:
        return plan_of(found.document)
    except ValueError as error:
        raise ExamineError(f"the plan of {found.training.site} cannot be read: {error}") from error
