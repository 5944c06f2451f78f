"""Names what grows in a leak, from censuses of the script's process and the memory of its children. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from oomph.monitor.census import Census, Holding
from oomph.monitor.growth import Point
from oomph.monitor.outlook import amount

_RISES, _STEADY = 4, 0.7
"""The minimum number of rises between consecutive censuses, and their minimum share of all transitions."""
_MAINLY, _PARTLY = 0.5, 0.2
"""The minimum shares of memory growth that a container must explain to be named before, and after, objects that are
only counted."""
_BYTES_RISE = 1.01
_COUNTED = ("figure", "model", "tape", "writer", "thread", "dataset", "iterator", "optimizer", "graph")
"""Objects that healthy training does not accumulate. Earlier ones hold later ones: a model has graphs."""
_LEAST_COUNT = 4
_LEAST_OBJECTS = 64
_SMALL_ITEM, _LARGE_ITEM = 1 << 10, 16 << 10
_KEEPING = ("list", "dict", "set", "deque", "queue", "cache")
_PLAIN = ("", "int", "float", "bool", "str", "bytes", "NoneType", "float32", "float64", "int64")
_FEWEST_KEPT, _MOST_KEPT = 0.25, 1.5
"""The minimum and maximum number of items that a container gains with each new counted object that it keeps."""
_LEVELLING = 0.5
"""The maximum ratio of late to early growth, per step, of a container that is levelling off."""
_FEWEST_MOVED, _MOST_MOVED = 0.7, 1.4
"""The number of items that a container loses for each one that another gains, if they move from one to the other."""
_CHILD_SHARE = 0.6
_LEAST_CHILDREN = 4
_LEAST_CENSUSES = 6
"""The number of censuses that suffice to say that nothing in Python grows."""

CauseKind = Literal["counted", "kept by key", "container", "buffer", "child", "unknown"]


@dataclass(frozen=True)
class LeakCause:
    """The cause of a leak, and what to do about it."""

    kind: CauseKind
    """The kind of evidence: objects that are counted; the same, but kept in a dict that the script searches before it
    adds to it, so that the keys may be few; a container or array; the same, but limited by the script, which is
    probably a buffer; a child process; nothing that Python knows of."""
    what: str
    """The kind of holding: "figure", "list", …"""
    name: str
    text: str
    """A clause: "the list Recorder.outputs now has 1,200 items"."""
    remedy: str
    since: float = 0.0
    until: float = 0.0
    """The Unix times of the first and the last census that show it growing."""
    resident_growth: float = 0.0
    tensor_growth: float = 0.0
    """The growth of the process's memory and of its tensors between these, in bytes."""
    still_to_come: float | None = None
    """The bytes that it will still take until it is full, if it has a limit."""


@dataclass(frozen=True)
class ProcessGrowth:
    """The memory of one of the script's processes over time."""

    pid: int
    name: str
    is_script: bool
    points: Sequence[Point]
    """Its proportional share of memory, as (time, bytes), oldest first."""

    @property
    def grown(self) -> float:
        """The growth, in bytes, from the first reading to the last."""
        return self.points[-1][1] - self.points[0][1] if len(self.points) > 1 else 0.0


@dataclass(frozen=True)
class _Rising:
    """A holding that has been growing, from the first of some consecutive censuses to the last."""

    first: Holding
    last: Holding
    begin: Census
    end: Census
    is_levelling_off: bool
    """True if it grew much less per step of late than at first, as a vocabulary does once most words were seen."""
    moved_from: Holding | None
    """A container that has lost as many items, as a pool of samples does that are labelled one after another."""

    @property
    def bytes(self) -> int:
        return self.last.bytes - self.first.bytes

    @property
    def count(self) -> int:
        return self.last.count - self.first.count

    @property
    def memory(self) -> float:
        """The growth of memory meanwhile, in bytes."""
        return max(_resident(self), _tensors(self), 1.0)


