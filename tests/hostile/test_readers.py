"""Every reader, given damaged, forged or non-file input: no traceback, no memory exhaustion, nothing written.

`make test` tries a few dozen examples of each, `make hostile` ten thousand.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import warnings
from pathlib import Path

import pytest
import readers
from damage import VICTIM
from hypothesis import HealthCheck, Phase, given, settings
from watched import Watch

from oomph.checkpoint.container import TENSORS, CheckpointWriter, Position, seal, write_manifest
from oomph.checkpoint.manifest import Meta
from oomph.explain.catalogue.catalogue import PAGES
from oomph.journal.event import event_of

FEW, MANY = 40, 10_000
MOST_SECONDS = 5.0
"""The limit for one example, on a busy machine."""
MOST_GROWTH_KIB = 32_000
"""For one example.

Hypothesis keeps the examples that it has tried, which take hundreds of MiB after ten thousand of them, so the memory of
the whole process says nothing about the reader.
"""

_META = {
    "site": "train.py:8", "guard": "exact", "random": {"python": [3, [*range(624), 0], None]}, "taken": 4, "draws": [1],
    "history": {"epoch": [0], "history": [{"list": ["loss", {"list": [1.0]}]}]}, "iterators_made": 1,
    "callbacks": [{"class": "History", "state": {"a": 1}}],
    "learning_rate": 0.1, "opened": [], "iterators_used": [1], "validated_after": [[0, 1]], "logs": {"loss": 1.0},
}  # fmt: skip


def _library() -> bytes:
    if shutil.which("gcc") is None:
        return b"\x7fELF\x02\x01" + bytes(500)
    options = ["-shared", "-fPIC", "-x", "c", "-", "-o", "/dev/stdout", "-Wl,-rpath,$ORIGIN/x:/opt/y"]
    made = subprocess.run(["gcc", *options], input=b"int answer(void) { return 42; }", capture_output=True, timeout=60)
    return made.stdout or b"\x7fELF\x02\x01" + bytes(500)


def _cache() -> bytes:
    """Three entries, as ldconfig writes them."""
    words = b"libcudart.so.12\0/opt/libcudart.so.12\0libcuda.so.1\0/lib/libcuda.so.1\0"
    magic = b"glibc-ld.so.cache1.1" + (3).to_bytes(4, "little") + bytes(24)
    entry = b"".join((value).to_bytes(4, "little", signed=True) for value in (3, 120, 136, 0)) + bytes(8)
    return magic + entry * 3 + words


def _checkpoint(folder) -> dict[str, str]:
    folder.mkdir()
    writer = CheckpointWriter(folder)
    writer.add("model/0", "float32", (2, 3), bytes(24))
    writer.add("optimizer/0", "int64", (), bytes(8))
    writer.close()
    write_manifest(folder, Position(0, 1, 2, 4), Meta.of(_META), writer.entries)
    seal(folder)
    return {name: (folder / name).read_text() for name in ("manifest.json", "SHA256SUMS")}


@pytest.fixture(scope="module", name="place")
def _place(tmp_path_factory):
    """Create a folder with the run and everything else that is read, next to a file that must not be touched."""
    folder = tmp_path_factory.mktemp("place")
    (folder / VICTIM).write_text("whole")
    (folder / "outside").mkdir()
    (folder / "outside" / VICTIM).write_text("whole")
    return folder


ALL = readers.readers(
    _library(),
    _cache(),
    [path.read_text() for path in sorted(PAGES.glob("*/*.md"))[:6]],
    {"manifest.json": "{}", "SHA256SUMS": ""},
)
NAMES = [reader.name for reader in ALL]


@pytest.fixture(scope="module", name="all_readers")
def _all_readers(tmp_path_factory):
    texts = _checkpoint(tmp_path_factory.mktemp("checkpoint") / "step-000004-fit0-epoch1-step2")
    pages = [path.read_text() for path in sorted(PAGES.glob("*/*.md"))[:6]]
    found = readers.readers(_library(), _cache(), pages, texts)
    return {reader.name: reader for reader in found}


def forget_the_peak() -> int:
    """Start a new measurement of the peak; return the current resident size in KiB (proc(5): clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> int:
    """Return the peak resident size since then, in KiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def attack(reader, place, monkeypatch, examples: int) -> None:
    folder = place / "run"
    monkeypatch.chdir(place / "outside")
    watch = Watch([place, place / "outside"])
    worst, most = 0.0, 0
    touched: set[str] = set()

    def make(content: bytes) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for name, whole in readers.WHOLE.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(whole)
        folder.chmod(0o700)
        (folder / "checkpoints").mkdir()
        if reader.file in ("manifest.json", "SHA256SUMS"):
            _checkpoint(folder / "checkpoints" / "step")
        path = _folder(reader, folder) / reader.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=examples == FEW,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(content=reader.contents)
    def read(content: bytes) -> None:
        nonlocal worst, most
        make(content)
        before = forget_the_peak()
        began = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # Python's, for the forged build_info.py
                reader.read(_folder(reader, folder))
        except reader.refuses:
            pass  # with one of our own messages: the verb prints it
        worst = max(worst, time.monotonic() - began)
        most = max(most, peak_memory() - before)
        touched.update(watch.seen())  # in time: the kernel keeps several thousand

    try:
        read()
        assert worst < MOST_SECONDS
        assert touched - {str(place / "run")} == set(), "something outside of the run directory was touched"
        assert most < MOST_GROWTH_KIB
    finally:
        watch.close()


def _folder(reader, run):
    return run / "checkpoints" / "step" if reader.file in ("manifest.json", "SHA256SUMS") else run


@pytest.mark.parametrize("name", NAMES)
def test_reader_accepts_or_rejects_any_input(name, all_readers, place, monkeypatch):
    attack(all_readers[name], place, monkeypatch, FEW)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_reader_accepts_or_rejects_ten_thousand_inputs(name, all_readers, place, monkeypatch):
    attack(all_readers[name], place, monkeypatch, MANY)


@pytest.mark.parametrize("name", NAMES)
def test_intact_files_are_read(name, all_readers, place, monkeypatch, tmp_path):
    """Without this, the tests above would prove nothing."""
    reader = all_readers[name]
    folder = _folder(reader, tmp_path)
    for whole, content in readers.WHOLE.items():
        path = tmp_path / whole
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    tmp_path.chmod(0o700)
    if folder != tmp_path:
        folder.parent.mkdir()
        _checkpoint(folder)
    assert os.path.exists(folder)
    if reader.file in readers.WHOLE or folder != tmp_path:
        reader.read(folder)


def test_intact_journal_keeps_every_field():
    for name in readers.WHOLE:
        if name.startswith("journal/"):
            written = [json.loads(line) for line in readers.WHOLE[name].splitlines()]
            for line in written:
                kept = event_of(line).data
                assert {name: kept.get(name) for name in line["data"]} == line["data"]


def test_peak_memory_is_measured_for_each_example_separately():
    before = forget_the_peak()
    held = bytearray(b"x" * (MOST_GROWTH_KIB << 10))
    assert peak_memory() - before >= MOST_GROWTH_KIB
    del held
    assert forget_the_peak() - before < 1_000, "the peak is not forgotten"


def test_test_checkpoint_is_complete(tmp_path):
    _checkpoint(tmp_path / "step")
    assert (tmp_path / "step" / TENSORS).stat().st_size == 32
