"""Tells the story of a run, in order: each fault, where it struck, how oomph responded, and what that cost. Pure.

`oomph explain RUN` prints the story. The supervisor's closing lines summarise the same events (`account.py`).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from oomph.journal.events import (
    AtStep,
    AttemptEnded,
    CellStarted,
    CheckpointSaved,
    CheckpointSkipped,
    Decided,
    Diagnosed,
    FitFinished,
    FitStarted,
    Hung,
    LoopSeen,
    MicroBatchesProbed,
    Oom,
    ProbeFailed,
    Recovered,
    RestartRequested,
    RunEnded,
    TrainedOutsideFit,
    UncaughtException,
    WorkerFailed,
)
from oomph.journal.fact import Fact
from oomph.journal.gaps import JournalGap
from oomph.journal.journal import Event, by_attempt, facts, last
from oomph.protocol.progress import place_in_words
from oomph.run.policy.ladder import change_in
from oomph.run.report.attempts import end_in_words, failed_first, stopped
from oomph.run.report.found import Found, each_once, findings_of
from oomph.run.report.labels import SMALLER
from oomph.run.report.next_command import names_read, options_without_a_run
from oomph.run.report.refused import Refused, refused_in, resumed_at, steps_lost_to_refusals
from oomph.run.report.summary import (
    ALL_ENDED,
    CUT_OFF,
    Summary,
    improvement,
    is_of_training,
    result_in_words,
    seconds_until_restart,
    was_cut_off,
)
from oomph.terminal import panel
from oomph.terminal.amounts import as_duration, counted
from oomph.terminal.endings import ProcessEnd
from oomph.terminal.message import shown, shown_line
from oomph.terminal.screen import USUAL_WIDTH
from oomph.terminal.wrapping import shortened, wrapped

OUT_OF_MEMORY, NOT_FINITE, HANG, UNRELATED = "device-oom", "nan-loss", "hang", "unrelated"
_GOES_ON = (FitStarted, FitFinished, CheckpointSaved, LoopSeen, TrainedOutsideFit)
"""Events that show that the script is training."""
_WORTH_A_FLAG = 1.0
"""The least time, in seconds, that a run must have lost for a flag to be worth typing."""
_FEWER = 4
"""The factor by which checkpoints should be more frequent if repeated steps cost too much."""
_SHORTEST_CHECKPOINT_SECONDS = 5
_LONGEST_OUTCOME = 120
"""The maximum number of characters of the outcome in a repr."""
_WORTHWHILE = 2
"""The least cost of a restart, as a multiple of the new interval, for the interval to be worth suggesting."""


@dataclass(frozen=True)
class Incident:
    """One fault in a run."""

    fault: str
    attempt: int
    place: str
    """The position in training, counted from 1, or an empty string if training had not started."""
    shown_by: str
    """The evidence for the fault, as printed or measured."""
    done: str
    """The response of oomph."""
    cost: str
    """The cost of the fault, or an empty string if it cost nothing or the cost is unknown."""
    time: float = 0.0
    """The Unix time at which it struck, or at which the attempt ended because of it."""


SavingKind = Literal["micro-batch", "checkpoints"]


@dataclass(frozen=True)
class Saving:
    """A change to the command line that would have avoided some of the cost."""

    kind: SavingKind
    seconds: float
    """The time that was lost, of which the change would have saved all or a part."""
    text: str
    command: str


@dataclass(frozen=True)
class Story:
    """The story of a run, according to its journal."""

    outcome: str
    failed: bool
    """True if the run's exit code was not 0."""
    result: str
    """The label and its reasons as text, or an empty string unless the script trained and finished."""
    incidents: tuple[Incident, ...]
    savings: tuple[Saving, ...]
    findings: tuple[Found, ...] = ()
    stopped: str = ""
    """A description of how the run was stopped, or an empty string if it ended some other way."""
    improvement: str = ""
    """The one change to the script that would improve the result."""
    gap: str = ""
    """A sentence that says what was lost of the journal, or an empty string if it is whole."""

    def __repr__(self) -> str:
        outcome = shown_line(shortened(self.outcome, _LONGEST_OUTCOME))
        return f"Story({outcome!r}, incidents={len(self.incidents)}, findings={len(self.findings)})"

    def __str__(self) -> str:
        return panel.screenful([shown(as_text(self, "the run", "", str, USUAL_WIDTH))])

    def _repr_html_(self) -> str:
        """Return the story as a panel for notebooks."""
        struck = [
            f"{each.fault}, attempt {each.attempt}{f' at {each.place}' * bool(each.place)}: {each.done}"
            for each in self.incidents
        ]
        found = [f"{each.fault}: {each.message}" for each in self.findings]
        tone = panel.Tone.BAD if self.failed else panel.Tone.WARNING if self.incidents else panel.Tone.GOOD
        result = [panel.paragraph(self.result)] if self.result else []
        return panel.panel(self.outcome, [*result, panel.items(struck, numbered=True), panel.items(found)], tone)

    def as_document(self) -> dict[str, Any]:
        """Return the story as JSON, for `oomph explain RUN --json`."""
        return asdict(self)


