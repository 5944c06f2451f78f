"""Lists replacements for random operations that keep state in their kernels, and for training that isn't guarded."""

from __future__ import annotations

from typing import NamedTuple

from oomph.terminal.amounts import listed

STATELESS = {
    "tf.image.random_flip_left_right": "tf.image.stateless_random_flip_left_right(image, seed)",
    "tf.image.random_flip_up_down": "tf.image.stateless_random_flip_up_down(image, seed)",
    "tf.image.random_brightness": "tf.image.stateless_random_brightness(image, max_delta, seed)",
    "tf.image.random_contrast": "tf.image.stateless_random_contrast(image, lower, upper, seed)",
    "tf.image.random_saturation": "tf.image.stateless_random_saturation(image, lower, upper, seed)",
    "tf.image.random_hue": "tf.image.stateless_random_hue(image, max_delta, seed)",
    "tf.image.random_jpeg_quality": "tf.image.stateless_random_jpeg_quality(image, lowest, highest, seed)",
    "tf.image.random_crop": "tf.image.stateless_random_crop(image, size, seed)",
    "tf.image.sample_distorted_bounding_box": "tf.image.stateless_sample_distorted_bounding_box(size, boxes, seed)",
    "tf.random.uniform": "tf.random.stateless_uniform(shape, seed)",
    "tf.random.normal": "tf.random.stateless_normal(shape, seed)",
    "tf.random.truncated_normal": "tf.random.stateless_truncated_normal(shape, seed)",
    "tf.random.categorical": "tf.random.stateless_categorical(logits, number, seed)",
    "tf.random.gamma": "tf.random.stateless_gamma(shape, seed, alpha)",
    "tf.random.poisson": "tf.random.stateless_poisson(shape, seed, lam)",
    "tf.random.shuffle": "tf.random.experimental.stateless_shuffle(value, seed)",
    "tf.random.Generator": "tf.random.stateless_uniform(shape, seed) and the like",
}
"""Maps each function that scripts call to the stateless call that replaces it."""
CALLS = {
    "RandomCrop": "tf.image.random_crop",
    "SampleDistortedBoundingBox": "tf.image.sample_distorted_bounding_box",
    "SampleDistortedBoundingBoxV2": "tf.image.sample_distorted_bounding_box",
    "RandomUniform": "tf.random.uniform",
    "RandomUniformInt": "tf.random.uniform",
    "RandomStandardNormal": "tf.random.normal",
    "TruncatedNormal": "tf.random.truncated_normal",
    "ParameterizedTruncatedNormal": "tf.random.truncated_normal",
    "Multinomial": "tf.random.categorical",
    "RandomGamma": "tf.random.gamma",
    "RandomPoisson": "tf.random.poisson",
    "RandomPoissonV2": "tf.random.poisson",
    "RandomShuffle": "tf.random.shuffle",
    "RngReadAndSkip": "tf.random.Generator",
}
"""Maps each graph operation to the call that it most likely comes from, if nothing else is known."""
_UNGUARDED = "supervised only: no micro-batches, no checkpoints"
SUPERVISED = f"{_UNGUARDED}; a restart starts it over, unless the script restores a checkpoint of its own"


def instead_of(*calls: str) -> str:
    """Describe the replacement for each of these calls in a pipeline. Using a seed twice would repeat its numbers."""
    each = listed([f"{STATELESS[call]} instead of {call}" for call in calls])
    seeds = "seed=(1, number)" if len(calls) == 1 else "seed=(1, number), (2, number) and so on,"
    return f"write {each}, with {seeds} and the number from dataset.enumerate()"


class UnguardedKind(NamedTuple):
    """A kind of unguarded training, and what to use instead."""

    what: str
    instead: str
    restart: str = "starts it over"
    """The effect of a restart."""


UNGUARDED_KINDS = {
    "keras-2": UnguardedKind(
        "Keras 2", "use Keras 3: without TF_USE_LEGACY_KERAS and tf_keras, on TensorFlow 2.16 or newer"
    ),
    "estimator": UnguardedKind(
        "an estimator",
        "use model.fit in Keras 3, on TensorFlow 2.16 or newer",
        restart="continues from the checkpoints in its model_dir, if the script sets one",
    ),
    "tensorflow-1": UnguardedKind("a TensorFlow 1 optimizer", "use model.fit in Keras 3, or oomph.steps"),
    "jax": UnguardedKind("Keras on JAX", "use Keras on TensorFlow: KERAS_BACKEND=tensorflow"),
    "torch": UnguardedKind("Keras on PyTorch", "use Keras on TensorFlow: KERAS_BACKEND=tensorflow"),
    "parameter-servers": UnguardedKind("ParameterServerStrategy", "use tf.distribute.MultiWorkerMirroredStrategy"),
    "tpu": UnguardedKind("TPUStrategy", "train on GPUs, under tf.distribute.MirroredStrategy"),
}
"""The kinds by name, as used in the `unguarded` event."""


def unguarded_in_words(site: str, kind: str) -> str:
    """Explain where and why training is not guarded, what that means, and what to do about it."""
    known = UNGUARDED_KINDS.get(kind)
    if known is None:  # from a later oomph
        return f"unguarded: training at {site}, {SUPERVISED}"
    meaning = f"{_UNGUARDED}; a restart {known.restart}"
    return f"unguarded: {site} trains with {known.what}, {meaning}. To have it guarded, {known.instead}"
