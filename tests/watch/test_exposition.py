"""The text for Prometheus, parsed by Prometheus' own client library."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import views
from prometheus_client.parser import text_string_to_metric_families

from oomph import __version__
from oomph.monitor.metrics import METRICS
from oomph.watch.exposition import OWN, exposition, families
from oomph.watch.view import View

BUSY = replace(
    views.VIEWS["incidents"],
    jobs=(
        replace(
            views.JOB,
            training={"steps_total": 1058.0, "loss": math.nan},
            process={"resident_bytes": 5.0},
            host="node-0",
        ),
    ),
    host_name="node-0",
)


RUN = "20261125-090000-train.py"
LABELS = {
    "gpu": {"gpu": "0", "uuid": "GPU-00000000", "host": "node-0"},
    "host": {"host": "node-0"},
    "process": {"run": RUN, "rank": "0", "host": "node-0"},
    "training": {"run": RUN, "rank": "0", "host": "node-0"},
}


def read(view: View) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return every series by its name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(exposition(view)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def everything() -> View:
    """Return a view in which every metric has been measured."""
    values = {
        scope: {each.key: 1.0 for each in METRICS if each.scope == scope}
        for scope in ("host", "process", "training", "gpu")
    }
    gpu = replace(views.VIEWS["incidents"].gpus[0], values=values["gpu"])
    job = replace(views.JOB, training=values["training"], process=values["process"], host="node-0")
    return replace(
        views.VIEWS["incidents"], gpus=(gpu,), jobs=(job,), host=values["host"], host_name="node-0"
    )  # fmt: skip


def test_every_metric_in_the_table_is_served_with_its_type_and_help():
    served = {family.name: family for family in text_string_to_metric_families(exposition(everything()))}
    for metric in METRICS:
        family = served[metric.prometheus.removesuffix("_total") if metric.kind == "counter" else metric.prometheus]
        assert family.type == metric.kind
        assert family.documentation in {each.help for each in METRICS if each.prometheus == metric.prometheus}
        wanted = {**LABELS[metric.scope], **metric.labels}
        assert wanted in [sample.labels for sample in family.samples]
    assert len({family.name for family, _ in families()} | {family.name for family in OWN}) == len(served)


def test_no_metric_series_is_served_twice():
    lines = [line.rpartition(" ")[0] for line in exposition(everything()).splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))


def test_served_names_follow_prometheus_conventions():
    for metric in METRICS:
        name = metric.prometheus.removesuffix("_total")
        assert metric.prometheus.endswith("_total") == (metric.kind == "counter"), name
        assert name.endswith(f"_{metric.unit}") or not metric.unit, name


def test_a_finding_is_served_as_an_alert():
    found = read(replace(views.VIEWS["incidents"], jobs=(replace(views.VIEWS["incidents"].jobs[0], host="node-0"),)))
    assert found["oomph_alert_active"] == [
        ({"fault": "memory-leak", "subject": "GPU 0", "severity": "warning", "run": RUN, "host": "node-0"}, 1.0)
    ]
    assert found["oomph_restarts_total"] == [({"run": RUN, "host": "node-0"}, 1.0)]
    assert found["oomph_build_info"] == [({"version": __version__}, 1.0)]
    assert found["oomph_gpu_info"][0][0]["name"] == "NVIDIA H100 80GB HBM3"


def test_metric_values_are_served_with_full_precision():
    gpu = replace(views.VIEWS["incidents"].gpus[0], values={"memory_used_bytes": 2.0**36 + 1, "utilization_ratio": 0.1})
    found = read(replace(BUSY, gpus=(gpu,)))
    assert found["oomph_gpu_memory_used_bytes"][0][1] == 2**36 + 1
    assert found["oomph_gpu_utilization_ratio"][0][1] == 0.1
    assert found["oomph_training_steps_total"] == [(LABELS["training"], 1058.0)]
    assert math.isnan(found["oomph_training_loss"][0][1])


def test_no_values_are_served_for_a_lost_gpu_or_from_an_old_sample():
    lost = read(views.VIEWS["lost-gpu"])
    assert [labels["gpu"] for labels, _ in lost["oomph_gpu_power_watts"]] == ["0"]
    old = read(replace(BUSY, time=BUSY.time + 31))
    assert not {name for name in old if name.startswith(("oomph_gpu_m", "oomph_training", "oomph_host"))}
    assert "oomph_build_info" in old


def test_an_empty_view_still_serves_build_info():
    assert read(views.VIEWS["no-gpu"]).keys() == {"oomph_build_info"}
    assert read(View(0.0)).keys() == {"oomph_build_info"}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\ud800", "é"])
def test_arbitrary_label_text_is_escaped(name):
    gpu = replace(views.VIEWS["incidents"].gpus[0], name=name)
    assert read(replace(BUSY, gpus=(gpu,)))["oomph_gpu_info"][0][0]["name"] == name.replace("\ud800", "?")


def test_the_metrics_of_every_run_are_served_with_its_name():
    second = replace(BUSY.jobs[0], run="elsewhere/20261125-100000-second.py", training={"loss": 0.5}, restarts=3)
    found = read(replace(BUSY, jobs=(BUSY.jobs[0], second)))
    names = RUN, "20261125-100000-second.py"
    assert [labels["run"] for labels, _ in found["oomph_training_loss"]] == [names[1], names[0]]
    assert [(labels["run"], value) for labels, value in found["oomph_restarts_total"]] == [(names[1], 3), (names[0], 1)]
    assert {labels["run"] for labels, _ in found["oomph_process_resident_bytes"]} == {*names}


def test_a_silent_run_serves_no_values_although_the_machine_is_measured():
    ended = replace(BUSY.jobs[0], sampled=BUSY.time - 31)
    found = read(replace(BUSY, jobs=(ended,)))
    assert "oomph_training_loss" not in found
    assert "oomph_gpu_memory_used_bytes" in found
    assert found["oomph_restarts_total"] == [({"run": RUN, "host": "node-0"}, 1.0)]


def test_a_finding_of_the_machine_has_no_run_and_the_worst_of_several_is_served():
    hot = replace(views.HOT, ended=None)
    found = read(replace(BUSY, incidents=(hot, replace(hot, kind="b", severity="critical"), replace(hot, kind="c"))))
    about = {"fault": "thermal-throttle", "subject": "GPU 0", "severity": "critical", "run": "", "host": "node-0"}
    assert found["oomph_alert_active"] == [(about, 1.0)]


def test_runs_of_the_same_name_do_not_become_the_same_series():
    same = replace(BUSY.jobs[0], run=f"elsewhere/{RUN}")
    lines = exposition(replace(BUSY, jobs=(BUSY.jobs[0], same))).splitlines()
    assert len([line for line in lines if line.startswith("oomph_training_loss")]) == 1
