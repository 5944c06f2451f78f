"""Other fits in the source besides the one being examined."""

from __future__ import annotations

import pytest

from oomph.reach.other_fits import in_words, other_fits

TUNED = """scaler.fit(x)
model.fit(x, y)
base.trainable = True
model.fit(x, y)
other.fit(
    x, y, epochs=2,
)
"""
BRANCHES = """if augment:
    model.fit(flow, epochs=2)
else:
    model.fit(x, epochs=2)
if tune:
    model.fit(x, epochs=1)
"""


@pytest.mark.parametrize(
    ("source", "line", "ran", "lines"),
    [
        (TUNED, 2, (), (4, 5)),
        (TUNED, 4, (2,), (5,)),
        (TUNED, 6, (2, 4), ()),
        (BRANCHES, 4, (), (6,)),
        (BRANCHES, 2, (), (6,)),
        (BRANCHES, 6, (4,), ()),
        ("for fold in folds:\n    model.fit(x, y, epochs=1)\n", 2, (), ()),
        ("this is no Python\n", 1, (), ()),
        ("", 1, (), ()),
    ],
)
def test_other_fits_are_found_but_not_scalers_or_untaken_branches(source, line, ran, lines) -> None:
    assert other_fits(source, line, ran) == lines


def test_other_fits_are_summarised_in_one_sentence() -> None:
    head, tail = (
        "only the training call at train.py:7 was examined, not the ",
        " (--fit N selects the Nth training call)",
    )
    assert in_words("train.py:7", ()) == ""
    assert in_words("train.py:7", (10,)) == f"{head}fit at line 10{tail}"
    assert in_words("train.py:7", (10, 14)) == f"{head}2 fits at lines 10 and 14{tail}"
    assert in_words("train.py:7", range(10, 15)) == f"{head}5 fits at lines 10, 11, 12 and 2 more{tail}"
