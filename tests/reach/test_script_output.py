"""Errors are quoted by their essential part, and native lines are held back."""

from __future__ import annotations

import pytest

from oomph.reach.script_output import StartUpNoise, in_words, is_of_memory, what_went_wrong, without_nodes

SHAPES = """Exception encountered when calling Sequential.call().

\x1b[1mInput 0 of layer "dense" is incompatible with the layer: expected axis -1 of input shape to have value 28, but \
received input with shape (16, 30)\x1b[0m

Arguments received by Sequential.call():
  \u2022 inputs=tf.Tensor(shape=(16, 30), dtype=float32)
"""
HEAD = b"W0000 00:00:1795712924.111805 7 "
REPORT = (
    HEAD + b"bfc_allocator.cc:502] Allocator (cpu) ran out of memory trying to allocate 381.47MiB\n"
    b"If the cause is memory fragmentation maybe the environment variable will improve the situation.\n"
    b"Current allocation summary follows.\n" + HEAD + b"bfc_allocator.cc:1128] Stats: \n"
    b"Limit:                       300.00MiB\n"
    b"\n"
)
NODE = HEAD + b"local_rendezvous.cc:407] Local rendezvous is aborting\n\t [[{{node dense/MatMul}}]]\n"
TRACEBACK = b"Traceback (most recent call last):\n  File x\nKeyError: 1\n"


def test_keras_shape_error_is_reduced_to_the_conflicting_shapes() -> None:
    assert in_words(ValueError(SHAPES)) == (
        'ValueError: Input 0 of layer "dense" is incompatible with the layer: expected axis -1 of input shape to have '
        "value 28, but received input with shape (16, 30)"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{{function_node __inference_1}} indices[0,0] = 5974 is not in [0, 1000)\n"
            "\t [[{{node sequential_1/embedding_1/GatherV2}}]] [Op:__inference_<lambda>_460]",
            "indices[0,0] = 5974 is not in [0, 1000)",
        ),
        (
            "Graph execution error:\n\nDetected at node Assert/Assert defined at (most recent call last):\n"
            '  File "a.py", line 3, in <module>\n\nassertion failed: [too small]',
            "assertion failed: [too small]",
        ),
        ("Exception encountered when calling A.call().", "Exception encountered when calling A.call()."),
        ("", ""),
        ("x" * 500, "x" * 399 + "\u2026"),
    ],
)
def test_informative_lines_of_an_error_are_joined_into_one(text, told) -> None:
    assert what_went_wrong(text) == told


def test_only_node_names_are_removed_from_errors() -> None:
    assert without_nodes("a [[{{node b/c}}]] d {{function_node __e}} f [Op:G] h") == "a d f h"
    assert without_nodes("a dict {{1: 2}} [x]") == "a dict {{1: 2}} [x]"


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_error_without_a_message_is_shown_by_its_class_name() -> None:
    assert in_words(Silent()) == "Silent"
    assert in_words(KeyError("label")) == "KeyError: 'label'"


def test_out_of_memory_is_recognised_inside_a_keras_error() -> None:
    error = RuntimeError("Unable to build the model")
    error.__cause__ = MemoryError()
    assert is_of_memory(error)
    assert is_of_memory(RuntimeError("Exception encountered: 'OOM when allocating tensor with shape[9]'"))
    assert not is_of_memory(RuntimeError("Unable to build the model"))
    assert not is_of_memory(None)


def test_allocator_report_before_a_traceback_is_held_back() -> None:
    noise = StartUpNoise()
    assert noise.take(b"own\n" + REPORT + TRACEBACK) == b"own\n" + TRACEBACK
    assert noise.release() == REPORT


def test_node_name_is_held_back_with_the_preceding_line() -> None:
    noise = StartUpNoise()
    assert noise.take(NODE + b"own\n") == b"own\n"
    assert noise.release() == NODE
