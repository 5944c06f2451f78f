"""oomph runs: lists the runs in a folder, and removes old ones."""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oomph.cli.list_of_runs import SCHEMA, list_as_document, list_as_text, moment
from oomph.cli.output import line_width, say, write, write_json
from oomph.cli.run_names import add_runs_dir, exists, folders_of_runs, run_of
from oomph.cli.sources import check_may_be_entered
from oomph.errors import ExamineError, UsageError
from oomph.explain import render
from oomph.explain.reading.file import is_run
from oomph.run.directory.listed_run import GOING_ON, ListedRun, described
from oomph.run.directory.pruning import PruneChoice, PruneRule, Removal, WhyKept, choose, remove
from oomph.run.directory.search import is_own_place, measured, monitored_in, own_runs, runs_and_monitored
from oomph.terminal.amounts import as_size, counted, listed
from oomph.terminal.message import shown_line

SUMMARY = "list the runs in a folder, and remove old ones"

_USAGE = """oomph runs [--json] [FOLDER | RUN ...]
       oomph runs prune [--older-than AGE] [--keep N] [--dry-run] [--json] [FOLDER]
       oomph runs prune [--dry-run] [--json] RUN ..."""
_EPILOG = """examples:
  oomph runs                            the runs in this folder and below, newest first
  oomph runs prune --older-than 30d     removes finished runs that have not changed for 30 days
  oomph runs prune --keep 10            removes all finished runs but the newest ten
  oomph runs prune --keep 10 --dry-run  says what it would remove, and how much that frees
  oomph runs prune RUN                  removes a certain run

prune looks into the folder's .oomph. It keeps runs in progress, and those that can be resumed or cannot be read, \
unless you name them. Files in a run that are not oomph's stay.

exit codes: 0 done; 1 with prune only, a run could not be removed; 2 an invalid command line; 3 no such folder or run"""
_AGE = re.compile(r"(\d{1,6})(h|d|w)\Z")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}
_LONGEST_COUNT = 9
_WHY_KEPT: dict[WhyKept, str] = {
    "running": "in progress",
    "resumable": "that can be resumed",
    "unreadable": "that cannot be read",
    "recent": "recent",
}
_NEEDS_NAME: tuple[WhyKept, ...] = ("resumable", "unreadable")
"""The runs that are only removed if they are named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's command line."""
    parser.usage, parser.epilog = _USAGE, _EPILOG
    parser.add_argument(
        "words", metavar="FOLDER|RUN", nargs="*", help="folders with runs, or run directories (default: this folder)"
    )
    parser.add_argument(
        "--older-than", metavar="AGE", help="prune finished runs that have not changed for 12h, 30d, 8w"
    )
    parser.add_argument("--keep", metavar="N", type=_count, help="prune all finished runs but the newest N")
    parser.add_argument("--dry-run", action="store_true", help="only say what prune would remove")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_runs_dir(parser)


