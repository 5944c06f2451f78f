"""Sums up a finished fit in a cell in one line: what was trained, what happened, and what the result is worth. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomph.journal.events import (
    AnotherWay,
    AttemptEnded,
    AttemptStarted,
    FitFinished,
    FitStarted,
    NoWitnesses,
    RepeatCompared,
    RestartRequested,
    Resumed,
    RunStarted,
    TrainsAgain,
)
from oomph.journal.journal import Event, last
from oomph.run.report.labels import EXACT
from oomph.run.report.summary import Summary, result_in_words, summarise
from oomph.terminal.amounts import counted

_OF_THE_RUN = (
    RunStarted, AttemptStarted, AttemptEnded, RestartRequested, NoWitnesses, Resumed, TrainsAgain, AnotherWay,
)  # fmt: skip
"""The events that count for every fit, since it starts from what was restored or trained again before it."""
_MOST_REASONS = 3


def closing_line(events: Sequence[Event], key: str, number: int) -> str:
    """Return the line for a fit that has just finished, or "" if the events do not show that.

    Args:
        events: the events of the run so far.
        key: the key of the fit.
        number: the number of the fit in the run, counted from 0.
    """
    own = [event for event in events if _is_of(event, key, number)]
    here = [event for event in own if event.attempt == events[-1].attempt]
    started, finished = last(here, FitStarted), last(here, FitFinished)
    if finished is None:
        return ""
    reached = finished.steps if finished.reached is None else finished.reached
    ended = AttemptEnded(seconds=finished.seconds, steps=reached, saved=reached)
    summary = summarise([*own, here[-1]._replace(fact=ended)], 0)
    site = f" ({started.site})" if started is not None else ""
    its = [event for event in here if getattr(event.fact, "key", key) == key]
    trained = _trained(started, finished, last(its, Resumed))
    return "; ".join((f"fit {number + 1}{site}: {trained}", *_happened(summary, its), _result(summary)))


def _is_of(event: Event, key: str, number: int) -> bool:
    known = getattr(event.fact, "key", None)
    is_its = known == key if known is not None else getattr(event.fact, "fit", None) == number
    return is_its or isinstance(event.fact, _OF_THE_RUN)


def _trained(started: FitStarted | None, finished: FitFinished, resumed: Resumed | None) -> str:
    """Say how much was trained: the epochs of the whole fit, and the steps and seconds of this kernel."""
    epochs = [] if started is None or started.epochs is None else [counted(started.epochs, "epoch")]
    here = f"{counted(finished.steps, 'step')}, {finished.seconds:.0f} s"
    if resumed is None or resumed.epoch is None:
        return ", ".join([*epochs, here])
    at = f"resumed at epoch {resumed.epoch + 1}, step {(resumed.step or 0) + 1}"
    return "; ".join([*epochs, f"{at}, for {here}"])


def _happened(summary: Summary, here: Sequence[Event]) -> Iterator[str]:
    compared = last(here, RepeatCompared)
    if compared is not None and compared.equal and compared.steps:
        yield f"{counted(compared.steps, 'repeated step')} compared equal"
    if summary.micro_batch is not None:
        yield f"micro-batches of {summary.micro_batch}, the same global batch"


def _result(summary: Summary) -> str:
    return EXACT if summary.exactness == EXACT else result_in_words(summary, _MOST_REASONS)
