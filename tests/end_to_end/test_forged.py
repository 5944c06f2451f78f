"""Forged checkpoints with valid checksums: they contain only data, which may be wrong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal

import numpy as np
import pytest

OPTIONS = ["--checkpoint-every=7"]
PRECIOUS = b"precious\n" * 900


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("forged.py")


@pytest.fixture(scope="module")
def killed(shared, plain):
    """The folder of a run that was killed together with oomph once there were two checkpoints."""
    running = shared.start(*OPTIONS, "forged.py", "ours.npz", run="killed")
    running.wait_for(lambda: len(list(running.folder.glob("checkpoints/step-*"))) == 2)
    pid = running.script_pid(1)
    os.kill(running.process.pid, signal.SIGSTOP)  # the script exits before oomph can start it again
    running.kill(pid)
    running.kill(running.process.pid)
    running.process.communicate(timeout=60)
    return running.folder


@pytest.fixture
def forge(work, killed):
    """Return a copy of the run in which the newest checkpoint, or both, contain something else."""

    def forged(change, every=False):
        work.script("forged.py")
        shutil.copytree(killed, work.folder / "run")
        checkpoints = sorted((work.folder / "run" / "checkpoints").glob("step-*"))
        for folder in checkpoints if every else checkpoints[-1:]:
            document = json.loads((folder / "manifest.json").read_text())
            change(document, folder)
            (folder / "manifest.json").write_text(json.dumps(document))
            names = [path.name for path in sorted(folder.iterdir()) if path.name != "SHA256SUMS"]
            digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
            (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
        return [folder.name for folder in checkpoints]

    return forged


@pytest.fixture
def resume(work):
    def resumed():
        return work.oomph(f"--resume={work.folder / 'run'}", *OPTIONS, "forged.py", "ours.npz", run="run")

    return resumed


def at(**fields):
    return lambda document, folder: document["position"].update(fields)


def says(**fields):
    return lambda document, folder: document["meta"].update(fields)


def with_nan(document, folder):
    """Make the first weight of the model, or the first optimizer slot, non-finite."""
    write(document, folder, "model/")


def with_nan_in_a_slot(document, folder):
    write(document, folder, "optimizer/")


def write(document, folder, under):
    entry = next(e for e in document["tensors"] if e["name"].startswith(under) and e["dtype"] == "float32")
    data = bytearray((folder / "tensors.bin").read_bytes())
    data[entry["offset"] : entry["offset"] + 4] = np.float32("nan").tobytes()
    (folder / "tensors.bin").write_bytes(data)


FORGED = {
    "a step beyond the epoch": at(step=16),
    "NaN in a slot of the optimizer": with_nan_in_a_slot,
}
MORE = {
    "an epoch of a billion": at(epoch=10**9),
    "an epoch before the first": at(epoch=-5),
    "a step and a half": at(step=1.5),
    "a step that is a word": at(step="x"),
    "a step that is true": at(step=True),
    "a step beyond 2**60": at(step=2**60),
    "a fit before the first": at(fit=-1),
    "steps of the run below zero": at(steps=-1),
    "an unknown field": at(place="elsewhere"),
    "a trillion batches": says(taken=10**12),
    "batches below zero": says(taken=-3),
    "a billion iterators": says(iterators_made=10**9),
    "iterators in words": says(iterators_made="many"),
    "callbacks that are a word": says(callbacks="garbage"),
    "callbacks without a class": says(callbacks=[{"state": {}}]),
    "a state that is a list": says(callbacks=[{"class": "EarlyStopping", "state": [1, 2]}]),
    "a history without epochs": says(history={"history": {}}),
    "optimizers of words": says(optimizers=["adam"]),
    "facts that are a list": says(made_by=[]),
    "objects that are a number": says(objects=7),
    "random numbers that are a list": says(random=[]),
    "NaN weights": with_nan,
}
EACH = [*FORGED.items(), *(pytest.param(name, change, marks=pytest.mark.slow) for name, change in MORE.items())]


@pytest.mark.parametrize(("name", "change"), EACH)
def test_forged_checkpoint_falls_back_to_the_previous_one(forge, resume, work, plain, same_bits, name, change):
    older, newest = forge(change)
    ours = resume()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert {event.data["name"] for event in ours.events("checkpoint-refused")} == {newest}
    assert [event.data["name"] for event in ours.events("resumed")] == [older]
    assert ours.summary["exactness"] in ("exact", "verified"), ours.summary


@pytest.mark.slow
@pytest.mark.parametrize("name", ["an epoch of a billion", "a step and a half", "a billion iterators"])
def test_run_starts_over_when_all_checkpoints_are_forged(forge, resume, work, plain, same_bits, name):
    forge({**FORGED, **MORE}[name], every=True)
    ours = resume()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert ours.summary["exactness"] == "started-over"


def test_forged_checkpoint_cannot_redirect_callback_output(forge, resume, work, plain, same_bits):
    victim = work.folder / "victim.txt"
    victim.write_bytes(PRECIOUS)

    def change(document, folder):
        for entry in document["meta"]["callbacks"]:
            entry["state"] |= {"filepath": str(victim), "monitor": "accuracy", "model": None, "__class__": "x"}

    forge(change)
    ours = resume()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert victim.read_bytes() == PRECIOUS
    assert (work.folder / "best.weights.h5").exists()
