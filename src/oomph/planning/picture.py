"""A plan as one self-contained page of HTML: it loads nothing from elsewhere, and runs no script. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from oomph.planning.chart import against_batch, through_one_step
from oomph.planning.estimate import Interval, Plan
from oomph.planning.replicas import PlannedReplicas
from oomph.planning.report import as_text
from oomph.terminal.amounts import in_three_digits

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a19; --soft: #5f5e58; --page: #fcfcfb; --grid: #e3e2dc;
  --line: #2a78d6; --limit: #c0352b; }
@media (prefers-color-scheme: dark) { :root { --ink: #f2f1ec; --soft: #b3b1a7; --page: #1a1a19; --grid: #3a3935;
  --line: #5b9bea; --limit: #ff7a6e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 760px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 2rem 0 .5rem; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--soft); }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem 1.5rem .2rem 0; }
th { color: var(--soft); font-weight: normal; } td.size { font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; }
.grid { stroke: var(--grid); } .band { fill: var(--line); opacity: .18; }
.line { fill: none; stroke: var(--line); stroke-width: 2; } .spot { fill: var(--line); }
.moment { fill: transparent; } .peak { fill: var(--limit); }
.limit { stroke: var(--limit); stroke-width: 2; stroke-dasharray: 6 4; } svg .of-limit { fill: var(--limit); }
"""


def as_page(plan: Plan, words: Sequence[str]) -> str:
    """The plan as an HTML page; `words` are the script and its arguments, for the command to paste."""
    body = "\n".join(_body(plan, words))
    title = escape(f"Memory of {plan.place}")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    start = f'<!doctype html>\n<html lang="en">\n<head>{head}\n<style>{_STYLE}</style></head>'
    return f"{start}\n<body>\n{body}\n</body>\n</html>\n"


def _body(plan: Plan, words: Sequence[str]) -> Iterator[str]:
    yield f"<h1>{escape(plan.place)}: {escape(plan.subject)}</h1>"
    shares = PlannedReplicas(plan.replicas).words(plan.batch)
    if shares:
        yield f"<p>{escape(shares)}</p>"
    curve = sorted({**dict(plan.curve), **{each.batch: each.peak for each in plan.estimates}}.items())
    if curve:
        yield "<h2>Peak memory against batch size: expected, with the interval</h2>"
        yield against_batch(curve, plan.device)
        yield _table(
            ("batch", "expected", "at least", "at most"), ((f"{batch:,}", *_bounds(peak)) for batch, peak in curve)
        )
    if plan.timeline:
        first = f" at batch {plan.estimates[-1].batch:,}" if plan.estimates else ""
        yield f"<h2>Memory through one step{first}</h2>"
        yield through_one_step(plan.timeline, plan.device)
    if plan.items:
        yield "<h2>What the memory holds at the peak</h2>"
        rows = ((item.name, *_bounds(item.size), item.basis) for item in plan.items)
        yield _table(("", "expected", "at least", "at most", "how it is known"), rows)
    if plan.layers:
        yield "<h2>Activations at the peak, by layer</h2>"
        yield _table(("layer", "size"), ((layer.name, in_three_digits(layer.size)) for layer in plan.layers))
    yield "<h2>In words</h2>"
    yield f"<pre>{escape(chr(10).join(as_text(plan, words)))}</pre>"


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = ("".join(f'<td class="size">{escape(cell)}</td>' for cell in row) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>\n<tr>{heads}</tr>\n{body}\n</table>"


def _bounds(size: Interval) -> tuple[str, str, str]:
    return in_three_digits(size.expected), in_three_digits(size.low), in_three_digits(size.high)
