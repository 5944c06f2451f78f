"""A plan as JSON and as an HTML page."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from plans import GIB, WORDS, around, plan

from oomph.planning.picture import against_batch, as_page, through_one_step
from oomph.planning.plan import Estimate, Fitting, Layer, MemoryMoment, as_document, as_document_without, plan_of


@pytest.mark.parametrize(
    "changes", [{}, {"replicas": 4}, {"device": None, "max_batch": None, "curve": (), "timeline": (), "savers": ()}]
)
def test_plan_survives_json_unchanged(changes):
    one = plan(**changes)
    assert plan_of(json.loads(json.dumps(as_document(one)))) == one


def test_plan_document_has_the_agreed_fields():
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
def test_invalid_plan_document_is_rejected(name, value):
    with pytest.raises(ValueError, match=r"."):
        plan_of({**as_document(plan()), name: value})
    with pytest.raises(ValueError, match="not a plan"):
        plan_of({"schema": 1})


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_plan_page_contains_neither_scripts_nor_external_resources():
    page = as_page(plan(), WORDS)
    assert not re.search(r"<script|src=|href=|url\(|@import|https?:", page)
    assert "prefers-color-scheme: dark" in page
    batches, step = pictures(page)
    assert "batch 512: 32 GiB (28.8 GiB to 35.2 GiB)" in ElementTree.tostring(batches, "unicode")
    assert "GeForce RTX 4090: 22 GiB for TensorFlow" in ElementTree.tostring(batches, "unicode")
    assert "peak: 200 MiB, operation 10" in ElementTree.tostring(step, "unicode")


def test_page_says_which_batches_fit_and_labels_the_peak():
    page = as_page(plan(), WORDS)
    assert re.search(r"<td>512</td>(<td>[^<]*</td>){3}<td>no</td>", page), page
    batches, step = pictures(page)
    labels = [each.text for each in step.iter() if each.get("class") == "of-peak"]
    assert labels == ["peak: 200 MiB, operation 10"]
    (limit,) = [each.text for each in batches if each.get("class") == "of-limit"]
    assert limit.endswith("for TensorFlow")
    ticks = [each.text for each in batches if each.tag == "text" and each.get("text-anchor") == "end"]
    assert ticks == ["0", "8 GiB", "16 GiB", "24 GiB", "32 GiB", "40 GiB"], "round amounts"


def test_names_cannot_become_markup():
    name = "<script>alert(1)</script>&"
    odd = plan(
        subject=name,
        layers=(Layer(name, 1),),
        timeline=(MemoryMoment(name, 5), MemoryMoment(name, 3)),
        peak_operation=name,
    )
    page = as_page(odd, (name,))
    assert "<script>" not in page
    assert len(pictures(page)) == 2


@pytest.mark.parametrize("device", [None, plan().device])
def test_single_batch_and_single_moment_are_drawn(device):
    one = ElementTree.fromstring(against_batch([(32, around(2 * GIB))], device))
    (spot,) = [each for each in one if each.get("class") == "spot"]
    assert 0 < float(spot.get("cx")) < 720
    ElementTree.fromstring(through_one_step([MemoryMoment("all", 0)], device))


def test_all_points_lie_within_the_chart():
    curve = [(2**n, around(3**n)) for n in range(25)]
    for svg in (against_batch(curve, plan().device), through_one_step(plan().timeline, plan().device)):
        for each in ElementTree.fromstring(svg).iter():
            for spot in re.findall(r"([\d.-]+),([\d.-]+)", each.get("points", "")):
                assert 0 <= float(spot[0]) <= 720
                assert 0 <= float(spot[1]) <= 320


def test_plan_without_a_curve_still_has_a_page():
    bare = plan(curve=(), estimates=(Estimate(8, around(GIB), Fitting.YES),), timeline=(), items=(), layers=())
    assert len(pictures(as_page(bare, WORDS))) == 1
    assert pictures(as_page(plan(curve=(), estimates=(), timeline=()), WORDS)) == []
