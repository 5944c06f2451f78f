"""oomph watch: shows the GPUs, and this folder's runs and their problems: live, once, or for Prometheus."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.cli.output import say, width, write, write_json
from oomph.cli.run_names import add_runs_dir, folders_of_runs, run_directory
from oomph.errors import ExamineError, RunDirectoryError, UsageError

if TYPE_CHECKING:
    from oomph.watch.feed import Feed

SUMMARY = "show the GPUs, the runs in this folder and their problems, live"

_EPILOG = """examples:
  oomph watch                      the runs in progress here, or the machine
  oomph watch RUN                  a run directory
  oomph watch --once --json        one snapshot, as JSON
  oomph watch --serve 9400         metrics for Prometheus, on this machine only

Without RUN it shows the runs in progress in this folder; if there are none, the newest run and the machine. Keys: \
q quits, p pauses, s sorts the GPUs, and 1 to 9 or the arrow keys select a run. Watching does not change anything, and \
quitting does not stop training.

exit codes: 0 done; 2 an invalid command line, or an address that cannot be served; 3 no such run"""
_DUMB = ("", "dumb", "unknown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's command line."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        help="a run directory, its name in .oomph, or its run.json; or the folder of an oomph.Monitor (default: the"
        " runs in progress here)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--once", action="store_true", help="print one snapshot and exit; the default on a pipe")
    form.add_argument("--serve", metavar="[HOST:]PORT", help="serve metrics for Prometheus (default host: 127.0.0.1)")
    parser.add_argument("--json", action="store_true", help="take one snapshot, and print one JSON document")
    add_runs_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Show the live view or a snapshot, or serve metrics. Raises UsageError or ExamineError."""
    if args.serve is not None and args.json:
        raise UsageError("--serve has its own format: drop --json")
    from oomph.watch.feed import Feed

    feed = Feed(_asked(args.run, args.runs_dir), *folders_of_runs(args.runs_dir))
    try:
        if args.serve is not None:
            return _serve(args.serve, feed)
        if args.once or args.json or not _is_screen():
            return _look_once(args, feed)
        return _live(feed)
    finally:
        feed.close()


def _asked(run: str | None, runs_dir: str | None) -> Path | None:
    if run is None:
        return None
    from oomph.journal.journal import foreign_format
    from oomph.run.directory.run_directory import why_no_record, written_by_another
    from oomph.watch.runs import RunReader

    path = run_directory(run, runs_dir)
    if foreign := written_by_another(path):
        raise RunDirectoryError(foreign)
    if RunReader(path).read() is None:
        if os.path.lexists(path / "run.json"):
            raise ExamineError(f"{run} cannot be shown: its run.json {why_no_record(path)}")
        raise ExamineError(f"{run} is not an oomph run directory: it has neither a run.json nor samples")
    if journal := foreign_format(path):
        say(f"the run in {run} is shown without its events: {journal}")
    return path


def _is_screen() -> bool:
    """True if standard output is a terminal that can be redrawn. Prints a message otherwise."""
    if not os.isatty(sys.stdout.fileno()):
        say("standard output is not a terminal: printing one snapshot, as with --once")
        return False
    if os.environ.get("TERM", "") in _DUMB:
        say("this terminal cannot show the live view (TERM): printing one snapshot, as with --once")
        return False
    return True


def _look_once(args: argparse.Namespace, feed: Feed) -> int:
    view = feed.first_look()
    if args.json:
        from oomph.watch.once import as_document

        write_json(as_document(view))
    else:
        from oomph.watch.once import as_text

        write(as_text(view, width()))
    return 0


def _live(feed: Feed) -> int:
    try:
        from oomph.watch.live_view import show
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        raise UsageError("the live view needs rich: pip install rich; oomph watch --once works without") from error
    return show(feed.look)


def _serve(where: str, feed: Feed) -> int:
    from oomph.serving.address import address

    served = address(where)
    try:
        from oomph.watch.endpoint import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise UsageError("--serve needs prometheus-client: pip install 'oomph[watch]'") from error
    return serve(served, feed.look, say)
