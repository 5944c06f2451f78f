"""Renders a plan as terminal text: the largest batch that fits, the command, and a breakdown of the peak. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from oomph.planning.plan import HEAD, Interval, Item, Plan, PlannedReplicas, Saver, sentence
from oomph.terminal.amounts import in_three_digits
from oomph.terminal.screen import BOLD, CYAN, USUAL_WIDTH, YELLOW, Heads
from oomph.terminal.wrapping import table, wrapped

SCRIPT = "SCRIPT.py"
"""The placeholder for the script and its arguments, used if only the model is known."""
_MOST_LAYERS = 5
HEADS: Heads = {"note": CYAN, "Next:": BOLD, "Warning:": YELLOW}


def next_command(plan: Plan, words: Sequence[str]) -> str:
    """Return the `oomph run` command that trains without running out of memory; empty if none is known."""
    if plan.device is None or plan.max_batch is None or plan.batch <= plan.max_batch:
        return shlex.join(["oomph", "run", *words])
    if not plan.micro_batch:
        return ""
    return shlex.join(["oomph", "run", "--micro-batch", str(plan.micro_batch), *words])


def with_script(plan: Plan, words: Sequence[str]) -> Plan:
    """Insert `words`, the script and its arguments, into the commands of the plan's savers."""
    savers = tuple(replace(saver, line=_whole(saver.line, words)) for saver in plan.savers)
    return replace(plan, savers=savers)


def _whole(line: str, words: Sequence[str]) -> str:
    is_command = line.startswith("oomph ") and line.endswith(f" {SCRIPT}")
    return f"{line.removesuffix(SCRIPT)}{shlex.join(words)}" if is_command else line


def as_text(plan: Plan, words: Sequence[str], width: int = USUAL_WIDTH) -> Iterator[str]:
    """Yield the lines to print.

    Args:
        plan: the plan.
        words: the script and its arguments, for the command to copy.
        width: the number of columns to fill.
    """
    for paragraph in _first_screen(plan, words):
        yield wrapped(paragraph, width, "  ", command=_command(paragraph))
    yield ""
    yield from table([HEAD, *plan.rows], width)
    yield ""
    yield from _where_it_goes(plan, width)
    yield from _savers(plan.savers, width)
    for note in plan.notes:
        if plan.why_open and note == sentence(plan.why_open):
            continue  # already on the first screen
        yield wrapped(f"note  {note}", width, " " * 6)
    yield wrapped(f"{plan.engine}: {plan.accuracy}" if plan.accuracy else plan.engine, width, "  ")


def _first_screen(plan: Plan, words: Sequence[str]) -> Iterator[str]:
    yield f"{plan.place}: {plan.subject}"
    yield plan.verdict
    shares = PlannedReplicas(plan.replicas).words(plan.batch)
    if shares:
        yield shares
    for warning in plan.warnings:
        yield f"Warning: {warning}"
    command = next_command(plan, words)
    if command:
        yield f"Next: {command}"


def _command(paragraph: str) -> str:
    return paragraph.removeprefix("Next: ") if paragraph.startswith("Next: ") else ""


def _where_it_goes(plan: Plan, width: int) -> Iterator[str]:
    if not plan.items:
        return
    batch = f", batch {plan.estimates[-1].batch:,}" if plan.estimates else ""
    operation = f", in {plan.peak_operation}" if plan.peak_operation else ""
    yield wrapped(f"at the peak{batch}{operation}:", width, "  ")
    largest = sorted(plan.items, key=lambda item: -item.size.expected)
    rows = [(f"  {item.name}", in_three_digits(item.size.expected), _known(item)) for item in largest]
    yield from _columns(rows, width)
    if plan.layers:
        yield "of the activations:"
        layers = sorted(plan.layers, key=lambda layer: -layer.size)
        rows = [(f"  {layer.name}", in_three_digits(layer.size), "") for layer in layers[:_MOST_LAYERS]]
        rest = layers[_MOST_LAYERS:]
        if rest:
            rows.append((f"  {len(rest)} more", in_three_digits(sum(layer.size for layer in rest)), ""))
        yield from _columns(rows, width)
    yield ""


def _columns(rows: Sequence[tuple[str, str, str]], width: int) -> Iterator[str]:
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    hang = " " * (first + second + 4 if first + second + 24 <= width else 4)
    for name, size, basis in rows:
        yield wrapped(f"{name:<{first}}  {size:<{second}}  {basis}".rstrip(), width, hang)


def _known(item: Item) -> str:
    """Describe the basis for an item's size, with its bounds if they differ."""
    low, high = in_three_digits(item.size.low), in_three_digits(item.size.high)
    return item.basis if low == high else f"{item.basis}, {low} to {high}"


def _savers(savers: Sequence[Saver], width: int) -> Iterator[str]:
    if not savers:
        return
    yield "to use less memory:"
    for saver in savers:
        known = ", compiled" if saver.basis == "compiled" else ""
        size = "" if saver.peak is None else f": {_between(saver.peak)}{known}"
        yield wrapped(f"  {saver.name}{size}; {saver.changes}", width, " " * 4)
        if saver.line:
            yield f"      {saver.line}"
    yield ""


def _between(size: Interval) -> str:
    """Format the expected size, with its bounds if they differ."""
    low, expected, high = map(in_three_digits, (size.low, size.expected, size.high))
    return expected if low == high else f"{expected} ({low} to {high})"
