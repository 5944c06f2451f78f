"""oomph explain: names the fault in a log, in a run, or prints the page of a fault."""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from oomph.errors import ExamineError, UsageError
from oomph.faults import render
from oomph.faults.catalogue import find, load
from oomph.faults.diagnose import Diagnosis, diagnose
from oomph.faults.evidence import Evidence
from oomph.faults.log import looks_binary, read_log
from oomph.faults.run import is_run, read_run
from oomph.journal import read_journal

SUMMARY = "name the fault in a log, an exception or a run, and say what to do"

_CODE = re.compile(r"[A-Za-z]{3}\d{3}\Z")
_PATH = re.compile(r"[/\\.]")
_EPILOG = """example: oomph explain train.log    (or: python train.py 2>&1 | oomph explain -)
         oomph explain RUN --decisions"""
_HEAD_BYTES = 8192


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of the verb."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "target", metavar="FILE|-|RUN|CODE|NAME", help="a log, standard input, a run directory, or a fault"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--decisions",
        action="store_true",
        help="of a run directory: every decision, computed again, and why it was taken",
    )
    parser.add_argument("--exit-code", action="store_true", help="end with 1 when a fault was found")


def run(args: argparse.Namespace) -> int:
    """Explain the target. Raises UsageError or ExamineError when there is nothing to explain."""
    path = Path(args.target)
    if args.decisions:
        return _explain_decisions(args, path)
    if args.target != "-" and not _exists(path):
        return _print_page(args)
    try:
        diagnoses = _examine(args.target, path)
    except OSError as problem:
        raise ExamineError(f"can not read {args.target}: {problem.strerror or problem}") from problem
    if args.json:
        _print_json(render.as_document(diagnoses))
    else:
        subject = "standard input" if args.target == "-" else args.target
        _print_text(render.as_text(diagnoses, subject))
    return 1 if args.exit_code and diagnoses else 0


def _explain_decisions(args: argparse.Namespace, path: Path) -> int:
    """Play the journal again; 1 when a decision comes out otherwise than it was recorded, with --exit-code."""
    from oomph.recovery import decisions

    if not path.is_dir() or not is_run(path):
        raise ExamineError(f"{args.target} is not a directory that oomph run has written: only a run has decisions")
    found = decisions.replay(read_journal(path))
    if args.json:
        _print_json(decisions.as_document(found))
    else:
        _print_text(decisions.as_text(found, args.target))
    return 1 if args.exit_code and not all(decision.reproduced for decision in found) else 0


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        return True  # it is there; reading it will say what is wrong
    except (OSError, ValueError):
        return False
    return True


def _print_page(args: argparse.Namespace) -> int:
    fault = find(args.target)
    if fault is None:
        raise _unknown(args.target)
    if args.json:
        _print_json(render.page_document(fault))
    else:
        _print_text(render.page_text(fault))
    return 0


def _unknown(target: str) -> UsageError | ExamineError:
    if _CODE.match(target):
        codes = ", ".join(fault.code for fault in load())
        return UsageError(f"there is no fault {target}; there are {codes}")
    shown = target if len(target) <= 200 else target[:200] + "..."
    if _PATH.search(target):
        return ExamineError(f"there is no file or directory {shown!r}")
    close = difflib.get_close_matches(target, [fault.name for fault in load()], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return ExamineError(f"there is no file, run or fault {shown!r}{hint}")


def _examine(target: str, path: Path) -> Sequence[Diagnosis]:
    if target == "-":
        return diagnose(_read_stream(sys.stdin.buffer, "standard input"))
    if path.is_dir():
        if not is_run(path):
            raise ExamineError(f"{target} is a directory, but not one that oomph run has written")
        return diagnose(read_run(path))
    with path.open("rb") as stream:
        return diagnose(_read_stream(stream, target))


def _read_stream(stream: BinaryIO, subject: str) -> Iterator[Evidence]:
    source = _Peeked(stream)
    if not source.head:
        raise ExamineError(f"{subject} is empty")
    if looks_binary(source.head):
        raise ExamineError(f"{subject} is not a text: it holds binary data")
    yield from read_log(source)


class _Peeked:
    """A stream whose first bytes have been looked at; a pipe can not be rewound."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.head = self._unread = stream.read(_HEAD_BYTES)

    def read(self, size: int, /) -> bytes:
        """The first bytes again, then the rest."""
        head, self._unread = self._unread, b""
        return head or self._stream.read(size)


def _print_text(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"  # a log may hold letters that the terminal can not show
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _print_json(document: dict[str, Any]) -> None:
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")
