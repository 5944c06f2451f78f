"""oomph explain: identifies the fault in a log or a run, or prints a fault's page."""

from __future__ import annotations

import argparse
import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.cli import sources
from oomph.cli.output import line_width, say, width, write, write_json
from oomph.cli.run_names import add_runs_dir, exists, newest_run, run_of
from oomph.cli.sources import survived
from oomph.cli.target import is_piped, is_text, meaning, status_of, unknown
from oomph.errors import ExamineError, OomphError, RunDirectoryError, UsageError
from oomph.explain import render
from oomph.explain.diagnose import diagnose
from oomph.explain.matching.named_fault import Diagnoses, Diagnosis
from oomph.explain.reading.file import Unreadable, is_run
from oomph.terminal.screen import Heads

if TYPE_CHECKING:
    from oomph.run.directory.unfinished import Unfinished
    from oomph.run.report.story import Story

SUMMARY = "name the fault in a log, an exception or a run, and say what to do"

_EPILOG = """examples:
  oomph explain train.log
  python train.py 2>&1 | oomph explain
  oomph explain .oomph/runs/...            the directory of a run
  oomph explain RUN --decisions            why it was restarted: recomputes each decision
  oomph explain train.log --exit-status 137 --kernel-log
  oomph explain CUDA_ERROR_ILLEGAL_ADDRESS  words of an error, or an exit status (137, SIGSEGV)
  oomph explain .oomph/runs                the runs in a folder, newest first (also: oomph explain .), and which hosts
                                           and GPUs had faults
  oomph explain *.log                      several, each under its name
  oomph explain OOM101                     the page of a fault, a check (DOC204) or an exception

exit codes: 0 done; 1 with --exit-code only, a fault was found; 2 an invalid command line, or a run in another format; \
3 nothing to examine"""
_WITHOUT_EFFECT = ("--exit-status", "--kernel-log", "--full", "--text-only", "--exit-code")
"""The options that do not affect a page or a list of runs. Only --exit-code affects --decisions."""
_LAST_SIGNAL, _LAST_EXIT_CODE = 64, 255
_MOST_RUNS = 20
_BREAKS = {ord("\n"): "\\n", ord("\t"): "\\t"}  # in a file name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's command line."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "target",
        metavar="FILE|-|RUN|CODE|NAME",
        nargs="*",
        help="a log, standard input, a run directory, a memory map (TF_BFC_MEMORY_DUMP), or a fault",
    )
    parser.add_argument(
        "--exit-status",
        type=int,
        metavar="N",
        help="how the program ended: its exit code, 128 + n or -n for death by signal n",
    )
    parser.add_argument(
        "--kernel-log",
        nargs="?",
        const=sources.THIS_MACHINE,
        metavar="FILE",
        help="also search the kernel log, of this machine or from FILE, for GPU Xids and OOM kills",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--decisions",
        action="store_true",
        help="for a run directory: recompute every decision, and show why it was taken",
    )
    parser.add_argument("--full", action="store_true", help="for a run: also show the evidence of every fault")
    parser.add_argument(
        "--text-only",
        action="store_true",
        help="read nothing but the log: neither the script nor the packages that its traceback names",
    )
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 when a fault was found")
    add_runs_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the targets. Raises UsageError or ExamineError if there is nothing to explain."""
    targets = args.target
    if len(targets) > 1 and not any(exists(Path(target)) for target in targets) and is_text(" ".join(targets)):
        targets = [" ".join(targets)]  # the words of an error, without quotes
    if len(targets) > 1:
        return _run_each(args, targets)
    args.target = targets[0] if targets else None
    return _run_one(args)


def _run_each(args: argparse.Namespace, targets: Sequence[str]) -> int:
    """Explain the targets one by one, reporting those that cannot be explained. Returns the highest exit code."""
    if args.json:
        raise UsageError("--json prints one document: specify only one target")
    for option in ("exit_status", "kernel_log"):
        if getattr(args, option) is not None:
            raise UsageError(f"--{option.replace('_', '-')} applies to a single program: specify only one target")
    codes = []
    for place, target in enumerate(targets):
        if place:
            write("\n")
        one = copy.copy(args)
        one.target = target
        try:
            codes.append(_run_one(one))
        except OomphError as problem:
            say(str(problem))
            codes.append(problem.exit_code)
    return max(codes)


def _run_one(args: argparse.Namespace) -> int:
    if args.target is None and args.exit_status is None and args.kernel_log is None:
        newest = None if is_piped() else newest_run(args.runs_dir)
        args.target = "-" if is_piped() else newest and str(newest)
    args.is_text = False
    _check(args)
    if args.target not in (None, "-"):
        args.target = run_of(args.target, args.runs_dir)
    if args.target not in (None, "-") and exists(Path(args.target)) and is_run(Path(args.target)):
        from oomph.journal.journal_reader import JournalReader
        from oomph.run.directory.run_directory import written_by_another

        if foreign := written_by_another(Path(args.target)):
            raise RunDirectoryError(foreign)
        with JournalReader(Path(args.target)):  # read the journal only once, not for each part of the answer
            return _answer(args)
    return _answer(args)


def _answer(args: argparse.Namespace) -> int:
    if args.decisions:
        from oomph.cli.recorded_decisions import explain_decisions

        return explain_decisions(args)
    if args.target not in (None, "-") and not exists(Path(args.target)):
        if _prints_page(args):
            return 0
        _reinterpret(args)
    found = _runs(args.target)
    if found:
        return _print_runs(args, found)
    if args.full and _directory(args.target) is None:
        raise UsageError("--full applies only to a run: leave it out")
    try:
        evidence = sources.evidence(args.target, args.kernel_log, args.exit_status, is_text=args.is_text)
        diagnoses = _with_command(_directory(args.target), _at_hand(args, diagnose(evidence)))
    except Unreadable as problem:
        raise ExamineError(str(problem)) from problem
    except OSError as problem:
        raise ExamineError(f"cannot read {_file(args, problem)}: {problem.strerror or problem}") from problem
    if args.kernel_log is not None:
        sources.tell_what_the_kernel_shows(diagnoses)
    _print_diagnoses(args, diagnoses)
    return 1 if args.exit_code and diagnoses else 0


def _runs(target: str | None) -> list[Path]:
    """Return the runs in a folder of runs, or in the folder a script was started in; empty for other targets."""
    if target in (None, "-") or not os.path.isdir(str(target)) or is_run(Path(str(target))):
        return []
    from oomph.run.directory.search import runs_in

    return runs_in(Path(str(target)))


def _check(args: argparse.Namespace) -> None:
    """Reject empty or impossible arguments."""
    if args.target is None and args.exit_status is None and args.kernel_log is None:
        raise UsageError("give a log, a run, a fault, --exit-status or --kernel-log; see oomph explain --help")
    if args.exit_status is not None and not -_LAST_SIGNAL <= args.exit_status <= _LAST_EXIT_CODE:
        raise UsageError("--exit-status must be an exit code from 0 to 255, or -n from -1 to -64 for signal n")
    if args.target == "":
        raise UsageError("the target to explain is empty; see oomph explain --help")
    if args.decisions:
        _check_alone(args, "--decisions applies only to a run, and shows all of its decisions", _WITHOUT_EFFECT[:-1])


def _print_diagnoses(args: argparse.Namespace, diagnoses: Sequence[Diagnosis]) -> None:
    run = _directory(args.target)
    document, section = _machine(run, diagnoses)
    left, story = _unfinished(args.target), _story(run)
    if args.json:
        told = {"story": story.as_document()} if story else {}
        write_json({**render.as_document(diagnoses), **document, **told, **(left.as_document() if left else {})})
        return
    state, following = (left.state, left.following) if left else ("", _of_status(args, diagnoses))
    if diagnoses and not args.is_text:
        state = state or survived(args.target)
    if story is not None:
        from oomph.cli import run_story

        shown = run_story.run_as_text(
            story,
            _subject(args),
            diagnoses,
            state=state,
            following=following,
            section=section,
            full=args.full,
            width=width(),
        )
        headlines = [run_story.headline(incident.fault) for incident in story.incidents]
        write(shown, {**_heads(diagnoses), **render.heads(headlines)})
    else:
        text = render.as_text(diagnoses, _subject(args), state, following, width(), section)
        write(text, _heads(diagnoses))


def _heads(diagnoses: Sequence[Diagnosis]) -> Heads:
    return render.heads(render.headline(diagnosis.fault) for diagnosis in diagnoses)


def _directory(target: str | None) -> Path | None:
    """Return the target if it is a directory, and therefore a run, or None for other targets."""
    return None if not target or not os.path.isdir(target) else Path(target)


def _at_hand(args: argparse.Namespace, diagnoses: Diagnoses) -> Diagnoses:
    """Add what lies beside the log on this machine: the script and the packages that its traceback names."""
    if args.text_only or args.is_text or not diagnoses:
        return diagnoses
    from oomph.explain.reading.at_hand import with_what_is_at_hand

    beside = Path(args.target).parent if args.target not in (None, "-") else None
    return diagnoses.with_facts(with_what_is_at_hand(diagnoses.facts, beside))


def _with_command(run: Path | None, diagnoses: Diagnoses) -> Diagnoses:
    """Add the run's command and the fault that made it give up to the diagnoses, for their remedies; not for a log."""
    if run is None:
        return diagnoses
    from oomph.cli.run_story import given_up_on
    from oomph.run.directory.recorded_story import command_of_run

    command, lost = command_of_run(run), given_up_on(run)
    return diagnoses.with_command(command, lost)


