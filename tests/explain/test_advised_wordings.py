"""Wordings printed by programs, each with the solution as its first remedy.

`advised_errors.txt` contains exceptions as Python prints them, `advised_lines.txt` lines from libraries and tools.
The text after `=>` below each of them must be part of the first remedy.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from advised import first_remedy

HERE = Path(__file__).parent
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 30, in <module>\n    model.fit(x, y)\n'


def table(name: str) -> list[tuple[str, str]]:
    """Yield each wording in a file with its answer."""
    blocks = (HERE / name).read_text(encoding="utf-8").strip().split("\n\n")
    return [(words, answer) for words, _, answer in (block.partition("\n=> ") for block in blocks)]


@pytest.mark.parametrize(("words", "answer"), table("advised_errors.txt"))
def test_exception_wording_gets_its_specific_remedy(words: str, answer: str) -> None:
    assert answer in first_remedy(TRACEBACK + words)


@pytest.mark.parametrize(("words", "answer"), table("advised_lines.txt"))
def test_log_line_gets_its_specific_remedy(words: str, answer: str) -> None:
    assert answer in first_remedy(words)


@pytest.mark.parametrize("name", ["get_default_graph", "placeholder"])
def test_tensorflow_1_name_is_recognised_in_any_capitalisation(name: str) -> None:
    assert f"tf.compat.v1.{name}" in first_remedy(f"Module 'tensorflow' has no attribute '{name}'")


def test_keras_error_without_a_traceback_gets_its_specific_remedy() -> None:
    assert "Leave y out" in first_remedy("ValueError: `y` argument is not supported when using dataset as input.")


def test_tensor_in_a_message_does_not_imply_a_shape_error() -> None:
    words = (
        'ValueError: Tensor Tensor("dense/Softmax:0", shape=(?, 10), dtype=float32) is not an element of this graph.'
    )
    assert "graph and session" in first_remedy(TRACEBACK + words)
