"""What a cell prints and displays, as a front end would show it and a file would keep it."""

from __future__ import annotations

import json

import pytest

from oomph.notebook.as_script.outputs import CellOutputs, StreamText, as_file


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (["a\n", "b"], "a\nb"),
        (["10%\r", "20%\r", "100%\n"], "100%\n"),
        (["longer\rab"], "abnger"),
        (["12%" + "\b" * 3 + "\r" + "34%"], "34%"),
        (["dos\r\n", "x"], "dos\nx"),
        (["\b\b\rx"], "x"),
        (["a\n\rb"], "a\nb"),
    ],
)
def test_progress_bar_is_stored_as_a_terminal_shows_it(written: list[str], shown: str) -> None:
    text = StreamText()
    for each in written:
        text.write(each)
    assert str(text) == shown


def stored(outputs: CellOutputs) -> list[dict]:
    return json.loads(as_file({"outputs": outputs.as_list()}))["outputs"]


def test_each_change_of_stream_starts_a_new_output() -> None:
    outputs = CellOutputs({})
    for stream, text in (("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")):
        outputs.write(stream, text)
    assert [(each["name"], each["text"]) for each in stored(outputs)] == [
        ("stdout", "ab"),
        ("stderr", "c"),
        ("stdout", "d"),
    ]


def test_display_of_an_earlier_cell_is_updated() -> None:
    displays: dict = {}
    first, second = CellOutputs(displays), CellOutputs(displays)
    first.display({"text/plain": "old"}, {}, "one")
    second.update({"text/plain": "new"}, {}, "one")
    second.update({"text/plain": "unknown"}, {}, "two")
    assert stored(first)[0]["data"] == {"text/plain": "new"}
    assert stored(second) == []


def test_clearing_can_wait_for_the_next_output() -> None:
    outputs = CellOutputs({})
    outputs.write("stdout", "old")
    outputs.clear(wait=True)
    assert [each["text"] for each in stored(outputs)] == ["old"]
    outputs.write("stdout", "new")
    assert [each["text"] for each in stored(outputs)] == ["new"]
    outputs.clear()
    assert stored(outputs) == []


def test_values_unknown_to_json_are_stored_as_in_jupyter() -> None:
    outputs = CellOutputs({})
    outputs.display({"image/png": b"\x89PNG", "text/plain": "lone \udc80 surrogate"}, {("a", 1): 2})
    (display,) = stored(outputs)
    assert display["data"] == {"image/png": "iVBORw==", "text/plain": "lone \udc80 surrogate"}
    assert display["metadata"] == {}


def test_widget_is_stored_as_its_text() -> None:
    outputs = CellOutputs({})
    outputs.result(1, {"text/plain": "IntSlider(value=1)", "application/vnd.jupyter.widget-view+json": {}}, {})
    assert [each["data"] for each in stored(outputs)] == [{"text/plain": "IntSlider(value=1)"}]
