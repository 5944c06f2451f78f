"""A training in plain Python, other machines, claims, and a store that fails."""

from __future__ import annotations

import hashlib
import shutil
from typing import Any

from oomph.errors import StoreError
from oomph.process.process_identity import ProcessIdentity
from oomph.run.directory.run_directory import RunDirectory
from oomph.run.store.claims import claim_after, newest_claim, newest_manifest
from oomph.run.store.copying import Copying
from oomph.run.store.layout import WriteClaim
from oomph.run.store.object_store import ObjectStore

TRAINS = """
import hashlib, os, pathlib, sys, time
from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.protocol.handover import Handover

STEPS, EVERY = 20, 4
handover = Handover.read()
store = CheckpointStore(handover.path / "checkpoints")
store.open()
found = store.latest_step()
state, first = b"seed-%d" % handover.rank, 0
if found is not None:
    (_, state), first = next(found.read()), found.position.steps
    print("resumed from", first, flush=True)
for step in range(first, STEPS):
    state = hashlib.sha256(state).digest()
    if (step + 1) % EVERY == 0:
        draft = store.draft_step(Position(0, 0, step + 1, step + 1))
        draft.complete(Meta(), lambda to: to.add("w", "uint8", (len(state),), state))
    hold = pathlib.Path("hold")
    while step == 9 and hold.exists():
        time.sleep(0.02)
pathlib.Path(f"result-{handover.rank}").write_bytes(state)
if "fail" in sys.argv:
    sys.exit(3)
"""


def trained(rank: int = 0, steps: int = 20) -> bytes:
    """Return the state of a training that nothing disturbs."""
    state = b"seed-%d" % rank
    for _ in range(steps):
        state = hashlib.sha256(state).digest()
    return state


def elsewhere(work: Any, name: str = "there") -> Any:
    """Return a workplace with the same script, but none of the runs, as on another machine."""
    folder = work.folder / name
    folder.mkdir()
    shutil.copy(work.folder / "train.py", folder)
    other = type(work)(folder)
    return other


def said(stderr: bytes) -> str:
    return " ".join(line.removeprefix("oomph: ").strip() for line in stderr.decode().splitlines())


def copied_steps(url: str) -> list[str]:
    objects = ObjectStore(url)
    manifest = newest_manifest(objects, newest_claim(objects))
    files = {} if manifest is None else manifest.files
    return sorted({path.rpartition("/")[0] for path in files if "checkpoints/" in path})


ELSEWHERE = ProcessIdentity(7, "elsewhere", "another-boot", "1")


def claimed(objects: ObjectStore) -> WriteClaim:
    return claim_after(objects, newest_claim(objects), ELSEWHERE)


def copying_of(objects: ObjectStore, run: RunDirectory) -> Copying:
    return Copying(objects, run.path, claimed(objects), lambda: None)


class Failing:
    """A store whose writes fail from one on, as when a connection is cut."""

    def __init__(self, objects: ObjectStore, after: int) -> None:
        self._objects, self._left = objects, after
        self.written: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)

    def write(self, name: str, data: bytes) -> None:
        if self._left == 0:
            raise StoreError("the connection was cut")
        self._left -= 1
        self.written.append(name)
        self._objects.write(name, data)
