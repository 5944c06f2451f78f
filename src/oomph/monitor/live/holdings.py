"""Lists the containers and arrays among the script's own objects, with their owners, sizes and limits.

The walk begins at the globals of the script's modules and the local variables of running functions. It runs no code of
the script: attributes are read from `__dict__`, and containers through the methods of their built-in types.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import CO_OPTIMIZED
from itertools import chain, cycle, islice
from types import FrameType, FunctionType, GeneratorType, GetSetDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

from oomph.files.user_code import is_users
from oomph.monitor.census import Holding, Kind, is_name

_MOST_NODES, _MOST_DEPTH = 20_000, 7
_ENDS = 24
"""The number of items to look at from each end of a container: the newest items are at its end."""
_LEAST_ARRAY_BYTES = 1 << 20
_LIBRARY_ROOTS = frozenset({"callbacks", "x", "generator", "dataset"})
"""The local variables of libraries that hold the script's objects, such as those passed to `fit`."""
_USES_OF_LOCALS = frozenset({"locals", "vars", "dir", "eval", "exec"})
_OPEN_MODULES = ("keras.src.callbacks", "queue", "multiprocessing.queues", "asyncio.queues", "collections", "types")
"""The modules of classes whose attributes are looked at although they are not the script's own."""
_LOOK_INTO_ALL, _LOOKED_AT = 64, 8
"""The largest number of items of a container that are all looked at, and of those that its size is estimated from."""
_MOST_ATTRIBUTES = 24
_ITEM_BYTES = 56
"""The assumed size, in bytes, of an object about which nothing is known."""
_TEXTS = frozenset(map(id, (str, bytes, bytearray)))
_NUMBERS = frozenset(map(id, (int, float, bool, type(None))))
_PLAIN = frozenset(map(id, (str, bytes, int, float, bool, type(None))))
_SIZED = frozenset(map(id, (int, float, bool, str, bytes, bytearray, complex)))
"""Classes by their ids: a metaclass may define how its classes are hashed and compared."""
_NAME_OF_TYPE = {list: "list", dict: "dict", set: "set", deque: "deque"}


_DICT, _BASES = type.__dict__["__dict__"], type.__dict__["__mro__"]
_NAME, _MODULE = type.__dict__["__qualname__"], type.__dict__["__module__"]
"""Python's own descriptors of classes: a metaclass may define these attributes, and run the script's code."""


def name_of(cls: type) -> str:
    """Return the qualified name of a class, without its metaclass' own idea of it."""
    return str(_NAME.__get__(cls))


def module_of(cls: type) -> str:
    """Return the name of a class's module, or an empty string if the class has something else in its place."""
    found = _MODULE.__get__(cls)
    return found if type(found) is str else ""


def bases_of(cls: type) -> tuple[type, ...]:
    """Return the method resolution order of a class."""
    found: tuple[type, ...] = _BASES.__get__(cls)
    return found


class _Found(NamedTuple):
    """An object reached by the walk, and the name of its owner."""

    thing: Any
    name: str
    depth: int
    is_item: bool = False
    limit: int | None = None
    """The limit that its owner sets, as a queue does with `maxsize`."""


def holdings(seconds: float, is_limited: Callable[[str, str], bool]) -> list[Holding]:
    """List the containers and large arrays among the script's objects, the largest first.

    Args:
        seconds: the limit on CPU time.
        is_limited: returns True if the script's code limits a container of this kind and name.
    """
    end = time.thread_time() + seconds
    modules = user_modules()
    waiting = deque(_roots(modules))
    seen: dict[int, Any] = {}  # keeps the objects, so that an id is not used twice
    found: dict[str, Holding] = {}
    while waiting and len(seen) < _MOST_NODES and time.thread_time() < end:
        at = waiting.popleft()
        if id(at.thing) in seen or id(type(at.thing)) in _PLAIN:
            continue
        seen[id(at.thing)] = at.thing
        holding = _holding(at, is_limited)
        if holding is not None and is_name(holding.name):
            before = found.get(holding.name)
            found[holding.name] = holding if before is None else max(before, holding, key=_weight)
        if at.depth < _MOST_DEPTH:
            waiting.extend(_parts(at, modules))
    return sorted(found.values(), key=_weight, reverse=True)


def user_modules() -> Mapping[str, ModuleType]:
    """Return the script's own modules by name."""
    return {name: module for name, module in list(sys.modules.items()) if _is_own(name, module)}


def _is_own(name: str, module: Any) -> bool:
    if type(module) is not ModuleType or name.startswith("oomph"):
        return False
    file = module.__dict__.get("__file__")
    return name == "__main__" if file is None else isinstance(file, str) and is_users(file)


def _weight(holding: Holding) -> tuple[int, int]:
    return holding.bytes, holding.count


# -- where the walk begins, and where it goes -------------------------------------------------------------------------


