"""Describes a run in words: the line printed at a restart, and the account printed at the end. Pure."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from oomph.journal.events import WorkerFailed
from oomph.protocol.progress import Progress
from oomph.run.policy.decide import Ending
from oomph.run.policy.ladder import Change
from oomph.run.report.attempts import end_in_words
from oomph.run.report.causes import NO_RECORD, NONE_SEEN
from oomph.run.report.labels import EXACT, FAILED, MEANING, NOT_EQUAL, STOPPED, UNGUARDED, VERIFIED
from oomph.run.report.larger_batch import larger_batch_in_words
from oomph.run.report.summary import ALL_ENDED, CUT_OFF, UNRELATED, Summary, improvement, result_in_words
from oomph.terminal.amounts import as_duration, as_size, counted, times
from oomph.terminal.endings import SCRIPT_ERROR, ProcessEnd
from oomph.terminal.screen import GREEN, RED, YELLOW, Marked

HEAD = 15
"""The width, in columns, of the heading at the start of each line when there are several lines."""
_RESULT, _TO_IMPROVE, _STOPPED, _GAVE_UP, _END = "the result", "to improve it", "stopped", "gave up", "the end"
_STYLES = {EXACT: GREEN, VERIFIED: GREEN, NOT_EQUAL: RED, FAILED: RED}
"""Maps labels to their colours. All other labels are yellow."""
_MOST_REASONS = 3
_WORTH_TELLING = 0.5
"""The shortest time, in seconds, that does not round to 0."""
_NOTES = (NONE_SEEN, NO_RECORD)
"""Remarks about the guard that may be appended to the single line printed for a run without faults."""
_SPELT_OUT = {UNRELATED: SCRIPT_ERROR}
"""Descriptions of faults whose names alone would tell the reader nothing."""


def account(
    summary: Summary,
    run_dir: str | None,
    again: str = "",
    unguarded: str = "",
    returncode: int | None = None,
    stopped: str = "",
    failed: WorkerFailed | None = None,
) -> list[str]:
    """Return the lines to print at the end: exactly one if nothing happened.

    Args:
        summary: the summary of the run.
        run_dir: the run directory, or None if the run has none.
        again: the command that resumes the run, or an empty string if there is nothing to resume.
        unguarded: a description of unguarded training (`report/causes.py`), or an empty string if there was none.
        returncode: the last attempt's return code (−n for signal n), or None if unknown.
        stopped: a description of how the run was stopped, or an empty string if it ended some other way.
        failed: the worker that failed first, if there are several.
    """
    end = _ended(summary, returncode, stopped, failed)
    remark = unguarded if unguarded not in _NOTES else ""
    found = [_found(summary, run_dir)] * bool(summary.findings)
    if not summary.eventful:
        return [_one_line(summary, run_dir, again, unguarded, end), *([remark] if remark else []), *found]
    result = _result(summary, remark)
    remarks = [*([remark] if remark not in result else []), *found]
    return [*(_row(head, text, summary) for head, text in _rows(summary, run_dir, again, end, result)), *remarks]


def rows_of(summary: Summary, stopped: str = "", is_going_on: bool = False) -> list[tuple[str, str]]:
    """Return the account as pairs of a heading and a text, whatever happened. `stopped` is as in `account`.

    A report tells the result, and how to improve it, by itself.
    """
    end = "running" if is_going_on else _ended(summary, None, stopped, None)
    rows = _rows(summary, None, "", end, _result(summary, ""))
    names = {_END: "so far"} if is_going_on else {}
    return [(names.get(head, head), text) for head, text in rows if head not in (_RESULT, _TO_IMPROVE)]


def _row(head: str, text: str, summary: Summary) -> str:
    row = f"{head:<{HEAD}}{text}"
    if head in (_GAVE_UP, _STOPPED):
        return Marked(row, head, RED)
    if head == _RESULT:
        return Marked(row, MEANING[summary.exactness].partition(":")[0], _STYLES.get(summary.exactness, YELLOW))
    return row


def restart_line(ending: Ending, progress: Progress | None, attempt: int, change: Change | None = None) -> str:
    """Describe what ended the last attempt, where it ended, and where the next one starts."""
    how, changed = _how(ending), "" if change is None else f", {change}"
    if ending.micro_batch is not None and (change is None or change.name != "micro-batch"):
        changed += f", with micro-batches of {ending.micro_batch} at first"
    who = "the script" if ending.worker is None else f"worker {ending.worker}"
    if progress is None:
        return f"{who} {how}; starting attempt {attempt}{changed}"
    origin = "from the last checkpoint" if progress.saved else "from the beginning"
    return f"{who} {how} {progress.in_words}; starting attempt {attempt} {origin}{changed}"


def _how(ending: Ending) -> str:
    if ending.restart_requested:
        return f"needs a new process ({ending.restart_requested})"
    if ending.hung:
        return "was stopped because it made no progress (hang)"
    if ending.lost:
        return "was lost, with its machine or its place there"
    name = ProcessEnd(ending.returncode).name
    if ending.returncode >= 0:
        return f"ended with {name} ({ending.fault})"
    known = ending.fault not in (name, "killed")  # "killed by SIGKILL (killed)" says nothing more
    return f"was killed by {name}" + (f" ({ending.fault})" if known else "")


def _one_line(summary: Summary, run_dir: str | None, again: str, unguarded: str, end: str) -> str:
    facts = list(_facts(summary))
    if summary.exit_code == 0:
        told = ", ".join([_finished(summary, unguarded), *facts])
        if summary.larger_batch is not None:
            told = f"{told}; {larger_batch_in_words(summary.larger_batch)}"
        return f"{told}; {unguarded}" if unguarded in _NOTES else told
    told = ", ".join([end, *facts])
    if again and summary.checkpoints.count:
        return f"{told}; {_saved(summary)}; to resume: {again}"
    if again and summary.steps:
        return f"{told}; {_saved(summary)}"
    known = run_dir is not None and summary.faults
    return told + (f"; the cause: oomph explain {run_dir}" if known else "")


def _saved(summary: Summary) -> str:
    """Describe how much of a stopped run's training was saved, and how much was lost."""
    if not summary.checkpoints.count:
        return "no checkpoint was taken, so there is nothing to resume from"
    if summary.steps_reached < summary.steps:
        return f"{summary.steps_saved:,} of {counted(summary.steps, 'step')} are saved: an earlier attempt got further"
    lost, again = summary.steps - summary.steps_saved, summary.fits_not_kept
    if lost > 0:
        return f"the last {counted(lost, 'step')} {'is' if lost == 1 else 'are'} not saved"
    them = "trains again: its end state was" if again == 1 else "train again: their end states were"
    return "all steps are saved" + (
        f", but {counted(again, 'short fit')} {them} too expensive to keep" if again else ""
    )


