"""A diagnosis as text: no width parts a key from the name that gives it away."""

from __future__ import annotations

import pytest

from oomph.explain.catalogue.catalogue import find, load
from oomph.explain.catalogue.docs import documents
from oomph.explain.catalogue.fault import Remedy
from oomph.explain.diagnose import diagnose_log
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.named_fault import CAUSE, Diagnosis
from oomph.explain.render import as_text, page_text
from oomph.terminal.message import shown

KEY = "hunter2hunter2"
WIDTHS = range(20, 140)
LOGS = {
    "DAT606": (
        "TypeError: `generator` yielded an element that did not match the expected structure. "
        f"The yielded element was (password: {KEY}, 1).\n"
    ),
    "VER512": (
        "2021 F tensorflow/compiler/xla/parse_flags_from_env.cc:226] Unknown flags in XLA_FLAGS: "
        f"--some_flag --auth-token {KEY} \n"
    ),
}


@pytest.mark.parametrize("code", LOGS)
def test_a_key_in_a_remedy_is_hidden_at_every_width(code: str) -> None:
    found = diagnose_log(LOGS[code].encode())
    assert found[0].code == code
    assert any(KEY in remedy.text for diagnosis in found for remedy in diagnosis.remedies)
    for width in WIDTHS:
        assert KEY not in shown(as_text(found, "log", width=width)), width


@pytest.mark.parametrize(
    "remedy",
    [
        Remedy("Look at it", known="Look at it: {value}"),
        Remedy("Look at it", command=f"train.py --auth-token {KEY}"),
        Remedy("Look at it", changes=f"the option --auth-token {KEY}"),
    ],
    ids=["text", "command", "changes"],
)
def test_a_key_in_any_part_of_a_remedy_is_hidden(remedy: Remedy) -> None:
    fault = find("killed")
    assert fault is not None
    page = fault._replace(remedies=(remedy,))
    found = Diagnosis(page, CAUSE, 0.9, (Evidence("log", "x"),), {"value": f"--auth-token {KEY}"})
    for width in WIDTHS:
        text = as_text([found], "log", width=width).partition("what to do")[2]
        assert KEY not in text, width
        assert "***" in text


def test_remedy_ends_with_a_full_stop_or_an_ellipsis() -> None:
    for fault in load():
        assert "...." not in page_text(fault)
        assert "...." not in "".join(documents([fault]).values()), fault
    page = fault._replace(remedies=(Remedy("with tf.device('/CPU:0'): ..."), Remedy("Look")))
    text = page_text(page)
    assert "1. with tf.device('/CPU:0'): ...\n" in text
    assert "2. Look.\n" in text


def test_multiline_value_becomes_one_line_of_a_remedy() -> None:
    fault = find("killed")
    assert fault is not None
    page = fault._replace(remedies=(Remedy("Look at it", known="Look at {value}"),))
    text = as_text([Diagnosis(page, CAUSE, 0.9, (Evidence("log", "x"),), {"value": "one\ntwo"})], "log")
    assert "1. Look at one two.\n" in text
