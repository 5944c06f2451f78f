"""oomph explain of several targets: each under its own name, in the order given."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Sequence

from oomph.cli.output import say, write
from oomph.errors import ExamineError, OomphError, UsageError


def explain_each(args: argparse.Namespace, targets: Sequence[str], explain: Callable[[argparse.Namespace], int]) -> int:
    """Explain one target after another; name those that cannot be explained, and go on.

    Returns the highest exit code. Raises UsageError for options that only one target can have.
    """
    _check(args)
    codes = []
    for place, target in enumerate(targets):
        if place:
            write("\n")
        one = copy.copy(args)
        one.target = target
        try:
            codes.append(explain(one))
        except OomphError as problem:
            say(str(problem))
            codes.append(problem.exit_code if isinstance(problem, ExamineError | UsageError) else 1)
    return max(codes)


def _check(args: argparse.Namespace) -> None:
    if args.json:
        raise UsageError("--json prints one document: name one target")
    for option in ("exit_status", "kernel_log"):
        if getattr(args, option) is not None:
            raise UsageError(f"--{option.replace('_', '-')} belongs to one program: name one target")
