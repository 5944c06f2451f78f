"""Rule and Finding: one mistake that a training can have, and how to see it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from oomph.preflight.facts.training import Training

ERROR, WARNING = "error", "warning"
"""An error: the training will fail, or cannot learn what it should. A warning: it is probably not what was wanted."""
SPEC, MODEL, SETTINGS, SAMPLE, STEP = "spec", "model", "settings", "sample", "step"
"""What a rule needs: shapes and types; the compiled model; the call of fit; values of a sample; a tried step."""
PIPELINE = "pipeline"
"""Measured waiting for data."""


@dataclass(frozen=True)
class Finding:
    """One mistake in one training."""

    message: str
    """One or two sentences of fact, with the values that were seen: "labels 1..4, valid is 0..3"."""
    remedy: str
    """What to do, in one sentence without a final stop, with this training's own values."""
    code: str = ""
    """The line to write instead, if it can be said."""
    where: str = ""
    """The file and line, if it is not that of the call of fit."""
    severity: str = ""
    """If it is not that of the rule."""


@dataclass(frozen=True)
class Rule:
    """One mistake, and its page."""

    code: str
    """CHK and three digits, never used before."""
    name: str
    """Kebab-case: what is wrong."""
    severity: str
    depth: str
    why: str
    """What TensorFlow and Keras do about it today, and what becomes of the training, in one to three sentences."""
    wrong: str
    """The line of code as people write it."""
    right: str
    """The same, corrected."""
    find: Callable[[Training], Iterator[Finding]]
    hides: tuple[str, ...] = ()
    """The names of the rules whose findings are consequences of this one."""
    fault: str = ""
    """The fault that it leads to, where oomph explain knows one."""
    source: str = ""
    """Where it is documented: an issue, Keras' or TensorFlow's file, a paper."""
