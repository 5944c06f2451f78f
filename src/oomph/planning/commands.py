"""The commands of a plan, whole: with the script and its arguments. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from oomph.planning.estimate import Plan

SCRIPT = "SCRIPT.py"
"""The placeholder for the script and its arguments where only the model is known."""


def next_command(plan: Plan, words: Sequence[str]) -> str:
    """The `oomph run` command that trains without running out of memory; empty if none is known."""
    if plan.device is None or plan.max_batch is None or plan.batch <= plan.max_batch:
        return shlex.join(["oomph", "run", *words])
    if not plan.micro_batch:
        return ""
    return shlex.join(["oomph", "run", "--micro-batch", str(plan.micro_batch), *words])


def with_script(plan: Plan, words: Sequence[str]) -> Plan:
    """The plan with `words`, the script and its arguments, filled into the commands of its savers."""
    savers = tuple(replace(saver, line=_whole(saver.line, words)) for saver in plan.savers)
    return replace(plan, savers=savers)


def _whole(line: str, words: Sequence[str]) -> str:
    is_command = line.startswith("oomph ") and line.endswith(f" {SCRIPT}")
    return f"{line.removesuffix(SCRIPT)}{shlex.join(words)}" if is_command else line
