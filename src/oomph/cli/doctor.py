"""oomph doctor: reports whether this machine can train and, if not, the one thing to do about it."""

from __future__ import annotations

import argparse

from oomph.cli.output import say, width, write, write_json
from oomph.doctor.check import FAIL

SUMMARY = "say whether this machine can train on its GPU, and if not, the one thing to do"

_EPILOG = """example: oomph doctor                      the problems, and the verdict
         oomph doctor --deep               also train a little on each GPU
         eval "$(oomph doctor --fix-env)"  apply the repairs that need no installation to this shell

exit codes: 0 nothing stops training (warnings allowed), 1 something does, 2 an invalid command line, \
3 could not examine"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add(
        "--python",
        metavar="PY",
        help="the Python that runs the script (default: oomph's, or the active one)",
    )
    add("--deep", action="store_true", help="also test each GPU, in child processes; takes a few minutes")
    add("--only", metavar="CHECK", nargs="+", action="extend", help="run only these checks, by code or name")
    add("--skip", metavar="CHECK", nargs="+", action="extend", help="skip these checks")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument(
        "--report", action="store_true", help="print a block to paste into an issue, without private names"
    )
    form.add_argument("--fix-env", action="store_true", help="print the repairs that need no installation, for a shell")


def run(args: argparse.Namespace) -> int:
    """Examine the machine and print the findings. Raises UsageError or ExamineError."""
    from oomph.doctor import examine, render, report
    from oomph.doctor.observe import observe
    from oomph.doctor.repairs import repairs
    from oomph.run.supervisor.interpreter import choose_python

    checks = examine.choose(args.only, args.skip)
    snapshot = observe(choose_python(args.python, say), say=say)
    if args.fix_env:
        write(render.as_exports(repairs(snapshot), snapshot))
        return 0
    results = examine.examine(snapshot, checks)
    if args.deep:
        from oomph.doctor.deep import try_devices

        results += try_devices(snapshot, say)
    if args.json:
        write_json(render.as_document(snapshot, results))
    else:
        text = report.as_report(snapshot, results) if args.report else render.as_text(snapshot, results, width())
        write(text, render.HEADS)
    return 1 if any(result.finding.status == FAIL for result in results) else 0
