"""Pictures: the contents, at one moment, of the objects that training depends on, and the changes since then."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import GeneratorType
from typing import Any

import numpy as np

from oomph.keras_bridge import fingerprints
from oomph.objects import values
from oomph.objects.admission import is_called, is_data
from oomph.objects.kind import Kind
from oomph.objects.library_kinds import LibraryObject
from oomph.objects.table import is_outside
from oomph.objects.texts import texts_in
from oomph.objects.values import CannotEncodeError, Value
from oomph.objects.walk import Graph, Node, walk
from oomph.protocol.reason_table import GENERATOR, RECORDS, TOO_LARGE
from oomph.protocol.reasons import Reason, as_data, because, reason_from
from oomph.redaction.redaction import holds_known_secret, knows_secrets
from oomph.terminal.wrapping import shortened

_UNKNOWN = (values.UNKNOWN,)
"""The content of an object with a part that can be neither referenced nor encoded."""
_MOST_BYTES = 2 << 30
"""The maximum size, in bytes, of the arrays in a checkpoint, not counting model and optimizer variables."""
LOST, OUTSIDE = "lost", "outside"
"""The tags of new objects that cannot be created, and of new objects outside the training state."""


@dataclass
class Picture:
    """The objects that a walk reached, and their contents. Arrays are kept only as fingerprints."""

    graph: Graph
    contents: dict[str, Value]
    troubles: dict[str, Reason]
    """Maps the key of each object that cannot be encoded to the reason that it is lost."""

    @classmethod
    def of(
        cls,
        roots: Iterable[tuple[str, Any]],
        before: Picture | None = None,
        saved_elsewhere: frozenset[int] = frozenset(),
        seconds: float = 1.0,
    ) -> Picture:
        """Record everything that can be reached from the roots.

        Args:
            before: an earlier picture, whose names for objects are kept.
            saved_elsewhere: the `id`s of variables and layers that are saved elsewhere.
            seconds: the time limit; `unseen` lists the objects not reached by then.
        """
        graph = walk(roots, None if before is None else before.graph, saved_elsewhere, seconds)
        contents: dict[str, Value] = {}
        troubles: dict[str, Reason] = {}
        for key, node in graph.nodes.items():
            if before is not None and before.graph.nodes.get(key) is node and _counts_as_unchanged(graph, node):
                contents[key] = before.contents[key]
                continue
            try:
                contents[key] = node.content(graph.encode)
            except CannotEncodeError as error:
                contents[key], troubles[key] = _UNKNOWN, lost_object(key, str(error), error.trouble)
            except Exception as error:  # the object cannot be inspected
                contents[key] = _UNKNOWN
                troubles[key] = lost_object(key, shortened(f"{type(error).__name__}: {error}", 200))
        return cls(graph, contents, troubles)

    def let_go(self) -> Picture:
        """Stop keeping arrays in memory, and return this picture, which can then only be compared with later ones."""
        self.graph.let_go()
        return self

    @property
    def unseen(self) -> list[str]:
        """The names of objects that were not reached within the time limit."""
        return self.graph.unseen

    def fingerprint(self, under: str = "") -> str:
        """Return a fingerprint of the objects whose names start with `under`, which is equal for equal contents."""
        digest = hashlib.blake2b(digest_size=8)
        for key in sorted(self.contents):
            if key.startswith(under):
                digest.update(f"{key} {self.contents[key]!r}".encode())
        return digest.hexdigest()


def _counts_as_unchanged(graph: Graph, node: Node) -> bool:
    """True for immutable objects, and for a variable that is now saved elsewhere.

    Metrics passed to `compile` have variables before Keras counts these among the model's. Restoring them here as well
    would overwrite each replica's own count.
    """
    return not node.kind.in_place or (node.key in graph.elsewhere and node.kind.tag == "variable")


@dataclass
class Changes:
    """The changes since an earlier picture.

    `changed` contains the objects that existed then; `new` contains those that did not, with the kinds that can build
    them.
    """

    changed: dict[str, Value] = field(default_factory=dict)
    new: dict[str, tuple[str, Value]] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    """The bytes of large contents as uint8 [N], keyed by the object's name. They may share the script's memory."""
    lost: list[Reason] = field(default_factory=list)
    """The reasons that some changed state cannot be restored."""
    not_copied: frozenset[str] = frozenset()
    """The names of arrays for whose copies `detached` had no room."""

    def detached(self, before: Changes | None, room: float) -> Changes:
        """Return the changes with copies of the arrays, which the script cannot change, as far as there is room.

        The others share the script's memory: first those that have not changed since an earlier moment, then the
        largest.

        Args:
            before: the changes at that moment, if there was one.
            room: the maximum size of the copies, in bytes.
        """
        sizes = {key: array.nbytes for key, array in self.arrays.items()}
        same = () if before is None else [key for key in sizes if self._content(key) == before._content(key)]
        left, shared = sum(sizes.values()), set()
        for key in [*same, *sorted(sizes.keys() - {*same}, key=lambda key: -sizes[key])]:
            if left > room:
                shared.add(key)
                left -= sizes[key]
        arrays = {key: array if key in shared else array.copy() for key, array in self.arrays.items()}
        return replace(self, arrays=arrays, not_copied=frozenset(shared))

    def without_altered(self) -> Changes:
        """Return the changes without the arrays that were not copied and that the script has altered: they are lost."""
        altered = [key for key in self.not_copied if not _is_of(self.arrays[key], self._content(key))]
        return replace(
            self,
            arrays={key: array for key, array in self.arrays.items() if key not in altered},
            lost=[*self.lost, *(lost_object(key, _too_large(self.arrays[key].nbytes), TOO_LARGE) for key in altered)],
        )

    def _content(self, key: str) -> Value:
        return self.changed[key] if key in self.changed else self.new.get(key, ("", None))[1]

    def to_json(self, apart: list[bytes] | None = None) -> dict[str, Any]:
        """Return the changes as JSON, without the arrays; long byte strings are collected in `apart` if given."""
        return {
            "changed": {key: values.to_json(content, apart) for key, content in self.changed.items()},
            "new": {key: [tag, values.to_json(content, apart)] for key, (tag, content) in self.new.items()},
            "lost": as_data(self.lost),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any], arrays: dict[str, Any], apart: Sequence[bytes] = ()) -> Changes:
        """Return the changes that `to_json` encoded. Raises ValueError for any other document."""
        try:
            left: list[bytes | None] = [*apart]
            changed = {str(key): values.from_json(each, left) for key, each in document["changed"].items()}
            new = {str(k): (str(tag), values.from_json(each, left)) for k, (tag, each) in document["new"].items()}
            return cls(changed, new, arrays, [reason_from(each) for each in list(document["lost"])])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of any objects: {error}") from error


def lost_object(key: str, what: str, trouble: str = "") -> Reason:
    """Return the reason that an object is lost: its type or contents, and the obstacle if known."""
    if what == GeneratorType.__name__:
        trouble = GENERATOR
    return because("object", where=key, what=what[:200], trouble=trouble)


def changes_between(before: Picture, now: Picture) -> Changes:
    """Return the differences between two pictures, with the memory of the changed arrays."""
    found = Changes()
    for key, content in now.contents.items():
        node = now.graph.nodes[key]
        if key not in before.contents:
            found.new[key] = (OUTSIDE, "") if key in now.graph.elsewhere else _how_made(node, content)
        elif content == _UNKNOWN:  # it may have changed, unless its kind never changes
            found.lost += [now.troubles[key]] if key in now.troubles else []
        elif content != before.contents[key]:
            found.changed[key] = node.kind.since(before.contents[key], content)
            unknown = set(values.unknown_in(content)) - set(values.unknown_in(before.contents[key]))
            found.lost += [lost_object(key, name) for name in sorted(unknown)]
    _leave_out_what_nobody_needs(found)
    _leave_out_secrets(found, before, now)
    _add_arrays(found, now)
    if now.unseen and (now.graph.rest is None or now.graph.rest != before.graph.rest):
        found.lost += [because("object-unseen", where=key) for key in dict.fromkeys(now.unseen)]
    found.lost += [lost_object(key, str(kind)) for key, (tag, kind) in found.new.items() if tag == LOST]
    found.lost = list(dict.fromkeys(found.lost))
    return found


def _leave_out_secrets(found: Changes, before: Picture, now: Picture) -> None:
    """Leave out text that contains known secrets. The next process has them anyway, so only changed ones are lost."""
    if not knows_secrets():
        return
    for key, content in found.changed.items():
        secrets = set(values.secrets_in(content))
        if secrets:
            found.changed[key] = values.without_secrets(content)
            found.lost += (
                [lost_object(key, values.SECRET)] if secrets - {*values.secrets_in(before.contents[key])} else []
            )
    for key, (tag, content) in found.new.items():
        if any(values.secrets_in(content)):
            found.new[key] = (tag, values.without_secrets(content))
            found.lost.append(lost_object(key, values.SECRET))
    arrays = [k for k in (*found.changed, *found.new) if _has_secret_items(now.contents[k], now.graph.nodes[k])]
    for key in arrays:
        found.lost.append(lost_object(key, values.SECRET))
        if found.changed.pop(key, None) is None:
            found.new[key] = (LOST, values.SECRET)


def _has_secret_items(content: Value, node: Node) -> bool:
    """True if an object's content is a text array that contains a known secret."""
    is_of_texts = is_large(content) and str(content[2]).lstrip("<>|=").startswith(("S", "U"))
    return is_of_texts and any(map(holds_known_secret, texts_in(node.thing)))


