"""oomph report: what happened in a run, as a page with charts, as Markdown, JSON or CSV, or live."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.cli.output import say, write, write_json
from oomph.cli.run_names import RUN_HELP, add_runs_dir, run_directory
from oomph.errors import OutputError, UsageError
from oomph.terminal.amounts import as_size

if TYPE_CHECKING:
    from oomph.report.recording import Recording

SUMMARY = "show what happened in a run: memory, speed and loss over time, and each fault"

_EPILOG = """examples:
  oomph report                          the newest run in this folder, as report.html in its directory
  oomph report RUN --out report.html    a run directory, to a file of your choice
  oomph report RUN RUN --out both.html  several runs side by side
  oomph report --format md              for an issue or a chat: Markdown on standard output
  oomph report --format csv > run.csv   every sample, for your own analysis
  oomph report --serve 8000             a run that is going on, live in the browser, on this machine only

The page is one file that loads nothing, so you can send it to anybody: secrets are removed, and values of environment \
variables are not in it, but it names your script, its arguments and this machine.

exit codes: 0 done; 2 an invalid command line, a run in another format, or a file that cannot be written; 3 no run"""
FORMATS = ("html", "md", "json", "csv")
_PAGE = "report.html"
_LONG_SAMPLES, _LONG_JOURNAL = 2 << 20, 32 << 20
"""The size of compressed samples, and that of a journal, from which on reading them takes more than a second or two."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's command line."""
    parser.epilog = _EPILOG
    parser.add_argument("runs", metavar="RUN", nargs="*", help=RUN_HELP)
    parser.add_argument("--format", choices=FORMATS, default="html", help="the format (default: html)")
    parser.add_argument(
        "--out", metavar="FILE", help=f"write to FILE (default: html to {_PAGE} in the run directory, others to stdout)"
    )
    parser.add_argument(
        "--serve", metavar="[HOST:]PORT", help="serve the page, and keep it up to date (host: 127.0.0.1)"
    )
    add_runs_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Write or serve the report. Raises UsageError, ExamineError or OutputError."""
    if args.out == "":
        raise UsageError("--out expects a file, not an empty name (is a variable unset?)")
    runs = [run_directory(word, args.runs_dir) for word in args.runs or (None,)]
    if args.serve is not None:
        return _serve(args, runs)
    if len(runs) > 1:
        _write(_comparison(args, runs), args.out)
        say(f"the comparison is in {args.out}")
    elif args.format == "html" and args.out is None:
        say(f"the report is in {write_into(runs[0])}")
    else:
        _write_format(args, runs[0])
    return 0


def _write_format(args: argparse.Namespace, run_dir: Path) -> None:
    from oomph.report import formats

    recording = _read(run_dir)
    if args.format == "html":
        from oomph.report.html import as_page

        _write(as_page(recording), args.out)
        say(f"the report is in {args.out}")
    elif args.format == "csv":
        _write_lines(formats.csv_lines(recording), args.out)
    elif args.format == "md":
        _write(formats.as_markdown(recording), args.out)
    elif args.out is None:
        write_json(formats.as_document(recording))
    else:
        _write(_as_json(formats.as_document(recording)), args.out)


def _as_json(document: dict[str, object]) -> str:
    import json

    from oomph.redaction.redaction import redacted_data

    return json.dumps(redacted_data(document), indent=2) + "\n"


def _serve(args: argparse.Namespace, runs: list[Path]) -> int:
    if len(runs) > 1 or args.out is not None or args.format != "html":
        raise UsageError("--serve shows one run as a page: leave out --out, --format and further runs")
    from oomph.report.serve import serve
    from oomph.serving.address import address

    _tell_of_the_wait(runs[0])
    return serve(runs[0], address(args.serve), say)


def _comparison(args: argparse.Namespace, runs: list[Path]) -> str:
    if args.format != "html":
        raise UsageError(f"several runs are compared as a page: --format {args.format} takes a single run")
    if args.out is None:
        raise UsageError("several runs need a file: oomph report RUN RUN --out comparison.html")
    from oomph.report.comparison import as_page

    return as_page([_read(path) for path in runs])


def _read(run_dir: Path) -> Recording:
    """Read a run, and report what of it cannot be read. Raises the errors of `read_recording`."""
    from oomph.report.recording import read_recording

    _tell_of_the_wait(run_dir)
    recording = read_recording(run_dir)
    for text in recording.missing:
        say(text)
    return recording


def _tell_of_the_wait(run_dir: Path) -> None:
    """Say that reading takes some seconds if there are hours of samples, or very many events."""
    from oomph.monitor.store import COMPRESSED

    sizes = {
        "samples": (_size(run_dir / COMPRESSED), _LONG_SAMPLES),
        "events": (sum(map(_size, (run_dir / "journal").glob("*.jsonl"))), _LONG_JOURNAL),
    }
    for what, (size, long) in sizes.items():
        if size > long:
            say(f"reading {as_size(size)} of {what}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def write_into(run_dir: Path) -> Path:
    """Write the page of a run into its directory, and return its path. Raises OutputError, or as `read_recording`."""
    from oomph.files.opening import replace_own
    from oomph.report.html import as_page

    page = as_page(_read(run_dir))
    try:
        replace_own(run_dir, _PAGE, page.encode())
    except OSError as error:
        raise OutputError(f"{run_dir} cannot be written to: {error.strerror}; choose a file with --out") from error
    return run_dir / _PAGE


def _write(text: str, out: str | None) -> None:
    if out is None:
        write(text)
    else:
        _write_lines((text,), out)


def _write_lines(lines: Iterable[str], out: str | None) -> None:
    """Write lines as they come: a day of samples is some hundred megabytes. They hold nothing but oomph's own words."""
    try:
        if out is None:
            sys.stdout.writelines(lines)
            sys.stdout.flush()
        elif os.path.exists(out) and not os.path.isfile(out):  # a device or a pipe
            if stat.S_ISFIFO(os.stat(out).st_mode):
                say(f"waiting for a program to read from {out}")
            with Path(out).open("w", encoding="utf-8") as file:
                file.writelines(lines)
        else:
            _replace(Path(os.path.realpath(out)), lines)
    except BrokenPipeError:
        sys.stdout = None  # otherwise the interpreter retries at exit and prints an error
        raise
    except OSError as error:
        raise OutputError(f"{out or 'standard output'} cannot be written: {error.strerror}") from error


def _replace(path: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all: a full disk costs neither what was there nor room for half of a report."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(lines)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
