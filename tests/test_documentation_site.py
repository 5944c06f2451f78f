"""The site that `make site` builds: strict, complete in its navigation, and loading nothing from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 120

pytest.importorskip("zensical")


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a folder with docs and zensical.toml."""
    words = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    environ = os.environ | {"NO_COLOR": "1"}
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A copy of the documents, with the pages that `make docs` writes, built as a site."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    for word in ("/docs/reference/",):
        built = [line[len(word) :] for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith(word)]
    reference = folder / "docs/reference"
    for name in built:
        shutil.rmtree(reference / name) if (reference / name).is_dir() else (reference / name).unlink(missing_ok=True)
    words = ["make", "--no-print-directory", "--assume-old=.venv/ready", f"BIN={Path(sys.executable).parent}"]
    subprocess.run([*words, "docs", f"REFERENCE={reference}"], cwd=ROOT, check=True, timeout=LIMIT, capture_output=True)
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """What a page loads, and where its navigation leads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.navigation: set[Path] = set()
        self._folder, self._navigating = path.parent, 0
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in ("script", "img", "iframe", "source") and attributes.get("src"):
            self.loaded.append(attributes["src"] or "")
        if tag == "link" and attributes.get("rel") in ("stylesheet", "preload", "icon", "preconnect", "modulepreload"):
            self.loaded.append(attributes["href"] or "")
        self._navigating += tag == "nav"
        link = (attributes.get("href") or "").partition("#")[0]
        if self._navigating and tag == "a" and link and "://" not in link:
            self.navigation.add((self._folder / link).resolve())

    def handle_endtag(self, tag: str) -> None:
        self._navigating -= tag == "nav"


def pages(folder: Path) -> list[Path]:
    return [path for path in (folder / "build/site").rglob("*.html") if path.name != "404.html"]


def test_navigation_leads_to_every_page(folder):
    leads_to = Page(folder / "build/site/index.html").navigation
    assert {path.resolve() for path in pages(folder)} - leads_to == set()
    assert len(leads_to) > 90


def test_pages_load_nothing_from_elsewhere(folder):
    loaded = {(path.name, address) for path in pages(folder) for address in Page(path).loaded}
    assert len(loaded) > 100
    assert [address for _, address in loaded if re.match(r"[a-z]+:|//", address)] == []
    for sheet in (folder / "build/site").rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text()), sheet.name


@pytest.mark.parametrize("text", ["[a](gone.md)", "[a](faq.md#gone)", "[a](../README.md)"])
def test_a_broken_link_stops_the_build(tmp_path, text):
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    (tmp_path / "docs/index.md").write_text("# A\n\n<!--nav-->\n\n- [A](index.md)\n- [B](faq.md)\n")
    (tmp_path / "docs/faq.md").write_text("# B\n")
    assert build(tmp_path).returncode == 0
    (tmp_path / "docs/faq.md").write_text(f"# B\n\n{text}\n")
    assert build(tmp_path).returncode != 0