def _add_arrays(found: Changes, now: Picture) -> None:
    """Add the changed arrays, up to a checkpoint's size limit; the others are lost."""
    room = _MOST_BYTES
    for key in [*found.changed, *(key for key, (tag, _) in found.new.items() if tag != LOST)]:
        content = now.contents[key]
        if not is_large(content):
            continue
        try:
            size = size_of(content)
        except TypeError:
            found.lost.append(lost_object(key, f"an array of {content[2]}", RECORDS))
            continue
        if size > room:
            found.lost.append(lost_object(key, _too_large(size), TOO_LARGE))
            continue
        room -= size
        found.arrays[key] = bytes_of(now.graph.nodes[key])


def _too_large(size: int) -> str:
    return f"{size / 1e9:.1f} GB, too large to be kept"


def _is_of(array: Any, content: Value) -> bool:
    """True if bytes from `bytes_of` still are those of this large content."""
    _, fingerprint, dtype, shape, *order = content
    if order:
        return True  # an array in columns is always copied
    return bool(fingerprints.of_array(array.view(values.dtype_of(dtype)).reshape(shape)) == fingerprint)


def size_of(content: Value) -> int:
    """Return the size of large content in bytes. Raises TypeError for record dtypes."""
    dtype, shape = content[2:4]
    return int(values.dtype_of(dtype).itemsize * np.prod(shape, dtype=np.int64))


