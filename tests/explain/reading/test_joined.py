"""Records that stand in one line are taken apart; a record that only quotes another one is not."""

from __future__ import annotations

import pytest

from oomph.explain.reading.joined import apart

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
