"""The `oomph watch` command line: on pipes, with invalid arguments, without rich, and its cost."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "watch"))
from rig import EIGHT, driver

from oomph.monitor.sample import Sample
from oomph.monitor.store import Store
from oomph.run.directory.run_directory import FINISHED, RunDirectory, RunRecord

LIMIT = 60
PIPE = "oomph: standard output is not a terminal: printing one snapshot, as with --once\n"


def watch(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oomph", "watch", *words],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def test_once_json_has_the_documented_shape(tmp_path):
    ended = watch(tmp_path, "--once", "--json", **driver(tmp_path, EIGHT))
    document = json.loads(ended.stdout)
    assert (document["schema"], document["jobs"], ended.stderr, ended.returncode) == (1, [], "", 0)
    assert [gpu["index"] for gpu in document["gpus"]] == list(range(8))
    first = document["gpus"][0]
    assert (first["name"], first["memory_used_bytes"], first["memory_total_bytes"]) == ("Fake H100", 8 << 30, 80 << 30)
    assert document["processes"][0]["pid"] == 1


def test_watch_on_a_pipe_prints_one_reading_and_says_so(tmp_path):
    ended = watch(tmp_path, **driver(tmp_path, EIGHT))
    assert (ended.stderr, ended.returncode) == (PIPE, 0)
    assert "Fake H100" in ended.stdout
    assert "\x1b" not in ended.stdout


def test_watch_without_a_usable_driver_prints_the_reason(tmp_path):
    ended = watch(tmp_path, "--once", **driver(tmp_path, "set init_error 9\n"))
    assert ended.returncode == 0
    assert "nvml: the NVIDIA driver is not loaded" in ended.stdout


@pytest.mark.slow
def test_hanging_driver_is_reported_after_three_seconds(tmp_path):
    ended = watch(tmp_path, "--once", **driver(tmp_path, "set gpus 1\nat 0 0 hang 100\n"))
    assert ended.returncode == 0
    assert "no answer for 3 s" in ended.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("missing",), 3, "there is no run 'missing'"),
        (("",), 3, "there is no run ''"),
        (("/dev/null",), 3, "/dev/null is a file: name a run directory"),
        ((".",), 3, ". is not an oomph run directory"),
        (("--serve", "nowhere:"), 2, "--serve=nowhere:: the port must be a number from 0 to 65535"),
        (("--serve", "9400", "--json"), 2, "--serve has its own format: drop --json"),
    ],
)
def test_invalid_command_line_is_rejected_with_a_one_line_error(tmp_path, words, code, said):
    ended = watch(tmp_path, *words)
    assert ended.stderr.startswith(f"oomph: {said}")
    assert (ended.stderr.count("\n"), ended.stdout, ended.returncode) == (1, "", code)


def run_with_samples(folder: Path, **changes: object) -> Path:
    """Create a finished run with one sample, and change its run.json."""
    run = RunDirectory.create(folder / "run", RunRecord(("train.py",), "python", str(folder), "", FINISHED))
    run.close()
    store = Store(run.path)
    store.append(Sample(time.time(), ()))
    store.close()
    record = run.path / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **changes}))
    return run.path


def test_run_in_another_format_is_refused_naming_both(tmp_path):
    run_with_samples(tmp_path, schema=7)
    ended = watch(tmp_path, "--once", "run")
    assert ended.stderr.startswith("oomph: run was written by another version of oomph, in format 7; this one, ")
    assert (ended.stderr.endswith(", reads format 1\n"), ended.stdout, ended.returncode) == (True, "", 2)


def test_run_with_a_damaged_record_is_not_shown_as_monitored_training(tmp_path):
    (run_with_samples(tmp_path) / "run.json").write_text("{")
    ended = watch(tmp_path, "--once", "run")
    assert ended.stderr == "oomph: run cannot be shown: its run.json is damaged\n"
    assert (ended.stdout, ended.returncode) == ("", 3)


def test_journal_in_another_format_is_named(tmp_path):
    journal = run_with_samples(tmp_path) / "journal/1-0-script.jsonl"
    journal.parent.mkdir()
    journal.write_text('{"schema": 7}\n')
    ended = watch(tmp_path, "--once", "run")
    assert ended.stderr.startswith(
        "oomph: the run in run is shown without its events: its journal was written by another"
    )
    assert ("finished" in ended.stdout, ended.returncode) == (True, 0)


def test_port_in_use_is_reported_in_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = watch(tmp_path, "--serve", str(port))
    advice = "Address already in use; choose another port, or 0 for a free one"
    assert ended.stderr == f"oomph: cannot serve at 127.0.0.1:{port}: {advice}\n"
    assert ended.returncode == 2


def test_metrics_are_served_until_ctrl_c(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "oomph", "watch", "--serve", "0"],
        cwd=tmp_path,
        env={**os.environ, **driver(tmp_path, EIGHT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        (url,) = re.findall(r"serving (http://127\.0\.0\.1:\d+/metrics) until Ctrl-C", process.stderr.readline())
        directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with directly.open(url, timeout=LIMIT) as answer:
            assert b"oomph_build_info" in answer.read()
        process.send_signal(signal.SIGINT)
        assert (process.wait(LIMIT), process.stderr.read()) == (130, "")
    finally:
        process.kill()
        process.communicate(timeout=LIMIT)


WITHOUT_RICH = """
import sys
sys.modules["rich"] = None
from oomph.cli import main, watch
watch._is_screen = lambda: True
sys.exit(main(["watch", *sys.argv[1:]]))
"""


def test_missing_rich_is_reported_with_its_install_command(tmp_path):
    command = [sys.executable, "-c", WITHOUT_RICH]
    live = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert live.stderr == "oomph: the live view needs rich: pip install rich; oomph watch --once works without\n"
    assert live.returncode == 2
    once = subprocess.run([*command, "--once"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert (once.stderr, once.returncode) == ("", 0)


WITHOUT_PROMETHEUS_CLIENT = """
import sys
sys.modules["prometheus_client"] = None
from oomph.cli import main
sys.exit(main(["watch", *sys.argv[1:]]))
"""


def test_missing_prometheus_client_is_reported_with_its_install_command(tmp_path):
    command = [sys.executable, "-c", WITHOUT_PROMETHEUS_CLIENT]
    served = subprocess.run([*command, "--serve", "0"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert served.stderr == "oomph: --serve needs prometheus-client: pip install 'oomph[watch]'\n"
    assert served.returncode == 2
    once = subprocess.run([*command, "--once"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert (once.stderr, once.returncode) == ("", 0)


@pytest.mark.parametrize("words", [["watch", "--help"], ["watch", "--json"]])
def test_rich_and_the_web_server_are_imported_only_when_used(tmp_path, words):
    code = (
        "import sys\nfrom oomph.cli import main\nmain(sys.argv[1:])\n"
        "rarely = {'rich', 'http', 'prometheus_client', 'numpy', 'tensorflow'}\n"
        "found = {name.split('.')[0] for name in sys.modules} & rarely\n"
        "print(sorted(found), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT
    )
    assert ended.stderr.splitlines()[-1] == "[]"
