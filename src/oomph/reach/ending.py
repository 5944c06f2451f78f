"""Explains why a script was not examined, based on how it ended. Pure."""

from __future__ import annotations

import re
import signal

from oomph.process.held_back import head_of
from oomph.reach.request import Heard, NotReached, ReachRequest, TrainingReached
from oomph.reach.script_output import is_noise, without_nodes
from oomph.terminal.amounts import counted
from oomph.terminal.endings import ProcessEnd
from oomph.terminal.wrapping import shortened

_ERROR = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt|Warning|Iteration)\b(?::|\Z)")
_REFUSED = re.compile(r"\S{1,200}: error: |oomph: ")
"""Matches messages in which argparse rejects the script's arguments, or oomph refuses to continue in its process."""
_OUT_OF_MEMORY = re.compile(r"[\w.]{0,200}(?:ResourceExhaustedError|MemoryError)\b")
_ELSEWHERE = "use a machine with more memory, or a smaller model"
_NONE_SEEN = (
    "the script exited without training: it never called Keras' fit, train_on_batch or a Keras optimizer's step; a "
    "loop that assigns weights itself would have run for real"
)
_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_LONGEST = 300


def outcome(heard: Heard, returncode: int | None, output: bytes, request: ReachRequest) -> TrainingReached | NotReached:
    """Return the outcome of running the script.

    Args:
        heard: the reports of the script's processes.
        returncode: the return code of its first process, as in `subprocess`; None if oomph killed it.
        output: the last part of its output.
        request: the request to examine a training call.
    """
    before = heard.trained
    if heard.answered and heard.examining is not None:
        answer = heard.answer()
        if answer is not None:
            return TrainingReached(heard.examining, answer, before)
        return NotReached("examiner", f"the answer about {heard.examining.site} is damaged", before)
    if heard.failed:
        where = "" if heard.examining is None else f" at {heard.examining.site}"
        return NotReached("examiner", f"the examination{where} failed: {heard.failed}", before)
    if heard.unsupported:
        return NotReached("unsupported", heard.unsupported, before)
    if heard.examining is not None:
        how = f"{ProcessEnd(returncode).predicate}{_of_memory(returncode)}" if returncode is not None else "ended"
        reason = f"the process being examined at {heard.examining.site} {how}"
        return NotReached("examiner", reason, before, heard.progress)
    if returncode is None:
        return NotReached("limit", f"the script did not reach {_goal(request)} in time", before)
    return _before_the_training(heard, returncode, output, request)


def ran_out(heard: Heard, took: str, request: ReachRequest) -> NotReached:
    """Return the outcome for a script killed for using too much of the machine's memory; `took` states how much."""
    if heard.examining is not None:
        while_ = f" while {heard.progress}" if heard.progress else ""
        reason = f"the process being examined at {heard.examining.site} used {took}{while_}, and was killed"
        return NotReached("examiner", reason, heard.trained, heard.progress)
    return NotReached(
        "failed", f"the script used {took} before {_goal(request)}, and was killed; {_ELSEWHERE}", heard.trained
    )


def hidden(heard: Heard, process: str) -> NotReached:
    """Return the outcome for a script killed because `process`, one of its processes, uses TensorFlow without oomph."""
    reason = (
        f"{process} uses TensorFlow where oomph cannot stop training, and was killed: start it with the script's "
        "environment, and without Python's options -I, -E and -S"
    )
    return NotReached("unsupported", reason, heard.trained)


def _before_the_training(heard: Heard, returncode: int, output: bytes, request: ReachRequest) -> NotReached:
    goal, before = _goal(request), heard.trained
    if returncode != 0:
        return NotReached("failed", _why_it_failed(returncode, output, goal), before)
    if not heard.joined:
        return NotReached("no training", "the script did not start a Python process that oomph could join", before)
    if request.fit > 1 and before:
        count = counted(len(before), "training call")
        return NotReached(
            "no training", f"the script exited after {count}: there is no training call {request.fit}", before
        )
    return NotReached("no training", _NONE_SEEN, before)


def may_be_a_crash(returncode: int | None) -> bool:
    """True if native code may have crashed the script, so that its last output is worth reading."""
    return returncode is None or returncode in {code for signum in _CRASHES for code in (-signum, 128 + signum)}


def _why_it_failed(returncode: int, output: bytes, goal: str) -> str:
    said = last_error(output)
    if _OUT_OF_MEMORY.match(said):
        what = said.partition(": ")[2]
        told = f": {what}" if what else ""
        return f"the script ran out of this machine's memory before {goal}{told}; {_ELSEWHERE}"
    if said:
        return f"the script {ProcessEnd(returncode).predicate} before {goal}: {said}"
    if returncode == 1:  # `sys.exit("text")` prints the text
        last = _last_line(output)
        return f"the script ended with exit code 1 before {goal}{f'; its last line was: {last}' if last else ''}"
    how = f"ended with exit code {returncode}" if returncode > 0 else ProcessEnd(returncode).predicate
    return f"the script {how} before {goal}{_of_memory(returncode)}"


def _of_memory(returncode: int) -> str:
    """Return the likely cause of a SIGKILL that nothing in the script explains; empty for any other ending."""
    is_killed = returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    return f", as happens when the machine runs out of memory: if so, {_ELSEWHERE}" if is_killed else ""


def _goal(request: ReachRequest) -> str:
    return "its first training call" if request.fit == 1 else f"training call {request.fit}"


def last_error(output: bytes) -> str:
    """Return the line with the last error: an exception, a rejected option or a fatal abort; empty if there is none."""
    errors = [line for line in _lines(output) if _ERROR.match(line) or _REFUSED.match(line)]
    fatal = [line for line in output.splitlines() if (head := head_of(line)) is not None and head.severity == b"F"]
    return shortened((errors or [line.decode(errors="replace") for line in fatal] or [""])[-1], _LONGEST)


def _last_line(output: bytes) -> str:
    """Return the last line that is neither indented nor from native code."""
    return shortened(([line for line in _lines(output) if not line.startswith((" ", "\t"))] or [""])[-1], _LONGEST)


def _lines(output: bytes) -> list[str]:
    """Return the script's own lines, without the names of graph operations."""
    own = [line for line in output.splitlines() if line.strip() and not is_noise(line)]
    return [without_nodes(line.decode(errors="replace").rstrip()) for line in own]
