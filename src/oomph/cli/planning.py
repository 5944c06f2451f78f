"""Has a training planned in the script's process: of `oomph plan` and `oomph run --plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oomph.cli.output import say
from oomph.errors import ExamineError, UsageError

if TYPE_CHECKING:
    from oomph.memory.estimate import Plan
    from oomph.reaching.request import NotReached, Request

_EXAMINER = "oomph.tensorflow.planning.examine:examine"


def request_for(words: Sequence[str], python: str | None, device: dict[str, Any]) -> Request:
    """What `oomph run --plan` asks: the first training with its own batch. Raises UsageError."""
    return request_with(words, python, {"batches": [], "policy": None, "optimizer": None, "device": device}, 1)


def request_with(words: Sequence[str], python: str | None, arguments: dict[str, Any], fit: int) -> Request:
    """What is asked of a script.

    Args:
        words: the script and its arguments.
        python: the Python that the user names.
        arguments: those of the examiner.
        fit: the number of the training.

    Raises:
        UsageError: the script cannot be reached.
    """
    from oomph.memory.counting import counting_environ
    from oomph.reaching.isolated_python import hiding_option
    from oomph.reaching.request import Request
    from oomph.recovery.supervisor.command import parse_command
    from oomph.recovery.supervisor.interpreter import python_of

    command = parse_command(list(words), "plan")
    hiding = hiding_option(command.words[1:]) if command.form == "command" else ""
    if hiding:
        raise UsageError(f"Python's option {hiding} keeps oomph out of the script, which would train: leave it out")
    return Request(command, python_of(command, python, say), _EXAMINER, arguments, fit, counting_environ())


def planned(request: Request) -> Plan:
    """Run the script up to its training and plan that. Raises ExamineError."""
    from oomph.memory.document import plan_of
    from oomph.reaching.reach import reach
    from oomph.reaching.request import NotReached

    found = reach(request)
    if isinstance(found, NotReached):
        raise ExamineError(_why(found, request))
    try:
        return plan_of(found.document)
    except ValueError as error:
        raise ExamineError(f"the plan of {found.training.site} cannot be read: {error}") from error


def _why(found: NotReached, request: Request) -> str:
    """Why nothing was planned, with the Python to use if the script's own lacks TensorFlow."""
    from oomph.recovery.supervisor.interpreter import advise, module_in

    missing = module_in(found.reason)
    python = request.python
    advice = f"; {advise(missing, python, request.command, 'plan')}" if missing and python else ""
    return f"nothing was planned: {found.reason}{advice}"
