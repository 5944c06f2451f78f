"""Tells if a GPU is fast with bfloat16, and warns if a training uses it on one that is not. Pure.

Source: NVIDIA, CUDA C++ Programming Guide, "Arithmetic Instructions" and "Element Types and Matrix Sizes": tensor cores
take bfloat16 from compute capability 8.0 on.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.planning.estimate import Device

_BFLOAT16 = 8.0
"""The lowest compute capability of a GPU that is fast with bfloat16."""


def suits_bfloat16(device: Device | None) -> bool:
    """True if the device is fast with bfloat16, as far as is known."""
    number = _number(device)
    return number is None or number >= _BFLOAT16


def warnings(device: Device | None, policies: Iterable[str]) -> tuple[str, ...]:
    """Warnings about these dtype policies on this device, one sentence each."""
    if device is None or suits_bfloat16(device):
        return ()
    names = sorted({name for name in policies if "bfloat16" in name})
    if not names:
        return ()
    return (
        f"{device.name} (compute capability {device.capability}) has no fast arithmetic with bfloat16, which takes 8.0 "
        f"(Ampere) or newer: {names[0]} saves memory, and is slow; use mixed_float16.",
    )


def _number(device: Device | None) -> float | None:
    try:
        return float(device.capability) if device is not None else None
    except ValueError:
        return None  # the capability is not known