def cause_of(censuses: Sequence[Census], processes: Sequence[ProcessGrowth] = ()) -> LeakCause | None:
    """Name what grows, or return None if too little is known.

    Args:
        censuses: those of one process, oldest first.
        processes: the processes of the script, if there are several.
    """
    child = _child(processes)
    if child is not None:
        return child
    rising = list(_all_rising(censuses))
    named = _main_container(rising, _MAINLY) or _counted(rising) or _main_container(rising, _PARTLY) or _objects(rising)
    if named is not None:
        return _cause(named, _kept_in(named, rising))
    return _UNSEEN if len(censuses) >= _LEAST_CENSUSES else None


# -- what rises -------------------------------------------------------------------------------------------------------


def _all_rising(censuses: Sequence[Census]) -> Iterator[_Rising]:
    if len(censuses) <= _RISES:
        return
    by_key = [{_key(each): each for each in census.holdings} for census in censuses]
    for key in by_key[-1]:
        first = len(censuses) - 1
        while first and key in by_key[first - 1] and not _fell(by_key[first - 1][key], by_key[first][key]):
            first -= 1
        seen = [each[key] for each in by_key[first:]]
        rises = sum(_rose(*pair) for pair in pairwise(seen))
        if rises >= _RISES and rises >= _STEADY * (len(seen) - 1) and _rose(seen[-3], seen[-1]):
            begin, end = censuses[first], censuses[-1]
            levels = _is_levelling_off(seen, [each.step for each in censuses[first:]])
            moved = _moved_from(seen[-1].count - seen[0].count, begin, end)
            yield _Rising(seen[0], seen[-1], begin, end, levels, moved)


def _key(holding: Holding) -> tuple[str, str]:
    return holding.kind, "" if holding.kind in _COUNTED or holding.kind == "tensor" else holding.name


def _fell(before: Holding, after: Holding) -> bool:
    return after.count < before.count or after.bytes * _BYTES_RISE < before.bytes


def _rose(before: Holding, after: Holding) -> bool:
    return after.count > before.count or after.bytes > before.bytes * _BYTES_RISE


def _is_levelling_off(seen: Sequence[Holding], steps: Sequence[int]) -> bool:
    half = (steps[0] + steps[-1]) / 2
    middle = min(range(1, len(seen) - 1), key=lambda place: abs(steps[place] - half))
    if not steps[0] < steps[middle] < steps[-1]:
        return False
    sizes = [each.bytes or each.count for each in seen]
    early = (sizes[middle] - sizes[0]) / (steps[middle] - steps[0])
    late = (sizes[-1] - sizes[middle]) / (steps[-1] - steps[middle])
    return late < _LEVELLING * early


def _moved_from(added: int, begin: Census, end: Census) -> Holding | None:
    """Return the container that has lost as many items as were added elsewhere, if there is one."""
    before = {_key(each): each.count for each in begin.holdings}
    for each in end.holdings:
        lost = before.get(_key(each), 0) - each.count
        if each.kind in _KEEPING and added > 0 and _FEWEST_MOVED <= lost / added <= _MOST_MOVED:
            return each
    return None


def _main_container(rising: Sequence[_Rising], share: float) -> _Rising | None:
    """Return the container or array that explains the most growth, if that is at least this share.

    A container that has become larger without new items contains the one that grows.
    """
    found = [each for each in rising if each.bytes >= share * each.memory]
    return max(found, key=lambda each: (each.count > 0 or each.last.kind == "array", each.bytes), default=None)


def _counted(rising: Sequence[_Rising]) -> _Rising | None:
    found = {each.last.kind: each for each in rising if each.last.kind in _COUNTED and each.count >= _LEAST_COUNT}
    return next((found[kind] for kind in _COUNTED if kind in found), None)


def _objects(rising: Sequence[_Rising]) -> _Rising | None:
    """Return the objects of the script's own types, or else the tensors, that have become many more."""
    found = [each for each in rising if each.last.kind in ("object", "tensor") and each.count >= _LEAST_OBJECTS]
    return max(found, key=lambda each: (each.last.kind == "object", each.count), default=None)