def story_of(
    events: Sequence[Event],
    summary: Summary,
    typed: Sequence[str],
    words: Sequence[str],
    status: str = "",
    gap: JournalGap | None = None,
) -> Story:
    """Build the story of a run.

    Args:
        events: the events of all attempts, in order.
        summary: the summary of these events.
        typed: the `oomph run` options, as the user typed them.
        words: the script and its arguments.
        status: the status in run.json, which tells the end if the journal does not.
        gap: what was lost of the journal, or None if it is whole.
    """
    by_whom = stopped(events)
    attempts = by_attempt(events)
    incidents = tuple(
        incident
        for attempt, following in zip(attempts, [*attempts[1:], []], strict=False)
        for incident in _incidents(attempt, following)
    )
    lacks = ""
    if gap is not None and gap.hides_events:
        lacks = "its journal is incomplete" if events else "nothing of its journal can be read"
    ended = "" if summary.exit_code is None else by_whom or end_in_words(summary.exit_code, failed_first(events))
    return Story(
        outcome=_outcome(summary, len(incidents), ended, _ENDED.get(status, ""), lacks),
        failed=summary.exit_code not in (None, 0) or (summary.exit_code is None and status in _ENDED),
        result=result_in_words(summary),
        incidents=incidents,
        savings=tuple(_savings(summary, events, [*options_without_a_run(typed)], words)),
        findings=each_once(findings_of(events)),
        stopped=by_whom,
        improvement=improvement(summary),
        gap="" if gap is None else gap.text,
    )


_ENDED = {"failed": "failed", "gave-up": "gave up"}
"""The words for how a run has ended, by its status in run.json, if its exit code is unknown."""


def _outcome(summary: Summary, faults: int, end: str, ended: str, lacks: str) -> str:
    """Describe how a run ended or stands.

    Args:
        summary: the summary of the run.
        faults: the number of incidents.
        end: how it was stopped or failed, if that is recorded.
        ended: how it ended according to run.json, or an empty string.
        lacks: what is wrong with the journal, or an empty string.
    """
    steps = f" after {counted(summary.steps, 'step')}" if summary.steps else ""
    attempts = f" in {counted(summary.attempts, 'attempt')}" if summary.attempts > 1 else ""
    took = f", {as_duration(summary.seconds)}" if summary.seconds or not lacks else ""
    why = f": {summary.gave_up}" if summary.gave_up else ""
    if summary.exit_code == 0:
        told = f"finished{steps}{attempts}{took}"
    elif summary.exit_code is not None:
        told = f"{end}{steps}{attempts}{took}{why}"
    elif ended:
        told = f"{ended}{steps}{attempts}{why}"
    elif faults or not lacks:
        told = f"{counted(faults, 'fault') if faults else 'no fault'} found{steps}{attempts}"
    else:
        return f"what happened is unknown: {lacks}"
    return f"{told}; what else happened is unknown: {lacks}" if lacks else told


