"""Every link and anchor in the documents resolves, with the reference built as `make docs` builds it."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import oomph
from oomph.cli import COMMANDS
from oomph.cli.parser import parser_of

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs/reference"
BUILT = [ROOT / line[1:] for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("/docs/")]
"""The files that `make docs` writes and Git ignores."""
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
ELSEWHERE = re.compile(r"[a-z]+:")


def is_built(path: Path) -> bool:
    return any(path == built or built in path.parents for built in BUILT)


DOCUMENTS = [path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if not is_built(path)]

IN_SITE = [path for path in DOCUMENTS if ROOT / "docs" in path.parents]
CONTRIBUTORS = {
    "CONTRIBUTING.md",
    "architecture.md",
    "decisions.md",
    "pitfalls.md",
    "measurements.md",
    "add-a-fault.md",
}
FOR_USERS = [path for path in DOCUMENTS if path.name not in {*CONTRIBUTORS, "CHANGELOG.md", "xid.md"}]
"""The pages for users that people have written."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The folder that `make docs` wrote to, in place of docs/reference."""
    folder = tmp_path_factory.mktemp("docs") / "reference"
    folder.mkdir()
    words = ["--no-print-directory", "--assume-old=.venv/ready", f"BIN={Path(sys.executable).parent}"]
    subprocess.run(["make", *words, "docs", f"REFERENCE={folder}"], cwd=ROOT, check=True, timeout=120)
    return folder


@cache
def read(path: Path) -> str:
    """Return a document's text without its code, in which a bracket is not a link and a # is not a heading."""
    return FENCE.sub("", path.read_text())


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as named by GitHub."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.*)$", read(path), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def broken(document: Path, reference: Path) -> list[str]:
    """Return the broken links in a document."""
    folder = document.parent
    if reference in document.parents:  # written next to the others in docs/reference
        folder = REFERENCE / folder.relative_to(reference)
    found = []
    for target, anchor in LINK.findall(CODE.sub("", read(document))):
        if ELSEWHERE.match(target):
            continue
        path = Path(os.path.normpath(folder / target)) if target else document
        if is_built(path):
            path = reference / path.relative_to(REFERENCE)
        if not path.exists() or (anchor and anchor not in anchors(path)):
            found.append(f"{document.name}: {target}#{anchor}")
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_and_anchor_in_a_document_resolves(document, reference):
    assert broken(document, reference) == []


def test_every_link_and_anchor_in_the_built_reference_resolves(reference):
    assert [link for document in sorted(reference.rglob("*.md")) for link in broken(document, reference)] == []


def test_built_reference_contains_only_ignored_folders_and_the_xid_table(reference):
    written = {path.relative_to(reference).parts[0] for path in reference.rglob("*")}
    assert written == {path.name for path in BUILT} | {"xid.md"}
    assert (reference / "xid.md").read_text() == (REFERENCE / "xid.md").read_text(), "run `make docs`"


def test_reference_lists_every_public_name(reference):
    text = (reference / "python.md").read_text()
    assert [name for name in oomph.__all__ if f"\n## oomph.{name}\n" not in text] == ["__version__"]


@pytest.mark.parametrize("verb", COMMANDS)
def test_reference_lists_every_option_of_a_verb(reference, verb):
    for_every_verb, _, section = (reference / "command-line.md").read_text().partition(f"\n## oomph {verb}\n")
    section, _, _ = section.partition("\n## ")
    parser = parser_of(verb, importlib.import_module(COMMANDS[verb][0]))
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", parser.format_help(), re.MULTILINE))
    assert options >= {"--help", "--color"}
    assert {option for option in options if option not in section} == {"--help", "--color"}
    assert "Every verb also has `--help` and `--color" in for_every_verb


def test_environment_page_lists_every_variable_of_oomph():
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"\"(OOMPH_[A-Z_]*[A-Z])\"", code))
    assert len(named) > 5
    assert named == set(re.findall(r"^\| `(OOMPH_[A-Z_]+)`", (REFERENCE / "environment.md").read_text(), re.MULTILINE))


def test_measurements_page_has_at_most_150_complete_rows():
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "docs/measurements.md").read_text().splitlines()]
    tables = [cells for cells in rows if len(cells) > 1 and not set("".join(cells)) <= set("- |")]
    measured = [cells for cells in tables if len(cells) != 2 and cells[0] != "claim"]
    assert all(len(cells) == 5 and all(cells) for cells in measured)
    assert 0 < len(measured) <= 150


def test_navigation_contains_every_document():
    index = {os.path.normpath(link) for link, _ in LINK.findall((ROOT / "docs/index.md").read_text())}
    assert {str(path.relative_to(ROOT / "docs")) for path in IN_SITE} - index == set()


@pytest.mark.parametrize("document", IN_SITE, ids=lambda path: str(path.relative_to(ROOT)))
def test_page_of_the_site_links_only_to_pages_of_the_site(document):
    targets = [target for target, _ in LINK.findall(CODE.sub("", read(document))) if not ELSEWHERE.match(target)]
    assert [link for link in targets if not (document.parent / link).resolve().is_relative_to(ROOT / "docs")] == []


@pytest.mark.parametrize("document", FOR_USERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_page_for_users_has_at_most_1500_words(document):
    assert len(read(document).split()) <= 1500


@pytest.mark.parametrize("document", IN_SITE, ids=lambda path: str(path.relative_to(ROOT)))
def test_list_or_table_begins_after_an_empty_line(document):
    """The site takes a list or a table that follows a line of text as a part of the sentence."""
    lines = read(document).splitlines()
    begins = [(before, line) for before, line in pairwise(lines) if line.startswith(("* ", "- ", "| ", "1. "))]
    assert [line for before, line in begins if before and not before.startswith(("* ", "- ", "| ", " ", "1. "))] == []


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("[a](here.md)", []),
        ("[a](#a-heading-twice-1) [b](here.md#a-heading-twice) [c](https://x.y/z#q)", []),
        ("[a](gone.md)", ["here.md: gone.md#"]),
        ("[a](#gone)", ["here.md: #gone"]),
        ("[a](here.md#a-heading-twice-2)", ["here.md: here.md#a-heading-twice-2"]),
        ("`[a](gone.md)` ``` [b](gone.md) ```\n\n```\n[c](gone.md)\n# gone\n```\n", []),
        ("```\n# gone\n```\n[a](#gone)", ["here.md: #gone"]),
    ],
)
def test_broken_link_is_detected(tmp_path, text, links):
    document = tmp_path / "here.md"
    document.write_text(f"# A `heading`, twice\n## A heading twice\n{text}\n")
    read.cache_clear()
    anchors.cache_clear()
    assert broken(document, tmp_path / "reference") == links
