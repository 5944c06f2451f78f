"""The metric table: unique names, Prometheus conventions, base units."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from oomph.monitor.metrics import METRICS, of_scope

SUFFIXES = {"bytes": "_bytes", "seconds": "_seconds", "celsius": "_celsius", "watts": "_watts", "hertz": "_hertz"}
SUFFIXES |= {"ratio": "_ratio", "joules": "_joules", "": ""}
BY_NAME = {f"{metric.scope}-{metric.key}": metric for metric in METRICS}


def test_keys_are_unique_within_their_scope():
    assert len(BY_NAME) == len(METRICS)
    assert sum(len(of_scope(scope)) for scope in ("gpu", "host", "process", "training")) == len(METRICS)


def test_metric_table_series_are_unique():
    series = Counter((metric.prometheus, *sorted(metric.labels.items())) for metric in METRICS)
    assert [found for found, count in series.items() if count > 1] == []


@pytest.mark.parametrize("name", BY_NAME)
def test_prometheus_names_follow_the_prometheus_conventions(name):
    metric = BY_NAME[name]
    assert re.fullmatch(r"oomph_(gpu|host|process|training)(_[a-z]+)+", metric.prometheus)
    assert metric.prometheus.endswith("_total") == (metric.kind == "counter") or metric.key == "memory_total_bytes"
    assert metric.prometheus.removesuffix("_total").endswith(SUFFIXES[metric.unit])
    assert all(re.fullmatch("[a-z]+", label) for label in metric.labels)
    assert metric.help.endswith(".")
    assert "%" not in metric.help


@pytest.mark.parametrize("family", sorted({metric.prometheus for metric in METRICS}))
def test_metrics_of_a_prometheus_family_share_unit_kind_and_labels(family):
    rows = [metric for metric in METRICS if metric.prometheus == family]
    assert len({(metric.unit, metric.kind, tuple(sorted(metric.labels))) for metric in rows}) == 1
