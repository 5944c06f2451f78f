"""What a fit is announced as before its first step."""

from __future__ import annotations

import pytest

from oomph.exact_step.micro_batch.exactness import APPROXIMATE, EXACT, RESTART_ONLY, Promise
from oomph.resume.fit.reporting import announced


@pytest.mark.parametrize(
    ("kind", "is_split", "words"),
    [
        (APPROXIMATE, False, "exact until a batch must be split, then approximate: BatchNormalization"),
        (APPROXIMATE, True, "approximate: BatchNormalization"),
        (EXACT, False, "exact: BatchNormalization"),
        (RESTART_ONLY, False, "restart only: BatchNormalization"),
    ],
)
def test_a_fit_is_not_called_approximate_before_a_batch_is_split(kind, is_split, words):
    assert announced(Promise(kind, "BatchNormalization"), is_split) == words
