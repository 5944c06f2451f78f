"""All lines of an exception's message that say something are kept, and nothing that is not of the message."""

from __future__ import annotations

import pytest

from oomph.explain.evidence.message import telling_lines


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("A layer is missing.\nAdd one.", ["A layer is missing.", "Add one."]),
        ("\nBroken:\n\n  1. Downgrade it\n  2. Or not\n", ["Broken:", "1. Downgrade it", "2. Or not"]),
        ("Broken\n2026-01-02 10:00:00.1: W a.cc:1] other", ["Broken"]),
        ("Broken\nW0000 00:00:1795237241.0 14 a.cc:1] other", ["Broken"]),
        ("Broken\nsrun: error: node7", ["Broken"]),
        ("Broken\nme@box:~$ python b.py", ["Broken"]),
        ("Broken\n\nDuring handling of the above exception, another exception occurred:", ["Broken"]),
        ("Bad call.\n\nArguments received by Dense.call():\n  • inputs=tf.Tensor(...)", ["Bad call."]),
        (
            'in user code:\n\n    File "train.py", line 9, in call  *\n        return f(x)\n\n'
            "    ValueError: Give it an axis",
            ["Give it an axis"],
        ),
        (
            "Graph execution error:\n\nDetected at node a/b defined at (most recent call last):\n"
            '  File "train.py", line 3, in f\n'
            "<stack traces unavailable>\nindices[0] = 7 is not in [0, 5)\n\t [[{{node a/b}}]] [Op:__inference_f_1]",
            ["indices[0] = 7 is not in [0, 5)"],
        ),
    ],
)
def test_lines_that_say_something(printed: str, kept: list[str]) -> None:
    assert list(telling_lines(printed.split("\n"))) == kept


def test_endless_message_is_cut() -> None:
    assert len(telling_lines(["x" * 10_000] * 10_000)) < 20
    assert max(map(len, telling_lines(["x" * 10_000]))) <= 1000
