"""Defines `Fact`, the frozen value that each journal event carries. Used in both processes.

A `Fact` is not a dataclass, because creating sixty dataclasses would take a third of the time that a script needs to
join a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda kind: kind


_Fact = TypeVar("_Fact", bound="Fact")
BY_NAME: dict[str, type[Fact]] = {}
"""The class of each event, by the event's name in the journal."""


def _place(at: int) -> property:
    return property(lambda fact: fact._values[at])


_PLACES = tuple(map(_place, range(20)))
"""Properties for as many fields as any event has. All classes share them, as creating properties takes the longest."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _FactType(type):
    """Creates a property for each annotated name in a class body. Every such name needs a default."""

    defaults: Mapping[str, Any]
    event: str

    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any], event: str = "") -> _FactType:
        inherited = [base.defaults for base in bases if isinstance(base, _FactType)]
        own = {each: members.pop(each) for each in members.get("__annotations__", ()) if each in members}
        defaults = {key: value for each in [*inherited, own] for key, value in each.items()}
        members |= {"__slots__": (), "defaults": MappingProxyType(defaults), "event": event}
        members |= dict(zip(defaults, _PLACES, strict=False))
        return super().__new__(mcs, name, bases, members)

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], event: str = "") -> None:
        super().__init__(name, bases, members)
        if event:
            BY_NAME[event] = cls  # type: ignore[assignment]


class _Values:
    __slots__ = ("_values",)
    if TYPE_CHECKING:  # in a class created by the metaclass, it would be a field

        @property
        def _values(self) -> tuple[Any, ...]: ...


class Fact(_Values, metaclass=_FactType):
    """The contents of an event. Each subclass is declared with the event's name in the journal."""

    def __init__(self, **values: Any) -> None:
        made = {**type(self).defaults, **values}
        if len(made) > len(type(self).defaults):
            raise TypeError(f"{type(self).__name__} has no such fields: {', '.join(values)}")
        object.__setattr__(self, "_values", tuple(made.values()))

    @classmethod
    def of_values(cls: type[_Fact], values: Iterable[Any]) -> _Fact:
        """Build a fact from its values, one for each field."""
        fact = object.__new__(cls)
        object.__setattr__(fact, "_values", tuple(values))
        return fact

    def with_fields(self: _Fact, **values: Any) -> _Fact:
        """Return a copy of the fact in which these fields have new values."""
        return type(self)(**{**dict(self.items()), **values})

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and value of each field, in the order of the class definition."""
        return zip(type(self).defaults, self._values, strict=True)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values == other._values

    def __hash__(self) -> int:
        return hash((type(self), self._values))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"
