"""The walk: visits every object reachable from the roots once, under a key that is the same in every attempt.

It proceeds breadth-first, so that an object is named by its shortest path. It stops at library objects, at objects that
cannot be inspected, and when its time runs out.
"""

from __future__ import annotations

import hashlib
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, GeneratorType, ModuleType
from typing import Any

import numpy as np

from oomph.keras_bridge import code, fingerprints
from oomph.objects import values
from oomph.objects.containers import Id
from oomph.objects.instances import GlobalNames
from oomph.objects.iteration import BuiltinIterator
from oomph.objects.kind import Kind, Part
from oomph.objects.table import GLOBALS, OPAQUE, kind_of, kind_when_saved_elsewhere
from oomph.objects.values import UNKNOWN, CannotEncodeError, Value
from oomph.protocol.reason_table import THREADS
from oomph.redaction.redaction import without_known_secrets

_MOST_NODES = 50_000
_MOST_TRIES = 3
_MOST_DEPTH = 40
"""The deepest nesting of tuples that is followed."""
_LONGEST_KEY = 400
_PATIENCE = 4
_DIGEST = 2
"""The time limit for digesting the objects that were not reached, as a multiple of the walk's own limit."""


class Node:
    """One object that was reached.

    Args:
        key: the path to the object, which is also its name in messages.
    """

    def __init__(self, key: str, thing: Any, kind: Kind) -> None:
        self.key, self.kind = key, kind
        self._thing: Callable[[], Any] = lambda: thing

    @property
    def thing(self) -> Any:
        """The object, or None if both this node and the script have released it."""
        return self._thing()

    def let_go(self) -> None:
        """Stop keeping an array in memory, on the device or the host, since the script may no longer need it."""
        thing = self.thing
        if self.kind.arrays and type(thing).__weakrefoffset__:
            self._thing = weakref.ref(thing)

    def content(self, encode: Any) -> Value:
        """Return the object's content. Raises CannotEncodeError if any part can be neither referenced nor encoded."""
        for tried in range(1, _MOST_TRIES + 1):
            try:
                return self.kind.content(self.thing, encode)
            except RuntimeError:  # another thread changed the object
                if tried == _MOST_TRIES:
                    raise CannotEncodeError("an object that other threads change", THREADS) from None
        return None


@dataclass
class Graph:
    """The objects that a walk reached."""

    nodes: dict[str, Node] = field(default_factory=dict)
    by_id: dict[int, Node] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    """The keys of objects that were not reached within the time limit."""
    rest: bytes | None = b""
    """A digest of the objects that were not reached, or None unless all are built-in containers, arrays and values."""
    elsewhere: set[str] = field(default_factory=set)
    """The keys of objects that are saved elsewhere."""
    types: dict[int, type] = field(default_factory=dict)
    """The types of the objects reached, and any classes among those objects, keyed by `id`."""
    met: list[Any] = field(default_factory=list)
    """The objects reached, kept here so that they and their `id`s remain valid."""
    out_of_time: bool = False
    """True if the time limit ended the walk. The next attempt may then reach more objects, or fewer."""

    def node_of(self, thing: Any) -> Node | None:
        """Return the node of an object, or None if it was not reached."""
        node = self.by_id.get(id(thing))
        return node if node is not None and node.thing is thing else None

    def let_go(self) -> None:
        """Stop keeping arrays in memory, for a graph that will only be compared with later ones."""
        self.met.clear()
        for node in self.nodes.values():
            node.let_go()

    def encode(self, thing: Any) -> Value:
        """Encode an object as a reference within the graph or as a value, or else as UNKNOWN with its type name."""
        try:
            return self._encode(thing, 0)
        except Exception as error:  # including from objects that cannot be inspected
            name = str(error) if isinstance(error, CannotEncodeError) else type(thing).__name__
            return (UNKNOWN, name)

    def _encode(self, thing: Any, depth: int) -> Value:
        if type(thing) is Id:
            known = self.by_id.get(int(thing))
            return int(thing) if known is None else ("id", known.key)
        node = self.node_of(thing)
        if node is not None:
            return (
                ("ref", node.key)
                if node.kind.in_place
                else ("made", node.key, node.kind.tag, node.content(self.encode))
            )
        if values.is_value(thing):
            return values.encode(thing)
        if depth < _MOST_DEPTH and issubclass(type(thing), (tuple, frozenset)):
            return self._encode_fixed(thing, depth)
        if self.unseen:
            return (UNKNOWN, type(thing).__name__)  # not reached in time
        return _encode_passing(thing, self.encode)

    def _encode_fixed(self, thing: Any, depth: int) -> Value:
        if issubclass(type(thing), frozenset):
            return ("frozenset", *sorted((self._encode(each, depth + 1) for each in thing), key=repr))
        items = (self._encode(each, depth + 1) for each in tuple.__iter__(thing))
        kind = type(thing)
        return ("tuple", *items) if kind is tuple else ("named tuple", values.path_of(kind), *items)


