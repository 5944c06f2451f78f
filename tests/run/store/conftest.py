"""Runs with checkpoints, and stores to copy them to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.directory.workers import folder_of
from oomph.run.store.object_store import ObjectStore

ENTROPY = "ab" * 16
_numbers = itertools.count()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    record = RunRecord(("train.py",), "python", "/", "", entropy=ENTROPY)
    created = RunDirectory.create(tmp_path / "here" / "run", record)
    (created.path / "journal").mkdir()
    (created.path / "journal" / "1-0-supervisor.jsonl").write_text("{}\n")
    yield created
    created.close()


@pytest.fixture(params=["memory", "file"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    place = f"/store-{next(_numbers)}" if request.param == "memory" else f"{tmp_path}/store"
    return ObjectStore(f"{request.param}://{place}")


@pytest.fixture
def save(run: RunDirectory) -> Callable[..., str]:
    """Save a checkpoint of some bytes after a step, and return its name."""

    def saved(step: int, content: bytes | None = None, rank: int = 0) -> str:
        data = bytes([step % 256]) * 100 if content is None else content
        folder = folder_of(run.path, rank)
        folder.mkdir(parents=True, exist_ok=True)
        store = CheckpointStore(folder / "checkpoints")
        store.open()
        draft = store.draft_step(Position(0, 0, step, step))
        return draft.complete(Meta(taken=step), lambda to: to.add("w", "uint8", (len(data),), data)).name

    return saved
