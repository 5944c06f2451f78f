"""A plan survives its way through JSON, and a document that is not a plan is refused."""

from __future__ import annotations

import json

import pytest
from plans import plan

from oomph.planning.document import as_document, as_document_without, plan_of
from oomph.planning.estimate import Fitting


@pytest.mark.parametrize(
    "changes", [{}, {"replicas": 4}, {"device": None, "max_batch": None, "curve": (), "timeline": (), "savers": ()}]
)
def test_plan_survives_json_unchanged(changes):
    one = plan(**changes)
    assert plan_of(json.loads(json.dumps(as_document(one)))) == one


def test_plan_document_has_the_fields_programs_rely_on():
    document = as_document(plan())
    assert (document["schema"], document["engine"], document["max_batch"]) == (1, "graph", 320)
    assert document["estimates"][1].keys() == {"batch", "low", "expected", "high", "fits"}
    assert document["estimates"][1]["fits"] == Fitting.NO.value == "no"
    assert document["savers"][1]["expected"] is None
    without = as_document_without("why not")
    assert without["schema"] == 1
    assert without.items() >= {"reason": "why not", "estimates": [], "savers": []}.items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema", 2), ("estimates", [{"batch": 1}]), ("estimates", None), ("device", {"name": "x"}), ("notes", None),
        ("estimates", [{"batch": 1, "low": 2, "expected": 1, "high": 3, "fits": "yes"}]),
        ("estimates", [{"batch": 1, "low": 1, "expected": 1, "high": 1, "fits": "perhaps"}]),
    ],
)  # fmt: skip
def test_invalid_plan_document_is_refused(name, value):
    with pytest.raises(ValueError, match=r"."):
        plan_of({**as_document(plan()), name: value})
    with pytest.raises(ValueError, match="not a plan"):
        plan_of({"schema": 1})