# -- what happened ----------------------------------------------------------------------------------------------------


def _incidents(attempt: Sequence[Event], following: Sequence[Event]) -> Iterator[Incident]:
    """Yield an attempt's faults: first those that the process survived, then the one that ended it.

    Args:
        attempt: the events of the attempt.
        following: the events of the next attempt.
    """
    number, failed, probes = attempt[0].attempt, list[Oom](), list[ProbeFailed]()
    later, struck = list[ProbeFailed](), 0.0
    probed = {found.during: found.kind for found in facts(attempt, MicroBatchesProbed) if found.during is not None}
    skipped = facts(attempt, CheckpointSkipped)
    for event in attempt:
        match event.fact:
            case CheckpointSkipped() if skipped:
                yield replace(_not_finite(number, skipped), time=event.time)
                skipped = []
            case Oom() as oom:
                struck = struck if _guarded(failed) else event.time
                failed.append(oom)
            case Recovered(during=during) as recovered:
                if _guarded(failed):
                    errors = len(_guarded(failed)) + len(probes)
                    kind = probed.get(during or "")
                    yield replace(_recovered(number, _guarded(failed)[0], errors, recovered, kind), time=struck)
                failed, probes = [], []
            case ProbeFailed() as probe:
                (probes if failed else later).append(probe)
            case fact if isinstance(fact, _GOES_ON):
                failed = _guarded(failed)  # the script survived the errors that it caught itself
    if later:
        yield replace(_probes(number, later), time=_last_time(attempt, ProbeFailed))
    ended = _that_ended(attempt, failed, len(probes), following)
    if ended is not None:
        yield replace(ended, time=_time_of_end(attempt))


def _time_of_end(attempt: Sequence[Event]) -> float:
    """Return when the attempt ended; if nobody saw that, its end was written later, with how long it was seen."""
    ended = last(attempt, AttemptEnded)
    if ended is not None and was_cut_off(ended):
        return attempt[0].time + ended.seconds
    return _last_time(attempt, AttemptEnded) or attempt[-1].time


def _last_time(attempt: Sequence[Event], kind: type[Fact]) -> float:
    """Return the time of the last event of this class, or 0 if there is none."""
    return next((event.time for event in reversed(attempt) if isinstance(event.fact, kind)), 0.0)


def _guarded(failed: Sequence[Oom]) -> list[Oom]:
    """Return the errors that occurred in guarded steps. All others are left to the script."""
    return [oom for oom in failed if oom.phase != "elsewhere"]


def _not_finite(attempt: int, skipped: Sequence[CheckpointSkipped]) -> Incident:
    """Combine all checkpoints skipped because of a non-finite state into one incident, since training continued."""
    first = skipped[0]
    kept = dict.fromkeys(each.kept for each in skipped if each.kept is not None)
    done = f"kept {', then '.join(kept)}" if kept else "took no checkpoint of it"
    return Incident(NOT_FINITE, attempt, _place(first), first.reason, done, "")


def _probes(attempt: int, failed: Sequence[ProbeFailed]) -> Incident:
    """Combine the probes that ran out of memory, in steps that did not, into one incident. Only time was lost."""
    seconds = sum(probe.seconds for probe in failed)
    done = f"continued: only a check of the micro-batches, on {failed[0].samples} samples at once, ran out of memory"
    cost = f"{as_duration(seconds)}, {counted(len(failed), 'out-of-memory error')}"
    return Incident(OUT_OF_MEMORY, attempt, _place(failed[0]), failed[0].message, done, cost)


