"""The limit of TensorFlow's memory pool on the CPU, which the environment sets, as evidence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SWITCH, _LIMIT = "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB"
_LONGEST = 20


def limit_in_words(environ: Mapping[str, Any]) -> str:
    """The pool's limit as a shell would set the variable; empty where the pool has none."""
    switch, limit = environ.get(_SWITCH), environ.get(_LIMIT)
    if switch not in ("1", "true", "True") or type(limit) is not str or not limit[:_LONGEST].isdigit():
        return ""
    return f"{_LIMIT}={limit[:_LONGEST]}"