def _story(run: Path | None) -> Story | None:
    if run is None:
        return None
    from oomph.run.directory.recorded_story import recorded_run

    return recorded_run(run).story


def _of_status(args: argparse.Namespace, diagnoses: Sequence[Diagnosis]) -> str:
    """Explain the exit status if neither it nor the log shows a fault; return "" otherwise."""
    if diagnoses or args.exit_status is None:
        return ""
    said = meaning(args.exit_status)
    return said.partition("\n")[0] if args.target is not None else said


def _subject(args: argparse.Namespace) -> str:
    if args.target is None:
        return "kernel log" if args.kernel_log is not None else f"exit status {args.exit_status}"
    named = "standard input" if args.target == "-" else str(args.target).translate(_BREAKS)
    return f"{named!r}, treated as text" if args.is_text else named


def _file(args: argparse.Namespace, problem: OSError) -> str:
    """Return the name of the file that could not be read, which is the log or the kernel log."""
    return str(problem.filename) if isinstance(problem.filename, str | Path) else _subject(args)


def _machine(run: Path | None, diagnoses: Sequence[Diagnosis]) -> tuple[dict[str, Any], str]:
    """Return the machine's problems at the start of the run, for JSON and as text, both empty for a log."""
    if run is None:
        return {}, ""
    from oomph.doctor import recorded

    results = recorded.behind(run, [diagnosis.name for diagnosis in diagnoses])
    return recorded.as_document(results), recorded.as_section(results, width())


