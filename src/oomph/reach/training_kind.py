"""The kinds of training that a script may reach."""

from __future__ import annotations

FIT, ON_BATCH, LOOP = "fit", "train_on_batch", "custom loop"
