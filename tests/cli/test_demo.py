"""The `oomph demo` command line. Its claims are tested in tests/test_project.py."""

from __future__ import annotations

import sys

import pytest

from oomph import cli
from oomph.cli import output
from oomph.demo import show
from oomph.terminal.screen import Screen


@pytest.mark.parametrize(("options", "width"), [([], 99), (["--json"], 55)])
def test_demo_table_fits_the_terminal_it_is_printed_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], width: int
) -> None:
    asked: list[int] = []

    def shown(keep: str | None, say: show.Say, width: int) -> show.Shown:
        asked.append(width)
        return show.Shown((), 1.0)

    monkeypatch.setattr(show, "show", shown)
    monkeypatch.setattr(output, "screen_of_stream", lambda stream: Screen(width=55 if stream is sys.stderr else 99))
    assert cli.main(["demo", *options]) == 0
    assert asked == [width]
