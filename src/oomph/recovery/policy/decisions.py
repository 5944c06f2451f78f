"""The decisions of a run, as its journal has them, and what each comes to when it is computed again. Pure.

A run goes on from the decisions that were taken. Another oomph might take others, and what was not done is not to be
counted as done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_type_hints

from oomph.conforming import conforms
from oomph.journal import Event
from oomph.recovery.policy.ladder import SAME, Conditions, change_in, change_of, ladder, why_not
from oomph.recovery.policy.policy import (
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
    exit_code,
    poison_step,
    record,
    refill,
)

SCHEMA = 1


@dataclass(frozen=True)
class Decision:
    """One decision: what it was taken upon, what it was, and what it comes to when it is computed again."""

    attempt: int
    ending: Ending
    conditions: Conditions
    allowed: tuple[str, ...]
    ledger: Ledger
    """As it was before the decision."""
    action: Action
    """What was done."""
    again: Action
    """What this oomph would do."""

    @property
    def reproduced(self) -> bool:
        """Whether both are the same."""
        return in_words(self.action) == in_words(self.again)


def facts(ending: Ending, conditions: Conditions, allowed: Collection[str]) -> dict[str, Any]:
    """What a decision was taken upon, for the journal; the ledger follows from the decisions before."""
    return {"ending": asdict(ending), "conditions": asdict(conditions), "allowed": sorted(allowed)}


def in_words(action: Action) -> dict[str, Any]:
    """An action for the journal."""
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
    """Every decision of a run, in order. Those of an oomph that did not write down its reasons are left out.

    A run that was resumed by a person begins with an empty ledger; one that was cut off, or put back into a queue, goes
    on with the one it had.
    """
    decisions: list[Decision] = []
    ledger = Ledger()
    for event in events:
        decision = _decision(event, ledger)
        if decision is not None:
            decisions.append(decision)
            ledger = _after(decision)
    return tuple(decisions)


def ledger_of(events: Sequence[Event]) -> Ledger:
    """The ledger with which a run goes on that did not end by itself."""
    decisions = replay(events)
    return _after(decisions[-1]) if decisions else Ledger()


def _after(decision: Decision) -> Ledger:
    if isinstance(decision.action, (Finish, GiveUp)):
        return Ledger()
    return record(decision.ending, decision.action, decision.ledger)


def as_document(decisions: Sequence[Decision]) -> dict[str, Any]:
    """The decisions as one JSON document."""
    return {"schema": SCHEMA, "decisions": [_entry(decision) for decision in decisions]}


def as_text(decisions: Sequence[Decision], subject: str) -> str:
    """The decisions in words, with the reason of each."""
    count = len(decisions)
    lines = [f"{subject}: {count} decision{'' if count == 1 else 's'}"]
    for number, decision in enumerate(decisions, 1):
        lines += ["", f"{number}. {_what_happened(decision)}", f"   {_what_was_done(decision.action)}"]
        lines += [f"     {reason}" for reason in why(decision)]
    if not decisions:
        lines += ["", "The run has not ended yet, or was begun by an oomph that did not write down its reasons."]
    return "\n".join(lines) + "\n"


def why(decision: Decision) -> Iterator[str]:
    """The rules that led to the decision, in the order in which they were asked."""
    ending, action = decision.ending, decision.action
    if isinstance(action, Finish):
        yield _why_finished(ending)
    elif ending.unkillable:
        yield "a process that was killed is still there: another start would be a second writer"
    elif ending.preempted:
        yield "a scheduler took the machine away; the last checkpoint is kept"
    elif ending.called_off:
        yield "a scheduler took the machine away before another start; the last checkpoint is kept"
    elif ending.gave_up:
        yield "the guard in the script gave up, and the script ended by just that error"
    else:
        yield from _why_within_budget(decision)
    if not decision.reproduced:
        yield f"this oomph would decide otherwise: {_what_was_done(decision.again)}"


def _why_finished(ending: Ending) -> str:
    if ending.called_off:
        return f"signal {ending.called_off} came before another start, and there was no script to pass it on to"
    if ending.interrupted:
        return "Ctrl-C was pressed: the exit code is the one of that"
    return "somebody wanted it to end" if ending.stopped else "it ended in a way of the script's own"


def _why_within_budget(decision: Decision) -> Iterator[str]:
    ending, ledger, action = decision.ending, refill(decision.ending, decision.ledger), decision.action
    if ending.steps > decision.ledger.best_steps:
        yield f"{ending.steps} steps are more than any failed attempt had reached: every fault has its ladder back"
    elif ledger.best_steps:
        yield f"no progress beyond the {ledger.best_steps} steps that a failed attempt had reached before"
    else:
        yield "no step has been committed yet"
    poison = poison_step(ending, ledger)
    if poison:
        yield f"poison step: {poison} has failed by {ending.fault} twice on the same data"
    begin = ledger.rungs.get(ending.fault, 0)
    rungs = ladder(ending.fault)
    end = action.rung if isinstance(action, Restart) else len(rungs)
    yield f"ladder of {ending.fault}: {', '.join(rungs[: _last_of_interest(rungs)])}; used before: {begin}"
    for index in range(begin, end):
        reason = why_not(rungs[index], decision.conditions, ledger.changes, decision.allowed, poison)
        if reason and rungs[index] != "skip-batch":
            yield f"passed over: {rungs[index]} ({reason})"
    yield f"restarts in a row without a newer checkpoint: {ledger.without_checkpoint} of {MOST_WITHOUT_CHECKPOINT}"


def _last_of_interest(rungs: Sequence[str]) -> int:
    return next((index for index, name in enumerate(rungs) if name == "skip-batch"), len(rungs))


def _what_happened(decision: Decision) -> str:
    ending = decision.ending
    code = ending.returncode
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    name = "" if isinstance(decision.action, Finish) and code == 0 else f" ({ending.fault})"
    where = f"; {ending.steps} steps done, {ending.saved} saved" if ending.steps else ""
    if ending.place is not None and not isinstance(decision.action, Finish):
        fit, epoch, step = ending.place
        where += f", at fit {fit + 1}, epoch {epoch + 1}, step {step + 1}"
    return f"attempt {decision.attempt} ended by {how}{name}{where}"


def _what_was_done(action: Action) -> str:
    match action:
        case Finish(code):
            return f"finish with exit code {code}"
        case Restart(_, change, rung):
            name = SAME if change is None else change.name
            changed = "nothing changed" if change is None else f"with one change: {change}"
            return f"start again, {changed} (rung {rung + 1}: {name})"
        case GiveUp(reason, code):
            return f"give up with exit code {code}: {reason}"
        case Requeue(reason, code):
            return f"end with exit code {code}, to be started again elsewhere or later: {reason}"


def _entry(decision: Decision) -> dict[str, Any]:
    return {
        "attempt": decision.attempt,
        **in_words(decision.action),
        "why": list(why(decision)),
        "reproduced": decision.reproduced,
        **facts(decision.ending, decision.conditions, decision.allowed),
        "ledger": decision.ledger.as_data(),
        "script_exit_code": exit_code(decision.ending.returncode),
    }


def _decision(event: Event, ledger: Ledger) -> Decision | None:
    """The decision of an event; None when it is none, or one of which the reasons cannot be read."""
    if event.name != "decided" or "ending" not in event.data:
        return None
    try:
        ending = _read(Ending, event.data["ending"])
        conditions = _read(Conditions, event.data.get("conditions", {}))
        allowed = tuple(map(str, event.data.get("allowed", ())))
        before = _ledger_in(event.data) or ledger
        again = decide(ending, before, conditions, allowed)
        action = _action_in(event.data) or again
        record(ending, action, before)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        return None
    return Decision(event.attempt, ending, conditions, allowed, before, action, again)


def _action_in(data: Mapping[str, Any]) -> Action | None:
    """The action of a `decided` event; None of one that this oomph does not know."""
    reason = str(data.get("reason", ""))
    match data.get("action"):
        case "finish":
            return Finish(int(data["exit_code"]))
        case "restart":
            return Restart(reason, change_in(data), int(data.get("rung", 0)))
        case "give-up":
            return GiveUp(reason, int(data.get("exit_code", GAVE_UP_EXIT_CODE)))
        case "requeue":
            return Requeue(reason, int(data.get("exit_code", REQUEUE_EXIT_CODE)))
    return None


def _ledger_in(data: Mapping[str, Any]) -> Ledger | None:
    """The ledger that a `decided` event was taken with; None where an older oomph did not write it down."""
    written = data.get("ledger")
    if not isinstance(written, Mapping):
        return None
    changes = tuple(filter(None, (change_of(each["name"], each["value"]) for each in written.get("changes", ()))))
    counts = {name: {str(k): int(v) for k, v in written.get(name, {}).items()} for name in ("restarts", "rungs")}
    others = {name: value for name, value in written.items() if name not in (*counts, "changes")}
    ledger: Ledger = _read(Ledger, others)
    return replace(ledger, restarts=counts["restarts"], rungs=counts["rungs"], changes=changes)


def _read(kind: type[Any], document: Mapping[str, Any]) -> Any:
    """A frozen value from the words of the journal; fields that this oomph does not know are left out.

    Raises ValueError where one that it knows is of another type.
    """
    hints = get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in document.items() if key in known}
    for name, value in values.items():
        if not conforms(value, hints[name]):
            raise ValueError(f"{name} of a decision is not what its reader expects")
    return kind(**values)