def _kept_in(counted: _Rising, rising: Sequence[_Rising]) -> Holding | None:
    """Return the container that most likely keeps counted objects: it holds objects, and as many have been added.

    Objects of other counted kinds may have been added with them: five datasets in a row make one pipeline, of which a
    script keeps only the iterator.
    """
    if counted.last.kind not in _COUNTED:
        return None
    added = [each.count for each in rising if each.last.kind in _COUNTED and each.count > 0]
    found = [
        (min(abs(each.count - count) for count in added), each.last) for each in rising
        if each.last.kind in _KEEPING and each.last.items not in _PLAIN
        and any(_FEWEST_KEPT <= each.count / count <= _MOST_KEPT for count in added)
    ]  # fmt: skip
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _resident(rising: _Rising) -> float:
    return rising.end.resident_bytes - rising.begin.resident_bytes


def _tensors(rising: _Rising) -> float:
    return (rising.end.tensor_bytes or 0.0) - (rising.begin.tensor_bytes or 0.0)


# -- in words ---------------------------------------------------------------------------------------------------------


def _cause(rising: _Rising, kept_in: Holding | None) -> LeakCause:
    last = rising.last
    keeping = f"; {_NOUNS[kept_in.kind]} {kept_in.name} has grown with them" if kept_in is not None else ""
    kind: CauseKind = "counted" if last.kind in _COUNTED else "container"
    is_buffer = last.limit is not None or (last.is_bounded and not _is_beyond_first_epoch(rising))
    if kept_in is not None and kept_in.is_bounded:
        is_buffer |= kept_in.kind != "dict"
        kind = "kept by key"
    if is_buffer or (kind == "container" and (rising.is_levelling_off or rising.moved_from is not None)):
        kind = "buffer"
    return LeakCause(
        kind,
        last.kind,
        last.name,
        f"{_in_words(last)}{keeping}",
        _remedy(last),
        rising.begin.time,
        rising.end.time,
        _resident(rising),
        _tensors(rising),
        _still_to_come(rising),
    )


def _still_to_come(rising: _Rising) -> float | None:
    last, each = rising.last, rising.last.bytes / max(rising.last.count, 1)
    if last.limit is not None:
        return each * max(last.limit - last.count, 0)
    return None if rising.moved_from is None else each * rising.moved_from.count


def _is_beyond_first_epoch(rising: _Rising) -> bool:
    """True if a container that is searched before it grows still grows after a whole epoch, unlike a cache of data."""
    return rising.last.kind in ("dict", "cache", "cycle") and rising.end.epoch - rising.begin.epoch >= 2


_NOUNS = {
    "list": "the list",
    "dict": "the dict",
    "set": "the set",
    "deque": "the deque",
    "queue": "the queue",
    "cache": "the cache of",
    "cycle": "itertools.cycle, as",
    "array": "the array",
}
_MANY = {
    "figure": "matplotlib figures are open",
    "model": "models are alive",
    "optimizer": "optimizers are alive",
    "tape": "gradient tapes are alive",
    "dataset": "datasets are alive",
    "iterator": "dataset iterators are alive",
    "writer": "writers and files are open",
    "thread": "threads are alive",
    "tensor": "tensors are alive",
}


def _in_words(holding: Holding) -> str:
    kind, count = holding.kind, f"{holding.count:,}"
    if kind in _MANY:
        return f"{count} {_MANY[kind]}"
    if kind == "graph":
        return f"{count} graphs are kept, most of them of {holding.name}"
    if kind == "object":
        return f"{count} objects of the type {holding.name} are alive"
    if kind == "array":
        return f"the array {holding.name} has grown to {amount(holding.bytes)}"
    of_type = f" of type {holding.items}" if holding.items else ""
    return f"{_NOUNS[kind]} {holding.name} has grown to {count} items{of_type}, {amount(holding.bytes)}"


