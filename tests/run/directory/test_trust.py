"""A run directory is trusted only as a whole, through a single descriptor, and never if another user owns it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.errors import RunDirectoryError
from oomph.files.oomph_folder import make_own_parents
from oomph.files.opening import open_own, pin, read_own, replace_own, unpin
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.directory.trust import why_not_trusted
from oomph.run.directory.unfinished import first_trusted, unfinished_runs

STRANGER = 12345
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def made(folder: Path, cwd: Path | None = None) -> Path:
    record = RunRecord(command=("train.py",), python="python3", cwd=str(cwd or folder.parent), created="")
    run = RunDirectory.create(folder, record)
    run.close()
    for name in ("journal/1-0-script.jsonl", "checkpoints/step-000001-fit0-epoch0-step1/manifest.json"):
        replace_own(folder, name, b"{}")
    return folder


def test_own_run_is_trusted(tmp_path):
    assert why_not_trusted(made(tmp_path / "run")) is None


PARTS = ["run.json", "journal", "journal/1-0-script.jsonl", "checkpoints", "checkpoints/step-000001-fit0-epoch0-step1"]


@needs_root
@pytest.mark.parametrize("part", PARTS)
def test_run_with_another_users_files_is_not_trusted(tmp_path, part):
    run = made(tmp_path / "run")
    os.chown(run / part, STRANGER, STRANGER)
    assert why_not_trusted(run) == f"{part} in it belongs to another user"
    with pytest.raises(RunDirectoryError, match="belongs to another user"):
        RunDirectory.reopen(run)


@pytest.mark.parametrize("part", PARTS)
def test_run_with_files_writable_by_others_is_not_trusted(tmp_path, part):
    run = made(tmp_path / "run")
    (run / part).chmod(0o777)
    assert why_not_trusted(run) is None, "nobody else gets into the folder"
    run.chmod(0o755)
    assert f"others can write to {part} in it; check it, then: chmod -R go-w" in str(why_not_trusted(run))


@pytest.mark.parametrize("part", PARTS)
def test_run_containing_a_link_is_not_trusted(tmp_path, part):
    run = made(tmp_path / "run")
    (run / part).rename(tmp_path / "elsewhere")
    (run / part).symlink_to(tmp_path / "elsewhere")
    assert why_not_trusted(run) == f"{part} in it is a link, or not a file"


def test_other_files_from_the_script_do_not_affect_trust(tmp_path):
    run = made(tmp_path / "run")
    (run / "latest").symlink_to("results")
    assert why_not_trusted(run) is None


@needs_root
@pytest.mark.parametrize("which", [".oomph", ".oomph/runs"])
@pytest.mark.parametrize("how", ["another user's", "a link"])
def test_foreign_parent_folders_make_a_run_untrusted(tmp_path, monkeypatch, capfd, which, how):
    run = made(tmp_path / ".oomph" / "runs" / "one", tmp_path)
    if how == "a link":
        (tmp_path / which).rename(tmp_path / "elsewhere")
        (tmp_path / which).symlink_to(tmp_path / "elsewhere")
    else:
        os.chown(tmp_path / which, STRANGER, STRANGER)
    assert str(tmp_path / which) in str(why_not_trusted(run))
    monkeypatch.chdir(tmp_path)
    assert first_trusted(unfinished_runs(str(tmp_path))) is None
    assert capfd.readouterr().err.count("\n") == 1
    with pytest.raises(OSError, match=r".+"):
        make_own_parents()


def test_own_parent_folders_are_made_unwritable_by_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    try:
        make_own_parents()
        (tmp_path / ".oomph").chmod(0o777)
        assert make_own_parents() == Path(".oomph/runs")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in (".oomph", ".oomph/runs")] == [0o755, 0o700]


# -- the folder that was checked is the one that is used -------------------------------------------------------------


def test_folder_replacing_an_open_run_is_not_used(tmp_path):
    run, planted = made(tmp_path / "run"), made(tmp_path / "planted")
    replace_own(planted, "journal/1-0-script.jsonl", b"planted")
    opened = RunDirectory.reopen(run)
    try:
        run.rename(tmp_path / "away")
        planted.rename(run)
        assert read_own(run, "journal/1-0-script.jsonl") == b"{}"
        assert read_own(run / "journal", "1-0-script.jsonl") == b"{}"
        opened.update(attempts=5)
        assert '"attempts": 5' in (tmp_path / "away" / "run.json").read_text()
        assert '"attempts": 5' not in (run / "run.json").read_text()
    finally:
        opened.close()
    assert read_own(run, "journal/1-0-script.jsonl") == b"planted", "from then on it is a name like any other"


def test_replaced_folder_is_refused_after_the_script_closes_the_descriptor(tmp_path):
    run, planted = made(tmp_path / "run"), made(tmp_path / "planted")
    identity = pin(run)
    try:
        found = run.stat()
        assert identity == (found.st_dev, found.st_ino)
        for name in os.listdir("/proc/self/fd"):
            try:
                is_it = os.path.samestat(os.stat(f"/proc/self/fd/{name}"), found)
            except OSError:
                continue
            if is_it:
                os.close(int(name))
        assert read_own(run, "journal/1-0-script.jsonl") == b"{}"
        run.rename(tmp_path / "away")
        planted.rename(run)
        with pytest.raises(OSError, match="has been replaced by another folder"):
            open_own(run, "run.json", os.O_RDONLY)
        with pytest.raises(OSError, match="has been replaced by another folder"):
            pin(run, identity)
    finally:
        unpin(run)


# -- as a user sees it ------------------------------------------------------------------------------------------------


def planted_folder(cwd: Path, kind: str, owner: int) -> None:
    folder = cwd / ".oomph"
    made(folder / "runs" / "one", cwd)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, owner, owner)
    match kind:
        case "a link":
            folder.rename(cwd / "elsewhere")
            folder.symlink_to(cwd / "elsewhere")
        case "unreadable":
            folder.chmod(0o700)
        case mode:
            folder.chmod(int(mode, 8))
            (folder / "runs").chmod(int(mode, 8))


@needs_root
@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("kind", ["0777", "1777", "a link", "unreadable"])
def test_foreign_folder_is_reported_and_the_script_runs(tmp_path, kind, user):
    if user == "nobody" and not _may_be_run_by_all(sys.executable):
        pytest.skip(reason="needs a Python in a folder that other users may read")
    cwd = Path("/tmp") / f"oomph-test-{os.getpid()}-{tmp_path.name[:40]}"
    cwd.mkdir(mode=0o777)
    cwd.chmod(0o777)
    try:
        planted_folder(cwd, kind, STRANGER)
        (cwd / "train.py").write_text("print('trained')\n")
        as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if user == "nobody" else []
        for options in ([], ["--resume"]):
            ended = subprocess.run(
                [*as_user, sys.executable, "-P", "-m", "oomph", "run", *options, "train.py"],
                cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "HOME": "/tmp"},
            )  # fmt: skip
            assert (ended.returncode, ended.stdout) == (0, "trained\n"), ended.stderr
            assert "Traceback" not in ended.stderr
            assert "running without one" in ended.stderr
            refused = [line for line in ended.stderr.splitlines() if ".oomph" in line]
            assert len(refused) == (2 if options else 1), ended.stderr
    finally:
        shutil.rmtree(cwd)


def _may_be_run_by_all(python: str) -> bool:
    start = "import oomph, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    probe = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", python, "-c", start]
    return subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode == 0
