"""Which lines show that a training makes progress."""

from __future__ import annotations

import pytest

from oomph.explain.matching.training import goes_on


@pytest.mark.parametrize("line", ["Epoch 3/10", "epoch: 12 loss: 0.3", "step 100 loss 0.31", "12s 3ms/step"])
def test_progress_line_is_recognised(line: str) -> None:
    assert goes_on(line)


@pytest.mark.parametrize(
    "line", ['callback filepath: "ckpt/{epoch:02d}-{val_loss:.2f}"', "an epoch later", "loss of data"]
)
def test_template_or_sentence_is_not_recognised_as_training_progress(line: str) -> None:
    assert not goes_on(line)
