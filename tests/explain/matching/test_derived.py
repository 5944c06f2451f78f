"""Why two sizes do not fit is told from the numbers themselves."""

from __future__ import annotations

import pytest

from oomph.explain.matching.derived import derived


@pytest.mark.parametrize(
    ("found", "needed", "words"),
    [
        ("150528", "50176", "3 channels and 1 is assumed"),
        ("3072", "768", "twice as high and wide"),
        ("76800", "768", "100 times as many: the reshape leaves out the batch"),
        ("50176", "150528", "1 channel and 3 are assumed"),
        ("768", "3072", "half as high and wide"),
        ("320", "10240", "1/32: the reshape holds a fixed batch size"),
        ("1379040", "12675", "number of classes or anchors"),
        ("0", "768", "empty"),
        ("6220800", "0", "empty"),
    ],
)
def test_shape_mismatch_is_explained_by_the_ratio_of_two_sizes(found: str, needed: str, words: str) -> None:
    assert words in derived({"found": found, "needed": needed})["misfit"]


@pytest.mark.parametrize(
    "captured", [{}, {"found": "3"}, {"found": "x", "needed": "3"}, {"found": "9" * 40, "needed": "3"}]
)
def test_nothing_is_derived_without_two_sizes(captured: dict[str, str]) -> None:
    assert derived(captured) == {}
