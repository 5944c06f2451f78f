"""Generates the metrics reference: `python -m oomph.watch.docs docs/reference/metrics.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from oomph.monitor.metrics import METRICS, Metric, Scope
from oomph.watch.exposition import OWN

_SCOPES: dict[Scope, str] = {
    "gpu": "Each GPU. Labels: `gpu` (its number), `uuid`, `host` (the name of its machine).",
    "host": "The machine. Label: `host`.",
    "process": "All of the processes of a script together; of a worker other than the first, its own process. Labels:"
    " `run` (the job: the name of its run directory; Prometheus sets `job` itself), `rank` (of the worker, 0 if there"
    " is only one), `host`.",
    "training": "Inside the training process. Labels: `run`, `rank`, `host`. Workers other than the first have their"
    " counters and memory.",
}


def document() -> str:
    """Return the text of the metrics reference, generated from the table of metrics."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Metrics\n"
    yield "Generated from `src/oomph/monitor/metrics.py` by `python -m oomph.watch.docs`.\n"
    yield "- *Prometheus*: the series of [`oomph watch --serve`](../how-to/watch-a-training.md)."
    yield "- *Key*: the name in samples and in `oomph watch --json`."
    yield "- *Unit*: a base unit; a ratio ranges from 0 to 1."
    yield "- *OpenTelemetry*: the equivalent in the semantic conventions for hardware. oomph does not export it.\n"
    yield "Values that cannot be measured are absent, never 0."
    for scope, what in _SCOPES.items():
        yield f"\n## {scope}\n"
        yield f"{what}\n"
        yield "| Prometheus | key | unit | kind | meaning | source | read every | OpenTelemetry |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        yield from (_row(metric) for metric in METRICS if metric.scope == scope)
    yield "\n## Others\n"
    yield "| Prometheus | kind | meaning |"
    yield "| --- | --- | --- |"
    for family in OWN:
        yield f"| `{family.name}` | {family.kind} | {family.help} |"
    yield ""


def _row(metric: Metric) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in metric.labels.items())
    cells = (
        f"`{metric.prometheus}{{{labels}}}`" if labels else f"`{metric.prometheus}`",
        f"`{metric.key}`",
        metric.unit,
        metric.kind,
        metric.help,
        metric.source,
        f"{metric.every_seconds:g} s",
        f"`{metric.hw}`" if metric.hw else "",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
