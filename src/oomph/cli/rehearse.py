"""oomph rehearse: injects faults into a script before real ones occur."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from oomph.cli.option_values import checkpoint_interval, positive
from oomph.cli.output import say, tell, width, write, write_json
from oomph.cli.script_line import usage
from oomph.errors import ExamineError, UsageError
from oomph.rehearse.judge import FAULTS, NAMES

if TYPE_CHECKING:
    from oomph.process.command import Command

SUMMARY = "inject faults into a script on this machine, and see whether it would survive them on the cluster"

_EPILOG = f"""example: oomph rehearse --steps 60 train.py --epochs 1
         oomph rehearse --faults kill,oom train.py

The script runs under `oomph run` once undisturbed and once for each fault. It runs in this folder, with its own \
arguments, and writes its files each time. The report shows which label the script gets when it is killed and \
resumed, such as verified or not-equal, and what to change in it for a better one.

{chr(10).join(f"  {fault.name:<20}{fault.what}" for fault in FAULTS)}

exit codes: 0 the script survives every injected fault; 1 it does not; 2 an invalid command line; \
3 it does not get that far even without a fault, or no fault could be injected"""
TAKES_SCRIPT = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.usage, parser.epilog = usage("rehearse"), _EPILOG
    add = parser.add_argument
    add("--faults", metavar="A,B", default=",".join(NAMES), help="rehearse only these faults")
    add("--steps", metavar="N|all", default="40", help="stop each run after N training steps (default: 40)")
    add("--at", metavar="N", type=positive, help="inject the fault after N steps (default: halfway)")
    add(
        "--checkpoint-every",
        metavar="N|TIME",
        type=checkpoint_interval,
        help="as for oomph run (default: eight checkpoints)",
    )
    add("--python", metavar="PY", help="as for oomph run")
    add("--micro-batch", metavar="N", type=positive, help="as for oomph run")
    add("--inexact", choices=("allow", "refuse"), help="as for oomph run")
    add(
        "--limit",
        metavar="SECONDS",
        type=positive,
        help="stop a run that takes longer (default: 5 times the undisturbed run)",
    )
    add("--keep", metavar="DIR", help="keep the runs and their output in DIR, a new or empty directory")
    add("--json", action="store_true", help="print the report as JSON on stdout, the progress on stderr")


def run(args: argparse.Namespace) -> int:
    """Run the rehearsal. Returns 0 only if faults were injected and the script survived them all."""
    from oomph.rehearse.rehearse import RehearsalPlan, rehearse
    from oomph.rehearse.report import HEADS, as_document, as_document_without, as_text

    command = _checked(args)
    given = {"--python": args.python, "--micro-batch": args.micro_batch, "--inexact": args.inexact}
    plan = RehearsalPlan(
        words=command.words,
        faults=tuple(name.strip() for name in args.faults.split(",")),
        steps=_steps(args.steps),
        at=args.at,
        checkpoint_every=args.checkpoint_every,
        options=tuple(f"{name}={value}" for name, value in given.items() if value is not None),
        limit_seconds=args.limit,
    )
    try:
        report = rehearse(plan, args.keep, lambda line: tell(f"{line}\n"))
    except ExamineError as error:
        if args.json:
            write_json(as_document_without(str(error)))
        raise
    if args.json:
        write_json(as_document(report))
    else:
        write("".join(f"{line}\n" for line in as_text(report, width())), HEADS)
    return {True: 0, False: 1, None: ExamineError.exit_code}[report.survives]


def _checked(args: argparse.Namespace) -> Command:
    """Reject, before the first run, any arguments that every run would reject."""
    from oomph.process.command import parse_command
    from oomph.run.supervisor.interpreter import python_of

    command = parse_command(args.words, "rehearse")
    python = python_of(command, args.python, say)
    if args.python is None and command.form != "command" and python != sys.executable:
        args.python = python  # every run will use it, without having to report it again
    return command


def _steps(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdigit() or int(text) < 2:
        raise UsageError(f"--steps expects a number of at least 2, or all, not {text}")
    return int(text)
