"""What `oomph check` says of the memory, in a line: the plan where there is a device to fit, else what is held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.keras_bridge.optimizers import optimizers_of
from oomph.planning.document import plan_of
from oomph.planning.estimate import Fits, Plan
from oomph.planning.live import subject
from oomph.planning.live.examine import examine as plan
from oomph.reach.live.reached import Reached
from oomph.terminal.amounts import as_size

_WORDS = {Fits.YES: "should fit", Fits.NO: "does not fit", Fits.UNKNOWN: "may or may not fit"}


def held_line(model: Any) -> str:
    """What a training holds all the time, as far as it exists: in a sentence without a final stop."""
    is_built = all(getattr(optimizer, "built", True) for optimizer in optimizers_of(model))
    words = "weights and optimizer" if is_built else "weights, without the slots of the optimizer,"
    return f"{words} take {_as_size(subject.held_by(model).total)}; oomph plan says which batch fits a GPU"


def planned_line(reached: Reached, device: Mapping[str, Any]) -> str:
    """What a step of it takes beside what the device has: in a sentence without a final stop."""
    try:
        return _planned(plan_of(plan(reached, {"batches": [], "device": device, "is_brief": True})))
    except Exception as error:  # the plan is a line of the check, not a reason to fail it
        return f"not planned: {' '.join(str(error).split()) or type(error).__name__}"


def _planned(found: Plan) -> str:
    estimate = found.estimates[-1]
    name = found.device.name if found.device is not None else "the device"
    largest = f"; the largest batch that should: {found.max_batch:,}" if found.max_batch else ""
    needs = f"a batch of {estimate.batch} needs about {_as_size(estimate.peak.expected)}"
    return f"{needs}: it {_WORDS[estimate.fits]} {name}{largest}"


def _as_size(size: int) -> str:
    return as_size(size, "KiB", 1 if size >= 1 << 20 else 0)
