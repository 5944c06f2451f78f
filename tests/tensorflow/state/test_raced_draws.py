"""Random operations in parallel calls: found, and reported as the script wrote them, with a replacement."""

from __future__ import annotations

import pytest

tf = pytest.importorskip("tensorflow")

from oomph.keras_bridge.pipelines.datasets import KernelDraws, kernel_draws, raced_call  # noqa: E402
from oomph.protocol.reasons import because  # noqa: E402
from oomph.protocol.replacements import STATELESS, instead_of  # noqa: E402

AUTOTUNE = tf.data.AUTOTUNE
SEED = 3


def flip(image):
    return tf.image.random_flip_left_right(image, seed=SEED)


def augment(image):
    return flip(image)


def images():
    return tf.data.Dataset.range(8).map(lambda i: tf.fill((4, 4, 3), tf.cast(i, tf.float32)))


DRAWING = {
    "tf.image.random_flip_left_right": flip,
    "tf.image.random_flip_up_down": lambda x: tf.image.random_flip_up_down(x, SEED),
    "tf.image.random_brightness": lambda x: tf.image.random_brightness(x, 0.1, SEED),
    "tf.image.random_contrast": lambda x: tf.image.random_contrast(x, 0.1, 0.2, SEED),
    "tf.image.random_saturation": lambda x: tf.image.random_saturation(x, 0.1, 0.2, SEED),
    "tf.image.random_hue": lambda x: tf.image.random_hue(x, 0.1, SEED),
    "tf.image.random_jpeg_quality": lambda x: tf.image.random_jpeg_quality(x, 50, 90, SEED),
    "tf.image.random_crop": lambda x: tf.image.random_crop(x, (2, 2, 3), SEED),
    "tf.random.uniform": lambda x: x + tf.random.uniform((), seed=SEED),
    "tf.random.normal": lambda x: x + tf.random.normal((), seed=SEED),
    "tf.random.truncated_normal": lambda x: x + tf.random.truncated_normal((), seed=SEED),
    "tf.random.categorical": lambda x: tf.random.categorical([[0.5, 0.5]], 1, seed=SEED),
    "tf.random.gamma": lambda x: tf.random.gamma((), 1.0, seed=SEED),
    "tf.random.poisson": lambda x: tf.random.poisson((), 1.0, seed=SEED),
    "tf.random.shuffle": lambda x: tf.random.shuffle(x, SEED),
}


@pytest.mark.parametrize("call", DRAWING)
def test_racing_draw_is_reported_with_its_stateless_replacement(call):
    dataset = images().map(DRAWING[call], num_parallel_calls=AUTOTUNE).batch(2)
    assert kernel_draws(dataset) is KernelDraws.RACED
    assert raced_call(dataset) == call
    assert because("raced", call=call).remedy == instead_of(call)
    name = STATELESS[call].partition("(")[0]
    assert callable(eval(name, {"tf": tf}))
    serial = images().map(DRAWING[call]).batch(2)
    assert kernel_draws(serial) is KernelDraws.SEEDED


def test_tensorflow_function_passed_to_map_is_reported_as_racing():
    flipped = images().map(tf.image.random_flip_left_right, num_parallel_calls=4)
    assert raced_call(flipped) == "tf.image.random_flip_left_right"


def test_draw_in_a_function_called_by_map_is_reported_as_racing():
    assert raced_call(images().map(augment, num_parallel_calls=4)) == "tf.image.random_flip_left_right"


def test_draw_hidden_in_a_concrete_function_is_reported_by_its_operation():
    function = tf.function(flip).get_concrete_function(tf.TensorSpec((4, 4, 3)))
    assert raced_call(images().map(lambda x: function(x), num_parallel_calls=4)).startswith("tf.")


@pytest.mark.parametrize("options", [{"deterministic": True}, {"deterministic": False}, {}])
def test_element_order_option_does_not_stop_draws_from_racing(options):
    assert raced_call(images().map(flip, num_parallel_calls=2, **options))


def test_draws_in_parallel_interleaves_are_reported_as_racing():
    def inner(i):
        return images().map(flip)

    def parallel_inner(i):
        return images().map(flip, num_parallel_calls=2)

    numbers = tf.data.Dataset.range(3)
    assert raced_call(numbers.interleave(inner, num_parallel_calls=2)) == "tf.image.random_flip_left_right"
    assert raced_call(numbers.interleave(parallel_inner)) == "tf.image.random_flip_left_right"
    assert raced_call(numbers.interleave(inner)) == ""


def test_tensorflow_generator_is_reported_as_racing():
    generator = tf.random.Generator.from_seed(1)
    dataset = images().map(lambda x: x + generator.uniform(()), num_parallel_calls=2)
    assert raced_call(dataset) == "tf.random.Generator"


@pytest.mark.parametrize(
    "dataset",
    [
        lambda: images().map(flip, num_parallel_calls=1),
        lambda: images().map(lambda x: tf.image.stateless_random_flip_left_right(x, (1, 2)), num_parallel_calls=4),
        lambda: images().map(flip).map(lambda x: x + 1, num_parallel_calls=4).prefetch(AUTOTUNE),
        lambda: images().shuffle(8, seed=1).batch(2, num_parallel_calls=2),
    ],
    ids=["one call", "stateless", "serial before parallel", "shuffle"],
)
def test_draws_in_a_fixed_order_are_not_racing(dataset):
    assert raced_call(dataset()) == ""
