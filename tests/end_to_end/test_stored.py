"""A training whose machine is lost resumes from the store of its run, in the same bits."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from oomph.run.store.claims import newest_claim, newest_manifest
from oomph.run.store.object_store import ObjectStore

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("three_fits.py")


@pytest.mark.parametrize(("with_key", "kinds"), [(True, ["finished", "exact"]), (False, ["exact"])])
def test_fit_resumes_elsewhere_in_the_same_bits(work, plain, same_bits, tmp_path, with_key, kinds):
    """Without the key, the finished fit, whose callback has written a file, is trained again."""
    url = f"file://{tmp_path}/store"
    work.script("three_fits.py")
    running = work.start("--checkpoint-every=7", "--store", url, "three_fits.py", "ours.npz")
    running.wait_for_step(46)
    os.kill(running.script_pid(1), signal.SIGSTOP)
    running.wait_for(lambda: "step-" in copied(url) and "finished-fit0" in copied(url))
    os.killpg(running.process.pid, signal.SIGKILL)
    running.process.wait(20)
    there = type(work)(tmp_path / "there")
    there.folder.mkdir()
    there.script("three_fits.py")
    if with_key:
        for key in running.folder.parent.glob(".oomph-key-*"):
            shutil.copy(key, there.folder)
    try:
        words = ("--resume=run", "--store", url, "three_fits.py", "ours.npz")
        ended = there.oomph(*words)
    finally:
        there.close()
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert [event.data["kind"] for event in ended.events("resumed")] == kinds
    same_bits(there.folder / "ours.npz", plain)
    assert not with_key or ended.summary["exactness"] == "verified"


def copied(url: str) -> str:
    objects = ObjectStore(url)
    manifest = newest_manifest(objects, newest_claim(objects))
    return " ".join(() if manifest is None else manifest.files)
