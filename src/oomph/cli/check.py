"""oomph check: finds mistakes in the data or the model before any GPU hours are spent."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from oomph.cli.examining import check_request, checked
from oomph.cli.option_values import nth_fit
from oomph.cli.output import say, width, write, write_json
from oomph.cli.script_line import usage
from oomph.errors import ExamineError
from oomph.redaction.redaction import know_secrets

if TYPE_CHECKING:
    from oomph.preflight.document import Checked

SUMMARY = "find mistakes in the data or the model before spending GPU hours"

_EPILOG = """example: oomph check train.py --epochs 5
         oomph check --fit 2 train.py         the second training; the first runs for real

The script runs up to its first training and stops there: nothing after that line runs. A sample of the data is read, \
and a few steps on a few samples reveal problems that only running can; their results are discarded. The script's \
output goes to stderr.

exit codes: 0 nothing wrong (warnings allowed), 1 the training will fail or cannot learn, 2 an invalid command line, \
3 nothing could be checked: the script fails before training, or does not train"""
TAKES_SCRIPT = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.usage, parser.epilog = usage("check"), _EPILOG
    add = parser.add_argument
    add("--fit", metavar="N", type=nth_fit, default=1, help="check the Nth training; earlier ones run for real")
    add("--full", action="store_true", help="read all of the data once, not just a sample")
    add("--tune", action="store_true", help="if steps wait for data, try changes to the pipeline and measure them")
    add("--python", metavar="PY", help="the Python to run the script with (default: oomph's, or the active one)")
    add("--json", action="store_true", help="print the findings as JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the check. Returns 1 if training will fail or cannot learn. Raises ExamineError if there is no result."""
    know_secrets(args.words, os.environ)
    request = check_request(args.words, args.python, args.fit, full=args.full, tune=args.tune)
    try:
        document, found = checked(request)
    except ExamineError as error:
        if args.json:
            write_json({"schema": 1, "findings": [], "error": str(error)})
        raise
    if args.json:
        write_json({**document, "machine": _machine(request.python)})
    else:
        _print(found, request.python)
    return int(found.has_errors)


def _print(found: Checked, python: str) -> None:
    from oomph.preflight.document import HEADS, as_text

    above = [f"machine: {_machine(python)}"]
    if found.memory:
        above.append(f"memory: {found.memory}")
    write("".join(f"{line}\n" for line in as_text(found, width(), above)), HEADS)


def _machine(python: str) -> str:
    """Return the doctor's one-line verdict on this machine, or a note that it could not be examined."""
    from oomph.doctor import examine
    from oomph.doctor.examine import verdict
    from oomph.doctor.observe import observe
    from oomph.run.supervisor.interpreter import choose_python

    try:
        snapshot = observe(python or choose_python(None, say))
        return verdict(snapshot, examine.examine(snapshot, examine.choose(None, None)))
    except Exception as error:
        return f"not examined: {error}"
