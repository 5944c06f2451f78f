"""Asks once, in a child process that may hang or die, which GPUs are here and how much memory they have."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from oomph.gpu.question import Question

_LIMIT_SECONDS = 5.0


class Installed(NamedTuple):
    """One GPU of this machine."""

    name: str
    total_bytes: int
    used_bytes: int = 0
    """The bytes that all processes and the driver hold now."""


def installed(environ: Mapping[str, str]) -> tuple[tuple[Installed, ...], str]:
    """The GPUs that the script may see, and why there are none or fewer; empty if all answered."""
    answer = Question("ask_nvml.py", (), environ, bare=False).answer(time.monotonic() + _LIMIT_SECONDS, _LIMIT_SECONDS)
    found = [
        Installed(str(row["name"]), int(row["total_bytes"]), int(row.get("used_bytes") or 0))
        for row in answer.rows
        if row.get("name") and row.get("total_bytes")
    ]
    problem = answer.problem or str(answer.facts.get("unavailable") or answer.facts.get("error") or "")
    return tuple(_visible(found, environ.get("CUDA_VISIBLE_DEVICES"))), problem


def _visible(found: list[Installed], visible: str | None) -> list[Installed]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES lists by number; all if it is unset or names them otherwise."""
    if visible is None:
        return found
    numbers = [each.strip() for each in visible.split(",")]
    if not all(number.isdigit() for number in numbers):
        return [] if numbers[0] in ("", "-1") else found
    return [found[int(number)] for number in numbers if int(number) < len(found)]
