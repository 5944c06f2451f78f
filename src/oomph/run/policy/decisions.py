"""Reads the decisions in a run's journal and recomputes each one. Pure; used by the supervisor and `oomph explain`.

A run resumes from the decisions that were actually made. A different version of oomph might decide differently, and
actions that were never taken must not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import groupby
from typing import Any, get_type_hints

from oomph.files.conforming import conforms
from oomph.journal.events import Decided
from oomph.journal.journal import Event
from oomph.protocol.progress import place_in_words
from oomph.run.policy.decide import (
    GAVE_UP_EXIT_CODE,
    MOST_WITHOUT_CHECKPOINT,
    REQUEUE_EXIT_CODE,
    Action,
    Ending,
    Finish,
    GiveUp,
    Ledger,
    Requeue,
    Restart,
    decide,
    poison_step,
    record,
    refill,
)
from oomph.run.policy.ladder import SAME, Conditions, change_in, change_of, ladder, why_not
from oomph.terminal.amounts import counted
from oomph.terminal.endings import ProcessEnd

SCHEMA = 1


@dataclass(frozen=True)
class Decision:
    """One decision: the facts behind it, the action taken, and the action obtained by recomputing it."""

    attempt: int
    ending: Ending
    conditions: Conditions
    allowed: tuple[str, ...]
    ledger: Ledger
    """The ledger before the decision."""
    action: Action
    """The action taken."""
    again: Action
    """The action that this version of oomph would take."""

    @property
    def reproduced(self) -> bool:
        """True if both actions are the same."""
        return in_words(self.action) == in_words(self.again)


def facts(ending: Ending, conditions: Conditions, allowed: Collection[str]) -> dict[str, Any]:
    """Return the facts behind a decision, for the journal. The ledger follows from earlier decisions."""
    return {"ending": asdict(ending), "conditions": asdict(conditions), "allowed": sorted(allowed)}


def in_words(action: Action) -> dict[str, Any]:
    """Return an action as JSON, for the journal."""
    match action:
        case Finish(code):
            return {"action": "finish", "exit_code": code, "reason": ""}
        case Restart(reason, change, rung):
            named = None if change is None else asdict(change)
            return {"action": "restart", "reason": reason, "change": named, "rung": rung}
        case GiveUp(reason, code):
            return {"action": "give-up", "exit_code": code, "reason": reason}
        case Requeue(reason, code):
            return {"action": "requeue", "exit_code": code, "reason": reason}


def replay(events: Sequence[Event]) -> tuple[Decision, ...]:
    """Return every decision of a run, in order, except those whose facts cannot be read."""
    return tuple(decision for event in events if (decision := _decision(event)) is not None)


def ledger_of(events: Sequence[Event]) -> Ledger:
    """Return the ledger with which a run resumes: the previous one if it was cut off or requeued, or an empty one."""
    decisions = replay(events)
    if not decisions or isinstance(decisions[-1].action, (Finish, GiveUp)):
        return Ledger()
    return record(decisions[-1].ending, decisions[-1].action, decisions[-1].ledger)


def as_document(decisions: Sequence[Decision]) -> dict[str, Any]:
    """Return the decisions as one JSON document."""
    return {"schema": SCHEMA, "decisions": [_entry(decision) for decision in decisions]}


def as_text(decisions: Sequence[Decision], subject: str) -> str:
    """Describe each decision as text, with its reasons."""
    lines = [f"{subject}: {counted(len(decisions), 'decision')}"]
    for number, decision in enumerate(decisions, 1):
        lines += ["", f"{number}. {_what_happened(decision)}", f"   {_what_was_done(decision.action, decision.ending)}"]
        lines += [f"     {reason}" for reason in why(decision)]
    if not decisions:
        lines += ["", "The run has not ended yet."]
    return "\n".join(lines) + "\n"


def why(decision: Decision) -> Iterator[str]:
    """Yield the rules that led to the decision, in the order in which they were evaluated."""
    ending, action = decision.ending, decision.action
    if isinstance(action, Finish):
        yield _why_finished(ending)
    elif ending.unkillable:
        yield "a killed process has not exited, and might still write alongside a new one"
    elif ending.preempted:
        yield "a scheduler reclaimed the machine; the last checkpoint is kept"
    elif ending.called_off:
        yield "a scheduler reclaimed the machine before the next start; the last checkpoint is kept"
    elif ending.gave_up and not isinstance(action, Restart):
        yield "another start would repeat the error with which the script ended"
    else:
        yield from _why_within_budget(decision)
    if not decision.reproduced:
        yield f"this version of oomph would decide differently: {_what_was_done(decision.again, ending)}"


def _why_finished(ending: Ending) -> str:
    if ending.called_off:
        return f"signal {ending.called_off} arrived between two attempts, when there was no script to forward it to"
    if ending.interrupted:
        return "Ctrl-C stopped it, as the exit code shows"
    return "the user or the scheduler asked it to stop" if ending.stopped else "the script exited on its own"


def _why_within_budget(decision: Decision) -> Iterator[str]:
    ending, ledger, action = decision.ending, refill(decision.ending, decision.ledger), decision.action
    if ending.steps > decision.ledger.best_steps:
        steps = counted(ending.steps, "step")
        yield f"{steps} is further than any failed attempt reached: all remedies can be used again"
    elif ledger.best_steps:
        yield f"no progress beyond the {ledger.best_steps:,} steps of an earlier failed attempt"
    else:
        yield "no step has been committed yet"
    poison = poison_step(ending, ledger)
    if poison:
        yield f"poison step: {poison} has failed with {ending.fault} twice on the same data"
    begin = ledger.rungs.get(ending.fault, 0)
    rungs = ladder(ending.fault)
    end = action.rung if isinstance(action, Restart) else len(rungs)
    used = f"{begin} of them used before" if begin else "none used before"
    remedies = ", ".join(_named(rungs[: _last_of_interest(rungs)]))
    yield f"remedies for {ending.fault}, in this order: {remedies}; {used}"
    for index in range(begin, end):
        reason = why_not(rungs[index], decision.conditions, ledger.changes, decision.allowed, poison)
        if reason and rungs[index] != "skip-batch":
            yield f"skipped: {rungs[index]} ({reason})"
    yield f"restarts in a row without a newer checkpoint: {ledger.without_checkpoint} of {MOST_WITHOUT_CHECKPOINT}"


def _named(rungs: Sequence[str]) -> Iterator[str]:
    for rung, group in groupby(rungs):
        name, count = "a plain restart" if rung == SAME else rung, len(list(group))
        yield name if count == 1 else f"{name} ({count} times)"


def _last_of_interest(rungs: Sequence[str]) -> int:
    return next((index for index, name in enumerate(rungs) if name == "skip-batch"), len(rungs))


def _what_happened(decision: Decision) -> str:
    ending = decision.ending
    how = ProcessEnd(ending.returncode).number
    says_nothing = ending.fault == how or (isinstance(decision.action, Finish) and ending.returncode == 0)
    name = "" if says_nothing else f" ({ending.fault})"
    where = f"; {counted(ending.steps, 'step')} done, {ending.saved:,} saved" if ending.steps else ""
    if ending.place is not None and not isinstance(decision.action, Finish):
        where += f", at {place_in_words(*ending.place, ending.epoch_over)}"
    whose = "" if ending.worker is None else f" in worker {ending.worker}"
    return f"attempt {decision.attempt} ended by {how}{name}{whose}{where}"


def _what_was_done(action: Action, ending: Ending) -> str:
    match action:
        case Finish(code):
            return f"finish with exit code {code}"
        case Restart(_, change, rung):
            name = SAME if change is None else change.name
            size = ending.micro_batch
            same = "nothing changed" if size is None else f"with micro-batches of {size} at first"
            changed = same if change is None else f"with one change: {change}"
            return f"start again, {changed} (rung {rung + 1}: {name})"
        case GiveUp(reason, code):
            return f"give up with exit code {code}: {reason}"
        case Requeue(reason, code):
            return f"exit with code {code}, to be started again elsewhere or later: {reason}"


def _entry(decision: Decision) -> dict[str, Any]:
    return {
        "attempt": decision.attempt,
        **in_words(decision.action),
        "why": list(why(decision)),
        "reproduced": decision.reproduced,
        **facts(decision.ending, decision.conditions, decision.allowed),
        "ledger": decision.ledger.as_data(),
        "script_exit_code": ProcessEnd(decision.ending.returncode).exit_code,
    }


def _decision(event: Event) -> Decision | None:
    """Return the decision that an event records, or None if it doesn't record one or the facts cannot be read."""
    decided = event.fact
    if not isinstance(decided, Decided) or decided.ending is None or decided.ledger is None:
        return None
    try:
        ending, conditions = _read(Ending, decided.ending), _read(Conditions, decided.conditions)
        allowed, before = tuple(decided.allowed), _ledger_in(decided.ledger)
        again = decide(ending, before, conditions, allowed)
        action = _action_in(decided) or again
        record(ending, action, before)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        return None
    return Decision(event.attempt, ending, conditions, allowed, before, action, again)