def _found(summary: Summary, run_dir: str | None) -> str:
    """List the monitor's findings briefly, since each was reported in full when it was found."""
    more = "" if run_dir is None else f"; what to do: oomph explain {run_dir}"
    found = dict.fromkeys(f"{each.fault} ({each.subject})" for each in summary.findings)
    return f"found in the run: {', '.join(found)}{more}"


def _finished(summary: Summary, unguarded: str) -> str:
    if summary.unrecorded:
        return f"finished; {_unrecorded(summary)}"
    unsafe = summary.checkpoints.failed or summary.findings or unguarded not in ("", *_NOTES)
    return "finished" if unsafe else "finished without a fault"


def _unrecorded(summary: Summary) -> str:
    return f"there is no record of {counted(summary.unrecorded, 'earlier attempt')}"


def _result(summary: Summary, remark: str) -> str:
    """Return the label with its reasons. A remark about unguarded training replaces the label."""
    result = result_in_words(summary, _MOST_REASONS)
    if not remark or not result.startswith(UNGUARDED):
        return result
    label = remark if remark.startswith(UNGUARDED) else f"{UNGUARDED}: {remark}"
    others = [reason for reason in map(str, summary.reasons[:_MOST_REASONS]) if reason not in remark]
    return "; also: ".join([label, *(["; ".join(others)] if others else [])])


