"""Examines a training in the script's process, for `oomph plan`, `oomph check` and their forms of `oomph run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oomph.cli.output import say
from oomph.errors import ExamineError, UsageError

if TYPE_CHECKING:
    from oomph.reach.request import NotReached, ReachRequest, TrainingReached


class EndedWhileExaminedError(ExamineError):
    """The script's process ended while it was examined; `doing` is what the examiner was doing."""

    def __init__(self, said: str, doing: str) -> None:
        super().__init__(said)
        self.doing = doing


def request_with(
    verb: str, words: Sequence[str], python: str | None, arguments: Mapping[str, Any], fit: int,
    examiner: str, environ: Mapping[str, str],
) -> ReachRequest:  # fmt: skip
    """The request for a script.

    Args:
        verb: the verb that asks, for messages.
        words: the script and its arguments.
        python: the Python that the user names.
        arguments: those of the examiner.
        fit: the number of the training.
        examiner: what examines it, "package.module:function".
        environ: environment variables for the script, where the user has not set them.

    Raises:
        UsageError: the script cannot be reached.
    """
    from oomph.process.command import parse_command
    from oomph.reach.guards import hiding_option
    from oomph.reach.request import ReachRequest
    from oomph.run.supervisor.interpreter import python_of

    command = parse_command(list(words), verb)
    hiding = hiding_option(command.words[1:]) if command.form == "command" else ""
    if hiding:
        raise UsageError(f"Python's option {hiding} keeps oomph out of the script, which would train: leave it out")
    return ReachRequest(command, python_of(command, python, say), examiner, arguments, fit, environ)


def examined(request: ReachRequest, verb: str, done: str) -> TrainingReached:
    """Run the script up to its training and examine it. Raises ExamineError if nothing was `done`."""
    from oomph.reach.reach import reach
    from oomph.reach.request import NotReached

    found = reach(request)
    if isinstance(found, NotReached):
        said = _why(found, request, verb, done)
        raise EndedWhileExaminedError(said, found.doing) if found.doing else ExamineError(said)
    return found


def _why(found: NotReached, request: ReachRequest, verb: str, done: str) -> str:
    """The reason nothing was done, and a Python to use if the script's lacks TensorFlow."""
    from oomph.run.supervisor.interpreter import advise, module_in

    missing = module_in(found.reason)
    python = request.python
    advice = f"; {advise(missing, python, request.command, verb)}" if missing and python else ""
    return f"nothing was {done}: {found.reason}{advice}"
