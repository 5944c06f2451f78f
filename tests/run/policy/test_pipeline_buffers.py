"""Data pipeline buffers that are worth saving, and others that are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.resume.training.data_position import PipelineCosts, worth_saving

HOUR = 3600.0
LARGE = PipelineCosts(
    save_seconds=20, save_bytes=10 << 30, replay_seconds=100, between_saves=300, between_faults=24 * HOUR
)


@pytest.mark.parametrize(
    ("costs", "worth"),
    [
        (LARGE, False),  # 20 s in every 300 against 100 s a day
        (replace(LARGE, replay_seconds=2 * HOUR), True),
        (replace(LARGE, between_faults=600), True),
        (replace(LARGE, save_seconds=0.4), True),  # too little to give up exactness for
        (replace(LARGE, save_seconds=1, between_saves=HOUR), True),
        (replace(LARGE, between_saves=0), False),
        (replace(LARGE, replay_seconds=2 * HOUR, free_bytes=59 << 30), False),
        (replace(LARGE, replay_seconds=2 * HOUR, free_bytes=61 << 30), True),
    ],
)
def test_pipeline_buffer_is_saved_if_that_is_cheaper_and_fits_on_disk(costs, worth):
    assert worth_saving(costs) is worth