def _recovered(attempt: int, failed: Oom, errors: int, recovered: Recovered, kind: str | None) -> Incident:
    return Incident(
        OUT_OF_MEMORY,
        attempt,
        _place(recovered) or recovered.during or ("" if recovered.piece is None else "map_batches"),
        failed.message,
        _divided(recovered, recovered.guard or kind),
        f"{as_duration(recovered.seconds)}, {counted(errors, 'out-of-memory error')}",
    )


def _divided(recovered: Recovered, kind: str | None) -> str:
    """Describe how a batch that did not fit was processed, which depends on the call and on the kind of guard."""
    during, batch = recovered.during, recovered.batch
    if recovered.piece is not None:
        return f"applied the function to the batch of {batch} in calls of at most {recovered.piece} elements"
    verb = "trained" if during is None else f"ran {during} on"
    whole, size = f"{verb} the batch of {batch}", recovered.micro_batch
    if kind == SMALLER:
        return f"{whole} as smaller batches of {size}, each with its own update"
    return f"{whole} as micro-batches of {size}"


def _that_ended(
    attempt: Sequence[Event], failed: Sequence[Oom], probes: int, following: Sequence[Event]
) -> Incident | None:
    """Return the fault that ended the attempt, or None if it ended normally or on request.

    Args:
        attempt: the events of the attempt.
        failed: the out-of-memory errors that were not recovered.
        probes: the number of probes that ran out of memory in the step that failed.
        following: the events of the next attempt.
    """
    number, ended, decided = attempt[0].attempt, last(attempt, AttemptEnded), last(attempt, Decided)
    kernel = _next_kernel(attempt, following)
    if ended is not None and was_cut_off(ended):
        shown = f"{ALL_ENDED}, perhaps by kill -9 of both or a power failure: there is no record of how"
        shown = "the kernel was gone, and nobody saw how it ended" if kernel else shown
        return Incident(CUT_OFF, number, "", shown, kernel or f"nothing: {ALL_ENDED}", _repeated(ended, following))
    fault = _fault(attempt, failed)
    if not fault:
        return None
    shown_by = failed[-1] if failed and fault == OUT_OF_MEMORY else None  # a caught error doesn't explain a later kill
    place = "" if decided is None else _place_of_ending(decided.ending)
    place = place or ("" if shown_by is None else _place(shown_by))
    cost = ", ".join(filter(None, (_until_restart(attempt, failed, probes), _repeated(ended, following))))
    return Incident(fault, number, place, _shown(attempt, shown_by), kernel or _done(attempt, decided), cost)


def _next_kernel(attempt: Sequence[Event], following: Sequence[Event]) -> str:
    """Describe what followed the end of a notebook's kernel, about which nothing is decided; empty for a script."""
    if not facts(attempt, CellStarted):
        return ""
    return f"the next kernel went on as attempt {following[0].attempt}" if following else "no other kernel has followed"


def _fault(attempt: Sequence[Event], failed: Sequence[Oom]) -> str:
    decided, diagnosed, ended = (last(attempt, Decided), last(attempt, Diagnosed), last(attempt, AttemptEnded))
    ending = (decided and decided.ending) or {}
    if ending.get("stopped") or ending.get("preempted"):
        return ""
    if last(attempt, Hung) is not None:
        return HANG
    first = _first(attempt)
    if first is not None and first.fault not in ("", ProcessEnd(first.returncode).name):
        return first.fault
    if diagnosed is not None and diagnosed.fault:
        return diagnosed.fault
    return OUT_OF_MEMORY if _guarded(failed) and ended is not None and ended.returncode != 0 else ""


def _shown(attempt: Sequence[Event], oom: Oom | None) -> str:
    """Return the evidence for the fault that ended the attempt."""
    hung, error, ended = last(attempt, Hung), last(attempt, UncaughtException), last(attempt, AttemptEnded)
    first = _first(attempt)
    who = "" if first is None else f"{first.who}: "
    if hung is not None:
        return f"{who}no progress for {hung.seconds} s, at {hung.line or 'an unknown line'}"
    if first is None or not first.worker:  # otherwise these are errors with which the first worker noticed it
        if oom is not None:
            return f"{who}{oom.message}"
        if error is not None:
            return f"{who}{error.type}: {error.message}"
    code = first.returncode if first is not None else None if ended is None else ended.returncode
    return who + ("" if code is None else _exit(code))


