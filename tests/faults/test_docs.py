"""The generated reference agrees with the pages."""

from __future__ import annotations

from pathlib import Path

from oomph.faults.catalogue import load
from oomph.faults.docs import documents, write

REFERENCE = Path(__file__).parents[2] / "docs/reference/faults"


def test_the_reference_is_what_the_pages_say() -> None:
    """When this fails: python -m oomph.faults.docs docs/reference/faults"""
    assert {path.name: path.read_text() for path in REFERENCE.glob("*.md")} == documents(load())


def test_a_page_that_is_no_more_is_removed(tmp_path: Path) -> None:
    (tmp_path / "OLD999-gone.md").write_text("old")
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == documents(load()).keys()