def parse_arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse the words, in which options may stand between folders."""
    args = parser.parse_intermixed_args(words)
    args.prune = args.words[:1] == ["prune"]
    args.words = args.words[args.prune :]
    return args


def run(args: argparse.Namespace) -> int:
    """List the runs, or remove some. Raises UsageError or ExamineError."""
    targets = [_existing(run_of(word, args.runs_dir)) for word in args.words]
    named = [target for target in targets if is_run(target) or measured(target) is not None]
    folders = [target for target in targets if target not in named]
    if not targets:
        folders += folders_of_runs(args.runs_dir)
    if args.prune:
        return _prune(args, named, folders)
    for option, value in (
        ("--older-than", args.older_than),
        ("--keep", args.keep),
        ("--dry-run", args.dry_run or None),
    ):
        if value is not None:
            raise UsageError(f"{option} is for oomph runs prune: leave it out")
    found = [*named, *runs_and_monitored(*folders)]
    if args.json:
        write_json(list_as_document(found))
    elif found:
        write(list_as_text(found, line_width()), render.heads(()))
    else:
        say(f"there are no runs in {' or '.join(map(str, folders))}")
    return 0


def _existing(name: str) -> Path:
    """Return the folder with that name. Raises ExamineError if there is none, or it may not be entered."""
    path = Path(name)
    if not name or not exists(path):
        raise ExamineError(f"there is no folder or run {name!r}")
    if not path.is_dir():
        raise ExamineError(f"{name} is a file: name a folder or a run directory")
    check_may_be_entered(path)
    return path


def _prune(args: argparse.Namespace, named: Sequence[Path], folders: Sequence[Path]) -> int:
    """Remove runs, and say which. Returns 1 if a run could not be removed."""
    rule = _rule(args)
    if named and (rule is not None or folders):
        raise UsageError("a run that is named is removed whatever its age: give either runs, or a folder and its rule")
    if not named and rule is None:
        raise UsageError("say which runs to remove: --older-than 30d, --keep 10, or their run directories")
    chosen = PruneChoice(tuple(map(described, dict.fromkeys(named)))) if rule is None else _by_rule(folders, rule)
    removals = [(run, _remove(run, args.dry_run)) for run in chosen.to_remove]
    if args.json:
        write_json(_as_document(chosen, removals, args.dry_run))
    else:
        _tell(chosen, removals, args.dry_run)
    return 1 if any(removal.problem for _, removal in removals) else 0


def _rule(args: argparse.Namespace) -> PruneRule | None:
    if args.older_than is None and args.keep is None:
        return None
    return PruneRule(_seconds(args.older_than) if args.older_than is not None else 0.0, args.keep or 0)


def _seconds(age: str) -> float:
    found = _AGE.match(age)
    if found is None:
        raise UsageError(f"--older-than expects a time such as 12h, 30d or 8w, not {age!r}")
    return int(found[1]) * _HOURS[found[2]] * 3600.0


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_COUNT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs, such as 0 or 10")
    return int(text)


def _by_rule(folders: Sequence[Path], rule: PruneRule) -> PruneChoice:
    now = time.time()
    parts = [choose(_own(folder), rule, now) for folder in dict.fromkeys(folders)]
    return PruneChoice(
        tuple(run for part in parts for run in part.to_remove), tuple(kept for p in parts for kept in p.kept)
    )


def _own(folder: Path) -> list[ListedRun]:
    """Return the runs and the samples of `oomph.Monitor` in the `.oomph` of a folder, newest first."""
    each = [described(path) for path in (*own_runs(folder), *monitored_in(folder))]
    return sorted(each, key=lambda run: run.changed, reverse=True)


def _remove(run: ListedRun, dry_run: bool) -> Removal:
    """Remove a run, even one that is resumable or unreadable, unless it is in progress or may be no run at all."""
    if run.state == GOING_ON:
        return Removal(problem="it is in progress")
    if run.record is None and not is_own_place(run.path):
        return Removal(problem="without a readable run.json, and outside of .oomph, it may be no run of oomph's")
    return remove(run.path, dry_run)


def _tell(chosen: PruneChoice, removals: Sequence[tuple[ListedRun, Removal]], dry_run: bool) -> None:
    done = "would remove" if dry_run else "removed"
    gone = [(run, removal) for run, removal in removals if not removal.problem]
    for run, removal in gone:
        left = f"; not oomph's, and left: {listed(removal.left)}" if removal.left else ""
        what = f"{run.state or run.problem}, {moment(run.changed)}, {as_size(removal.freed_bytes)}{left}"
        write(shown_line(f"{done} {run.path}  {what}") + "\n")
    for run, removal in removals:
        if removal.problem:
            say(f"{run.path} cannot be removed: {removal.problem}")
    freed = sum(removal.freed_bytes for _, removal in removals)
    kept = Counter(why for _, why in chosen.kept)
    reasons = ", ".join(f"{kept[why]} {words}" for why, words in _WHY_KEPT.items() if kept[why])
    write(
        f"{done} {counted(len(gone), 'run')}, {as_size(freed)}"
        + (f"; kept {counted(sum(kept.values()), 'run')}: {reasons}" if reasons else "")
        + (". To remove one of those: oomph runs prune RUN" if any(kept[why] for why in _NEEDS_NAME) else "")
        + "\n"
    )


def _as_document(chosen: PruneChoice, removals: Sequence[tuple[ListedRun, Removal]], dry_run: bool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "dry_run": dry_run,
        "removed": [
            {"path": str(run.path), "bytes": removal.freed_bytes, "left": list(removal.left)}
            for run, removal in removals
            if not removal.problem
        ],
        "failed": [{"path": str(run.path), "problem": removal.problem} for run, removal in removals if removal.problem],
        "kept": [{"path": str(run.path), "why": why} for run, why in chosen.kept],
        "freed_bytes": sum(removal.freed_bytes for _, removal in removals),
    }
