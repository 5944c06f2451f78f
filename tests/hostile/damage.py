"""Strategies: the input that a program of ours may find where it expects something that it wrote itself."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

VICTIM = "victim"
"""The name of a file outside the input, which nobody may write to."""
_WORDS = (
    "", ".", "..", "/", "../victim", "../outside/victim", "/dev/zero", "a/b", "\x00", "\x1b[2J\x1b]0;x\x07", "\ud800",
    "nan", "-1", "%s%n", "{0.__class__}", "1" * 5000, "x" * 3000, "\u202e", "finished", "exact", "restart",
    "older-checkpoint", "micro-batch", "step-000004-fit0-epoch2-step0", "2024-01-01", "True", "null",
)  # fmt: skip
_NUMBERS = (
    0, -1, 1, 2, -5, 10**9, 10**12, -(10**12), 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30,
    10**300, 10**4000, 1.5, -0.0, 1e308, math.inf, -math.inf, math.nan,
)  # fmt: skip

odd = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(_NUMBERS), st.sampled_from(_WORDS), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=6,
)
"""Any value that JSON can represent, especially the troublesome ones."""
nested = st.sampled_from((2, 50, 3000, 100_000)).map(lambda depth: "[" * depth + "]" * depth)


def as_text(document: Any) -> str:
    """JSON, including numbers that Python's parser accepts although the standard does not define them."""
    return json.dumps(document, ensure_ascii=True)


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """A copy in which up to three values are changed, removed or added."""
    changed = [copy.deepcopy(document)]
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(list(_places(changed))))
        kind = draw(st.sampled_from(("other", "other", "other", "gone", "new")))
        if kind == "gone" and container is not changed:
            del container[key]
        elif kind == "new" and isinstance(container, dict):
            container[draw(st.text(max_size=8))] = draw(odd)
        else:
            container[key] = draw(odd)
    return changed[0]


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """The contents truncated, with some bytes changed, or with others inserted."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(changed) - 1, 0)))
        kind = draw(st.sampled_from(("cut", "change", "change", "large", "insert", "repeat")))
        if kind == "cut":
            del changed[place:]
        elif kind == "change":
            changed[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
        elif kind == "large":
            changed[place : place + 8] = draw(st.sampled_from((b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f")))
        elif kind == "insert":
            changed[place:place] = draw(st.binary(max_size=40))
        else:
            changed[place:place] = changed[:place] * draw(st.integers(1, 3))
    return bytes(changed[: len(content) * 8 + 4096])


@st.composite
def damaged_lines(draw: st.DrawFn, lines: Sequence[str]) -> bytes:
    """JSON lines of which one or two are damaged, as documents or as bytes, or which are reordered."""
    changed = [line.encode() for line in lines]
    for _ in range(draw(st.integers(1, 2))):
        number = draw(st.integers(0, len(changed) - 1))
        if draw(st.booleans()):
            changed[number] = as_text(draw(damaged(json.loads(lines[number])))).encode()
        else:
            changed[number] = draw(
                st.one_of(damaged_bytes(changed[number]), nested.map(str.encode), st.binary(max_size=60))
            )
    if draw(st.booleans()):
        changed = draw(st.permutations(changed))
    return b"\n".join(changed) + draw(st.sampled_from((b"\n", b"", b"\r\n", b"\n\n\n")))


def _places(container: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(container) if isinstance(container, dict) else range(len(container))
    for key in keys:
        yield container, key
        if isinstance(container[key], (dict, list)) and container[key]:
            yield from _places(container[key])
