"""Represents the reasons why a run's label is not better, each as a code with values. Pure; standard library only.

Both the script's process and the supervisor produce reasons, which are passed on as codes. `reason_table` contains the
sentence, the remedy and the rank of each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oomph.journal.events import RecordsLeftOut
from oomph.journal.journal import Event
from oomph.protocol.reason_table import TABLE
from oomph.terminal.wrapping import shortened

Value = str | int | float
_RANKS = {code: rank for rank, code in enumerate(TABLE)}
_LONGEST = 2000
_MOST_NAMED = 5


@dataclass(frozen=True)
class Reason:
    """A reason why a label is not better, created by `because`."""

    code: str
    values: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        return self._filled(TABLE[self.code].sentence)

    @property
    def remedy(self) -> str:
        """The one-line change that removes the reason."""
        return self._filled(TABLE[self.code].remedy)

    @property
    def rank(self) -> int:
        """The reason's rank in the table. The lower it is, the closer the reason is to the root cause."""
        return _RANKS[self.code]

    def value(self, name: str) -> Value:
        """Return the reason's value with this name, or an empty string if there is none."""
        return dict(self.values).get(name, "")

    def as_data(self) -> dict[str, Value]:
        """Return the reason as JSON."""
        return {"code": self.code, **dict(self.values)}

    def as_fields(self) -> dict[str, Any]:
        """Return the reason as two fields of an event: a human-readable sentence, and the code with its values."""
        return {"reason": str(self), "why": self.as_data()}

    def _filled(self, text: str | Callable[..., str]) -> str:
        values = dict(self.values)
        return text(**values) if callable(text) else text.format(**values)


def because(code: str, **values: Value) -> Reason:
    """Create a reason. Raises KeyError for an unknown code or a missing value, or TypeError for a wrong value."""
    made = Reason(code, tuple(values.items()))
    _ = str(made), made.remedy  # so that a mistake shows up here, and not where the reason is read
    return made


def method_failed(where: str, method: str, error: Exception) -> Reason:
    """Return the reason for an error that one of the script's own methods raised while saving or restoring state."""
    words = shortened(f"{type(error).__name__}: {error}", 200)
    return because("method-failed", where=where, method=method, error=words)


def reason_from(data: object) -> Reason:
    """Read a reason from a journal or checkpoint. A damaged reason, or one from a newer oomph, is shown as it is."""
    code = data.get("code") if isinstance(data, Mapping) else None
    if isinstance(data, Mapping) and isinstance(code, str) and code in TABLE:
        values = {str(name): value for name, value in data.items() if isinstance(value, (str, int, float))}
        try:
            return because(**values)  # type: ignore[arg-type]
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            pass
    text = data if isinstance(data, str) else json.dumps(data, default=str, ensure_ascii=False)
    return because("in-words", text=text[:_LONGEST])


class WithReason(Protocol):
    """An event that contains a reason."""

    @property
    def reason(self) -> str:
        """The reason as text."""

    @property
    def why(self) -> Mapping[str, Any] | str | None:
        """The reason's code and values."""


def reason_of(fact: WithReason) -> Reason:
    """Read the reason that an event contains."""
    return reason_from(fact.why or fact.reason)


def reasons_from(data: object) -> tuple[Reason, ...]:
    """Read a list of reasons. Anything else counts as an empty list."""
    return tuple(map(reason_from, data)) if isinstance(data, (list, tuple)) else ()


def as_data(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    """Return the distinct reasons as JSON."""
    return [each.as_data() for each in dict.fromkeys(reasons)]


def in_one_line(reasons: Iterable[Reason], most: int | None = None) -> str:
    """Join the first `most` reasons into one sentence."""
    return ", ".join(map(str, list(reasons)[:most]))


def left_out(events: Iterable[Event]) -> Reason | None:
    """Return the reason that lists the records left out in a run, or None if none are known."""
    records: dict[str, None] = {}
    told, complete = False, True
    for event in events:
        match event.fact:
            case RecordsLeftOut(records=named, complete=is_complete):
                records |= dict.fromkeys(named)
                told, complete = True, complete and is_complete
    return records_left_out([*records], complete) if told else None


def records_left_out(records: Sequence[str], complete: bool) -> Reason:
    """Return the reason that lists these left-out records.

    Args:
        records: descriptions of the records, or empty if they could not be found.
        complete: False if there may be others.
    """
    named = ", ".join(records[:_MOST_NAMED])
    more = f" and {len(records) - _MOST_NAMED} more" if len(records) > _MOST_NAMED else ""
    return because("left-out", count=len(records), named=named + more, complete=complete)