def _first(attempt: Sequence[Event]) -> WorkerFailed | None:
    """Return the failure of the worker from which those of the others follow, or None if there is only one worker."""
    return next((failed for failed in facts(attempt, WorkerFailed) if failed.cause), None)


def _done(attempt: Sequence[Event], decided: Decided | None) -> str:
    if decided is None:
        return "nothing: oomph itself was terminated"
    change, over = change_in(decided), last(attempt, RunEnded)
    match decided.action:
        case "restart" if over is not None:  # a worker never starts again alone
            return f"ended all workers with exit code {over.exit_code}, for the scheduler to start them again"
        case "restart":
            with_change = "" if change is None else f", with one change: {change}"
            return f"started attempt {attempt[0].attempt + 1}{with_change}"
        case "give-up":
            return f"gave up: {decided.reason}"
        case "requeue":
            return f"stopped, to be started again elsewhere or later: {decided.reason}"
    return "let the script exit"


def _until_restart(attempt: Sequence[Event], failed: Sequence[Oom], probes: int) -> str:
    """Describe what out-of-memory errors cost if only a new process could fix them, or return an empty string."""
    if not _guarded(failed) or last(attempt, RestartRequested) is None:
        return ""
    seconds = _guarded(failed)[-1].seconds + seconds_until_restart(attempt)
    return f"{as_duration(seconds)}, {counted(len(_guarded(failed)) + probes, 'out-of-memory error')}"


def _repeated(ended: AttemptEnded | None, following: Sequence[Event]) -> str:
    """Describe how many steps were lost. The next attempt may have used a checkpoint that was still being written."""
    if ended is None:
        return ""
    refused, at = refused_in(following), resumed_at(following)
    if refused and ended.saved > at:
        return f"{counted(ended.steps - at, 'step')}, {_for_want_of(refused)}"
    lost = ended.steps - max(ended.saved, at)
    return f"{counted(lost, 'step')} since the last checkpoint" if lost > 0 else ""


def _for_want_of(refused: Sequence[Refused]) -> str:
    if len(refused) == 1:
        return f"since checkpoint {refused[0]} was refused"
    return f"since checkpoints {', '.join(map(str, refused))} were refused"


# -- what would have saved time ---------------------------------------------------------------------------------------


def _savings(summary: Summary, events: Sequence[Event], typed: list[str], words: Sequence[str]) -> Iterator[Saving]:
    if not words:
        return
    names = names_read(events)
    alike = f"; set {', '.join(names)} as in this run" if names else ""
    seconds = sum(each.seconds for each in facts(events, Recovered) if is_of_training(each))
    is_exact = all(reason.code != "divided" for reason in summary.reasons)  # otherwise, the size changes the result
    if summary.micro_batch and is_exact and seconds >= _WORTH_A_FLAG and not _given(typed, "--micro-batch"):
        command = ["oomph", "run", f"--micro-batch={summary.micro_batch}", *typed, *words]
        yield Saving(
            "micro-batch",
            seconds,
            f"The {as_duration(seconds)} spent finding a micro-batch: start with its size{alike}",
            shlex.join(command),
        )
    repeated = max(0, summary.steps_repeated - steps_lost_to_refusals(events))
    seconds = _seconds_of(repeated, events)
    at_each = seconds / max(1, summary.restarts)  # the interval was at least as long
    every = max(_SHORTEST_CHECKPOINT_SECONDS, round(at_each / _FEWER))
    if at_each >= _WORTHWHILE * every and not _given(typed, "--checkpoint-every"):
        command = ["oomph", "run", f"--checkpoint-every={every}s", *typed, *words]
        yield Saving(
            "checkpoints",
            seconds,
            f"Part of the {as_duration(seconds)} that {counted(repeated, 'repeated step')} took: checkpoints at"
            f" shorter intervals, which also cost time{alike}",
            shlex.join(command),
        )