def _action_in(decided: Decided) -> Action | None:
    """Return the action that was taken, or None if this version of oomph does not know it."""
    reason, code = decided.reason, decided.exit_code
    match decided.action:
        case "finish" if code is not None:
            return Finish(code)
        case "restart":
            return Restart(reason, change_in(decided), decided.rung or 0)
        case "give-up":
            return GiveUp(reason, GAVE_UP_EXIT_CODE if code is None else code)
        case "requeue":
            return Requeue(reason, REQUEUE_EXIT_CODE if code is None else code)
    return None


def _ledger_in(written: Mapping[str, Any]) -> Ledger:
    """Parse the ledger of a `decided` event. An invalid ledger raises an error that `_decision` catches."""
    changes = tuple(filter(None, (change_of(each["name"], each["value"]) for each in written.get("changes", ()))))
    counts = {name: {str(k): int(v) for k, v in written.get(name, {}).items()} for name in ("restarts", "rungs")}
    others = {name: value for name, value in written.items() if name not in (*counts, "changes")}
    ledger: Ledger = _read(Ledger, others)
    return replace(ledger, restarts=counts["restarts"], rungs=counts["rungs"], changes=changes)


def _read(kind: type[Any], document: Mapping[str, Any]) -> Any:
    """Read a frozen value of type `kind` from a JSON object in the journal, ignoring unknown fields.

    Raises ValueError if a known field has the wrong type.
    """
    hints = get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in document.items() if key in known}
    for name, value in values.items():
        if not conforms(value, hints[name]):
            raise ValueError(f"{name} of a decision is not what its reader expects")
    return kind(**values)
