"""Child processes that query drivers: their output is kept however they exit. Snapshots survive a JSON round trip."""

from __future__ import annotations

import json
import time

import psutil
import pytest

from oomph.doctor.snapshot import Snapshot
from oomph.gpu.question import Answer, Question, cuda_version, cudnn_version


def ask(tmp_path, monkeypatch, code: str, limit: float = 10.0) -> Answer:
    (tmp_path / "ask.py").write_text("import json, os, sys, time\n" + code)
    monkeypatch.setattr("oomph.gpu.question._HERE", tmp_path)
    return Question("ask.py", (), {"PATH": "/usr/bin"}).answer(time.monotonic() + limit, limit)


SAY = "print(json.dumps({'a': 1}), flush=True)\nprint(json.dumps({'row': {'index': 0}}), flush=True)\n"


def test_facts_and_rows_printed_by_the_child_are_kept(tmp_path, monkeypatch):
    assert ask(tmp_path, monkeypatch, SAY) == Answer({"a": 1}, ({"index": 0},), "")


def test_facts_printed_before_a_crash_are_kept(tmp_path, monkeypatch):
    answer = ask(tmp_path, monkeypatch, SAY + "os.kill(os.getpid(), 11)")
    assert (answer.facts, answer.problem) == ({"a": 1}, "ended by SIGSEGV")


def test_facts_printed_before_a_hang_are_kept(tmp_path, monkeypatch):
    started = time.monotonic()
    answer = ask(tmp_path, monkeypatch, SAY + "time.sleep(60)", limit=1)
    assert time.monotonic() - started < 5
    assert (answer.facts, answer.problem) == ({"a": 1}, "no answer within 1 s")


def test_hanging_child_is_killed_with_its_processes(tmp_path, monkeypatch):
    code = "pid = os.fork()\nif pid:\n    print(json.dumps({'pid': pid}), flush=True)\ntime.sleep(60)"
    pid = ask(tmp_path, monkeypatch, code, limit=1).facts["pid"]
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_unrelated_child_output_is_ignored(tmp_path, monkeypatch):
    assert ask(tmp_path, monkeypatch, "print('libnvidia says hello')\nprint('[1]')\n" + SAY).facts == {"a": 1}


def test_child_exit_code_is_reported(tmp_path, monkeypatch):
    assert ask(tmp_path, monkeypatch, "sys.exit(3)").problem == "ended with exit code 3"


def test_version_numbers_are_decoded():
    assert cuda_version(12050) == (12, 5)
    assert cudnn_version(90300) == (9, 3, 0)
    assert cudnn_version(91002) == (9, 10, 2)
    assert cudnn_version(8907) == (8, 9, 7)


def test_snapshot_survives_a_json_round_trip(healthy):
    document = json.loads(json.dumps(healthy.as_document()))
    assert Snapshot.from_document(document) == healthy


@pytest.mark.parametrize("document", [{}, {"schema": 99}, {"schema": 1, "host": "no"}])
def test_invalid_snapshot_document_is_rejected(document):
    with pytest.raises((ValueError, TypeError)):
        Snapshot.from_document(document)


def test_unknown_snapshot_field_is_ignored(healthy):
    document = {**healthy.as_document(), "news": 1}
    assert Snapshot.from_document(document) == healthy


def test_long_wait_for_the_driver_to_answer_is_announced(tmp_path, monkeypatch):
    (tmp_path / "ask.py").write_text("import time\ntime.sleep(60)")
    monkeypatch.setattr("oomph.gpu.question._HERE", tmp_path)
    monkeypatch.setattr("oomph.gpu.question._SILENT_SECONDS", 0.2)
    told: list[bool] = []
    answer = Question("ask.py", (), {}).answer(time.monotonic() + 1, 1, lambda: told.append(True))
    assert (told, answer.problem) == ([True], "no answer within 1 s")