def _roots(modules: Mapping[str, ModuleType]) -> Iterator[_Found]:
    for name, module in modules.items():
        prefix = "" if name == "__main__" else f"{name}."
        for key, value in list(module.__dict__.items()):
            if not (key.startswith("__") or issubclass(type(value), ModuleType)):
                yield _Found(value, prefix + key, 0)
    for frame in list(sys._current_frames().values()):
        yield from _of_stack(frame)


def _of_stack(innermost: FrameType) -> Iterator[_Found]:
    frame: FrameType | None = innermost
    while frame is not None:
        code = frame.f_code
        if code.co_name != "<module>":
            yield from _locals(frame, code.co_name, None if is_users(code.co_filename) else _LIBRARY_ROOTS)
        frame = frame.f_back


def _locals(frame: FrameType, function: str, only: frozenset[str] | None = None) -> Iterator[_Found]:
    code = frame.f_code
    if only is not None and only.isdisjoint(code.co_varnames):
        return
    for name, value in _variables(frame):
        if only is None or name in only:
            yield _Found(value, f"{name} (in {function})", 0)


def _variables(frame: FrameType) -> list[tuple[str, Any]]:
    """Return the local variables of a function.

    Before Python 3.13, `f_locals` is a dict that belongs to the frame. It would keep the values alive, so it is
    emptied. `locals()` returns the same dict, so functions that use it are left out.
    """
    if sys.version_info >= (3, 13):
        return list(frame.f_locals.items())
    if not frame.f_code.co_flags & CO_OPTIMIZED or not _USES_OF_LOCALS.isdisjoint(frame.f_code.co_names):
        return []
    snapshot = frame.f_locals
    variables = list(snapshot.items())
    snapshot.clear()
    return variables


def _parts(at: _Found, modules: Mapping[str, ModuleType]) -> Iterator[_Found]:
    thing, cls, depth = at.thing, type(at.thing), at.depth + 1  # `isinstance` would ask the script's `__class__`
    if (kind := _container_type(thing)) is not None:
        name = at.name if at.name.endswith("[]") else f"{at.name}[]"
        yield from (_Found(item, name, depth, is_item=True) for item in _some(thing, kind))
    elif issubclass(cls, FunctionType):
        yield from _of_function(thing, depth)
    elif issubclass(cls, MethodType):
        yield _Found(thing.__self__, at.name, depth)
    elif cls is functools.partial:
        yield from (_Found(each, at.name, depth) for each in (thing.func, *thing.args, *thing.keywords.values()))
    elif issubclass(cls, GeneratorType):
        if thing.gi_frame is not None and is_users(thing.gi_code.co_filename):
            yield from (each._replace(depth=depth) for each in _locals(thing.gi_frame, thing.gi_code.co_name))
    elif issubclass(cls, type):
        if module_of(thing) in modules:
            yield from _attributes(name_of(thing), dict(_DICT.__get__(thing)), depth)
    elif _is_open(cls, modules):
        yield from _attributes(name_of(cls), _dict_of(thing), depth)


def _of_function(function: FunctionType, depth: int) -> Iterator[_Found]:
    if not is_users(function.__code__.co_filename):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield _Found(cell.cell_contents, f"{name} (in {function.__name__})", depth)
        except ValueError:
            pass  # the variable has no value yet
    for default in function.__defaults__ or ():
        yield _Found(default, f"a default of {function.__name__}", depth)


def _attributes(owner: str, attributes: Mapping[str, Any], depth: int) -> Iterator[_Found]:
    limits = [attributes.get(name) for name in ("maxsize", "_maxsize")]
    limit = next((each for each in limits if type(each) is int and each > 0), None)
    for name, value in list(attributes.items()):
        if isinstance(name, str) and not name.startswith("__"):
            yield _Found(value, f"{owner}.{name}", depth, limit=limit)


def _is_open(cls: type, modules: Mapping[str, ModuleType]) -> bool:
    names = [module_of(base) for base in bases_of(cls)[:-1]]
    return any(name in modules or name.startswith(_OPEN_MODULES) for name in names)


def _dict_of(thing: Any) -> dict[str, Any]:
    """Return the attributes of an object, without its class' own idea of `__dict__`."""
    described = (_DICT.__get__(base).get("__dict__") for base in bases_of(type(thing)))
    found = next((each for each in described if type(each) is GetSetDescriptorType), None)
    attributes = None if found is None else found.__get__(thing)
    return attributes if type(attributes) is dict else {}


def _container_type(thing: Any) -> Any:
    """Return the built-in type that stores the items of a container, whatever its class."""
    cls = type(thing)
    return next((each for each in (list, dict, set, deque, tuple) if issubclass(cls, each)), None)


def _length(thing: Any, kind: Any) -> int:
    return int(kind.__len__(thing))