_REMEDIES: Mapping[str, str] = {
    "figure": "Close each figure once it is saved: plt.close(fig), or plt.close('all') at the end of each epoch",
    "model": "Train each model in a process of its own, which frees everything when it ends; or free each one before "
    "the next is built: keep its score or a file with its weights, del model, keras.backend.clear_session()",
    "optimizer": "Keep no optimizers, whose moments are twice as large as the model: compile the model once, and set "
    "model.optimizer.learning_rate",
    "tape": "Do not keep gradient tapes: open each one within its step, and del a persistent tape after use",
    "dataset": "Create the dataset once, before the loop, instead of in each step or epoch",
    "iterator": "Create the iterator once, iter(dataset), instead of in each step, and do not keep old ones",
    "graph": "Define the tf.function once, outside the loop, and call it with tensors of one shape and dtype instead "
    "of Python numbers, or set reduce_retracing=True: each new value is a new graph that is never freed",
    "writer": "Create each writer or file once, before the loop, and close it",
    "thread": "End each thread before the next is started, or use one pool for all",
    "queue": "Limit the queue, queue.Queue(maxsize=100), so that the producer waits for the consumer",
    "cache": "Limit the cache: functools.lru_cache(maxsize=1000)",
    "cycle": "itertools.cycle keeps every item of its first round: begin the source anew instead, "
    "while True: yield from batches()",
    "dict": "Remove entries that are no longer needed, or limit their number",
    "set": "Remove items that are no longer needed",
    "deque": "Give the deque a limit: collections.deque(maxlen=1000)",
    "array": "Do not append to an array in each step: write each part to a file, or keep only a summary",
    "object": "Find what refers to these objects: gc.get_referrers(one of them)",
    "tensor": "Keep numbers instead of tensors, float(loss), and do not capture tensors in lambdas or callbacks",
}
_KERAS_STEP = "one_step_on"
"""The beginning of the names of the functions that Keras traces for each model. TensorFlow 2.21 keeps two
graphs of each even after `clear_session` (measured with Keras 3.15)."""
_SCALARS = "Keep numbers instead of tensors: append float(loss), not loss"
_OUTPUTS = "Do not keep the outputs of each step or epoch: compute the score from them at once, or write them to a file"
_ITEMS = "Remove items that are no longer needed, or keep only the last ones: collections.deque(maxlen=1000)"


def _remedy(holding: Holding) -> str:
    if holding.kind == "graph" and holding.name.startswith(_KERAS_STEP):
        return _REMEDIES["model"]
    if holding.kind != "list":
        return _REMEDIES[holding.kind]
    each = holding.bytes / max(holding.count, 1)
    if holding.items == "EagerTensor" and each < _SMALL_ITEM:
        return _SCALARS
    return _OUTPUTS if each >= _LARGE_ITEM or holding.items in ("EagerTensor", "ndarray") else _ITEMS


_UNSEEN = LeakCause(
    "unknown",
    "",
    "",
    "nothing that Python holds grows with it",
    "Look at memory outside Python: Dataset.cache() without a file name, large shuffle() buffers, and native libraries",
)


# -- child processes --------------------------------------------------------------------------------------------------

_CHILD_REMEDY = (
    "Look at what this child process keeps: give workers arrays instead of lists of Python objects, and replace them "
    "now and then, multiprocessing.Pool(maxtasksperchild=100)"
)
_CHILDREN_REMEDY = "End child processes that are no longer needed: close and join each pool, or create it only once"


def _child(processes: Sequence[ProcessGrowth]) -> LeakCause | None:
    """Return the child process, or the new child processes together, that most growth is due to."""
    total = sum(max(each.grown, 0.0) for each in processes)
    children = [each for each in processes if not each.is_script]
    if not children:
        return None
    begin = min(each.points[0][0] for each in processes)
    new = [each for each in children if each.points[0][0] > begin]
    held, grown = sum(each.points[-1][1] for each in new), sum(max(each.grown, 0.0) for each in children)
    largest = max(children, key=lambda each: each.grown)
    since, until = largest.points[0][0], largest.points[-1][0]
    if total > 0 and grown >= _CHILD_SHARE * total and _rises_often(largest.points):
        others = ", and others have grown too" if grown > 2 * largest.grown else ""
        text = f"child process {largest.pid} ({largest.name}) has grown by {amount(largest.grown)}{others}"
        return LeakCause("child", "child", str(largest.pid), text, _CHILD_REMEDY, since, until, grown)
    if len(new) >= _LEAST_CHILDREN and held >= _CHILD_SHARE * (held + max(total, 0.0)):
        text = f"{len(new)} child processes have been added and hold {amount(held)}"
        return LeakCause("child", "children", "", text, _CHILDREN_REMEDY, begin, until, held)
    return None


def _rises_often(points: Sequence[Point]) -> bool:
    rises = sum(after > before for (_, before), (_, after) in pairwise(points))
    return rises >= _RISES and rises >= _STEADY * (len(points) - 1)
