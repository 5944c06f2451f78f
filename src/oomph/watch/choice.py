"""The effect of keys in the live view. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from oomph.watch.view import GpuView

ORDERS: Mapping[str, Callable[[GpuView], float]] = MappingProxyType(
    {
        "index": lambda gpu: gpu.index,
        "memory": lambda gpu: -gpu.values.get("memory_used_bytes", 0.0),
        "use": lambda gpu: -gpu.values.get("utilization_ratio", 0.0),
        "temperature": lambda gpu: -gpu.values.get("temperature_celsius", 0.0),
    }
)
"""The name of each order → the key that sorts the GPUs."""


@dataclass(frozen=True)
class ViewChoice:
    """The user's choices."""

    paused: bool = False
    order: str = "index"
    quits: bool = False

    def sorted(self, gpus: Sequence[GpuView]) -> list[GpuView]:
        """The GPUs in the chosen order."""
        return sorted(gpus, key=ORDERS[self.order])


def pressed(choice: ViewChoice, key: str) -> ViewChoice:
    """The choice after a key; other keys change nothing."""
    if key in ("q", "Q"):
        return replace(choice, quits=True)
    if key in ("p", "P"):
        return replace(choice, paused=not choice.paused)
    if key in ("s", "S"):
        orders = list(ORDERS)
        return replace(choice, order=orders[(orders.index(choice.order) + 1) % len(orders)])
    return choice
