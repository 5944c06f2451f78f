"""The demo as a whole: every claim holds, and README.md shows what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transcript import README, Demo, compared, run_demo, with_shown

SHOWN = (
    "                           undisturbed  plain python   oomph run  in float64\n"
    "test accuracy              0.9492       -              0.9492     0.9453\n"
    "steps repeated             0            -              5          5\n",
    "oomph: recovered in 11.1 s: batch 256 continues as micro-batches of 128 (exact)\n"
    "oomph: the script was killed by SIGKILL at fit 1, epoch 8, step 4 (45 steps done, 40 saved); starting attempt 2\n",
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return run_demo(tmp_path_factory.mktemp("demo"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_entire_demo_succeeds(demo: Demo) -> None:
    document = json.loads(demo.document)
    assert [claim for claim in document["claims"] if not claim["held"]] == []
    assert demo.returncode == 0, demo.printed
    assert (demo.folder / "oomph-run" / "summary.json").is_file()
    assert json.loads((demo.folder / "claims.json").read_text())["schema"] == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_readme_shows_what_the_demo_prints(demo: Demo) -> None:
    """If this fails: `make transcript`, and read the difference."""
    readme = README.read_text()
    assert compared(readme) == compared(with_shown(readme, demo.shown))


def test_transcript_replaces_the_two_blocks_of_text() -> None:
    readme = README.read_text()
    changed = with_shown(readme, SHOWN)
    assert all(f"```text\n{part}```\n" in changed for part in SHOWN)
    assert changed.count("```text\n") == len(SHOWN)
    assert with_shown(changed, SHOWN) == changed


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("recovered in 11.1 s", "recovered in 9 s"),
        ("0.9492", "0.9388"),
        ("step 4 (45 steps done, 40 saved)", "step 7 (48 steps done, 40 saved)"),
        ("  5          5", "  8          10"),
    ],
)
def test_what_differs_from_one_demo_to_the_next_is_not_compared(was: str, now: str) -> None:
    text = "".join(SHOWN)
    assert was in text
    assert compared(text.replace(was, now)) == compared(text)


@pytest.mark.parametrize(
    ("was", "now"), [("batches of 128", "batches of 64"), ("SIGKILL", "SIGTERM"), ("  -  ", " 1 ")]
)
def test_everything_else_is_compared(was: str, now: str) -> None:
    text = "".join(SHOWN)
    assert compared(text.replace(was, now)) != compared(text)


def test_run_lines_show_names_instead_of_paths(tmp_path: Path) -> None:
    line = "oomph: running /home/me/demo/digits.py with /env/bin/python, run directory oomph-run"
    (tmp_path / "oomph.log").write_text(f"Epoch 1\n{line}\noomph: /not/a/path/\n")
    _, lines = Demo(0, "", "== 1 of 7\n\n undisturbed  plain python\n\nok", tmp_path).shown
    assert lines == "oomph: running digits.py with python, run directory oomph-run\noomph: /not/a/path/\n"
