"""Signs that a training is going on, whatever was printed before."""

from __future__ import annotations

from functools import lru_cache

from oomph.files.patterns import lazy_pattern

SIGNS = frozenset(
    {"Epoch", "epoch", "loss", "Loss", "step", "steps", "Step", "accuracy", "acc", "iteration", "iter", "tasks"}
)
"""Words in the lines that a training prints; see `oomph.explain.reading.log.Words`."""

# For a line in lower case.
_SIGN = lazy_pattern(
    r"(?<!\{)\bepoch\b\W{0,3}\d|\b(?:loss|acc|accuracy|mae|mse)\b\W{0,3}[-+]?\d|\d(?:s|ms|us)/(?:step|epoch|sample)\b"
    r"|global_step/sec|waiting for 0/\d+ tasks to connect|finished with exit code 0\b"
    r"|\b(?:step|iter|iteration)\b\W{0,3}\d[\d/]*\b.{0,40}\b(?:loss|duration)\b",
)
_IN_EVERY_SIGN = ("epoch", "loss", "acc", "mae", "mse", "step", "sample", "iter", "tasks to connect", "exit code 0")


@lru_cache(4096)
def goes_on(text: str) -> bool:
    """True if this line is one that a training prints while it makes progress."""
    lower = text[:500].lower()
    return any(word in lower for word in _IN_EVERY_SIGN) and _SIGN.search(lower) is not None
