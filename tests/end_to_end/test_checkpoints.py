"""Damaged checkpoints and full disks."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

EPOCHS = ["--epochs", "4"]  # of 15 steps


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("one_fit.py", *EPOCHS)


def spoil(folder, name: str, damage: str) -> None:
    path = folder / name
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


def killed_with_two_checkpoints(work):
    """oomph and its script, both killed once there are two checkpoints, as in a power failure."""
    work.script("one_fit.py")
    running = work.start("--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS)
    running.wait_for_step(16)
    pid = running.script_pid(1)
    os.kill(running.process.pid, signal.SIGSTOP)  # the script exits before oomph can start it again
    running.kill(pid)
    running.kill(running.process.pid)
    running.process.communicate(timeout=60)
    steps = sorted(running.folder.glob("checkpoints/step-*"))
    assert len(steps) == 2
    return running, steps


def test_run_resumes_after_script_and_supervisor_are_killed(work, plain, same_bits):
    running, _ = killed_with_two_checkpoints(work)
    ours = work.oomph(f"--resume={running.folder}", "--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS)
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    (resumed,) = ours.events("resumed")
    assert (resumed.attempt, resumed.data["kind"]) == (2, "exact")
    assert resumed.data["steps"] >= 14
    assert ours.summary["steps_repeated"] <= 7


DIES_ONCE_IT_IS_NAMED = """
import os
import signal
from oomph.checkpoint import store

replace = store.replace

def replace_and_die(folder, path):
    replace(folder, path)
    if path.name.startswith("step-000002") and not (path.parents[1] / "owner-2").exists():
        os.kill(os.getpid(), signal.SIGKILL)

store.replace = replace_and_die
"""


@pytest.mark.slow
def test_checkpoint_given_its_final_name_just_before_the_kill_counts_as_saved(work, plain, same_bits):
    work.script("one_fit.py")
    script = work.folder / "one_fit.py"
    script.write_text(DIES_ONCE_IT_IS_NAMED + script.read_text())
    ours = work.oomph("--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS)
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    (resumed,) = ours.events("resumed")
    died, _ = ours.events("attempt-ended")
    assert (died.data["saved"], resumed.data["steps"]) == (14, 14)
    assert any(" done, 14 saved); starting attempt 2" in line for line in ours.said)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("tensors.bin", "flipped"),
        pytest.param("tensors.bin", "truncated", marks=pytest.mark.slow),
        pytest.param("manifest.json", "flipped", marks=pytest.mark.slow),
        pytest.param("manifest.json", "truncated", marks=pytest.mark.slow),
        pytest.param("SHA256SUMS", "flipped", marks=pytest.mark.slow),
        pytest.param("SHA256SUMS", "truncated", marks=pytest.mark.slow),
        pytest.param("iterator.index", "flipped", marks=pytest.mark.slow),
        pytest.param("iterator.data-00000-of-00001", "flipped", marks=pytest.mark.slow),
    ],
)
def test_damaged_checkpoint_falls_back_to_the_previous_one(work, plain, same_bits, name, damage):
    running, (older, newest) = killed_with_two_checkpoints(work)
    spoil(newest, name, damage)
    ours = work.oomph(f"--resume={running.folder}", "--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS)
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert [event.data["name"] for event in ours.events("checkpoint-refused")] == [newest.name]
    assert [event.data["name"] for event in ours.events("resumed")] == [older.name]
    (said,) = [line for line in ours.said if "refused" in line]
    assert said.startswith(f"oomph: checkpoint {newest.name} (")
    assert name in said, "a bit flipped in the list of files may lie in one of their names"
    assert said.endswith(f" refused; using the previous one, {older.name}")


@pytest.mark.slow
def test_run_starts_over_when_all_checkpoints_are_damaged(work, plain, same_bits):
    running, both = killed_with_two_checkpoints(work)
    for folder in both:
        spoil(folder, "tensors.bin", "flipped")
    ours = work.oomph(f"--resume={running.folder}", "--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS)
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert len(ours.events("checkpoint-refused")) == 2
    older, newest = (folder.name for folder in both)
    broken = "tensors.bin does not match its checksum"
    at = ours.said.index(f"oomph: none of the 2 checkpoints can be read: {newest} ({broken}), {older} ({broken})")
    assert ours.said[at + 1] == "oomph: the interrupted fit starts over"
    assert not any("using the one before" in line for line in ours.said)
    assert ours.summary["exactness"] == "started-over"


@pytest.mark.slow
def test_file_size_limit_does_not_affect_training_and_is_reported_once(work, plain, same_bits):
    """With RLIMIT_FSIZE, every write beyond the limit fails, as on a full disk."""
    work.script("one_fit.py")

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))

    # The script lifts the limit for its own output, after the fit.
    text = (work.folder / "one_fit.py").read_text()
    lift = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
    work.write(text.replace("np.savez(", lift + "np.savez("), "one_fit.py")
    bytecode = {"PYTHONDONTWRITEBYTECODE": "1"}  # the file would be truncated permanently
    ours = work.oomph("--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS, preexec_fn=small_files, env=bytecode)
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert_said_once(ours, "File too large")


def assert_said_once(ours, reason: str) -> None:
    failed = ours.events("checkpoint-failed")
    assert failed
    assert all(reason in event.data["reason"] for event in failed)
    assert ours.events("checkpoint") == []
    *said, last = [line for line in ours.said if "could not be written" in line]
    assert last.startswith("oomph: finished, ")
    assert 1 <= len(said) <= 2, "one line for the checkpoints, one for the end state"
    assert all("training continues" in line for line in said)
    assert not list(ours.folder.glob("checkpoints/tmp-*"))


def mount(folder: Path) -> bool:
    """Mount a 104 KiB file system there; return False if that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", "size=104k", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True, capture_output=True, timeout=60)


def may_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        allowed = mount(Path(folder))
        if allowed:
            unmount(Path(folder))
    return allowed


WHY = "a full disk is a small mount: that takes root and CAP_SYS_ADMIN, which some containers withhold"


@pytest.mark.skipif(not may_mount(), reason=WHY)
def test_full_disk_does_not_affect_training_and_is_reported_once(work, plain, same_bits):
    work.script("one_fit.py")
    disk = work.folder / "disk"
    disk.mkdir()
    assert mount(disk)
    try:
        (disk / "ballast").write_bytes(b"x" * 56_000)
        ours = work.oomph("--checkpoint-every=7", "one_fit.py", "ours.npz", *EPOCHS, run="disk/run")
        assert ours.returncode == 0, ours.stderr[-3000:]
        same_bits(work.folder / "ours.npz", plain)
        assert_said_once(ours, "No space left on device")
    finally:
        unmount(disk)
