"""What the losses of Keras ask of outputs and targets."""

from __future__ import annotations

from oomph.preflight.facts.model import Loss

SPARSE, CATEGORICAL, BINARY = "sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy"
_FOCAL = {"categorical_focal_crossentropy": CATEGORICAL, "binary_focal_crossentropy": BINARY}
REGRESSION = (
    "mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_logarithmic_error",
    "huber", "log_cosh",
)  # fmt: skip


def is_sparse(loss: Loss | None) -> bool:
    """Whether targets are the numbers of classes."""
    return loss is not None and loss.is_keras and loss.kind == SPARSE


def is_categorical(loss: Loss | None) -> bool:
    """Whether targets are one probability for each class."""
    return loss is not None and loss.is_keras and _FOCAL.get(loss.kind, loss.kind) == CATEGORICAL


def is_binary(loss: Loss | None) -> bool:
    """Whether each unit is compared with a target of 0 or 1."""
    return loss is not None and loss.is_keras and _FOCAL.get(loss.kind, loss.kind) == BINARY


def is_crossentropy(loss: Loss | None) -> bool:
    """Whether the output is taken for probabilities, or their logits."""
    return is_sparse(loss) or is_categorical(loss) or is_binary(loss)


def is_regression(loss: Loss | None) -> bool:
    """Whether the output is compared with numbers as they are."""
    return loss is not None and loss.is_keras and loss.kind in REGRESSION
