"""A real Prometheus scrapes `oomph watch --serve` and answers every dashboard query. Debian: `prometheus`."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from test_metrics_docs import DASHBOARD, expressions

from oomph.journal.events import FindingMade
from oomph.journal.journal import Journal
from oomph.monitor.metrics import Scope, of_scope
from oomph.monitor.sample import GpuSample, Sample
from oomph.monitor.store import Store
from oomph.run.directory.run_directory import RunDirectory, RunRecord

LIMIT = 60
SCOPES: tuple[Scope, ...] = ("gpu", "host", "process", "training")
PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs: [{{job_name: oomph, static_configs: [{{targets: ["{target}"]}}]}}]
"""
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed (Debian: apt install prometheus)"),
]


def get(url: str) -> bytes:
    with _DIRECTLY.open(url, timeout=LIMIT) as answer:
        body: bytes = answer.read()
        return body


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def measured(at: float) -> Sample:
    """Return a sample in which every metric has a value; counters grow over time."""
    values = {
        scope: {each.key: at % 1000 if each.kind == "counter" else 0.5 for each in of_scope(scope)} for scope in SCOPES
    }
    gpu = {**values["gpu"], "memory_used_bytes": float(8 << 30)}
    gpus = tuple(GpuSample(index, f"GPU-{index}", "Fake H100", gpu) for index in range(8))
    return Sample(at, gpus, values["host"], values["process"], values["training"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the metrics of a run on eight GPUs, with a finding."""
    folder, ended = tmp_path_factory.mktemp("served"), threading.Event()
    run = RunDirectory.create(
        folder / ".oomph/runs/one", RunRecord(("train.py",), "python", str(folder), "", attempts=3)
    )
    finding = {"fault": "memory-leak", "subject": "GPU 0", "message": "it grows", "severity": "warning"}
    for attempt, event in ((1, "run-started"), (2, "attempt-started"), (3, "run-started")):  # the third one by --resume
        journal = Journal(run.path, attempt, "supervisor")
        journal.write(event)
    journal.write(FindingMade(**finding))  # it would have ended with an earlier attempt

    def sample() -> None:
        store = Store(run.path)
        while not ended.wait(0.5):
            store.append(measured(time.time()))
        store.close()

    sampler = threading.Thread(target=sample)
    sampler.start()
    process = subprocess.Popen(
        [sys.executable, "-m", "oomph", "watch", "--serve", "0"], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        yield re.findall(r"http://(\S+)/metrics", process.stderr.readline())[0]
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT)
        ended.set()
        sampler.join()
        run.close()


@pytest.fixture(scope="module")
def api(served: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The HTTP API of a Prometheus server that scrapes the endpoint."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    (folder / "config.yml").write_text(CONFIG.format(target=served))
    command = [
        str(PROMETHEUS),
        f"--config.file={folder / 'config.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    url, limit = f"http://127.0.0.1:{port}/api/v1", time.monotonic() + LIMIT
    try:
        while not _has_scraped(url):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < limit, (folder / "log").read_text()
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(LIMIT)


def _has_scraped(url: str) -> bool:
    try:
        return len(query(url, "count_over_time(oomph_gpu_memory_used_bytes[1m]) > 2")) == 8
    except OSError:
        return False


def query(url: str, words: str) -> list[dict[str, Any]]:
    answer = json.loads(get(f"{url}/query?query={urllib.parse.quote(words)}"))
    assert answer["status"] == "success"
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def test_prometheus_scrapes_the_endpoint_without_an_error(api):
    (target,) = json.loads(get(f"{api}/targets"))["data"]["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_prometheus_stores_values_labels_and_types(api):
    found = {each["metric"]["gpu"]: each for each in query(api, "oomph_gpu_memory_used_bytes")}
    assert found.keys() == {str(index) for index in range(8)}
    assert found["0"]["value"][1] == str(8 << 30)
    assert found["0"]["metric"]["uuid"] == "GPU-0"
    assert query(api, "oomph_restarts_total")[0]["value"][1] == "1"
    (alert,) = query(api, 'oomph_alert_active{fault="memory-leak"}')  # the unusual values also cause findings
    assert (alert["metric"]["subject"], alert["metric"]["severity"]) == ("GPU 0", "warning")
    kinds = json.loads(get(f"{api}/metadata"))["data"]
    assert kinds["oomph_gpu_memory_used_bytes"][0]["type"] == "gauge"
    assert kinds["oomph_gpu_energy_joules_total"][0]["type"] == "counter"


@pytest.mark.parametrize("words", sorted(set(expressions(DASHBOARD["panels"]))))
def test_prometheus_answers_every_dashboard_query(api, words):
    assert query(api, words.replace("$gpu", ".*"))


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_finds_no_problems_in_the_served_metrics(served):
    text = get(f"http://{served}/metrics")
    checked = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, timeout=LIMIT)
    assert (checked.stdout + checked.stderr, checked.returncode) == (b"", 0)
