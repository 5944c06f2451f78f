"""Restoration: writes saved changes into the objects that a restarted script has created."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from oomph.objects import values
from oomph.objects.admission import OwnTypes, admitted, admitted_to_iterator, may_be_hashed
from oomph.objects.generators import Allowance, bring_to
from oomph.objects.kind import NOTHING, CannotGiveBackError, Kind, OutsideError, Setting
from oomph.objects.picture import LOST, OUTSIDE, Changes, Picture, lost_object, references_in
from oomph.objects.table import kind_of_tag
from oomph.objects.values import Value
from oomph.protocol.reason_table import GONE
from oomph.protocol.reasons import Reason, because
from oomph.redaction.redaction import digest_of_secret

_MOST_COPIES = 4
_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    RuntimeError,
    ArithmeticError,
)


def _shown(name: str, figure: Value) -> str:
    return digest_of_secret(name, repr(figure)) or repr(figure)


class Restoration:
    """Restores the contents of objects.

    Args:
        live: this process's objects, as of the picture that the changes are relative to.
        changes: the changes to the objects since that picture.
        now: the current picture of the objects, which may include new variables that are saved elsewhere.
        own: True if the changes come from this process rather than a checkpoint.
    """

    def __init__(self, live: Picture, changes: Changes, now: Picture | None = None, own: bool = False) -> None:
        self._live, self._changes, self._now, self._own = live, changes, now, own
        self._type_named = OwnTypes(live.graph.types.values())
        self._made: dict[str, Any] = {}
        self._allowance = Allowance()
        self._copied: Counter[str] = Counter()
        """The number of copies of each array, which is limited: a list could repeat one array until memory is full."""
        self._unfilled: list[tuple[str, Any, Any]] = []
        self.lost: list[Reason] = []
        """The reasons that some state could not be restored."""

    def apply_early(self) -> None:
        """Restore everything that can be restored more than once: all but generators, which can only run forward."""
        self.apply(frozenset(key for key in self._changes.changed if self._rank(key) == 0))

    def apply(self, except_for: frozenset[str] = frozenset()) -> None:
        """Restore everything except the objects with these keys; `lost` lists failures."""
        changed = {key: content for key, content in self._changes.changed.items() if key not in except_for}
        for key in sorted(changed, key=self._rank):
            self._give_back(key, changed[key])

    def _rank(self, key: str) -> int:
        """Return an object's rank in the restore order. Generators come first, since running them may change others.

        Iterators come last: an iterator over a list that is not filled yet would be exhausted.
        """
        node = self._live.graph.nodes.get(key)
        if node is not None and node.kind.tag == "generator":
            return 0
        return 2 if _holds_an_iterator(self._changes.changed[key]) else 1

    def _give_back(self, key: str, content: Value) -> None:
        node = self._live.graph.nodes.get(key)
        if node is None or node.thing is None:
            self.lost.append(lost_object(key, "no longer there", GONE))
            return
        if not node.kind.in_place:
            return  # the objects that hold it get a new one
        if not self._own and key in self._live.contents and type(content) is tuple:
            content, others = self._with_settings(node.kind, content, self._live.contents[key])
            self.lost += [
                because("value-changed", name=f"{key}{where}", was=_shown(name, was), now=_shown(name, now))
                for name, where, was, now in others
            ]
        if node.kind.tag == "generator":
            new, graph = self._changes.new, self._live.graph
            self._attempt(
                key, lambda: bring_to(node, content, graph, new, partial(self._admitted, key), self._allowance)
            )
        else:
            self._attempt(key, lambda: node.kind.give_back(node.thing, content, partial(self._admitted, key)))
            self._fill()

    def _with_settings(self, kind: Kind, content: Value, at_begin: Value) -> tuple[Value, list[Setting]]:
        try:
            return kind.with_settings(content, at_begin)
        except (*_ERRORS, CannotGiveBackError):
            return content, []  # a malformed foreign checkpoint: restoring it reports the problem

    def _attempt(self, key: str, give_back: Callable[[], None]) -> None:
        try:
            give_back()
        except OutsideError as error:
            self.lost.append(lost_object(key, f"holds {error}"))
        except CannotGiveBackError as error:
            self.lost.append(lost_object(key, str(error), error.trouble))
        except _ERRORS as error:
            self.lost.append(lost_object(key, f"{type(error).__name__}: {error}"))

    def _admitted(self, holder: str, value: Value, old: Any = NOTHING) -> Any:
        """Return the object that a value represents. Raises RefusedError if it must not replace the current one."""
        found = self._decode(value, holder)
        return found if self._own else admitted(found, old)

    def _for_iterator(self, holder: str, value: Value, old: tuple[Any, ...]) -> Any:
        found = self._decode(value, holder)
        return found if self._own else admitted_to_iterator(found, old)

    def _decode(self, value: Value, holder: str) -> Any:
        if type(value) is not tuple:
            return value
        match value[0]:
            case values.UNKNOWN:
                raise OutsideError(str(value[1]))
            case "ref":
                return self._referred(value[1])
            case "id":
                return id(self._referred(value[1]))
            case "made":
                return self._remade(*value[1:])
            case "large":
                return self._array(holder, *value[2:])
            case "tuple":
                return tuple(self._decode(each, holder) for each in value[1:])
            case "named tuple":
                return self._named_tuple(value, holder)
            case "frozenset":
                return self._frozenset([self._decode(each, holder) for each in value[1:]])
            case "list":
                return [self._admitted(holder, each) for each in value[1:]]
            case "member":
                return values.member_of(self._type_named(value[1]), value[2])
        return values.decode(value)

    def _named_tuple(self, value: Value, holder: str) -> Any:
        kind = self._type_named(value[1])
        if not issubclass(kind, tuple):
            raise CannotGiveBackError(str(value[1]))
        return tuple.__new__(kind, [self._decode(each, holder) for each in value[2:]])

    def _frozenset(self, items: list[Any]) -> Any:
        if not all(map(may_be_hashed, items)):
            raise CannotGiveBackError("a set of objects that compute their own hash")
        return frozenset(items)

    def _array(self, key: str, dtype: str, shape: tuple[int, ...], order: str = "C") -> Any:
        if key not in self._changes.arrays:
            raise CannotGiveBackError("its values are missing")
        if not all(type(each) is int and each >= 0 for each in shape):
            raise CannotGiveBackError("an array without a shape")
        self._copied[key] += 1
        if self._copied[key] > _MOST_COPIES:
            raise CannotGiveBackError("too many copies of one array")
        flat = np.frombuffer(self._changes.arrays[key], values.dtype_of(dtype))
        # A file, or an iterator that fills its buffers, may grow between the fingerprint and the copy.
        return flat.copy() if len(shape) == 1 else flat.reshape(shape).copy("F" if order == "F" else "C")

    def _referred(self, key: str) -> Any:
        """Return the object with this key: an existing one, one created earlier, or a new one."""
        if key in self._live.graph.nodes:
            return self._existing(key)
        if key in self._made:
            return self._made[key]
        if key not in self._changes.new:
            raise CannotGiveBackError(f"{key} does not exist")
        tag, content = self._changes.new[key]
        if tag == OUTSIDE and self._now is not None and key in self._now.graph.elsewhere:
            return self._now.graph.nodes[key].thing
        if tag == OUTSIDE:
            raise OutsideError(f"a {content or key}")
        if tag == LOST:
            raise CannotGiveBackError(str(content))
        if tag == "type":
            return values.decode(content)
        return self._new(key, tag, content)

    def _existing(self, key: str) -> Any:
        thing = self._live.graph.nodes[key].thing
        if thing is None:
            raise CannotGiveBackError("no longer there", GONE)
        return thing

    def _new(self, key: str, tag: str, content: Value) -> Any:
        kind = kind_of_tag(tag)
        try:
            made = self._made[key] = kind.shell(content, self._type_named)
        except CannotGiveBackError:
            made = self._made[key] = kind.build(content, partial(self._admitted, key))
        else:
            self._unfilled.append((key, kind, content))
        return made

    def _fill(self) -> None:
        """Fill the new objects, which may refer to one another."""
        while self._unfilled:
            key, kind, content = self._unfilled.pop()
            decode = partial(self._admitted, key)
            self._attempt(key, partial(kind.give_back, self._made[key], content, decode))

    def _remade(self, key: str, tag: str, content: Value) -> Any:
        """Return an object that can't be restored: the existing one if it is unchanged, otherwise a rebuilt one.

        A new object is built only once.
        """
        if key and self._live.contents.get(key) == content and key not in self._changes.changed:
            return self._existing(key)
        if key not in self._made or not key:
            if tag == "iterator":
                self._fill_parts(content)
            decode = partial(self._for_iterator if tag == "iterator" else self._admitted, key, old=self._held_by(key))
            self._made[key] = kind_of_tag(tag).build(content, decode)
        return self._made[key]

    def _held_by(self, key: str) -> tuple[Any, ...]:
        """Return the objects in this process's iterator with this key; a restored iterator must not call any others."""
        node = self._live.graph.nodes.get(key)
        return () if node is None else tuple(part for _, part in node.kind.parts(node.thing))

    def _fill_parts(self, content: Value) -> None:
        """Create and fill an iterator's sources before the iterator itself."""
        for reference in references_in(content):
            if reference in self._changes.new and reference not in self._made:
                self._referred(reference)
        self._fill()


def _holds_an_iterator(content: Value) -> bool:
    """True if restoring this content builds a Python iterator."""
    if type(content) is not tuple:
        return False
    return (content[:1] == ("made",) and content[2:3] == ("iterator",)) or any(map(_holds_an_iterator, content))
