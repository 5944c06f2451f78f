"""Plans a training in the script's process, for `oomph plan` and `oomph run --plan`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oomph.cli import examining
from oomph.cli.output import say
from oomph.errors import ExamineError

if TYPE_CHECKING:
    from oomph.planning.plan import Plan
    from oomph.reach.request import ReachRequest

_IDLE_BYTES = 1 << 30
"""The bytes in use of an idle GPU, at most: the driver and a desktop hold less."""
_EXAMINER = "oomph.planning.live.examine:examine"


def request_for(words: Sequence[str], python: str | None, device: dict[str, Any]) -> ReachRequest:
    """The request of `oomph run --plan`: the first training with its own batch. Raises UsageError."""
    return request_with(words, python, {"batches": [], "policy": None, "optimizer": None, "device": device}, 1)


def request_with(words: Sequence[str], python: str | None, arguments: dict[str, Any], fit: int) -> ReachRequest:
    """The request for a script; `arguments` are the examiner's. Raises UsageError."""
    from oomph.planning.device import counting_environ

    device, is_idle = arguments["device"], False
    if device is not None and device.get("is_card", True):
        arguments, is_idle = arguments | {"probe": True, "kept": _kept(device["name"])}, _is_idle()
    return examining.request_with("plan", words, python, arguments, fit, _EXAMINER, counting_environ(is_idle))


def planned(request: ReachRequest) -> Plan:
    """Run the script up to its training and plan it. Raises ExamineError.

    A step on the GPU may end the script's process, as with a library that does not fit the driver. Then plan once more,
    without such steps.
    """
    from oomph.planning.batch_sizes import PROBING
    from oomph.planning.plan import plan_of

    try:
        found = examining.examined(request, "plan", "planned")
    except examining.EndedWhileExaminedError as error:
        if not error.doing.startswith(PROBING):
            raise
        say(f"{error}, while {error.doing}; planning once more without that")
        without = replace(request, arguments={**request.arguments, "probe": False})
        found = examining.examined(without, "plan", "planned")
    _keep(found.document.get("probed"))
    try:
        return plan_of(found.document)
    except ValueError as error:
        raise ExamineError(f"the plan of {found.training.site} cannot be read: {error}") from error


def _is_idle() -> bool:
    """True if nobody trains on a GPU of this machine."""
    from oomph.gpu.installed import installed

    found, _ = installed(os.environ)
    return bool(found) and all(gpu.used_bytes < _IDLE_BYTES for gpu in found)


def _kept(gpu: str) -> list[dict[str, Any]]:
    """Measurements of earlier plans on GPUs of this kind, as JSON."""
    from oomph.cli.kept_probes import kept_for
    from oomph.planning.probe_record import as_document

    return [as_document(record) for record in kept_for(gpu, os.environ, say)]


def _keep(probed: object) -> None:
    """Keep what this plan has measured, if it has measured anything."""
    from oomph.cli.kept_probes import keep
    from oomph.planning.probe_record import record_of

    if probed is None:
        return
    try:
        keep(record_of(probed), os.environ, say)
    except ValueError as error:
        say(f"what was measured is not kept for later plans: {error}")