def _encode_passing(thing: Any, encode: Any) -> Value:
    """Encode an object inside an iterator, which is a different object each time the iterator is read."""
    if type(thing) is list:
        return ("list", *map(encode, thing))
    kind = kind_of(thing)
    if isinstance(kind, BuiltinIterator):
        return ("made", "", kind.tag, kind.content(thing, encode))
    return values.named(thing)


def walk(
    roots: Iterable[tuple[str, Any]],
    before: Graph | None = None,
    saved_elsewhere: frozenset[int] = frozenset(),
    seconds: float = 1.0,
) -> Graph:
    """Return the graph of everything that can be reached from the roots.

    Args:
        roots: the root objects, each with its name for messages.
        before: an earlier walk; the objects that it met keep their keys.
        saved_elsewhere: the `id`s of variables that are saved elsewhere, and of the layers that own them.
        seconds: the limit in this thread's processor time; later walks get more. Other load on the machine does not
            count, so each attempt sees the same objects.
    """
    patience = 1 if before is None else _PATIENCE  # everything that the earlier walk saw must be seen again
    return _Walk(before, saved_elsewhere, time.thread_time() + seconds * patience).run(roots, _DIGEST * seconds)


class _Walk:
    def __init__(self, before: Graph | None, saved_elsewhere: frozenset[int], until: float) -> None:
        self._graph, self._before, self._until = Graph(), before, until
        self._saved_elsewhere = saved_elsewhere
        self._waiting: deque[tuple[str, Any]] = deque()
        self._globals: dict[int, Node] = {}

    def run(self, roots: Iterable[tuple[str, Any]], seconds_for_the_rest: float) -> Graph:
        self._waiting.extend(roots)
        rest: list[Any] = []
        while self._waiting:
            key, thing = self._waiting.popleft()
            if len(self._graph.nodes) >= _MOST_NODES or time.thread_time() > self._until:
                self._graph.unseen.append(key)
                self._graph.out_of_time = len(self._graph.nodes) < _MOST_NODES
                rest += [thing, *(each for _, each in self._waiting)]
                break
            if self._is_to_be_met(thing):
                self._meet(key, thing)
            else:
                rest.append(thing)
        if self._before is not None:
            self._graph.unseen += self._before.unseen
        self._graph.rest = digest_of_many(rest, self._graph.by_id.keys(), seconds_for_the_rest)
        return self._graph

    def _is_to_be_met(self, thing: Any) -> bool:
        """True unless the object is new and an earlier walk that was cut short may have missed it."""
        return self._before is None or not self._before.unseen or bool(self._known(thing)) or _is_passing(thing)

    def _meet(self, key: str, thing: Any) -> None:
        own_class: Any = type(thing)
        kind = thing if issubclass(own_class, type) else own_class
        self._graph.types[id(kind)] = kind
        if values.is_value(thing) or id(thing) in self._graph.by_id:
            return
        if issubclass(type(thing), (tuple, frozenset)):
            self._waiting.extend(_within(key, thing))
            return
        node = self._known(thing) or Node(self._free(key), thing, self._kind_of(thing))
        self._graph.nodes[node.key] = self._graph.by_id[id(thing)] = node
        self._graph.met.append(thing)
        if id(thing) in self._saved_elsewhere:
            self._graph.elsewhere.add(node.key)
        self._waiting.extend((f"{node.key}{way}", part) for way, part in _parts_of(node))
        for names, module in _code_in(thing):
            self._add_globals(module, *names)
        if node.kind is not OPAQUE and code.is_users(own_class.__module__) and own_class is not type:
            self._waiting.append((f"class {own_class.__qualname__}", own_class))

    def _kind_of(self, thing: Any) -> Kind:
        try:
            return kind_when_saved_elsewhere(thing) if id(thing) in self._saved_elsewhere else kind_of(thing)
        except Exception:  # the class cannot be inspected
            return OPAQUE

    def _known(self, thing: Any) -> Node | None:
        return None if self._before is None else self._before.node_of(thing)

    def _free(self, key: str) -> str:
        """Return the key, with a number appended if an earlier object already has it."""
        taken: list[Mapping[str, Node]] = [self._graph.nodes]
        taken += [] if self._before is None else [self._before.nodes]
        key = without_known_secrets(key)  # a dict key may contain a secret
        if len(key) > _LONGEST_KEY:  # the path through a long chain
            digest = hashlib.blake2b(key.encode(errors="backslashreplace"), digest_size=8).hexdigest()
            key = f"{key[:120]}…{digest}…{key[-60:]}"
        free, number = key, 2
        while any(free in nodes for nodes in taken):
            free, number = f"{key} ({number})", number + 1
        return free

    def _add_globals(
        self,
        module: dict[str, Any],
        names: frozenset[str],
        attributes: frozenset[str],
        imported: frozenset[str] = frozenset(),
    ) -> None:
        """Add the globals that code refers to, including any that it may use through the user's modules."""
        package = module.get("__package__") or ""
        for each in sorted(imported):
            for name in (each, f"{package}.{each}".strip(".")):  # absolute, or relative to the package
                if name in sys.modules and code.is_users(name):
                    self._add_globals(vars(sys.modules[name]), attributes, attributes)
        known = self._globals.get(id(module))
        if known is None:
            name = str(module.get("__name__"))
            known = Node(f"global of {name}: ", GlobalNames(module=module, names=set()), GLOBALS)
            self._globals[id(module)] = self._graph.nodes[known.key] = known
            self._graph.by_id[id(known.thing)] = known
        new = {name for name in names if not name.startswith("__")} - known.thing.names
        known.thing.names |= new
        for name in sorted(new):
            value = module.get(name)
            if type(value) is ModuleType and code.is_users(value.__name__):
                self._add_globals(vars(value), attributes, attributes)
            elif name in module:
                self._waiting.append((f"{known.key}{name}", value))


