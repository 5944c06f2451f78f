"""A loss or weights that are NaN or infinite.

Any is a finding. A ReLU can turn NaN into 0, so the weights are looked at as well as the loss.
"""

from __future__ import annotations

from collections.abc import Iterator

from oomph.monitor.finding import Finding
from oomph.monitor.window import Window

FAULTS = ("nan-loss",)
EVERY = 1.0


def find(window: Window) -> Iterator[Finding]:
    """Whether the newest sample shows it."""
    training = window.newest.training
    weights, loss = int(training.get("not_finite_weights", 0)), training.get("not_finite_loss", 0) > 0
    where = _where(training.get("epoch"), training.get("step_of_epoch"))
    are = "one weight is" if weights == 1 else f"{weights:,} weights are"
    if loss:
        also = f", and {are} so too" if weights else ""
        yield _finding("loss", f"the loss is NaN or infinite{where}{also}", weights)
    elif weights:
        shown = f" although the loss is {training['loss']:.4g}" if "loss" in training else ""
        yield _finding("weights", f"{are} NaN or infinite{where}{shown}", weights)


def _finding(subject: str, message: str, weights: int) -> Finding:
    return Finding("nan-loss", subject, message, "critical", {"not_finite_weights": weights})


def _where(epoch: float | None, step: float | None) -> str:
    return "" if epoch is None or step is None else f" at epoch {epoch:.0f}, step {step:.0f}"
