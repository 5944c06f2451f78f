"""The part of a device's memory that a training may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.planning.estimate import Device
from oomph.planning.gpu_costs import usable


def limit_of(asked: Mapping[str, Any] | None) -> Device | None:
    """The device that a request describes by `name`, `memory` in bytes, `capability`, `is_card` and `is_gpu`."""
    if asked is None:
        return None
    memory, is_card = int(asked["memory"]), bool(asked.get("is_card", True))
    capability = str(asked.get("capability", ""))
    limit = usable(memory, capability, is_card)
    return Device(asked["name"], memory, limit, is_card, bool(asked.get("is_gpu", True)), capability)
