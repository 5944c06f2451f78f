"""What a terminal shows of the live view beside three runs: at several sizes, in colour and without, and on keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_runs import live_runs
from watch_session import Session

LEAK = "memory is growing by 12 MiB a minute"
SIZES = ((40, 24), (80, 24), (120, 40), (200, 60))


@contextmanager
def watching(folder: Path, columns: int, rows: int, **environ: str) -> Iterator[Session]:
    session = Session(folder, columns=columns, rows=rows, **environ)
    try:
        session.until("q quit")
        yield session
    finally:
        session.close()


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("watched")
    with live_runs(folder, message=LEAK):
        yield folder


@pytest.fixture(name="alone")
def _alone(tmp_path: Path) -> Iterator[Path]:
    with live_runs(tmp_path, ("train.py",), LEAK, gpus=1):
        yield tmp_path


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_every_kind_of_information_is_on_the_screen_at_every_size(folder, columns, rows):
    with watching(folder, columns, rows) as session:
        shown = session.screen().display
    text = "\n".join(shown)
    for known in ("train.py", "tune.py", "encode.py", "epoch", "step", "ETA", "samples/s", "input wait", "loss"):
        assert known in text, (known, text)
    for known in ("63.2", "71.9 GiB", "RSS", "20.0/64 GiB", "79.5/80 GiB", "76.0/80 GiB", "°C", "python", "warning"):
        assert known in text, known
    assert re.search(r"warning  memory-leak  run +\d", text) or columns == 40
    assert shown[-1].startswith("q quit")
    assert sum(not line.strip() for line in shown) <= 8, "the screen is used"


@pytest.mark.parametrize(("columns", "rows", "length"), [(80, 24, 30), (120, 40, 60), (200, 60, 120)])
def test_all_curves_show_two_minutes_on_one_axis_from_the_first_moment(alone, columns, rows, length):
    with watching(alone, columns, rows) as session:
        shown = session.screen().display
    (axis,) = [line for line in shown if "2 min ago" in line]
    begin, end = axis.index("╷2 min ago"), axis.index("now╷") + len("now╷")
    assert end - begin == length
    labels = ("samples/s", "loss", "TF pool", "script RSS", "host RAM", "memory", "use", "temp", "power")
    for label in labels:
        row = next(number for number, line in enumerate(shown) if line.startswith(label))
        height = 1
        while not shown[row + height][:begin].strip():
            height += 1
        curve = ["".join(line[at] for line in shown[row : row + height]) for at in range(begin, end)]
        newest = 5 * length // 120  # these columns may be blank on a busy machine
        assert all(column.strip() for column in curve[: length - newest]), label


def colours(session: Session, words: str) -> set[str]:
    """Return the colours of a piece of text."""
    screen = session.screen()
    row = next(number for number, line in enumerate(screen.display) if words in line)
    begin = screen.display[row].index(words)
    return {screen.buffer[row][at].fg for at in range(begin, begin + len(words))}


def test_values_are_coloured_by_how_good_they_are(folder):
    with watching(folder, 80, 24) as session:
        assert colours(session, "79.5/80 GiB") == {"red"}
        assert colours(session, "76.0/80 GiB") == {"brown"}, "pyte's name for yellow"
        assert colours(session, "40.0/80 GiB") == {"green"}
        assert colours(session, "86 °C") == {"brown"}
        assert colours(session, "60 °C") == {"green"}
        assert colours(session, "memory-leak") == {"brown"}


def test_no_color_leaves_all_information_without_colours(folder):
    with watching(folder, 120, 40, NO_COLOR="1") as session:
        screen = session.screen()
    assert {cell.fg for line in screen.buffer.values() for cell in line.values()} == {"default"}
    assert "warning  memory-leak" in "\n".join(screen.display)


def selected(session: Session) -> str:
    (line,) = [line for line in session.screen().display if line.startswith("▸")]
    return line[1:].split()[1]


def test_a_key_selects_the_run_that_is_shown_in_full(folder):
    with watching(folder, 120, 40) as session:
        names = [line[1:].split()[1] for line in session.screen().display if re.match("[▸ ][123] ", line)]
        assert selected(session) == names[0]
        for key, place in (
            ("2", 1),
            ("\x1b[B", 2),
            ("\x1bOB", 0),
            ("\x1b[A", 2),
            ("k", 1),
            ("j", 2),
            ("1", 0),
            ("9", 0),
        ):
            session.press(key)
            session.until(f"▸{place + 1} {names[place]}.*q quit")
            assert selected(session) == names[place], key
            header = session.screen().display[0]
            assert re.search(r"runs/20261125-0900\d\d-\d", header)


EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eevil\u2066<script>\nq quit"


def test_hostile_text_reaches_the_terminal_escaped(tmp_path):
    with live_runs(tmp_path, (f"{EVIL}.py",), EVIL, gpus=1), watching(tmp_path, 200, 60) as session:
        assert "\\x1b]0;title" in "\n".join(session.screen().display)
        assert not re.search("\x1b\\]|\x07|\x9b|\u202e|\u2066", session.seen)
        assert session.screen().title == ""


def test_secrets_in_a_command_are_not_shown(tmp_path):
    with live_runs(tmp_path, ("--api-key=sk-1234567890abcdefghij",), gpus=1), watching(tmp_path, 200, 60) as session:
        assert "sk-1234567890" not in session.seen


def test_a_dumb_terminal_gets_one_snapshot_and_the_reason(folder):
    session = Session(folder, TERM="dumb")
    assert session.end() == 0
    session.close()
    assert session.seen.startswith("oomph: this terminal cannot show the live view (TERM)")
    assert "\x1b" not in session.seen
    assert "samples/s" in session.seen


def test_a_run_that_has_ended_shows_its_last_two_minutes(tmp_path):
    with live_runs(tmp_path, ("train.py",), gpus=1):
        pass
    with watching(tmp_path, 120, 40) as session:
        shown = "\n".join(session.screen().display)
    assert "finished" in shown
    assert re.search("[▁-█]{20}", shown)