def _seconds_of(repeated: int, events: Sequence[Event]) -> float:
    """Estimate how long the repeated steps took, from the mean step time of the finished fits."""
    finished = [fit for fit in facts(events, FitFinished) if fit.steps]
    steps = sum(fit.steps for fit in finished)
    seconds = repeated * sum(fit.seconds for fit in finished) / steps if steps else 0.0
    return seconds if math.isfinite(seconds) else 0.0  # times in a journal may be forged


def _given(typed: Sequence[str], option: str) -> bool:
    return any(word.partition("=")[0] == option for word in typed)


# -- words ------------------------------------------------------------------------------------------------------------


def _place(at: AtStep) -> str:
    if at.fit is None or at.epoch is None or at.step is None:
        return ""
    return place_in_words(at.fit, at.epoch, at.step)


def _place_of_ending(ending: Any) -> str:
    if not isinstance(ending, Mapping):
        return ""
    place = ending.get("place")
    if not isinstance(place, Sequence) or len(place) != 3 or not all(isinstance(number, int) for number in place):
        return ""
    return place_in_words(place[0], place[1], place[2], ending.get("epoch_over") is True) if place[0] >= 0 else ""


def _exit(returncode: int) -> str:
    return f"exit code {returncode}" if returncode >= 0 else f"death by signal {-returncode}"


_LONGEST = 300
_INDENT = "   "


def as_text(story: Story, run: str, state: str, headline: Callable[[str], str], width: int) -> str:
    """Describe the outcome, each fault with oomph's response and its cost, and changes that would have saved that cost.

    Args:
        story: the story to describe.
        run: the run directory, as the user typed it.
        state: the words to add to the outcome of an unfinished run.
        headline: returns the name of a fault with its code.
        width: the width of the lines, in columns.
    """
    lines = [wrapped(f"{run}: {story.outcome}{state}", width, "  ")]
    if story.result:
        lines.append(wrapped(story.result, width, "  ", "  "))
    if story.improvement:
        lines.append(wrapped(f"to improve it: {story.improvement}", width, "  ", "  "))
    for number, incident in enumerate(story.incidents, 1):
        lines += ["", *_incident(number, incident, headline, width)]
    if story.findings:
        lines += [
            "",
            "Found while it ran",
            *(line for found in story.findings for line in _finding(found, headline, width)),
        ]
    if story.savings:
        lines += [
            "",
            "To save time in the next run",
            *(line for saving in story.savings for line in _saving(saving, width)),
        ]
    return "\n".join(lines) + "\n"


def _incident(number: int, incident: Incident, headline: Callable[[str], str], width: int) -> Iterator[str]:
    where = f" at {incident.place}" if incident.place else ""
    yield wrapped(f"{number}. {headline(incident.fault)}, attempt {incident.attempt}{where}", width, _INDENT)
    for head, text in (("shown by", incident.shown_by), ("oomph", incident.done), ("cost", incident.cost)):
        if text:
            start = f"{_INDENT}{head:<9}"
            yield wrapped(_shortened(text), width, " " * len(start), start)


def _finding(found: Found, headline: Callable[[str], str], width: int) -> Iterator[str]:
    yield wrapped(f"{headline(found.fault)}, {found.subject}", width, _INDENT, _INDENT)
    lasted = as_duration(found.seconds) if found.seconds >= 1 else ""
    for head, text in (("shown by", found.message), ("lasted", lasted), ("to do", found.remedy)):
        if text:
            start = f"{_INDENT}{head:<9}"
            yield wrapped(text, width, " " * len(start), start)


def _saving(saving: Saving, width: int) -> Iterator[str]:
    yield wrapped(f"{saving.text}.", width, _INDENT, _INDENT)
    yield f"{_INDENT}  {saving.command}"


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
