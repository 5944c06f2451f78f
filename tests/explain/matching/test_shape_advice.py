"""Two shapes say by their numbers what is wrong between them."""

from __future__ import annotations

import pytest

from oomph.explain.facts.fact import LogFacts, ShapePair
from oomph.explain.matching.shape_advice import shape_remedy

Shape = tuple[int | None, ...]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ((None, 784), (None, 28, 28), "x.reshape(-1, 784)"),
        ((None, 28, 28, 1), (None, 28, 28), "x[..., None]"),
        ((None, 224, 224, 3), (224, 224, 3), "x[None]"),
        ((None, 224, 224, 3), (32, 224, 3), "one sample without the batch axis"),
        ((None, 512, 512, 3), (None, 512, 512, 1), "number of channels, 3 and 1"),
        ((8, 64, 64, 1), (8, 64, 64, 3), "number of channels, 1 and 3"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_shapes_that_tell(one: Shape, other: Shape, said: str, swapped: bool) -> None:
    pair = ShapePair(other, one, 1) if swapped else ShapePair(one, other, 1)
    remedy = shape_remedy("shape-mismatch", LogFacts(shapes=(pair,)))
    assert remedy is not None
    assert said.partition(",")[0] in remedy.text


@pytest.mark.parametrize(
    ("one", "other"),
    [((32, 10), (32, 1)), ((None, 10), (None, 3)), ((None, None), (None, 3, 3)), ((), (3,)), ((None, 5, 7), (None, 8))],
)
def test_shapes_that_do_not_tell(one: Shape, other: Shape) -> None:
    assert shape_remedy("shape-mismatch", LogFacts(shapes=(ShapePair(one, other, 1),))) is None


def test_only_for_a_fault_of_shapes() -> None:
    facts = LogFacts(shapes=(ShapePair((None, 784), (None, 28, 28), 1),))
    assert shape_remedy("device-oom", facts) is None
    assert shape_remedy("shape-mismatch", LogFacts()) is None
