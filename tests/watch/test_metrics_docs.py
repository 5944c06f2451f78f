"""The documentation of the metrics agrees with their table."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from oomph.monitor.metrics import METRICS
from oomph.watch.docs import document
from oomph.watch.exposition import OWN

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = json.loads((DOCS / "how-to/grafana-dashboard.json").read_text())
NAMES = {metric.prometheus for metric in METRICS} | {family.name for family in OWN}
LABELS = {"gpu", "uuid", "instance"} | {f'{name}="{value}"' for each in METRICS for name, value in each.labels.items()}


def expressions(part: Any = DASHBOARD) -> list[str]:
    """Return every query in the dashboard."""
    if isinstance(part, dict):
        own = [part[key] for key in ("expr", "definition") if key in part]
        return own + [each for value in part.values() for each in expressions(value)]
    return [each for value in part for each in expressions(value)] if isinstance(part, list) else []


def test_the_reference_has_a_row_for_each_metric_under_its_scope():
    sections = {part.partition("\n")[0]: part for part in document().split("\n## ")}
    for metric in METRICS:
        (row,) = [line for line in sections[metric.scope].splitlines() if f" | `{metric.key}` | " in line]
        assert row.startswith(f"| `{metric.prometheus}")
        assert f" | {metric.unit} | {metric.kind} | {metric.help} | {metric.source} | " in row
    for family in OWN:
        assert f"| `{family.name}` | {family.kind} | {family.help} |" in sections["Others"]


def test_dashboard_has_queries():
    assert len(expressions()) > 10


@pytest.mark.parametrize("query", sorted(set(expressions())))
def test_dashboard_queries_use_only_existing_metrics(query):
    names = set(re.findall(r"\boomph_\w+", query))
    assert names
    assert names <= NAMES
    for name, value in re.findall(r'(\w+)=~?("[^"]*")', query):
        assert value == '"$gpu"' or f"{name}={value}" in LABELS
        assert value != '"$gpu"' or all(each.startswith("oomph_gpu_") for each in names)


def test_dashboard_panels_do_not_overlap_and_cover_the_main_metrics():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        cell
        for place in (panel["gridPos"] for panel in panels)
        for cell in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    titles = {panel["title"] for panel in panels}
    assert {"Memory", "Utilisation", "Temperature", "Throttling", "Step time", "Input wait", "Findings"} <= titles


def test_how_to_guide_mentions_only_existing_metrics():
    text = (DOCS / "how-to/watch-a-training.md").read_text()
    assert set(re.findall(r"\boomph_\w+", text)) <= NAMES
