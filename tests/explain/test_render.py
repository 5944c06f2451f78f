"""Rendering a diagnosis: secrets stay hidden at any width, and excerpts keep the decisive words."""

from __future__ import annotations

import pytest

from oomph.explain.catalogue.catalogue import find, load
from oomph.explain.catalogue.docs import documents
from oomph.explain.catalogue.fault import Remedy, Signature
from oomph.explain.diagnose import diagnose_log
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.named_fault import CAUSE, Diagnosis
from oomph.explain.render import as_text, excerpt, page_text
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
def test_key_in_a_remedy_is_hidden_at_every_width(code: str) -> None:
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
def test_key_in_any_part_of_a_remedy_is_hidden(remedy: Remedy) -> None:
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


def test_multiline_value_becomes_one_remedy_line() -> None:
    fault = find("killed")
    assert fault is not None
    page = fault._replace(remedies=(Remedy("Look at it", known="Look at {value}"),))
    text = as_text([Diagnosis(page, CAUSE, 0.9, (Evidence("log", "x"),), {"value": "one\ntwo"})], "log")
    assert "1. Look at one two.\n" in text


MOST = 120


def test_short_line_is_shown_in_full() -> None:
    assert excerpt("x" * MOST, (), MOST) == "x" * MOST


def test_line_matching_at_its_start_is_cut_at_the_end() -> None:
    shown = excerpt("wording " + "x" * 500, (Signature("wording"),), MOST)
    assert shown == "wording " + "x" * (MOST - 8) + " ..."


@pytest.mark.parametrize("place", [200, 1000, 3000])
@pytest.mark.parametrize("pattern", ["", r"wording \d+"])
def test_late_match_is_shown_after_the_line_start(place: int, pattern: str) -> None:
    shown = excerpt("speaker: " + "x" * place + " wording 42 " + "y" * 500, (Signature("wording", pattern),), MOST)
    assert shown.startswith("speaker: ")
    assert " wording 42 " in shown
    assert shown.endswith(" ...")
    assert len(shown) <= MOST + len(" ...")


def test_excerpt_of_a_long_match_includes_its_literal() -> None:
    text = "a" + "x" * 600 + " decisive " + "y" * 600
    assert " decisive " in excerpt(text, (Signature("decisive", r"ax+ decisive y+"),), MOST)


def test_ellipsis_appears_only_where_text_is_left_out() -> None:
    text = "".join(f"{number:03}" for number in range(300))
    for start in range(MOST):
        parts = excerpt(text, (Signature(text[start : start + MOST]),), MOST).removesuffix(" ...").split(" ... ")
        assert len(parts) == 1 or "".join(parts) not in text, start


def test_pattern_match_is_shown_despite_an_earlier_literal() -> None:
    text = "code: ok " + "x" * 400 + " code 42 decides " + "y" * 400
    assert " code 42 decides " in excerpt(text, (Signature("code", r"code \d+ decides"),), MOST)
    assert "42 decides" in excerpt(text, (Signature("code:", r"\d+ decides"),), MOST)


def test_excerpt_reaching_the_end_of_the_line_has_no_final_ellipsis() -> None:
    assert excerpt("x" * 400 + " wording", (Signature("wording"),), MOST).endswith(" wording")


def test_ptxas_message_is_shown_after_a_long_prefix() -> None:
    line = (
        "2021-11-02 18:00:00.000001: W tensorflow/stream_executor/gpu/asm_compiler.cc:111] INTERNAL: ptxas exited with "
        "non-zero error code 65280, output: ptxas " + "/tmp/some/deep/folder/" * 12 + "tempfile-box-1a2b, line 10; "
        "fatal   : Unsupported .version 7.4; current version is '7.0'"
    )
    (found, *_) = diagnose_log(line.encode())
    assert found.name == "cuda-toolchain-missing"
    evidence = as_text([found], "log").partition("line 1: ")[2]
    assert "Unsupported .version 7.4; current version is '7.0'" in " ".join(evidence.split())


def test_end_of_a_long_xla_failure_message_is_shown() -> None:
    line = (
        "XlaRuntimeError: INTERNAL: RET_CHECK failure (xla/a.cc:1) " + "f32[1,2]{1,0} " * 60 + "failed: no such layout"
    )
    (found, *_) = diagnose_log(line.encode())
    assert "failed: no such layout" in as_text([found], "log")


@pytest.mark.parametrize(
    ("lines", "head"),
    [
        (["Traceback (most recent call last):", '  File "train.py", line 4, in <module>'], "a plain Python error"),
        ([], "probably a plain Python error"),
    ],
)
def test_plain_python_error_is_not_called_a_fault(lines: list[str], head: str) -> None:
    told = as_text(diagnose_log("\n".join([*lines, "ZeroDivisionError: division by zero"]).encode()), "a.log")
    assert told.startswith(f"a.log: {head}"), told
    assert "fault found" not in told
