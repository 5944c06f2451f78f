"""The kinds of training that oomph can only supervise. The script reports one; the final account says what to do."""

from __future__ import annotations

from typing import NamedTuple

SUPERVISED = "supervised only: no micro-batches, no checkpoints; a restart starts it over"


class UnguardedKind(NamedTuple):
    """A kind of unguarded training, and its replacement."""

    what: str
    instead: str


KINDS = {
    "keras-2": UnguardedKind(
        "Keras 2", "use Keras 3: without TF_USE_LEGACY_KERAS and tf_keras, on TensorFlow 2.16 or newer"
    ),
    "estimator": UnguardedKind("an estimator", "use model.fit of Keras 3, on TensorFlow 2.16 or newer"),
    "tensorflow-1": UnguardedKind("an optimizer of TensorFlow 1", "use model.fit of Keras 3, or oomph.steps"),
    "jax": UnguardedKind("Keras on JAX", "use Keras on TensorFlow: KERAS_BACKEND=tensorflow"),
    "torch": UnguardedKind("Keras on PyTorch", "use Keras on TensorFlow: KERAS_BACKEND=tensorflow"),
}
"""The kinds by name, as in the event `unguarded`."""


def of_event(site: str, kind: str) -> str:
    """One sentence about a training that is not guarded: where, why, what that means, and what to do."""
    known = KINDS.get(kind)
    if known is None:  # from a later oomph
        return f"unguarded: the training at {site}, {SUPERVISED}"
    return f"unguarded: {site} trains with {known.what}, {SUPERVISED}. To have it guarded, {known.instead}"
