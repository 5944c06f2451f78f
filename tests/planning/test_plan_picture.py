"""The page holds everything itself, is well-formed, and shows what a layer's name may contain as text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from plans import GIB, WORDS, around, plan

from oomph.planning.chart import against_batch, through_one_step
from oomph.planning.estimate import Estimate, Fitting, Layer, MemoryMoment
from oomph.planning.picture import as_page


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_plan_page_contains_no_scripts_and_no_external_resources():
    page = as_page(plan(), WORDS)
    assert not re.search(r"<script|src=|href=|url\(|@import|http", page)
    assert "prefers-color-scheme: dark" in page
    batches, step = pictures(page)
    assert "batch 512: 32 GiB (28.8 GiB to 35.2 GiB)" in ElementTree.tostring(batches, "unicode")
    assert "GeForce RTX 4090: 22 GiB for TensorFlow" in ElementTree.tostring(batches, "unicode")
    assert "peak: 200 MiB, operation 10" in ElementTree.tostring(step, "unicode")


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
    assert [each.get("cx") for each in one if each.get("class") == "spot"] == ["78.0"]
    ElementTree.fromstring(through_one_step([MemoryMoment("all", 0)], device))


def test_all_points_lie_within_the_picture():
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
