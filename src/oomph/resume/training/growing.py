"""Growing: notices that each checkpoint is larger than the one before because an object of the script grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from oomph.resume.objects.picture import Changes
from oomph.resume.objects.values import Value
from oomph.resume.state.training_state import Array
from oomph.terminal.amounts import as_size

_LEAST_BYTES = 8 << 20
_IN_A_ROW = 3
"""This many ever larger checkpoints in a row count as growth; a buffer that fills up stops growing earlier."""

Sizes = Mapping[str, int]
"""The bytes that the script's objects take in a checkpoint, by the name of the object that holds them."""


class Growing:
    """The sizes of the script's objects in the last checkpoints."""

    def __init__(self) -> None:
        self._last: list[Sizes] = []

    def noted(self, sizes: Sizes) -> str:
        """Add the sizes of one more checkpoint; return a message about what grows, or an empty string."""
        self._last = [*self._last, sizes][-_IN_A_ROW:]
        return growth(self._last)


def growth(last: Sequence[Sizes]) -> str:
    """Describe what has grown in each of the last checkpoints; empty if nothing has, or only a little."""
    if len(last) < _IN_A_ROW:
        return ""
    grown = {name: size - last[0].get(name, 0) for name, size in last[-1].items() if _grows(name, last)}
    name = max(grown, key=lambda each: grown[each], default="")
    if not name or grown[name] < _LEAST_BYTES:
        return ""
    each = as_size(grown[name] // (len(last) - 1))
    return (
        f"checkpoints grow by {each} each: {name} holds {as_size(last[-1][name])} by now; what it no longer needs"
        " belongs in a file"
    )


def _grows(name: str, last: Sequence[Sizes]) -> bool:
    sizes = [each.get(name, 0) for each in last]
    return all(before < after for before, after in pairwise(sizes))


def sizes_of(changes: Changes, arrays: Iterable[Array] = (), names: Mapping[str, Sequence[str]] | None = None) -> Sizes:
    """The bytes that changed objects take, by the name of the object that holds them.

    Args:
        arrays: the other arrays of a checkpoint.
        names: by prefix of an array's name, the holders; the number after the prefix is an index into them.
    """
    found: Counter[str] = Counter()
    for key, content in [*changes.changed.items(), *((key, made) for key, (_, made) in changes.new.items())]:
        found[_holder(key)] += changes.arrays[key].nbytes if key in changes.arrays else _weight(content)
    for under, known in (names or {}).items():
        for array in arrays:
            if array.name.startswith(under):
                found[known[int(array.name.removeprefix(under).partition("/")[0])]] += array.nbytes
    return found


def _holder(key: str) -> str:
    """The name of an item's holder: "callback Own.images" for "callback Own.images[7]"."""
    return key.partition("[")[0]


def _weight(content: Value) -> int:
    """The rough size of a content in bytes."""
    if type(content) is tuple:
        return sum(map(_weight, content))
    return len(content) if type(content) in (bytes, str) else 8