def _rows(summary: Summary, run_dir: str | None, again: str, end: str, result: str) -> Iterator[tuple[str, str]]:
    happened = [f"{_SPELT_OUT.get(name, name)} {times(count)}" for name, count in summary.faults.items()]
    happened += [f"{CUT_OFF} {times(summary.cut_off)} ({ALL_ENDED})"] * bool(summary.cut_off)
    happened += [_unrecorded(summary)] * bool(summary.unrecorded)
    if happened:
        yield "what happened", ", ".join(happened)
    if summary.refused:
        yield "not usable", _refused(summary)
    done = list(_done(summary))
    if done:
        yield "what was done", ", ".join(done)
    cost = list(_cost(summary))
    if cost:
        yield "what it cost", ", ".join(cost)
    if result:
        yield _RESULT, result
    better = improvement(summary)
    if better:
        yield _TO_IMPROVE, better
    yield _END, ", ".join([end, *_facts(summary)]) + (f"; {_saved(summary)}" if again and summary.steps else "")
    if summary.gave_up:
        yield _STOPPED if summary.exit_code in STOPPED else _GAVE_UP, summary.gave_up
    if run_dir is not None:
        yield "next", again or f"oomph explain {run_dir}"


def _refused(summary: Summary) -> str:
    """List the latest checkpoints that a resume could not use, with the reasons."""
    told, more = summary.refused[-_MOST_REASONS:], len(summary.refused) - _MOST_REASONS
    what = "checkpoint" if len(summary.refused) == 1 else "checkpoints"
    return f"{what} {', '.join(map(str, told))}" + (f" and {more} more" if more > 0 else "")


def _done(summary: Summary) -> Iterator[str]:
    if summary.recoveries and summary.micro_batch is None:
        yield "split batches in evaluate, predict or map_batches"
    elif summary.micro_batch is not None:
        smaller = any(reason.code == "smaller-batches" for reason in summary.reasons)
        size = summary.micro_batch
        yield f"batches of at most {size}" if smaller else f"micro-batches of {size}, the same global batch"
    if summary.restarts:
        yield counted(summary.restarts, "restart")
    if summary.resumes:
        again = "cells run again in another kernel" if summary.kernels else "started again with --resume"
        yield f"{again} {times(summary.resumes)}"
    if summary.left_out is not None:
        yield str(summary.left_out)
    yield from summary.changes


def _cost(summary: Summary) -> Iterator[str]:
    if (summary.restarts or summary.resumes) and (summary.steps or summary.steps_repeated):
        yield f"{summary.steps_repeated:,} of {counted(summary.steps, 'step')} repeated"
    if summary.seconds_recovering:
        yield f"{as_duration(summary.seconds_recovering)} recovering"
    if summary.seconds_restarting >= _WORTH_TELLING:
        yield f"{as_duration(summary.seconds_restarting)} restarting"


def _facts(summary: Summary) -> Iterator[str]:
    if summary.steps:
        missing = summary.steps_without_data
        fewer = f" ({missing:,} fewer than asked for: the data ran out)" if missing else ""
        yield f"{counted(summary.steps, 'step')}{fewer}"
    is_over, kept = summary.exit_code is not None, summary.checkpoints
    if is_over and summary.seconds:
        yield as_duration(summary.seconds)
    if kept.count:
        share = f" ({kept.share:.1%} of the time)" if is_over else ""
        yield f"{counted(kept.count, 'checkpoint')} of {as_size(kept.bytes)}{share}"
    if kept.failed:
        yield f"{counted(kept.failed, 'checkpoint')} could not be written"
    if summary.device_peak_bytes:
        of = f" of {as_size(summary.device_limit_bytes)}" if summary.device_limit_bytes else ""
        yield f"peak device memory {as_size(summary.device_peak_bytes)}{of}"
    elif summary.host_peak_bytes:
        yield f"peak memory {as_size(summary.host_peak_bytes)}"
    if summary.input_wait is not None and summary.steps:
        yield f"input wait {summary.input_wait:.0%}"


def _ended(summary: Summary, returncode: int | None, stopped: str, failed: WorkerFailed | None) -> str:
    if summary.exit_code == 0:
        return "the script finished"
    if summary.exit_code is None:
        return "not recorded"
    if stopped:
        return f"{stopped}, exit code {summary.exit_code}"
    by_itself = not summary.gave_up and summary.exit_code < 128 and summary.exit_code not in STOPPED
    if by_itself and UNRELATED in summary.faults:
        where = "" if failed is None else f" in {failed.who}"
        return f"the script failed with its own error{where}, exit code {summary.exit_code}"
    unsaved = ": SIGUSR2 stopped it; oomph saves on SIGTERM and SIGUSR1" if returncode == -signal.SIGUSR2 else ""
    return f"{end_in_words(summary.exit_code, failed)}{unsaved}"
