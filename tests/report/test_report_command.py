"""`oomph report` on the command line: which run, where to, and one sentence for whatever cannot be reported."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from recorded_runs import BEGIN, create, sample, samples, survived, write

from oomph import cli
from oomph.journal.events import AttemptStarted, FitStarted, RunStarted
from oomph.run.directory.run_directory import RUNNING, RunDirectory

LIMIT = 60


@pytest.fixture(name="run")
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return survived(tmp_path / ".oomph" / "runs" / "20260921-train")


def test_newest_run_is_reported_into_its_directory(run, capsys):
    older = survived(run.parent / "20250101-old")
    os.utime(older / "run.json", (1, 1))
    assert cli.main(["report"]) == 0
    assert capsys.readouterr().err.splitlines() == ["oomph: the report is in .oomph/runs/20260921-train/report.html"]
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    assert (run / "report.html").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("form", "starts"), [("md", "# train.py"), ("json", '{\n  "schema": 1'), ("csv", "time,clock,")]
)
def test_other_formats_go_to_standard_output_or_a_file(run, capsys, form, starts):
    assert cli.main(["report", str(run), "--format", form]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(starts)
    assert cli.main(["report", str(run), "--format", form, "--out", "it"]) == 0
    assert Path("it").read_text() == printed


def test_within_a_run_directory_it_is_the_run(run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    assert cli.main(["report", "--format", "md"]) == 0
    assert "finished after 300 steps" in capsys.readouterr().out


def test_run_without_its_journal_is_not_called_healthy(run, capsys):
    for path in (run / "journal").iterdir():
        path.write_text("rubbish\n")
    assert cli.main(["report", str(run), "--out", "it.html"]) == 0
    assert "journal" in capsys.readouterr().err
    page = Path("it.html").read_text()
    assert "what else happened is unknown: nothing of its journal can be read" in page
    assert "no fault found" not in page


def test_file_of_a_run_names_the_run(run, capsys):
    assert cli.main(["report", str(run / "run.json"), "--format", "md"]) == 0
    assert "finished after 300 steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 3, "there is no run 'nowhere'"),
        ([""], 3, "there is no run ''"),
        (["a.txt"], 3, "a.txt is a file: name a run directory"),
        (["empty"], 3, "empty is not an oomph run directory"),
        (["RUN", "RUN"], 2, "several runs need a file: oomph report RUN RUN --out comparison.html"),
        (["RUN", "RUN", "--format", "md"], 2, "several runs are compared as a page: --format md takes a single run"),
        (["RUN", "--out", "nowhere/x.html"], 2, "nowhere/x.html cannot be written: No such file or directory"),
        (["RUN", "--serve", "1", "--out", "x"], 2, "--serve shows one run as a page"),
        (["RUN", "--serve", "x"], 2, "--serve=x: the port must be a number"),
    ],
)
def test_what_cannot_be_reported_is_said_in_one_sentence(run, capsys, words, code, said):
    Path("a.txt").write_text("x")
    Path("empty").mkdir()
    assert cli.main(["report", *(str(run) if word == "RUN" else word for word in words)]) == code
    told = capsys.readouterr().err
    assert told.startswith(f"oomph: {said}"), told
    assert told.count("\n") == 1


def test_folder_without_runs_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report"]) == 3
    assert capsys.readouterr().err.startswith("oomph: there is no run in this folder")


def test_run_without_anything_recorded_is_refused_with_the_reason(tmp_path, capsys):
    assert cli.main(["report", str(create(tmp_path / "run"))]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_journal_of_a_later_version_is_refused(run, capsys):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "schema": 99}))
    assert cli.main(["report", str(run)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_half_written_journal_and_damaged_samples_leave_the_rest(run, capsys):
    with next(run.glob("journal/2-0-script.jsonl")).open("a") as journal:
        journal.write('{"event": "fit-sta')
    (run / "monitor" / "samples.jsonl").write_bytes(b"\x00\xff{")
    (run / "monitor" / "samples.jsonl.gz").write_bytes(gzip.compress(b"nothing")[:-6])
    assert cli.main(["report", str(run), "--format", "md"]) == 0
    assert "finished after 300 steps" in capsys.readouterr().out


def test_link_in_place_of_the_report_is_replaced_and_its_target_is_kept(run, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (run / "report.html").symlink_to(precious)
    assert cli.main(["report", str(run)]) == 0
    assert precious.read_text() == "mine"
    assert not (run / "report.html").is_symlink()


@pytest.mark.slow
def test_million_events_are_reported(tmp_path, capsys):
    run = create(tmp_path / "run")
    write(run, 1, "supervisor", [(0, RunStarted()), (0, AttemptStarted())])
    journal = run / "journal" / "1-0-script.jsonl"
    write(run, 1, "script", [(1, FitStarted(fit=0, site="train.py:1"))])
    line = journal.read_text()
    with journal.open("a") as file:
        for _ in range(10):
            file.write(line * 100_000)
    assert cli.main(["report", str(run), "--format", "md"]) == 0
    assert len(capsys.readouterr().out) < 100_000


@pytest.mark.slow
@pytest.mark.alone
def test_day_of_eight_gpus_is_reported_in_five_seconds_and_one_and_a_half_megabytes(tmp_path):
    run = survived(tmp_path / "run")
    sample(run, samples(86_400, gpus=8, begin=BEGIN + 300))
    began = time.process_time()
    assert cli.main(["report", str(run)]) == 0
    assert time.process_time() - began < 5
    assert (run / "report.html").stat().st_size < 1_500_000


def test_running_run_is_served_live_and_news_reach_the_page(tmp_path):
    path = create(tmp_path / "run", status=RUNNING, attempts=1)
    write(path, 1, "supervisor", [(0, RunStarted(oomph="0.1.0")), (0, AttemptStarted())])
    directory = RunDirectory.reopen(path)  # holds the lock, as a run in progress does
    directory.update(status=RUNNING)
    sample(path, samples(5))
    command = [sys.executable, "-m", "oomph", "report", str(path), "--serve", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = server.stderr.readline().split()[2]
            page = _get(address)
            assert "connect-src 'self'" in page
            assert '"going_on":true' in page
            assert "so far</dt><dd>running<" in page
            sample(path, samples(8, begin=BEGIN + 5))
            until = time.monotonic() + LIMIT
            while len(json.loads(_get(f"{address}news.json"))["data"]["times"]) < 13:
                assert time.monotonic() < until, "the page never hears of the new samples"
                time.sleep(0.2)
            with pytest.raises(urllib.error.HTTPError, match="421"):
                _get(address, Host="rebound.example")
            shutil.rmtree(path)
            while "can no longer be read: this is its report as of" not in _get(address):
                assert time.monotonic() < until, "the page never hears that the run was removed"
                time.sleep(0.2)
        finally:
            server.terminate()
            assert server.wait(LIMIT) == 128 + 15
    directory.close()


def _get(address: str, **headers: str) -> str:
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with directly.open(urllib.request.Request(address, headers=headers), timeout=LIMIT) as answer:
        return str(answer.read().decode())


def test_port_in_use_is_reported(run, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert cli.main(["report", str(run), "--serve", str(taken.getsockname()[1])]) == 2
    assert "Address already in use; choose another port" in capsys.readouterr().err


def test_report_that_cannot_be_written_whole_leaves_the_old_one(run, tmp_path, capsys, monkeypatch):
    old = tmp_path / "old.html"
    old.write_text("what was there")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert cli.main(["report", str(run), "--out", str(old)]) == 2
    assert capsys.readouterr().err == f"oomph: {old} cannot be written: No space left on device\n"
    monkeypatch.undo()
    assert old.read_text() == "what was there"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []


def test_part_of_a_run_that_cannot_be_read_is_named(run, capsys, monkeypatch):
    really = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("samples.jsonl") and really(path, mode))
    assert cli.main(["report", str(run), "--format", "md"]) == 0
    told = capsys.readouterr().err
    assert f"{run}/monitor/samples.jsonl cannot be read: permission denied; the report lacks what it holds" in told


def test_a_pipe_to_write_to_is_announced_since_somebody_has_to_read_from_it(run, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True) as reader:
        assert cli.main(["report", str(run), "--format", "md", "--out", str(tmp_path / "pipe")]) == 0
        assert reader.communicate(timeout=LIMIT)[0].startswith("# train.py")
    assert f"waiting for a program to read from {tmp_path}/pipe" in capsys.readouterr().err
