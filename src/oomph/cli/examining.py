"""Examines training in the script's own process, for `oomph check`, `oomph plan`, and these options of `oomph run`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oomph.cli.output import say
from oomph.errors import ExamineError, OomphError, UsageError

if TYPE_CHECKING:
    from oomph.planning.plan import Plan
    from oomph.preflight.document import Checked
    from oomph.reach.request import NotReached, ReachRequest, TrainingReached


class EndedWhileExaminedError(ExamineError):
    """Raised if the script's process exits while it is being examined.

    Args:
        doing: what the examiner was doing.
    """

    def __init__(self, said: str, doing: str) -> None:
        super().__init__(said)
        self.doing = doing


def _request(
    verb: str, words: Sequence[str], python: str | None, arguments: Mapping[str, Any], fit: int,
    examiner: str, environ: Mapping[str, str],
) -> ReachRequest:  # fmt: skip
    """Build a request for a script; `arguments` are passed to the examiner. Raises UsageError for a bad command."""
    from oomph.process.command import parse_command
    from oomph.reach.guards import hiding_option
    from oomph.reach.request import ReachRequest
    from oomph.run.supervisor.interpreter import python_of

    command = parse_command(list(words), verb)
    hiding = hiding_option(command.words[1:]) if command.form == "command" else ""
    if hiding:
        raise UsageError(
            f"Python's option {hiding} keeps oomph out of the script, so the training would run for real: leave it out"
        )
    return ReachRequest(command, python_of(command, python, say), examiner, arguments, fit, environ)


def examined(request: ReachRequest, verb: str, done: str) -> TrainingReached:
    """Run the script up to its training and examine it. Raises ExamineError if that fails.

    Args:
        done: what would have been done, for the error message: "checked" or "planned".
    """
    from oomph.reach.reach import reach
    from oomph.reach.request import NotReached

    found = reach(request)
    if isinstance(found, NotReached):
        said = _why(found, request, verb, done)
        raise EndedWhileExaminedError(said, found.doing) if found.doing else ExamineError(said)
    return found


def _why(found: NotReached, request: ReachRequest, verb: str, done: str) -> str:
    """Return the reason why nothing was done, and a Python to use instead if the script's Python lacks TensorFlow."""
    from oomph.run.supervisor.interpreter import advise, module_in

    missing, python = module_in(found.reason), request.python
    advice = f"; {advise(missing, python, request.command, verb)}" if missing and python else ""
    return f"nothing was {done}: {found.reason}{advice}"


# -- oomph check ------------------------------------------------------------------------------------------------------


_CHECKER = "oomph.preflight.live.examine:examine"


def check_request(
    words: Sequence[str], python: str | None, fit: int = 1, *, full: bool = False, tune: bool = False
) -> ReachRequest:
    """Build a request to check a script. Raises UsageError if its training cannot be reached.

    Args:
        words: the script and its arguments.
        python: the Python that the user specified, if any.
        fit: which fit to check, counted from 1.
        full: whether to read all of the data.
        tune: whether to try changes to the pipeline.
    """
    from oomph.planning.device import counting_environ, device_of, pool_of

    device = pool_of(os.environ) or device_of(None, os.environ, lambda text: None)
    arguments = {"full": full, "tune": tune, "device": device}
    return _request("check", words, python, arguments, fit, _CHECKER, counting_environ() if device else {})


def checked(request: ReachRequest) -> tuple[dict[str, Any], Checked]:
    """Run the script up to its training and check it. Returns the findings as JSON and as values.

    Raises ExamineError.
    """
    from oomph.preflight.document import checked_of

    found = examined(request, "check", "checked")
    try:
        return dict(found.document), checked_of(found.document)
    except ValueError as error:
        raise ExamineError(f"the findings at {found.training.site} cannot be read: {error}") from error


def show_findings(words: Sequence[str], python: str | None) -> None:
    """Run the script up to its first training to check it, and print a line for each finding. Never stops the run."""
    try:
        _, found = checked(check_request(words, python))
    except OomphError as error:
        say(f"--check has no effect: {error}")
        return
    for each in found.found:
        remedy = f"; {each.remedies[0]}" if each.remedies else ""
        say(f"{each.severity}: {each.name} ({each.code}): {each.message}{remedy}")
    if not found.found:
        say(f"checked {found.place}: nothing found; examined {found.looked_at}")


