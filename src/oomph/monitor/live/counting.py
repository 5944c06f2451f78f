"""Takes censuses of this process, but only while its memory grows, and so rarely that they cost little.

A census walks all objects that Python tracks. That takes half a second of a training whose objects are no longer in the
processor's caches (measured). It is taken between two steps, once memory has grown by a few megabytes.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress
from types import ModuleType
from typing import Any

from oomph.monitor.census import MOST_HOLDINGS, Census, Holding, Kind, is_name
from oomph.monitor.code_limits import CodeLimits, limits_in
from oomph.monitor.live.holdings import bases_of, module_of, name_of, user_modules
from oomph.monitor.live.holdings import holdings as containers_of
from oomph.process.available_memory import available_bytes
from oomph.script.sources import own_files

_GROWN_BYTES = 16 << 20
"""The growth since the last census that is worth another one."""
_SETTLED_SECONDS = 5.0
"""The time, in seconds, after the first step: until then, memory grows because training starts."""
_LEAST_SECONDS, _COST = 1.5, 200
"""The minimum time between two censuses, in seconds, and as a multiple of the CPU time that one takes (0.5 %)."""
_URGENT_SHARE, _URGENT_COST = 0.02, 3
"""The growth since the last census, as a share of the free memory, after which the next one may follow sooner, so that
a fast leak is named in time, and the multiple of its CPU time after which it does."""
_URGENT_SECONDS, _URGENT_OF_TIME = 4.0, 0.01
"""The CPU time that may be spent on censuses that follow sooner: in seconds, plus a share of the time since the first
step."""
_WALK_SECONDS = 0.25
_MOST_TYPES = 6
"""The number of the script's own types to report."""
_POPULATIONS: Mapping[str, Kind] = {
    "matplotlib.figure.Figure": "figure",
    "keras.src.models.model.Model": "model",
    "keras.src.optimizers.base_optimizer.BaseOptimizer": "optimizer",
    "tensorflow.python.eager.backprop.GradientTape": "tape",
    "tensorflow.python.data.ops.dataset_ops.DatasetV2": "dataset",
    "tensorflow.python.data.ops.iterator_ops.OwnedIterator": "iterator",
    "tensorflow.python.framework.func_graph.FuncGraph": "graph",
    "tensorflow.python.ops.summary_ops_v2.SummaryWriter": "writer",
    "tensorflow.python.lib.io.tf_record.TFRecordWriter": "writer",
    "_io.TextIOWrapper": "writer",
    "_io.BufferedWriter": "writer",
    "threading.Thread": "thread",
    "tensorflow.python.framework.ops.EagerTensor": "tensor",
}
"""Maps the full names of classes to the kind of their objects, and of those of their subclasses."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Counting:
    """Decides when a census is due, and takes it."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._cpu = clock, cpu
        self._begun = clock()
        self._next_look = self._due = self._begun + _SETTLED_SECONDS
        self._urgently_due = self._due
        self._spent = 0.0
        """The CPU time of all censuses so far, in seconds."""
        self._floors: tuple[float, float] | None = None
        """The resident memory and the memory of tensors at the last census, or lower readings since."""
        self._limits: tuple[int, CodeLimits] = (-1, CodeLimits())
        """The number of the script's files, and the containers that they limit."""

    def census(
        self, step: int, epoch: int, tensor_bytes: float | None, tensor_limit: float | None = None
    ) -> Census | None:
        """Return a census if one is due and memory has grown.

        Args:
            step: the number of steps completed.
            epoch: the current epoch, counted from 1.
            tensor_bytes: the memory that TensorFlow's allocator has in use, if it reports that.
            tensor_limit: the most memory that it can have in use, if there is a limit.
        """
        began = self._clock()
        if began < self._next_look:
            return None
        self._next_look = began + 1.0
        now = (resident_bytes(), tensor_bytes or 0.0)
        if self._floors is None:
            self._floors = now
        self._floors = (min(now[0], self._floors[0]), min(now[1], self._floors[1]))
        if not self._is_due(began, now, tensor_limit):
            return None
        self._floors, started = now, self._cpu()
        try:
            holdings = self._holdings()
        except Exception:  # the script's objects may be of any kind; the other measurements go on
            self._next_look = math.inf
            return None
        spent = self._cpu() - started
        self._spent += spent
        self._due = began + max(_LEAST_SECONDS, _COST * spent)
        self._urgently_due = began + max(_LEAST_SECONDS, _URGENT_COST * spent)
        return Census(time.time(), os.getpid(), step, epoch, now[0], tensor_bytes, holdings)

    def _is_due(self, at: float, now: tuple[float, float], tensor_limit: float | None) -> bool:
        grown = [value - floor for value, floor in zip(now, self._floors or now, strict=True)]
        if max(grown) < _GROWN_BYTES or at < self._urgently_due:
            return False
        if at >= self._due:
            return True
        if self._spent >= _URGENT_SECONDS + _URGENT_OF_TIME * (at - self._begun):
            return False
        rooms = (available_bytes(), None if tensor_limit is None else tensor_limit - now[1])
        return any(room is not None and value >= _URGENT_SHARE * room for value, room in zip(grown, rooms, strict=True))

    def _holdings(self) -> tuple[Holding, ...]:
        modules = user_modules()
        populations = list(_populations(modules))
        containers = containers_of(_WALK_SECONDS, self._limits_of_code().limits)
        return (*populations, *containers[: MOST_HOLDINGS - len(populations)])

    def _limits_of_code(self) -> CodeLimits:
        files = own_files()
        if self._limits[0] != len(files):
            found = CodeLimits()
            for path in files:
                found |= limits_in(_source(path))
            self._limits = (len(files), found)
        return self._limits[1]


