"""The pure parts of terminal output: messages, wrapping, colour, Markdown, tables, and the progress line."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from oomph.explain.markdown import inline, plain
from oomph.terminal import console
from oomph.terminal import screen as screens
from oomph.terminal.message import from_script, message
from oomph.terminal.screen import BOLD, GREEN, RED, Marked, Screen, painted, screen_of
from oomph.terminal.wrapping import reflowed, shortened, table, wrapped

sys.path.insert(0, str(Path(__file__).parent))
from emulator import screen

PIPE, NARROW = Screen(), Screen(width=40, terminal=True, columns=40)
LONG = "the script was killed " * 20


def test_piped_message_is_one_plain_line() -> None:
    assert message(LONG, PIPE) == f"oomph: {LONG}\n"
    assert message("half", PIPE, at_line_start=False) == "\noomph: half\n"


def test_terminal_message_is_indented_without_splitting_its_command() -> None:
    command = "oomph run --resume=.oomph/runs/one train.py --epochs 10 --rate 0.1"
    lines = message(f"next           {command}", NARROW, hang=15, command=command).rpartition("\r")[2].splitlines()
    assert lines == ["oomph: next", f"{' ' * 22}{command}"]


def test_foreign_escape_codes_are_removed_from_messages() -> None:
    coloured = Screen(width=40, terminal=True, columns=40, colour=True)
    text = message("a \x1b[31mname\x07\x00 of a file " * 3, coloured)
    assert text.count("\x1b") == 2  # with our prefix
    assert "\0" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("column", range(2 * 40))
def test_message_starts_on_a_new_line_whatever_the_cursor_column(column: int) -> None:
    before = "x" * column
    lines = screen((before + message("here", NARROW)).encode(), 40)
    assert "oomph: here" in lines
    assert "".join(lines).count("x") == column
    assert "" not in lines[:-1]


def test_only_messages_at_line_starts_are_laid_out() -> None:
    theirs = b"see oomph: not ours\n"
    assert from_script(theirs, NARROW, True) == theirs
    assert from_script(b"oomph: half a line\n", NARROW, False) == b"oomph: half a line\n"
    assert from_script(b"oomph: one\noomph: two\n", NARROW, True).count(b"\roomph: ") == 2
    assert from_script(b"bar\roomph: \xff\n", NARROW, True).endswith(b"\roomph: \xff\n")
    assert from_script(b"bar\roomph: one\n", PIPE, True) == b"bar\roomph: one\n"


@pytest.mark.alone
def test_long_script_output_before_a_message_is_handled_quickly() -> None:
    data = b"x" * 8_000_000 + b"\n" + b"oomph: one\n" * 1000
    started = time.process_time()
    assert from_script(data, NARROW, True).count(b"\roomph: one\n") == 1000
    assert time.process_time() - started < 0.5


def test_verdicts_are_coloured_only_as_whole_words_at_the_start_of_a_line() -> None:
    heads = {"FAIL": RED, "ok": GREEN, "ok, all": BOLD, "   evidence": BOLD, "Why": BOLD}
    assert painted("FAIL  nvml (DOC204): x", heads) == "\x1b[31mFAIL\x1b[0m  nvml (DOC204): x"
    assert painted("FAILED", heads) == "FAILED"
    assert painted("ok, all of it\nok", heads) == "\x1b[1mok, all\x1b[0m of it\n\x1b[32mok\x1b[0m"
    assert painted("   evidence", heads) == "   \x1b[1mevidence\x1b[0m"
    assert painted("Why\n---\ntext", heads) == "\x1b[1mWhy\x1b[0m\n---\ntext"
    assert painted("nothing of ours", heads) == "nothing of ours"


def test_a_marked_word_is_coloured_in_a_wrapped_line() -> None:
    coloured = Screen(width=40, terminal=True, columns=40, colour=True)
    line = Marked("the result     verified: the repeated steps match the original ones", "verified", GREEN)
    shown = message(line, coloured)
    assert "\x1b[36moomph:\x1b[0m the result     \x1b[32mverified\x1b[0m: the" in shown
    assert message(line, PIPE) == f"oomph: {line}\n"


@pytest.mark.parametrize(
    ("choice", "environ", "colour"),
    [
        ("auto", {"TERM": "xterm"}, True),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ("auto", {"TERM": "dumb"}, False),
        ("auto", {}, False),
        ("never", {"TERM": "xterm"}, False),
        ("always", {"TERM": "dumb", "NO_COLOR": "1"}, True),
    ],
)
def test_colour_is_used_only_on_capable_terminals(
    monkeypatch: pytest.MonkeyPatch, choice: str, environ: dict[str, str], colour: bool
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(screens, "_chosen", choice)
    ours, theirs = os.openpty()
    try:
        assert screen_of(theirs).colour is colour
        assert screen_of(theirs).columns == 0  # this terminal has no size
        assert screen_of(theirs).width == 80
    finally:
        os.close(ours)
        os.close(theirs)


def test_overlong_word_gets_its_own_line() -> None:
    assert wrapped("a " + "/path" * 20 + " b", 40).split("\n") == ["a", "/path" * 20, "b"]


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("12. attempt 1 ended by signal 9, at fit 2", ["12. attempt 1 ended by", "    signal 9, at fit 2"]),
        ("exit codes: 0 it is fine; 1 it is not", ["exit codes: 0 it is fine; 1", "            it is not"]),
        ("FAIL  name: what was found, in words", ["FAIL  name: what was found,", "      in words"]),
        ("one two three four five six seven", ["one two three four five six", "seven"]),
    ],
)
def test_overlong_lines_continue_under_the_last_column(line: str, lines: list[str]) -> None:
    assert reflowed(line, 27).split("\n") == lines


MARKDOWN = """# Head
A *word*, **two**, `code`, `of two words` and a [link](https://x.y).

- first
  goes on
- second

```
log line
```
| a | b |
| --- | --- |
| one | `two` |"""


def test_markdown_is_shown_without_markup() -> None:
    assert "\n".join(plain(MARKDOWN, 80)).split("\n") == [
        "Head",
        'A word, two, code, "of two words" and a link (https://x.y).',
        "",
        "- first goes on",
        "- second",
        "",
        "    log line",
        "a    b",
        "one  two",
    ]


def test_nested_list_items_keep_their_indentation() -> None:
    nested = "- the first item\n  - one in it that is long\n  1. and a number"
    assert "\n".join(plain(nested, 20)).split("\n") == [
        "- the first item",
        "  - one in it that",
        "    is long",
        "  1. and a number",
    ]


def test_a_vertical_bar_in_code_does_not_end_a_table_cell() -> None:
    assert list(plain("| `x|y` | `a` | b |", 80)) == ["x|y  a  b"]


@pytest.mark.parametrize("text", ["a_b_c and __init__.py", "2 * 3 * 4", "*** Check failed", "f(*args, **kwargs)"])
def test_text_that_only_looks_like_emphasis_is_kept(text: str) -> None:
    assert inline(text) == text


def test_markdown_is_rendered_in_linear_time() -> None:
    before = time.process_time()
    for text in ("`" * 50_000, "[" * 50_000, "*a" * 50_000, "_ " * 50_000, "| " * 50_000, "<https://" * 10_000):
        list(plain(text, 80))
    assert time.process_time() - before < 10


def test_the_last_column_of_a_table_is_wrapped_to_the_remaining_width() -> None:
    rows = [["fault", "result"], ["kill", "the same bits as before and after"]]
    assert table(rows, 30) == ["fault  result", "kill   the same bits as before\n       and after"]


def test_a_table_that_does_not_fit_becomes_blocks() -> None:
    rows = [["fault", "survives", "result"], ["kill", "yes", "the same as before"]]
    assert table(rows, 80) == ["fault  survives  result", "kill   yes       the same as before"]
    assert table(rows, 25) == ["kill", "  survives  yes", "  result    the same as\n            before"]


def test_progress_line_appears_after_two_seconds_and_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(console, "_write", written.append)
    monkeypatch.setattr(console, "screen_of", lambda fd: NARROW)
    with console.Ticking() as line:
        for _ in range(32):
            now[0] += 0.125
            line.tick("waiting for \x1b[31m the GPU's memory to be free again")
    assert len(written) == 6
    assert written[-1] == "\r\x1b[K"
    shown = screen("".join(written[:-1]).encode(), 40)
    assert shown == ["oomph: waiting for \\x1b[31m the GPU's m"]
    assert screen("".join(written).encode(), 40) == [""]


def test_no_progress_line_is_written_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(console, "_write", written.append)
    monkeypatch.setattr(console, "screen_of", lambda fd: PIPE)
    monkeypatch.setattr(console, "_QUIET_SECONDS", 0.0)
    with console.Ticking() as line:
        line.tick("waiting")
    assert written == []


def test_overlong_text_is_cut_after_a_word_with_an_ellipsis() -> None:
    assert shortened("type bfloat16 of x", 18) == "type bfloat16 of x"
    assert shortened("type bfloat16 of x", 17) == "type bfloat16 of…"
    assert shortened("does not match type bfloat16", 25) == "does not match type…"
    assert shortened("failed. It was [x]", 8) == "failed…"
    assert shortened("read /" + "x" * 40, 20) == "read /" + "x" * 13 + "…", "one long word is cut"
