"""Lines as the program wrote them: prefixes removed, joined records split."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.explain.reading.original_lines import apart, from_json, without_prefixes


@pytest.mark.parametrize(
    ("raw", "speaker"),
    [
        ("(RayTrainWorker pid=7089, ip=10.0.0.1) ", "(RayTrainWorker pid=7089, ip=10.0.0.1)"),
        ("(pid=123) ", "(pid=123)"),
        ("[1,0]<stderr>:", "[1,0]<stderr>"),
        ("[1,mpirank:0,algo-1]<stderr>:", "[1,mpirank:0,algo-1]<stderr>"),
        ("[rank3]: ", "[rank3]"),
        ("trainer-1  | ", "trainer-1"),
        ("[pod/train-0/main] ", "[pod/train-0/main]"),
        (" 3: ", "3"),
        ("2026-01-01T00:00:00.123456789Z stderr F ", ""),
        ("2026-01-01T00:00:00.123456789Z ", ""),
        ("2023/10/26 12:12:19 ", ""),
        ("Nov 21 13:14:01 host python[1234]: ", ""),
        ("2026-11-21T13:14:01+0000 host kernel: ", ""),
        ("Nov  1 13:14:01 host kernel: [ 1821.451540] ", ""),
        ("[ 1821.451540] ", ""),
        ("<4>[ 1821.451540] ", ""),
        ("[Sat Nov 21 13:14:01 2026] ", ""),
        ("kern  :warn  : [ 1821.451540] ", ""),
        ("[2024-01-01, 12:00:00 UTC] {subprocess.py:93} INFO - ", ""),
        ("> ", ""),
        ("> > ", ""),
        (">>> ", ""),
        ("# ", ""),
        ("2026-01-01T00:00:00.123456789Z stderr F (main pid=4) [rank1]: ", "(main pid=4)"),
    ],
)
def test_line_prefix_is_removed_but_its_speaker_is_kept(raw: str, speaker: str) -> None:
    assert without_prefixes(f"{raw}ValueError: x") == ("ValueError: x", speaker)


@pytest.mark.parametrize(
    "line",
    [
        "2023-01-01 10:00:00.123456: W tensorflow/core: x",
        "W0000 00:00:1795237229.045565     889 bfc_allocator.cc:502] x",
        '  File "train.py", line 2, in <module>',
        "KeyError: 'x'",
        "[1795236788.995] W0 CAUGHT",
        "-----> 1 model.fit(x)",
    ],
)
def test_line_without_a_prefix_is_unchanged(line: str) -> None:
    assert without_prefixes(line) == (line, "")


@pytest.mark.parametrize("key", ["log", "message", "msg", "MESSAGE", "textPayload"])
def test_message_is_extracted_from_a_json_line(key: str) -> None:
    assert from_json(json.dumps({"time": "now", key: "OOM \u001b[31mwhen"})) == "OOM \u001b[31mwhen"
    assert from_json(json.dumps({"jsonPayload": {key: "x"}})) == "x"


@pytest.mark.parametrize("text", ['{"a": 1}', "{broken", "[1]", '{"log": 3}', '{"a":' * 5000])
def test_json_line_without_a_message_is_unchanged(text: str) -> None:
    assert from_json(text) == text


@given(st.text(max_size=300))
def test_removing_prefixes_never_adds_text(text: str) -> None:
    assert text.endswith(without_prefixes(text)[0])


def test_exception_in_a_json_line_is_read_with_its_message() -> None:
    line = json.dumps({"ts": "2026", "msg": "training failed", "exc": "Graph execution error:\n\nindices[0] = 7"})
    assert from_json(line) == "training failed\nGraph execution error:\n\nindices[0] = 7"
    error = {"type": "ResourceExhaustedError", "message": "OOM when allocating", "code": 8}
    assert from_json(json.dumps({"message": "failed", "level": "ERROR", "error": error})).splitlines() == [
        "failed",
        "ResourceExhaustedError",
        "OOM when allocating",
    ]


@pytest.mark.parametrize("error", [None, 0.25, True, [1], ""])
def test_empty_error_field_leaves_the_line_unchanged(error: object) -> None:
    assert from_json(json.dumps({"message": "step 3", "error": error})) == "step 3"
    assert from_json(json.dumps({"loss": 0.5, "error": error})) == json.dumps({"loss": 0.5, "error": error})


def test_exception_in_a_json_warning_is_not_an_error() -> None:
    assert from_json(json.dumps({"level": "warning", "message": "retry", "exc_info": "KeyError: 'x'"})) == "retry"
    assert from_json(json.dumps({"level": 50, "message": "failed", "err": "KeyError: 'x'"})) == "failed\nKeyError: 'x'"


FRAME = 'File "train.py", line 3, in <module>'
STAMPED = "2024-01-01 00:00:00.123456: E tensorflow/core/a.cc:12] it failed"


@pytest.mark.parametrize(
    "records",
    [
        ["Traceback (most recent call last):", f"{FRAME} main()", "KeyError: 'x'"],
        ["KeyError", "Traceback (most recent call last) <ipython-input-1> in main() ----> 1 x['a']", "KeyError: 'a'"],
        [f"{FRAME} main()", "NameError: name 'x' is not defined"],
        [STAMPED, STAMPED],
        ["Epoch 1/2", "W tensorflow/core/a.cc:1] x", "W tensorflow/core/a.cc:1] y, which is somewhat longer than that"],
        [STAMPED, "tensorflow.python.framework.errors_impl.InternalError: Blas xGEMM launch failed"],
    ],
)
def test_joined_log_records_are_split(records: list[str]) -> None:
    assert apart(" ".join(records)) == records


def test_joined_records_of_two_writers_are_split() -> None:
    assert apart(STAMPED + STAMPED) == [STAMPED, STAMPED]


@pytest.mark.parametrize(
    "record",
    [
        "W tensorflow/core/framework/op_kernel.cc:1651] Invalid argument: ValueError: the generator gave strings",
        f"  {FRAME}",
        "Detected at node 'while/Add' defined at, among others, this line (most recent call last):",
        f"{STAMPED} after a TypeError: a message that quotes another",
    ],
)
def test_log_record_quoting_another_is_not_split(record: str) -> None:
    assert apart(record) == [record]