def resident_bytes() -> float:
    """Return the resident memory of this process in bytes, or 0 if the kernel does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return float(int(file.read().split()[1]) * _PAGE)
    except (OSError, ValueError, IndexError):
        return 0.0


def _source(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def _populations(modules: Mapping[str, ModuleType]) -> Iterator[Holding]:
    """Count the living objects of the kinds that leaks consist of, and of the script's own types."""
    objects = gc.get_objects()
    types = list(map(type, objects))
    classes = dict(zip(map(id, types), types, strict=True))  # hashing a class may run the code of its metaclass
    known = _known_classes()
    counts: Counter[Kind] = Counter()
    own: Counter[str] = Counter()
    graphs = set()
    for number, count in Counter(map(id, types)).items():
        cls = classes[number]
        kind = _kind_of(cls, known)
        if kind is not None:
            counts[kind] += count
        elif module_of(cls) in modules and is_name(name_of(cls)):
            own[name_of(cls)] += count
        if kind == "graph":
            graphs.add(number)
    usual = _usual_function(compress(objects, map(graphs.__contains__, map(id, types))))
    for kind, count in counts.items():
        yield Holding(kind, usual if kind == "graph" else kind, count)
    yield from (Holding("object", name, count) for name, count in own.most_common(_MOST_TYPES))


def _known_classes() -> dict[int, Kind]:
    """Return the kinds by the ids of the classes in `_POPULATIONS` that have been imported."""
    known: dict[int, Kind] = {}
    for name, kind in _POPULATIONS.items():
        module, _, last = name.rpartition(".")
        found = vars(sys.modules[module]).get(last) if module in sys.modules else None
        if isinstance(found, type):
            known[id(found)] = kind
    return known


def _kind_of(cls: type, known: Mapping[int, Kind]) -> Kind | None:
    return next((known[id(base)] for base in bases_of(cls) if id(base) in known), None)


def _usual_function(graphs: Iterable[Any]) -> str:
    """Return the name of the function that has been traced most often."""
    names = Counter(_function_of(graph) for graph in graphs)
    return names.most_common(1)[0][0] if names else "functions"


def _function_of(graph: Any) -> str:
    name = str(getattr(graph, "name", "")).removeprefix("__inference_").rstrip("0123456789").rstrip("_")
    return name if is_name(name) else "functions"
