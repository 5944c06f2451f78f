"""The generated reference agrees with the pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.faults.catalogue import front_matter
from oomph.faults.catalogue.catalogue import load
from oomph.faults.catalogue.docs import documents, write

REFERENCE = Path(__file__).parents[3] / "docs/reference/faults"


def test_the_reference_is_what_the_pages_say() -> None:
    """When this fails: python -m oomph.faults.catalogue.docs docs/reference/faults"""
    assert {path.name: path.read_text() for path in REFERENCE.glob("*.md")} == documents(load())


def test_the_front_matter_is_read_as_json_where_oomph_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails: .venv/bin/pip install --editable ."""
    assert front_matter.MADE.exists()
    monkeypatch.setattr(front_matter, "parse", None)  # the slow way
    words = front_matter.split(next(fault for fault in load() if fault.name == "device-oom").text)[0]
    assert front_matter.read(words)["summary"]


def test_what_is_written_at_an_installation_holds_every_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(front_matter, "MADE", tmp_path / "front.json")
    front_matter.write()
    written = json.loads((tmp_path / "front.json").read_text(encoding="utf-8")).values()
    pages = [front_matter.parse(front_matter.split(fault.text)[0]) for fault in load()]
    assert sorted(written, key=str) == sorted(pages, key=str)


def test_no_two_pages_share_a_line_of_the_front_matter_as_json() -> None:
    read = [
        (front_matter.read(words), front_matter.parse(words))
        for words in (front_matter.split(fault.text)[0] for fault in load())
    ]
    assert [(one, other) for one, other in read if one != other] == []


def test_a_page_that_was_changed_since_is_read_anew() -> None:
    words, _ = front_matter.split(load()[0].text)
    changed = words.replace('summary = "', 'summary = "Now ')
    assert front_matter.read(changed) == {
        **front_matter.read(words),
        "summary": "Now " + front_matter.read(words)["summary"],
    }


def test_the_pages_do_without_the_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "damaged.json").write_text('{"half')
    expected = [front_matter.read(front_matter.split(fault.text)[0]) for fault in load()]
    for made in (tmp_path / "absent.json", tmp_path / "damaged.json"):
        monkeypatch.setattr(front_matter, "MADE", made)
        front_matter._made.cache_clear()
        assert [front_matter.read(front_matter.split(fault.text)[0]) for fault in load()] == expected
    front_matter._made.cache_clear()


def test_a_page_that_is_no_more_is_removed(tmp_path: Path) -> None:
    (tmp_path / "OLD999-gone.md").write_text("old")
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == documents(load()).keys()