def _parts_of(node: Node) -> list[Part]:
    for _ in range(_MOST_TRIES):
        try:
            return list(node.kind.parts(node.thing))
        except RuntimeError:  # another thread changed the object
            continue
        except Exception:  # the object cannot be inspected
            break
    return []


def _is_passing(thing: Any) -> bool:
    """True if an object has no identity of its own, as with a tuple or frozenset."""
    return issubclass(type(thing), (tuple, frozenset))


def _within(key: str, thing: Any) -> Iterator[Part]:
    items = frozenset.__iter__(thing) if issubclass(type(thing), frozenset) else tuple.__iter__(thing)
    yield from ((f"{key}[{number}]", item) for number, item in enumerate(items))


def _code_in(thing: Any) -> Iterator[tuple[code.Names, dict[str, Any]]]:
    """Yield the names that a user's function or generator refers to, with its globals."""
    kind = type(thing)
    if kind is FunctionType:
        pieces = [(thing.__code__, thing.__globals__)]
    elif kind is GeneratorType and thing.gi_frame is not None:
        pieces = [(thing.gi_code, thing.gi_frame.f_globals)]
    else:
        pieces = []
    for piece, module in pieces:
        if code.is_users(str(module.get("__name__", ""))):
            yield code.names_in(piece), module


_CHUNK = 10_000


class _Unseen(Exception):
    """Raised if an object cannot be inspected."""


def digest_of_many(things: Iterable[Any], known: Container[int], seconds: float = 2.0) -> bytes | None:
    """Compute a digest of objects and their contents, or return None if an object cannot be inspected or time runs out.

    Each container is visited only once, so shared and circular containers terminate.

    Args:
        things: built-in containers and arrays of numbers. Values, including those in tuples, are skipped, since they
            are captured with their owner.
        known: the `id`s of captured objects, which need no digest.
        seconds: the time limit.
    """
    found, until = hashlib.blake2b(digest_size=16), time.monotonic() + seconds
    numbers: dict[int, int] = {}
    waiting, tokens = deque(_with_an_identity(things)), list[Any]()
    while waiting:
        thing = waiting.popleft()
        kind = type(thing)
        if kind in values.PLAIN:
            tokens.append(thing)
        elif id(thing) in numbers:
            tokens.append(("again", numbers[id(thing)]))
        elif id(thing) not in known:
            if kind in _CONTAINERS:
                numbers[id(thing)] = len(numbers)
                waiting.extend(_items(thing))
            try:
                tokens.append(_token(thing))
            except _Unseen:
                return None
        if len(tokens) >= _CHUNK or not waiting:
            found.update(repr(tokens).encode(errors="backslashreplace"))
            tokens.clear()
            if time.monotonic() > until:
                return None
    return found.digest()


def _with_an_identity(things: Iterable[Any]) -> Iterator[Any]:
    waiting, seen = deque(things), set[int]()
    while waiting:
        thing = waiting.popleft()
        if type(thing) not in (tuple, frozenset):
            if not values.is_value(thing):
                yield thing
        elif id(thing) not in seen:
            seen.add(id(thing))
            waiting.extend(_items(thing))


def _token(thing: Any) -> Any:
    """Return a comparable description of an object without its parts: a container's type and length, or a value."""
    kind = type(thing)
    if kind in _CONTAINERS:
        return (kind.__name__, len(thing))
    if kind is np.ndarray and thing.dtype.kind != "O":
        return (fingerprints.of_array(thing),)
    if values.is_value(thing):
        return (values.encode(thing),)
    raise _Unseen


def _items(thing: Any) -> Iterator[Any]:
    if type(thing) is dict:
        yield from (each for item in thing.items() for each in item)
    elif type(thing) in (set, frozenset):
        yield from sorted(thing, key=repr)  # their order differs between processes
    else:
        yield from thing


_CONTAINERS = frozenset((list, tuple, dict, set, frozenset, deque))
