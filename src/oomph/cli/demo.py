"""oomph demo: demonstrates oomph on a small training run and checks its claims."""

from __future__ import annotations

import argparse

from oomph.cli.output import one_event, tell, width, width_of_told, write, write_json
from oomph.terminal.screen import BOLD, GREEN, RED, Heads

SUMMARY = "put a small training run through an out-of-memory error and a kill, and compare the results (a few minutes)"

_HEADS: Heads = {"==": BOLD, "   DIED": RED, "ok": GREEN, "FAILED": RED, "every claim held": GREEN}

_EPILOG = """example: oomph demo --keep what-the-demo-left

A small Keras model learns to read digits on the CPU, with less memory than its batch needs. Without oomph it \
dies; with oomph it finishes, even though it is also killed halfway. The weights are compared with those of an \
undisturbed run. Scripts, logs and runs are kept. Needs TensorFlow, but no GPU and no network.

exit codes: 0 every claim held; 1 one did not, or a training failed; 2 a package is not installed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's command line."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--keep", metavar="DIR", help="keep everything in DIR, new or empty (default: .oomph/demo/<time>)"
    )
    parser.add_argument("--json", action="store_true", help="print the claims as JSON on stdout, progress on stderr")


def run(args: argparse.Namespace) -> int:
    """Run the demonstration. Returns 0 only if every claim held."""
    from oomph.demo.show import show

    if args.json:
        shown = show(args.keep, _tell, width_of_told())
        write_json(shown.as_document())
    else:
        shown = show(args.keep, _write, width())
    return 0 if shown.held else 1


def _tell(line: str) -> None:
    tell(f"{line}\n")


def _write(line: str) -> None:
    write(f"{one_event(line)}\n", _HEADS)
