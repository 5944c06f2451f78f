"""Why a script was not examined, from how it ended. Pure."""

from __future__ import annotations

import re
import signal

from oomph.reaching.heard import Heard
from oomph.reaching.request import NotReached, Reached, Request
from oomph.recovery.report.amounts import counted

_ERROR = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt|Warning|Iteration)\b(?::|\Z)")
_LONGEST = 300


def outcome(heard: Heard, returncode: int | None, output: bytes, request: Request) -> Reached | NotReached:
    """What became of the script.

    Args:
        heard: what its processes have reported.
        returncode: how its first process ended, as `subprocess` has it; None if oomph ended it.
        output: the end of what it has written.
        request: what was asked.
    """
    before = heard.trained
    if heard.answered and heard.examining is not None:
        answer = heard.answer()
        if answer is not None:
            return Reached(heard.examining, answer, before)
        return NotReached("examiner", f"the answer about {heard.examining.site} is damaged", before)
    if heard.failed:
        where = "" if heard.examining is None else f" at {heard.examining.site}"
        return NotReached("examiner", f"the examination{where} failed: {heard.failed}", before)
    if heard.unsupported:
        return NotReached("unsupported", heard.unsupported, before)
    if heard.examining is not None:
        how = _ended(returncode) if returncode is not None else "ended"
        return NotReached("examiner", f"the process that was examined at {heard.examining.site} {how}", before)
    if returncode is None:
        return NotReached("limit", f"the script has not reached {_goal(request)} in time", before)
    return _before_the_training(heard, returncode, output, request)


def _before_the_training(heard: Heard, returncode: int, output: bytes, request: Request) -> NotReached:
    goal, before = _goal(request), heard.trained
    if returncode != 0:
        said = last_error(output)
        how = _ended(returncode)
        return NotReached("failed", f"the script {how} before {goal}" + (f": {said}" if said else ""), before)
    if not heard.joined:
        return NotReached("no training", "no Python that oomph could join was started", before)
    if request.fit > 1 and before:
        count = counted(len(before), "training")
        return NotReached("no training", f"the script ended after {count}: there is no number {request.fit}", before)
    return NotReached("no training", "the script ended without a training: it calls no fit of Keras", before)


def _goal(request: Request) -> str:
    return "its first training" if request.fit == 1 else f"its training number {request.fit}"


def _ended(returncode: int) -> str:
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"


def last_error(output: bytes) -> str:
    """The line that names the last error; failing that, the last line that is not indented."""
    lines = [line.rstrip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    plain = [line for line in lines if not line.startswith((" ", "\t"))]
    return (errors or plain or [""])[-1][:_LONGEST]
