"""Validation data that the model, or its loss, cannot take, although it takes the training data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from oomph.preflight.facts.data import Data
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, Finding, Rule
from oomph.preflight.rules.sample import label_out_of_range
from oomph.preflight.rules.shapes import in_words
from oomph.preflight.rules.spec import (
    class_numbers_categorical_loss,
    input_shape,
    one_hot_labels_sparse_loss,
    target_shape,
    text_input,
    text_labels,
    unequal_lengths,
)

_ASKED_AGAIN = (
    unequal_lengths.RULE,
    input_shape.RULE,
    text_input.RULE,
    text_labels.RULE,
    one_hot_labels_sparse_loss.RULE,
    class_numbers_categorical_loss.RULE,
    target_shape.RULE,
    label_out_of_range.RULE,
)
"""Rules for training data that hold for validation data too, causes first."""


def _find(training: Training) -> Iterator[Finding]:
    held = training.validation
    if held is None or training.model.own_train_step:
        return
    if not training.model.inputs:
        yield from _other_columns(training.data, held)
    asked = replace(training, data=held, validation=None)
    for rule in _ASKED_AGAIN:
        if any(True for _ in rule.find(training)):
            continue  # it is said of the training data
        for finding in rule.find(asked):
            yield replace(finding, message=f"in the validation data, {finding.message}")
            return


def _other_columns(data: Data, held: Data) -> Iterator[Finding]:
    """Tables of different widths, for a model whose inputs are not known."""
    for ours, theirs in zip(data.of("x"), held.of("x"), strict=False):
        one, other = ours.shape or (), theirs.shape or ()
        is_table = ours.name == theirs.name and len(one) == len(other) == 2 and None not in (one[1], other[1])
        if is_table and one[1] != other[1]:
            yield Finding(
                f"{ours.name} has the shape {in_words(one)} in training and {in_words(other)} in validation",
                "Make the columns of both in the same way",
                "x_val = x_val.reindex(columns=x_train.columns, fill_value=0)",
            )
            return


RULE = Rule(
    code="CHK324",
    name="validation-does-not-fit",
    severity=ERROR,
    depth=SETTINGS,
    why=(
        "Keras looks at the validation data at the end of the first epoch only: the training ends there with an error, "
        "or with a val_loss that means nothing."
    ),
    wrong="pd.get_dummies(train), pd.get_dummies(test)  # not all values occur in both",
    right="pd.get_dummies(test).reindex(columns=columns_of_train, fill_value=0)",
    find=_find,
    hides=("validation-lacks-classes",),
)
