"""The newest samples of a run, followed while they are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oomph.monitor.sample import Sample
from oomph.monitor.store import COMPRESSED, TAIL, RecentSamples, Store

KEPT = 120


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda fd: None)


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def append(store: Store, *times: float) -> None:
    for time in times:
        store.append(Sample(float(time)))
    assert store.problem == ""


def times(recent: RecentSamples) -> list[float]:
    return [sample.time for sample in recent.read()]


def test_two_minutes_are_known_at_once_although_the_tail_has_just_begun(tmp_path: Path, store: Store) -> None:
    append(store, *range(601))
    assert times(RecentSamples(tmp_path, KEPT)) == list(range(481, 601))


def test_samples_are_followed_across_a_compression_without_a_gap(tmp_path: Path, store: Store) -> None:
    append(store, *range(290))
    recent = RecentSamples(tmp_path, KEPT)
    for begin, end in ((290, 291), (291, 299), (299, 310), (310, 310), (310, 1000)):
        assert times(recent) == list(range(begin - KEPT, begin))
        append(store, *range(begin, end))
    assert times(recent) == list(range(880, 1000)), "after a pause of eleven minutes"


def test_samples_are_followed_when_the_clock_is_turned_back(tmp_path: Path, store: Store) -> None:
    recent = RecentSamples(tmp_path, KEPT)
    append(store, 5000, 5001)
    assert times(recent) == [5000, 5001]
    append(store, 1400, 1401)
    assert times(recent) == [5000, 5001, 1400, 1401]


def test_an_incomplete_line_is_read_once_it_is_complete(tmp_path: Path, store: Store) -> None:
    append(store, 1, 2)
    tail = tmp_path / TAIL
    whole = tail.read_bytes()
    tail.write_bytes(whole[:-5])
    recent = RecentSamples(tmp_path, KEPT)
    assert times(recent) == [1]
    tail.write_bytes(whole)
    assert times(recent) == [1, 2]


def test_only_new_lines_are_read(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    append(store, *range(300))
    recent = RecentSamples(tmp_path, KEPT)
    recent.read()
    parsed: list[bytes] = []
    monkeypatch.setattr("oomph.monitor.store.read_sample", lambda line, header: parsed.append(line))
    recent.read()
    assert parsed == []


@pytest.mark.parametrize("damage", [b"", b"\0" * 4096, b'{"schema": 7}\n[1]\n', b"[]\n[1, 2]\n"])
def test_damaged_files_have_no_samples(tmp_path: Path, store: Store, damage: bytes) -> None:
    append(store, *range(301))
    for name in (TAIL, COMPRESSED):
        (tmp_path / name).write_bytes(damage)
    assert times(RecentSamples(tmp_path, KEPT)) == []
    assert times(RecentSamples(tmp_path / "missing", KEPT)) == []


def test_a_damaged_last_member_costs_only_its_own_samples(tmp_path: Path, store: Store) -> None:
    append(store, *range(310))
    held = bytearray((tmp_path / COMPRESSED).read_bytes())
    held[20:30] = bytes(10)
    (tmp_path / COMPRESSED).write_bytes(held)
    assert times(RecentSamples(tmp_path, KEPT)) == list(range(300, 310))


def test_a_line_whose_time_is_not_a_time_is_not_a_sample(tmp_path: Path, store: Store) -> None:
    append(store, 1)
    with (tmp_path / TAIL).open("ab") as tail:
        tail.writelines(f'["{time}", [], [], [], []]\n'.encode() for time in ("nan", "inf", "-inf"))
    append(store, 2)
    assert times(RecentSamples(tmp_path, KEPT)) == [1, 2]