# -- oomph plan -------------------------------------------------------------------------------------------------------


_IDLE_BYTES = 1 << 30
"""The most bytes that may be in use on an idle GPU; the driver and a desktop use less than that."""
_PLANNER = "oomph.planning.live.examine:examine"


def plan_request(words: Sequence[str], python: str | None, arguments: dict[str, Any], fit: int) -> ReachRequest:
    """Build a request to plan a script; `arguments` are passed to the examiner. Raises UsageError for a bad command."""
    from oomph.planning.device import counting_environ

    device, is_idle = arguments["device"], False
    if device is not None and device.get("is_card", True):
        arguments, is_idle = arguments | {"probe": True, "kept": _kept(device["name"])}, _is_idle()
    return _request("plan", words, python, arguments, fit, _PLANNER, counting_environ(is_idle))


def planned(request: ReachRequest) -> Plan:
    """Run the script up to its training and plan it. Raises ExamineError.

    A step on the GPU may crash the script's process, for example if a library is incompatible with the driver. The plan
    is then repeated without such steps.
    """
    from oomph.planning.batch_sizes import PROBING
    from oomph.planning.plan import plan_of

    try:
        found = examined(request, "plan", "planned")
    except EndedWhileExaminedError as error:
        if not error.doing.startswith(PROBING):
            raise
        say(f"{error}, while {error.doing}; planning again without it")
        without = replace(request, arguments={**request.arguments, "probe": False})
        found = examined(without, "plan", "planned")
    if (probed := found.document.get("probed")) is not None:
        _keep(probed)
    try:
        return plan_of(found.document)
    except ValueError as error:
        raise ExamineError(f"the plan of {found.training.site} cannot be read: {error}") from error


def _is_idle() -> bool:
    """True if this machine has GPUs, and none of them appears to be in use."""
    from oomph.gpu.question import installed

    found, _ = installed(os.environ)
    return bool(found) and all(gpu.used_bytes < _IDLE_BYTES for gpu in found)


def _kept(gpu: str) -> list[dict[str, Any]]:
    """Return the measurements from earlier plans on this kind of GPU, as JSON."""
    from oomph.cli.kept_probes import kept_for
    from oomph.planning.probe_record import as_document

    return [as_document(record) for record in kept_for(gpu, os.environ, say)]


def _keep(probed: object) -> None:
    """Save this plan's measurements for later plans."""
    from oomph.cli.kept_probes import keep
    from oomph.planning.probe_record import record_of

    try:
        keep(record_of(probed), os.environ, say)
    except ValueError as error:
        say(f"the measurements cannot be kept for later plans: {error}")


def planned_micro_batch(words: Sequence[str], python: str | None) -> int | None:
    """Return the largest micro-batch size that fits this run's device, for the script's first training.

    If the full batch fits or planning is impossible, prints a message and returns None, and the run starts as if there
    were no plan.
    """
    from oomph.planning.device import device_of, pool_of

    try:
        device = pool_of(os.environ) or device_of(None, os.environ, say)
        if device is None:
            say("--plan has no effect: there is no GPU here, and no limit for the CPU's memory pool")
            return None
        own_batch: dict[str, Any] = {"batches": [], "policy": None, "optimizer": None, "device": device}
        plan = planned(plan_request(words, python, own_batch, 1))
    except OomphError as error:
        say(f"--plan has no effect: {error}")
        return None
    if plan.max_batch is None:
        say(f"--plan has no effect: {plan.why_open or 'it is not known which batch fits'}")
        return None
    if plan.batch <= plan.max_batch:
        say(f"the batch of {plan.batch} at {plan.place} should fit, as should any up to {plan.max_batch:,}")
        return None
    if not plan.micro_batch:
        say(f"even micro-batches of one sample may not fit at {plan.place}; the run starts as if without --plan")
        return None
    say(f"the batch of {plan.batch} at {plan.place} may not fit: it is trained in micro-batches of {plan.micro_batch}")
    return plan.micro_batch
