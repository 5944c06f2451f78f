"""Which environment variables count as read by the script."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from oomph.script import environment_read

HEAD = """
import json, os, sys
from oomph.script import environment_read
environment_read.watch()
"""
TAIL = """
print(json.dumps([environment_read.read_by_script(), environment_read.read_of_the_job()]))
"""
GIVEN = {"EPOCHS": "30", "RATE": "0.1", "MY_API_KEY": "hf_notakeyatall0123456789", "SLURM_JOB_ID": "7", "PLAIN": "x"}


@pytest.fixture
def read(tmp_path):
    """Return what a script with these lines has read, and which of that describes its job."""

    def run(lines: str, environ=GIVEN):
        (tmp_path / "train.py").write_text(f"{HEAD}{lines}{TAIL}")
        path = [path for path in sys.path if path.endswith(("/src", "site-packages"))]
        found = subprocess.run(
            [sys.executable, "train.py"], cwd=tmp_path, env={"PYTHONPATH": ":".join(path), **environ},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout.splitlines()[-1])

    return run


def test_every_way_of_reading_a_variable_is_recorded(read):
    script, job = read("""
from os import environ, getenv
os.environ["EPOCHS"], os.environ.get("RATE", "1"), getenv("BATCH"), "DEBUG" in environ, environ.setdefault("A", "b")
os.getenv("SLURM_JOB_ID")
""")
    assert script.keys() == {"EPOCHS", "RATE", "BATCH", "DEBUG", "A"}
    assert [script[name] for name in ("BATCH", "DEBUG", "A")] == [None, None, None]
    assert job.keys() == {"SLURM_JOB_ID"}
    assert read("os.environ['EPOCHS']")[0]["EPOCHS"] == script["EPOCHS"]
    assert read("os.environ['EPOCHS']", GIVEN | {"EPOCHS": "31"})[0]["EPOCHS"] != script["EPOCHS"]


def test_variables_read_by_libraries_or_copied_do_not_count(read):
    script, job = read("""
import subprocess, tempfile
tempfile.gettempdir(), os.path.expanduser("~"), os.path.expandvars("$PLAIN")
dict(os.environ), os.environ.copy(), {**os.environ, "more": "1"}
for name in os.environ:
    os.environ[name]
for name, value in os.environ.items():
    pass
os.environ["NEW"] = "1"
del os.environ["NEW"]
subprocess.run(["true"], env={**os.environ})
""")
    assert (script, job) == ({}, {})


def test_addresses_of_workers_say_nothing_since_they_are_new_at_each_start(read):
    assert read("os.environ['TF_CONFIG']", GIVEN | {"TF_CONFIG": "{}"}) == [{}, {}]


def test_values_are_kept_as_digests_but_secrets_not_at_all(read):
    script, _ = read("os.environ['MY_API_KEY'], os.environ['PLAIN'], os.environ['EPOCHS']")
    assert script["MY_API_KEY"] == "set"
    assert len(script["EPOCHS"]) == 8
    assert read("os.environ['MY_API_KEY']", GIVEN | {"MY_API_KEY": "another"})[0]["MY_API_KEY"] == "set"


def test_missing_variable_error_shows_no_oomph_frames(read):
    assert read("""
import traceback
try:
    os.environ["MISSING"]
except KeyError as error:
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert len(frames) == 2 and not any("oomph" in frame for frame in frames), frames
""")[0] == {"MISSING": None}


def test_variables_that_affect_arithmetic_are_recorded_even_if_never_read(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    found = environment_read.of_training()
    assert found["TF_ENABLE_ONEDNN_OPTS"] is not None
    assert found["XLA_FLAGS"] is None
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    assert environment_read.of_training()["TF_ENABLE_ONEDNN_OPTS"] != found["TF_ENABLE_ONEDNN_OPTS"]
