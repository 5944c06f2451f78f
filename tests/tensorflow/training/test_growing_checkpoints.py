"""A checkpoint that grows because something in the script grows: one finding reports it."""

from __future__ import annotations

import numpy as np
import pytest

from oomph.objects.picture import Changes
from oomph.resume.state.training_state import Array
from oomph.resume.training.step_checkpoints import Growing, growth, sizes_of

MB = 1 << 20


@pytest.mark.parametrize(
    ("last", "named"),
    [
        ([10, 20, 30, 40, 50, 60, 70, 80], True),
        ([0, 0, 0, 0, 0, 0, 0, 80], False),
        ([10, 20, 30, 40, 50, 60, 70], False),
        ([10, 20, 30, 40, 50, 60, 70, 70], False),
        ([10, 20, 30, 20, 50, 60, 70, 80], False),
        ([10, 11, 12, 13, 14, 15, 16, 17], False),
    ],
)
def test_only_growth_at_every_checkpoint_is_reported(last, named):
    found = growth([{"kept": size * MB, "other": 50 * MB} for size in last])
    assert (found is not None) == named
    if found is not None:
        assert (found.fault, found.subject, found.severity) == ("memory-leak", "checkpoints", "notice")
        assert found.message == "each is 10 MiB larger than the one before: kept now contains 80 MiB"


def test_fastest_growing_object_is_reported():
    found = growth([{"first": n * 9 * MB, "second": n * 10 * MB} for n in range(1, 9)])
    assert found is not None
    assert "second now contains" in found.message


def test_growth_is_judged_only_by_the_latest_checkpoints():
    growing, sizes = Growing(), [10, 20, 20, *range(30, 120, 10)]
    assert [bool(growing.noted({"kept": size * MB})) for size in sizes] == [False] * 9 + [True] * 3


def test_item_sizes_are_added_to_the_object_that_holds_them():
    changes = Changes(
        changed={"callback Own.images": (None, *(("ref", f"callback Own.images[{n}]") for n in range(2)))},
        new={f"callback Own.images[{n}]": ("array", ("large", "f", "<f8", (4,))) for n in range(2)}
        | {"callback Own.lines": ("list", (None, *["x" * 50] * 20))},
        arrays={f"callback Own.images[{n}]": np.zeros(5000, np.uint8) for n in range(2)},
    )
    arrays = [Array(f"history/{n}/0", "float64", np.zeros(1000)) for n in (0, 1, 1)]
    found = sizes_of(changes, arrays, {"history/": ["loss in the History", "images in the History"]})
    assert 10_000 < found["callback Own.images"] < 10_100
    assert 1_000 < found["callback Own.lines"] < 1_100
    assert (found["loss in the History"], found["images in the History"]) == (8_000, 16_000)
