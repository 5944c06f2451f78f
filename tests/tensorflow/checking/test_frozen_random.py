"""Draws that happen only once, during tracing, are found in the code of the user's functions."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf

from oomph.preflight.live.frozen_random import drawn_in

GENERATOR = np.random.default_rng(0)


def of_numpy(x):
    return x + np.random.randint(3)


def of_python(x):
    return x if random.random() < 0.5 else -x


def of_a_generator(x):
    return x + GENERATOR.normal()


def in_a_branch(x):
    return tf.cond(x > 0, lambda: x * np.random.uniform(), lambda: x)


def through_a_helper(x):
    return of_numpy(x)


def closes_over(generator):
    def draw(x):
        return x + generator.normal()

    return draw


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (of_numpy, "np.random.randint"),
        (of_python, "random.random"),
        (of_a_generator, "GENERATOR.normal"),
        (in_a_branch, "np.random.uniform"),
        (through_a_helper, "np.random.randint"),
        (closes_over(GENERATOR), "generator.normal"),
        (lambda x: x * np.random.rand(), "np.random.rand"),
    ],
)
def test_traced_python_draw_is_reported_as_it_is_written(function, written):
    assert drawn_in(function) == written


def of_tensorflow(x):
    return x + tf.random.normal(())


def as_python(x):
    return tf.numpy_function(of_numpy, [x], tf.float32)


def makes_a_generator(x):
    np.random.seed(1)
    return x, np.random.default_rng(1)


def of_something_else(x):
    return x + np.linalg.norm(x)


@pytest.mark.parametrize(
    "function", [of_tensorflow, as_python, makes_a_generator, of_something_else, np.random.rand, tf.nn.relu, None, 3]
)
def test_functions_without_traced_draws_are_not_reported(function):
    assert drawn_in(function) == ""