def is_large(content: Value) -> bool:
    """True if the content is only a fingerprint, with its values stored separately."""
    return type(content) is tuple and content[:1] == ("large",)


def bytes_of(node: Node) -> Any:
    """Return an object's large content as uint8 [N], which shares the object's memory if that is possible."""
    array = np.ascontiguousarray(node.kind.array(node.thing))  # type: ignore[attr-defined]
    return array.reshape(-1).view(np.uint8)


def _how_made(node: Node, content: Value) -> tuple[str, Value]:
    """Return how a new object can be recreated: from its content, by name, or not at all."""
    if content != _UNKNOWN and _is_buildable(node):
        return node.kind.tag, content
    try:
        return "type", values.named(node.thing)
    except CannotEncodeError:
        name = type(node.thing).__name__
        is_there_again = is_outside(type(node.thing)) and not is_called(node.thing)
        return (OUTSIDE if is_there_again else LOST), name


def _is_buildable(node: Node) -> bool:
    kind, thing = type(node.kind), node.thing
    if kind.__name__ == "Instance":
        return is_data(type(thing))
    return (kind.build is not Kind.build or kind.shell is not Kind.shell) and not isinstance(node.kind, LibraryObject)


def _leave_out_what_nobody_needs(found: Changes) -> None:
    """Keep only new objects that a changed object refers to, directly or indirectly."""
    needed: set[str] = set()
    waiting = list(found.changed.values())
    while waiting:
        for key in references_in(waiting.pop()):
            if key in found.new and key not in needed:
                needed.add(key)
                waiting.append(found.new[key][1])
    found.new = {key: made for key, made in found.new.items() if key in needed}


def references_in(content: Value) -> Iterator[str]:
    """Yield the keys of the objects that the content refers to."""
    if type(content) is tuple:
        if len(content) > 1 and content[0] in ("ref", "made", "id"):
            yield str(content[1])
        for each in content:
            yield from references_in(each)
