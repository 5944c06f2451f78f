"""The files that a release needs beside the code say the same version, and invent no person or address."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oomph

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = ROOT / ".github/workflows/ci.yml"
REGISTRIES = re.compile(r"pythonhosted|pypi\.org|npmjs\.|deb\.debian\.|crates\.io|anaconda\.(?:org|com)")
LOCK_FILES = ("uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "pixi.lock", "pylock.toml", "package-lock.json")


def tracked() -> list[Path]:
    """Return the files that Git knows."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_each_supported_python_has_its_classifier_and_is_tested() -> None:
    said = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert said == ["3.10", "3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={said[0]}"
    assert re.search(r'python: \["(.*)"\]', WORKFLOW.read_text()).group(1).split('", "') == said  # type: ignore[union-attr]


def test_license_covers_what_is_bundled() -> None:
    assert PROJECT["license"] == "Apache-2.0 AND MIT"
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])
    bundled = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("LICENSE*")}
    assert bundled <= set(PROJECT["license-files"])


def test_citation_states_the_version_and_no_person() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [oomph.__version__]
    assert re.findall(r"^authors:\n((?:  .*\n)+)", citation, re.MULTILINE) == ["  - name: The oomph authors\n"]
    assert PROJECT["authors"] == [{"name": "The oomph authors"}]


def test_changelog_has_a_section_for_the_version() -> None:
    assert re.search(rf"^## {re.escape(oomph.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_no_file_names_the_place_of_the_repository_or_a_registry() -> None:
    wanted = re.compile(f"{re.escape(str(ROOT))}|{REGISTRIES.pattern}", re.IGNORECASE)
    here = Path(__file__).resolve()
    found = [
        (str(path.relative_to(ROOT)), match[0])
        for path in tracked()
        if path != here and (match := wanted.search(path.read_bytes().decode("utf-8", "replace")))
    ]
    assert found == []
    assert [path.name for path in tracked() if path.name in LOCK_FILES] == []


def test_workflow_runs_what_ci_runs() -> None:
    text = WORKFLOW.read_text()
    assert re.findall(r"- run: (.*)", text) == [".ci/run", "make release"]
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="no actionlint here")
def test_workflow_is_valid() -> None:
    done = subprocess.run(["actionlint", str(WORKFLOW)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem
)
def test_issue_form_asks_for_something(form: Path) -> None:
    yaml = pytest.importorskip("yaml")
    read = yaml.safe_load(form.read_text())
    assert read["name"]
    assert read["description"]
    assert all(field["attributes"]["label"] for field in read["body"])
    assert len({field["id"] for field in read["body"]}) == len(read["body"])
    assert any(field.get("validations", {}).get("required") for field in read["body"])
