"""The memory of a run's processes by name, in few enough curves for one chart. Pure.

A script may start any number of short-lived processes, so its children are added up by name: the largest names get
curves of their own, and the rest share one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from oomph.monitor.census import is_name

_MOST_NAMES = 5
"""The number of names of children that get a curve of their own."""
_MOST_AT_ONCE = 20
"""The number of names to keep of one moment: a smaller one is not among the largest of the run."""
_MOST = 1 << 63

TOGETHER, SCRIPT, OTHERS = "process.resident_bytes", "process.script_bytes", "process.other_children_bytes"
"""The keys of the curves of all processes, of the script's own one, and of the children without a curve."""
_CHILDREN = "children."


class Listing(NamedTuple):
    """The processes of the script at one moment, in bytes that add up: shared pages are divided among them."""

    script: int
    children: Mapping[str, int]
    """Maps each of the largest names to the memory of all children with that name."""
    others: int = 0
    """The memory of the children with other names."""

    def by_curve(self, names: Iterable[str]) -> dict[str, int]:
        """Return the value of each curve, if the children with these names have curves of their own."""
        own = {key_of(name): self.children.get(name, 0) for name in names}
        return {SCRIPT: self.script, **own, OTHERS: sum(self.children.values()) + self.others - sum(own.values())}


def listing_of(processes: Sequence[Sequence[Any]]) -> Listing:
    """Read the list of processes in a sample, which may come from elsewhere. Raises TypeError if it is none."""
    script, children = 0, Counter[str]()
    for _, size, name, is_script in processes:
        if type(size) is not int or not 0 <= size < _MOST:
            raise TypeError("not a size in bytes")
        if is_script == 1:
            script += size
        else:
            children[name if is_name(name) else "process"] += size
    kept = dict(children.most_common(_MOST_AT_ONCE))
    return Listing(script, kept, children.total() - sum(kept.values()))


def largest(listings: Iterable[Listing]) -> tuple[str, ...]:
    """Return the names of the children whose memory was largest at any moment, the largest first."""
    peaks: dict[str, int] = {}
    for listing in listings:
        for name, size in listing.children.items():
            peaks[name] = max(size, peaks.get(name, 0))
    return tuple(sorted(peaks, key=lambda name: (-peaks[name], name))[:_MOST_NAMES])


def key_of(name: str) -> str:
    """Return the key of the curve of the children with this name."""
    return f"{_CHILDREN}{name}"
