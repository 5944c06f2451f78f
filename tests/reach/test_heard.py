"""The lines that the parent receives, and the Python options that keep it from receiving any."""

from __future__ import annotations

import json
from functools import reduce

import pytest

from oomph.process.command import Command
from oomph.reach.ending import last_error, outcome
from oomph.reach.guards import hiding_option
from oomph.reach.request import Heard, NotReached, ReachRequest, RequestedTraining, TrainingReached, after

REQUEST = ReachRequest(Command(("train.py",)), "python", "module:function", fit=2)
FIT = {"pid": 7, "site": "train.py:4", "function": "main", "source": "model.fit(x)"}


def heard(*documents) -> Heard:
    return reduce(after, (json.dumps(document).encode() for document in documents), Heard())


def test_response_sent_in_parts_becomes_one_document():
    found = heard({"joined": 7}, {"trains": "fit", **FIT}, {"examines": "fit", **FIT}, {"progress": "tracing"},
                  {"part": '{"peak"'}, {"part": ": 3}"}, {"answered": True})  # fmt: skip
    training = RequestedTraining("fit", "train.py:4", "main", "model.fit(x)")
    assert (found.joined, found.pid, found.progress, found.is_over) == (True, 7, "tracing", True)
    assert outcome(found, None, b"", REQUEST) == TrainingReached(training, {"peak": 3}, (training,))


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"null", b'{"pid": 3}', b"\xff\xfe"])
def test_damaged_line_is_ignored(line):
    assert after(Heard(), line) == Heard()


@pytest.mark.parametrize(
    ("documents", "returncode", "kind", "reason"),
    [
        ([{"answered": True}, {"examines": "fit", **FIT}], 0, "examiner", "the answer about train.py:4 is damaged"),
        (
            [{"examines": "fit", **FIT}],
            -11,
            "examiner",
            "the process being examined at train.py:4 was killed by SIGSEGV",
        ),
        (
            [{"examines": "fit", **FIT}, {"failed": "Error: x"}],
            0,
            "examiner",
            "the examination at train.py:4 failed: Error: x",
        ),
        ([{"joined": 1}, {"unsupported": "Keras 2"}], 0, "unsupported", "Keras 2"),
        (
            [{"joined": 1}, {"trains": "fit", **FIT}],
            0,
            "no training",
            "exited after 1 training call: there is no training call 2",
        ),
        ([{"joined": 1}], None, "limit", "did not reach training call 2 in time"),
        ([{"joined": 1}], -9, "failed", "the script was killed by SIGKILL before training call 2"),
        (
            [{"answered": False}, {"examines": "fit", **FIT}],
            -9,
            "examiner",
            "being examined at train.py:4 was killed by",
        ),
        ([], 0, "no training", "the script did not start a Python process that oomph could join"),
    ],
)
def test_failure_to_reach_training_is_reported_with_its_kind_and_reason(documents, returncode, kind, reason):
    found = outcome(heard(*documents), returncode, b"", REQUEST)
    assert isinstance(found, NotReached)
    assert found.kind == kind
    assert reason in found.reason


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (b"", ""),
        (b"Traceback (most recent call last):\n  File x\nValueError: a\n\nepoch 3\n", "ValueError: a"),
        (b"x\nkeras.src.errors.BadError: in\nmore of it\n", "keras.src.errors.BadError: in"),
        (b"no data here\n", ""),
        (
            b"tensorflow.ResourceExhaustedError: {{function_node __wrapped}} OOM when allocating [Op:Mul] name: \n",
            "tensorflow.ResourceExhaustedError: OOM when allocating",
        ),
        (
            b"F0000 00:00:1795269674.182208 7 tensor.cc:9] Check failed: a == b\n"
            b"E0000 00:00:1795269674.182208 7 cuda_platform.cc:52] failed call to cuInit\n",
            "F0000 00:00:1795269674.182208 7 tensor.cc:9] Check failed: a == b",
        ),
        (b"KeyError: \xff\xfe\n", "KeyError: \ufffd\ufffd"),
    ],
)
def test_last_error_is_quoted(output, line):
    assert last_error(output) == line


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("python -I train.py", "-I"), ("env A=1 python3.11 -uE train.py", "-E"), ("/usr/bin/python -S -m a", "-S"),
        ("python -W ignore -I train.py", "-I"), ("python -X dev -s train.py -I", ""), ("python -Wignore -S a.py", "-S"),
        ("python -c pass -I", ""), ("python train.py -I", ""), ("bash -c 'python -I'", ""), ("python", ""),
        ("python -m train -E", ""), ("python --check-hash-based-pycs always train.py", ""), ("", ""),
    ],
)  # fmt: skip
def test_python_options_that_prevent_loading_oomph_are_found(words, option):
    assert hiding_option(words.split()) == option
