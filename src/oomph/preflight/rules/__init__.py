"""RULES: every rule, causes before consequences. To add one, write a module in a folder and name it here."""

from __future__ import annotations

from oomph.preflight.rule import Rule
from oomph.preflight.rules.model import softmax_of_one
from oomph.preflight.rules.pipeline import input_bound
from oomph.preflight.rules.sample import label_out_of_range

RULES: tuple[Rule, ...] = (
    softmax_of_one.RULE,
    label_out_of_range.RULE,
    input_bound.RULE,
)