def _unfinished(target: str | None) -> Unfinished | None:
    """Return the state of an unfinished run, or None for other targets."""
    run = _directory(target)
    if run is None:
        return None
    from oomph.run.directory.unfinished import unfinished

    return unfinished(run, in_full=True)


def _check_alone(args: argparse.Namespace, why: str, options: Sequence[str] = _WITHOUT_EFFECT) -> None:
    """Reject options that would not have any effect."""
    for option in options:
        value = getattr(args, option[2:].replace("-", "_"))
        if value is not None and value is not False:
            raise UsageError(f"{why}: leave {option} out")


def _reinterpret(args: argparse.Namespace) -> None:
    """Treat an unknown target as an exit status or as text. Raises an error if it is neither."""
    status = status_of(args.target) if args.exit_status is None else None
    if status is not None:
        args.target, args.exit_status = None, status
    elif is_text(args.target):
        args.is_text = True
    else:
        raise unknown(args.target)


def _prints_page(args: argparse.Namespace) -> bool:
    """Print the page that the target names; return False if there isn't one."""
    from oomph.cli.page import heads_of, page_of

    page = page_of(args.target, width())
    if page is None:
        return False
    _check_alone(args, f"{args.target} is the name of a page, which does not depend on a log or a run")
    text, document = page
    if args.json:
        write_json(document)
    else:
        write(text, heads_of(args.target, width()))
    return True


def _print_runs(args: argparse.Namespace, found: Sequence[Path]) -> int:
    from oomph.cli.fleet_table import fleet_as_document, fleet_as_text
    from oomph.cli.list_of_runs import list_as_document, list_as_text
    from oomph.run.fleet.fleet import read_fleet

    _check_alone(args, f"{args.target} is a folder of runs: choose one of them")
    fleet = read_fleet(found)
    if args.json:
        write_json({**list_as_document(found), "fleet": fleet_as_document(fleet)})
    else:
        section = fleet_as_text(fleet, line_width())
        write(list_as_text(found, line_width(), _MOST_RUNS, section), render.heads(()))
    return 0
