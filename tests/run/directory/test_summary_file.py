"""The summary of a run, as `oomph rehearse` and `oomph demo` read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.run.directory.run_directory import read_summary


def test_written_summary_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"schema": 1, "steps": 9}')
    assert read_summary(tmp_path) == {"schema": 1, "steps": 9}


@pytest.mark.parametrize("content", [None, b"", b"[1]", b'{"steps": ', b"\xff"])
def test_unreadable_summary_counts_as_empty(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "summary.json").write_bytes(content)
    assert read_summary(tmp_path) == {}


def test_summary_behind_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"steps": 9}')
    (tmp_path / "summary.json").symlink_to(tmp_path / "elsewhere")
    assert read_summary(tmp_path) == {}
