"""The generated reference agrees with the pages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.faults.catalogue import front_matter
from oomph.faults.catalogue.catalogue import PageError, find, load, parse_page
from oomph.faults.catalogue.docs import documents, write
from oomph.faults.catalogue.front_matter import PAGES

REFERENCE = Path(__file__).parents[3] / "docs/reference/faults"
LOGS = Path(__file__).parents[2] / "logs"
PAGE = PAGES / "memory/OOM101-device-oom.md"


def test_the_reference_is_what_the_pages_say() -> None:
    """When this fails: python -m oomph.faults.catalogue.docs docs/reference/faults"""
    assert {path.name: path.read_text() for path in REFERENCE.glob("*.md")} == documents(load())


def test_the_front_matter_is_read_as_json_where_oomph_is_installed() -> None:
    """When this fails: .venv/bin/pip install --editable ."""
    assert [fault.code for fault in load() if front_matter.made(fault.text) is None] == []


def test_what_is_written_at_an_installation_holds_every_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(front_matter, "MADE", tmp_path / "front.jsonl")
    front_matter._made.cache_clear()
    front_matter.write()
    written = [front_matter.made(fault.text) for fault in load()]
    front_matter._made.cache_clear()
    assert [as_json(each) for each in written] == [as_json(front_matter.parse(fault.text)) for fault in load()]


def as_json(front: front_matter.FrontMatter | None) -> str:
    """The front matter in a form to compare: JSON has no tuples."""
    return json.dumps(front)


def test_a_page_that_was_changed_since_is_read_anew() -> None:
    page = find("device-oom")
    assert page is not None
    changed = page.text.replace('summary = "', 'summary = "Now ')
    assert parse_page(changed, PAGE).summary == f"Now {page.summary}"
    assert parse_page(changed, PAGE).signatures == page.signatures


def test_prose_that_was_changed_since_is_checked() -> None:
    page = find("device-oom")
    assert page is not None
    with pytest.raises(PageError, match="headings"):
        parse_page(page.text.replace("## Why\n", "## Because\n"), PAGE)


@pytest.mark.parametrize("damage", ["absent", "not all of it", "a letter"])
def test_the_pages_do_without_the_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str) -> None:
    expected, whole = load(), front_matter.MADE.read_text()
    front = tmp_path / "front.jsonl"
    if damage != "absent":
        front.write_text(whole[:-1] if damage == "not all of it" else whole.replace("shape", "shade", 1))
    monkeypatch.setattr(front_matter, "MADE", front)
    front_matter._made.cache_clear()
    read = [parse_page(fault.text, PAGES / f"{fault.domain}/{fault.code}-{fault.name}.md") for fault in expected]
    known = front_matter._made()
    front_matter._made.cache_clear()
    assert [(fault.signatures, fault.remedies) for fault in read] == [
        (fault.signatures, fault.remedies) for fault in expected
    ]
    assert known == {}


def test_a_diagnosis_reads_only_the_signatures_that_the_log_may_bear() -> None:
    """They are the most of a start: two thousand, of which a log bears a few."""
    counted = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, timeout=60)
    assert 0 < int(counted.stdout) < 200


COUNT = f"""
from oomph.faults.catalogue.fault import signature_in
from oomph.faults.diagnose import diagnose_log
diagnose_log(open({str(LOGS / "oomgraph.log")!r}, "rb").read())
print(signature_in.cache_info().currsize)
"""


def test_a_page_that_is_no_more_is_removed(tmp_path: Path) -> None:
    (tmp_path / "OLD999-gone.md").write_text("old")
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == documents(load()).keys()
