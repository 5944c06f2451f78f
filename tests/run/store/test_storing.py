"""`oomph run --store` copies the run while it goes on, and `--resume` fetches it where the run directory is missing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from stores import ELSEWHERE, TRAINS, copied_steps, elsewhere, said, trained

from oomph.cli import main
from oomph.run.directory.store_state import store_state
from oomph.run.store.claims import claim_after, newest_claim
from oomph.run.store.object_store import ObjectStore, shown_url


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"file://{tmp_path_factory.mktemp('stores')}/store"


def test_run_resumes_from_the_store_after_its_machine_is_lost(work, url, wait_until):
    work.script(TRAINS)
    (work.folder / "hold").touch()
    first = work.start("--store", url, "train.py")
    wait_until(lambda: copied_steps(url), lambda found: len(found) == 2)
    copying = [each for each in psutil.Process(first.pid).children() if "oomph.run.store.process" in each.cmdline()]
    os.kill(first.pid, signal.SIGKILL)
    first.wait(20)
    assert len(copying) == 1
    assert psutil.wait_procs(copying, timeout=10)[1] == [], "it ends with its supervisor"
    there = elsewhere(work)
    again = there.run("--resume", "--store", url, "train.py")
    assert again.returncode == 0, again.stderr
    assert b"resumed from 8" in again.stdout
    assert (there.folder / "result-0").read_bytes() == trained()
    assert f"has been fetched from {url}" in said(again.stderr)
    assert "not in the store" not in said(again.stderr)
    assert copied_steps(url) == sorted(f"checkpoints/{path.name}" for path in there.run_dir.glob("checkpoints/*"))
    assert store_state(there.run_dir).missing == ()


@pytest.mark.slow
def test_two_workers_resume_from_the_store(work, url, wait_until):
    work.script(TRAINS)
    (work.folder / "hold").touch()
    first = work.start("--workers=2", "--store", url, "train.py")
    wait_until(lambda: copied_steps(url), lambda found: len(found) == 4)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(20)
    there = elsewhere(work)
    again = there.run("--workers=2", "--resume", "--store", url, "train.py")
    assert again.returncode == 0, again.stderr
    assert [(there.folder / f"result-{rank}").read_bytes() for rank in (0, 1)] == [trained(0), trained(1)]


@pytest.mark.slow
def test_newer_run_directory_is_not_replaced_by_the_store(work, url):
    work.script(TRAINS)
    assert work.run("--store", url, "train.py", "fail").returncode == 3
    first = copied_steps(url)
    assert first, "a run that failed keeps its checkpoints"
    again = work.run("--resume", "--store", url, "train.py", "fail")
    assert "fetched" not in said(again.stderr)
    assert len(list((work.folder / ".oomph" / "runs").glob("2*"))) == 1


@pytest.mark.slow
def test_run_directory_that_the_run_has_left_behind_is_set_aside(work, url):
    work.script(TRAINS)
    assert work.run("--store", url, "train.py", "fail").returncode == 3
    there = elsewhere(work)
    assert there.run("--resume", "--store", url, "train.py", "fail").returncode == 3
    back = work.run("--resume", "--store", url, "train.py", "fail")
    assert "the run has gone on elsewhere" in said(back.stderr)
    runs = sorted(path.name for path in (work.folder / ".oomph" / "runs").glob("2*"))
    assert runs == [runs[0], f"{runs[0]}.1"]
    record = json.loads((work.folder / ".oomph" / "runs" / runs[0] / "run.json").read_text())
    assert record["attempts"] == 3


@pytest.mark.slow
def test_run_goes_on_without_a_store_that_fails_and_says_so_once(work, url, wait_until):
    work.script(TRAINS)
    (work.folder / "hold").touch()
    process = work.start("--store", url, "train.py", "fail")
    wait_until(lambda: newest_claim(ObjectStore(url)))
    wait_until(lambda: copied_steps(url))
    store = Path(url.removeprefix("file://"))
    shutil.rmtree(store)
    store.write_text("no folder any more")
    (work.folder / "hold").unlink()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 3
    assert (work.folder / "result-0").read_bytes() == trained()
    assert said(stderr).count("the training goes on") == 1
    assert f"not in the store {url}: " in said(stderr)
    assert "is in the run directory" in said(stderr)
    assert store_state(work.run_dir).problem


@pytest.mark.slow
def test_what_is_not_in_the_store_is_reported(work, url, wait_until, capsys, monkeypatch):
    work.script(TRAINS)
    assert work.run("--store", url, "train.py", "fail").returncode == 3
    state = work.run_dir / "store.json"
    document = json.loads(state.read_text())
    state.write_text(json.dumps({**document, "missing": ["checkpoints/step-5"], "problem": "permission denied"}))
    monkeypatch.chdir(work.folder)
    main(["explain", str(work.run_dir)])
    printed = " ".join(capsys.readouterr().err.split())
    assert f"not in the store {url}: checkpoints/step-5 (permission denied)" in printed


@pytest.mark.slow
def test_another_run_takes_over_and_the_first_trains_on(work, url, wait_until):
    work.script(TRAINS)
    (work.folder / "hold").touch()
    process = work.start("--store", url, "train.py", "fail")
    wait_until(lambda: copied_steps(url))
    objects = ObjectStore(url)
    claim_after(objects, newest_claim(objects), ELSEWHERE)
    (work.folder / "hold").unlink()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 3
    assert f"nothing more is copied to {url}: another oomph run, process 7 on elsewhere, writes it now" in said(stderr)


@pytest.mark.slow
def test_second_run_on_this_machine_is_refused_while_the_first_lives(work, url, wait_until):
    work.script(TRAINS)
    (work.folder / "hold").touch()
    work.start("--store", url, "train.py")
    wait_until(lambda: copied_steps(url))
    there = elsewhere(work)
    second = there.run("--resume", "--store", url, "train.py")
    assert second.returncode == 2
    assert f"{url} is in use by another oomph run, process " in said(second.stderr)


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "why"),
    [
        ("nothing://bucket/x", "Protocol not known: nothing"),
        ("/mnt/runs", "needs a URL such as s3://bucket/prefix; a folder that machines share is for --runs-dir"),
        ("file:///", "names no place in the store"),
        ("file://FOLDER/train.py/x", "train.py/x cannot be read: Not a directory"),
        ("memory://", "names no place in the store"),
        ("az://user:hunter2secret@bucket/x", "pip install 'oomph[store]' adlfs"),
    ],
)
def test_bad_store_is_one_sentence(work, store, why):
    work.script("print('never')")
    ended = work.run("--store", store.replace("FOLDER", str(work.folder)), "train.py")
    assert ended.returncode == 2
    assert why in said(ended.stderr)
    assert b"never" not in ended.stdout
    assert b"hunter2" not in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert len(ended.stderr.decode().split("oomph: ")) == 2
    assert not (work.folder / ".oomph").exists()


@pytest.mark.slow
def test_store_of_another_script_is_refused(work, url):
    work.script(TRAINS)
    assert work.run("--store", url, "train.py", "fail").returncode == 3
    work.script("print('never')", "other.py")
    for words in (("--store", url, "other.py"), ("--resume", "--store", url, "other.py")):
        other = work.run(*words)
        assert other.returncode == 2
        assert f"{url} holds a run of train.py fail, not of other.py: choose another --store" in said(other.stderr)


@pytest.mark.slow
def test_store_that_holds_a_run_is_not_written_without_resume(work, url):
    work.script(TRAINS)
    assert work.run("--store", url, "train.py", "fail").returncode == 3
    again = work.run("--store", url, "train.py", "fail")
    assert again.returncode == 2
    assert f"{url} already holds a run: choose another --store, or continue it with --resume" in said(again.stderr)


def test_secrets_in_a_url_are_not_shown():
    assert shown_url("s3://user:hunter2secret@bucket/x?key=abc#d") == "s3://bucket/x"
    assert shown_url("s3://bucket/prefix/run-7") == "s3://bucket/prefix/run-7"


def test_secret_url_is_not_among_the_stored_options(work, url):
    work.script(TRAINS)
    secret = f"{url}?token=hunter2secret"
    work.run("--store", secret, "train.py", "fail")
    run = work.document("run.json")
    assert run["options"] == []
    assert not [path for path in work.run_dir.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
