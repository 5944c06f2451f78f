"""Probabilities that the loss takes for logits."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_crossentropy


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        loss = output.loss
        if loss is None or not is_crossentropy(loss) or not loss.from_logits:
            continue
        found = training.prediction(output)
        is_distribution = found is not None and found.sums_to_one and output.activation == ""
        if output.activation in ("softmax", "sigmoid") or is_distribution:
            yield Finding(
                f"the output {output.name} holds probabilities already "
                f"({output.activation or 'its rows sum to 1'}), and "
                f"{loss.kind} is told that they are logits",
                "Leave the last activation out, or from_logits=True",
                severity=ERROR if is_distribution else WARNING,
            )


RULE = Rule(
    code="CHK204",
    name="probabilities-as-logits",
    severity=WARNING,
    depth=MODEL,
    why=(
        "Softmax is applied twice: differences between classes shrink, and training is slow. Keras "
        "undoes it, with a warning, only where it sees the activation right before the loss."
    ),
    wrong='Dense(10, activation="softmax") with from_logits=True',
    right="Dense(10) with from_logits=True",
    find=_find,
)
