"""Records survive JSON, everything else is rejected, and evidence only widens bounds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from oomph.planning.plan import Interval
from oomph.planning.probe_record import (
    Point,
    ProbeRecord,
    as_document,
    evidence,
    of_same_training,
    record_of,
    seen_in_words,
)

RECORD = ProbeRecord("NVIDIA T4", "2.21.0", "graph", False, "abc", 1000, 10, (Point(2, 110, 100), Point(8, 190, 200)))


def test_record_survives_json_unchanged() -> None:
    assert record_of(json.loads(json.dumps(as_document(RECORD)))) == RECORD


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2}, {"gpu": 1}, {"gpu": "x" * 300}, {"xla": 0}, {"limit": 0}, {"limit": True}, {"foreign": -1},
        {"points": []}, {"points": None}, {"points": [{"batch": 2}]}, {"points": [[2, 3, 4]]}, {"training": None},
        {"points": [{"batch": 0, "measured": 1, "predicted": 1}]},
        {"points": [{"batch": 1, "measured": 1, "predicted": 0}]},
        {"points": [{"batch": 1, "measured": 1, "predicted": "1"}]},
        {"points": [{"batch": 1, "measured": 1, "predicted": 1}] * 17},
        {"limit": 10**400},
    ],
)  # fmt: skip
def test_record_with_an_invalid_field_is_rejected(changes) -> None:
    with pytest.raises(ValueError, match=r"."):
        record_of(as_document(RECORD) | changes)


@pytest.mark.parametrize("document", [None, [], "x", 1, {}])
def test_document_that_is_not_a_record_is_rejected(document) -> None:
    with pytest.raises(ValueError, match="not a record"):
        record_of(document)


def test_training_is_recognised_only_by_an_identically_compiled_step() -> None:
    assert of_same_training([RECORD], "abc", False) == RECORD
    assert of_same_training([RECORD], "abc", True) is None
    assert of_same_training([RECORD], "abd", False) is None
    assert of_same_training([replace(RECORD, training="")], "", False) is None


def test_evidence_excludes_memory_held_by_other_scripts() -> None:
    found = evidence([RECORD, replace(RECORD, xla=True), replace(RECORD, training="other")], False)
    assert found is not None
    assert (found.trainings, found.least, found.greatest) == (2, 0.9, 0.9)
    assert evidence([RECORD], True) is None
    assert evidence([], False) is None
    assert "2 training runs measured on this GPU, which used 0.90 to 0.90 times" in seen_in_words(found)[0]


@pytest.mark.parametrize("ratio", [0.2, 0.9, 1.0, 1.1, 5.0])
def test_evidence_never_narrows_an_interval_or_moves_its_expected_value(ratio) -> None:
    found = evidence([replace(RECORD, foreign=0, points=(Point(1, round(100 * ratio), 100),))], False)
    assert found is not None
    before = Interval(90, 100, 125)
    after = found.widened(before, 100)
    assert after.low <= before.low
    assert after.expected == before.expected
    assert after.high >= before.high
    assert after.low <= 100 * ratio <= after.high or before.low <= 100 * ratio <= before.high
