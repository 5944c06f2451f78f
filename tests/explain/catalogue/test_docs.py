"""The generated reference matches the pages, which read the same from their JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from oomph.explain.catalogue import catalogue
from oomph.explain.catalogue.catalogue import PAGES, PageError, find, load, parse_page
from oomph.explain.catalogue.docs import documents, write
from oomph.explain.catalogue.fault import Fault

LOGS = Path(__file__).parents[2] / "logs"
PAGE = PAGES / "memory/OOM101-device-oom.md"


DOCUMENTS = documents(load())


def test_reference_has_an_index_and_a_page_for_each_fault() -> None:
    assert set(DOCUMENTS) == {"index.md", *(f"{fault.code}-{fault.name}.md" for fault in load())}
    assert DOCUMENTS["index.md"].count("\n| [") == len(load())


@pytest.mark.parametrize("fault", load(), ids=lambda fault: fault.name)
def test_reference_page_contains_the_text_and_remedies_of_its_fault(fault: Fault) -> None:
    name = f"{fault.code}-{fault.name}.md"
    text = DOCUMENTS[name]
    assert f"| [{fault.code}]({name}) | {fault.name} | {fault.summary} | {fault.severity} |" in DOCUMENTS["index.md"]
    assert text.startswith(f"# {fault.code} {fault.name}: {fault.title}\n\n{fault.summary}\n")
    assert all(f"\n## {heading}\n\n{prose}\n" in text for heading, prose in fault.sections.items())
    of_wordings = [remedy for signature in fault.signatures for remedy in signature.remedies]
    for remedy in [*fault.remedies, *of_wordings]:
        assert remedy.command in text
        assert remedy.changes in text


def test_installed_json_front_matter_matches_the_pages() -> None:
    """If this fails: .venv/bin/pip install --editable ."""
    assert [
        fault.code for fault in load() if catalogue.made_front(fault.page) != catalogue.parse_front(fault.page)
    ] == []


def test_front_matter_written_at_installation_covers_every_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(catalogue, "MADE", tmp_path / "front.jsonl")
    catalogue.write_front()
    catalogue._made_fronts.cache_clear()
    written = [catalogue.made_front(fault.page) for fault in load()]
    catalogue._made_fronts.cache_clear()
    assert written == [catalogue.parse_front(fault.page) for fault in load()]


def test_changed_page_is_parsed_again() -> None:
    (page,) = (fault for fault in load() if fault.name == "device-oom")
    changed = parse_page(page.page.replace(b'summary = "', b'summary = "Now '), PAGE)
    assert changed.summary == f"Now {page.summary}"
    assert changed.signatures == page.signatures


def test_changed_page_prose_is_checked() -> None:
    with pytest.raises(PageError, match="headings"):
        parse_page(PAGE.read_bytes().replace(b"## Why\n", b"## Because\n"), PAGE)


@pytest.mark.parametrize("damage", [None, slice(0, -1), slice(0, 1000), slice(5, None), "a letter"])
def test_pages_are_readable_without_valid_json_front_matter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: slice | str | None
) -> None:
    whole, front = catalogue.MADE.read_bytes(), tmp_path / "front.jsonl"
    if damage is not None:
        front.write_bytes(whole[damage] if isinstance(damage, slice) else whole.replace(b"shape", b"shade", 1))
    monkeypatch.setattr(catalogue, "MADE", front)
    catalogue._made_fronts.cache_clear()
    known, read = catalogue._made_fronts(), parse_page(PAGE.read_bytes(), PAGE)
    catalogue._made_fronts.cache_clear()
    assert (known, read) == ({}, find("device-oom"))


def test_diagnosis_loads_only_signatures_that_could_match_the_log() -> None:
    """There are a thousand: loading all of them would take longer than the rest of the startup."""
    counted = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, timeout=60)
    assert 0 < int(counted.stdout) < 200


COUNT = f"""
from oomph.explain.catalogue import fault
from oomph.explain.diagnose import diagnose_log
diagnose_log(open({str(LOGS / "oomgraph.log")!r}, "rb").read())
print(fault._signature.cache_info().currsize)
"""


def test_deleted_fault_loses_its_reference_page(tmp_path: Path) -> None:
    (tmp_path / "OLD999-gone.md").write_text("old")
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == documents(load()).keys()