def _some(thing: Any, kind: Any) -> list[Any]:
    """Return items from both ends of a container, or all of a small one."""
    length = _length(thing, kind)
    try:
        if kind is dict:
            values = OrderedDict.values if issubclass(type(thing), OrderedDict) else dict.values
            first = list(islice(values(thing), _LOOK_INTO_ALL))
            newest = islice(reversed(values(thing)), _ENDS) if length > len(first) else ()
            return [*first, *newest]
        if kind is set or length <= _LOOK_INTO_ALL:
            return list(islice(kind.__iter__(thing), _LOOK_INTO_ALL))
        at = kind.__getitem__
        return [at(thing, place) for place in (*range(_ENDS), *range(length - _ENDS, length))]
    except (RuntimeError, IndexError):
        return []  # a different thread is changing it


# -- what is found ----------------------------------------------------------------------------------------------------


def _holding(at: _Found, is_limited: Callable[[str, str], bool]) -> Holding | None:
    thing = at.thing
    kind = _container_type(thing)
    if kind in _NAME_OF_TYPE:
        items = _some(thing, kind)
        count = _length(thing, kind)
        is_queue = kind is deque and at.name.endswith(("Queue.queue", "Queue._buffer", "Queue._queue"))
        called: Kind = "queue" if is_queue else _NAME_OF_TYPE[kind]  # type: ignore[assignment]
        most = deque.maxlen.__get__(thing) if kind is deque else None
        limit = at.limit if most is None else most
        newest = name_of(type(items[-1])) if items else ""
        return Holding(
            called,
            at.name,
            count,
            _mean(items) * count,
            newest if is_name(newest) else "",
            limit,
            is_limited(called, at.name),
        )
    if type(thing) is functools._lru_cache_wrapper:
        return _cache(thing)
    if type(thing) is cycle:
        kept = next((each for each in gc.get_referents(thing) if type(each) is list), [])
        return Holding("cycle", at.name, len(kept), _mean(_some(kept, list)) * len(kept), is_bounded=True)
    size = 0 if at.is_item else array_bytes(thing)
    return Holding("array", at.name, 1, size, name_of(type(thing))) if size >= _LEAST_ARRAY_BYTES else None


def _cache(wrapper: Any) -> Holding:
    """Return the holding of a function decorated with `functools.lru_cache`."""
    info = wrapper.cache_info()
    entries = next(
        (each for each in gc.get_referents(wrapper) if type(each) is dict and len(each) == info.currsize), {}
    )
    size = _mean(_some(entries, dict)) * info.currsize
    return Holding("cache", wrapper.__name__, info.currsize, size, limit=info.maxsize, is_bounded=True)


def _mean(items: Sequence[Any]) -> int:
    """Estimate the mean size of items, without what several of them refer to, such as the model that each has."""
    sizes = [dict(_sizes_in(item)) for item in items]
    times = Counter(chain.from_iterable(sizes))
    own = sum(size for each in sizes for number, size in each.items() if times[number] == 1)
    return own // len(sizes) if sizes else 0


def _sizes_in(thing: Any, depth: int = 0, times: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the ids of what an object consists of, each with its size in bytes, estimated from some of the items.

    Args:
        times: the number of items that this one represents.
    """
    size = sys.getsizeof(thing) if id(type(thing)) in _SIZED else array_bytes(thing)
    yield id(thing), (size or _ITEM_BYTES) * times
    if size or depth > 2:
        return
    kind = _container_type(thing)
    inside = _inside(thing) if kind is None else _some(thing, kind)[:_LOOKED_AT]
    represented = 1 if kind is None else max(1, _length(thing, kind) // max(len(inside), 1))
    for each in inside:
        yield from _sizes_in(each, depth + 1, times * represented)


def _inside(thing: Any) -> list[Any]:
    """Return what a function has captured, or the attributes of an object."""
    if issubclass(type(thing), FunctionType):
        return [found.thing for found in _of_function(thing, 0)]
    if issubclass(type(thing), (type, ModuleType)):
        return []
    return [each for each in _dict_of(thing).values() if id(type(each)) not in _NUMBERS][:_MOST_ATTRIBUTES]


def array_bytes(thing: Any) -> int:
    """Return the size, in bytes, of an array, a tensor, a variable, a data frame, an image or a text, or 0."""
    cls = type(thing)
    if id(cls) in _TEXTS:
        return len(thing)
    try:
        match f"{module_of(cls)}.{name_of(cls)}":
            case "numpy.ndarray" | "numpy.memmap":
                return int(thing.nbytes)
            case (
                "tensorflow.python.framework.ops.EagerTensor"
                | "tensorflow.python.ops.resource_variable_ops.ResourceVariable"
            ):
                return int(thing.shape.num_elements() or 0) * int(thing.dtype.size)
            case "keras.src.backend.Variable" | "keras.src.backend.tensorflow.core.Variable":
                return array_bytes(thing.value)
            case "pandas.core.frame.DataFrame" | "pandas.DataFrame" | "pandas.core.series.Series" | "pandas.Series":
                return int(thing.size) * 8
            case "PIL.Image.Image":
                return int(thing.width * thing.height * len(thing.getbands()))
    except Exception:
        pass  # a damaged or freed object has no size
    return 0
