"""What an exception's message says to do is recognised by how instructions are worded, also in later versions."""

from __future__ import annotations

import pytest

from oomph.explain.matching.instruction import instruction_in


@pytest.mark.parametrize(
    ("message", "said", "command"),
    [
        ("Plotting failed: install `pydot` (`pip install pydot`).", "pip install pydot", "python -m pip install pydot"),
        ("Needs more. Run `pip install -U 'foo>=2'` first.", "Run `pip", 'python -m pip install -U "foo>=2"'),
        ("Only tensors may be positional. It should be passed as a keyword argument: 4", "as a keyword argument", ""),
        ("You must compile your model. Use `model.compile(optimizer)`.", "You must compile your model. Use", ""),
        ("`np.float_` was removed. Use `np.float64` instead.", "Use `np.float64` instead", ""),
        ("The `filepath` provided must end in `.keras`. Received: x.h5", "must end in `.keras`", ""),
        ("learning_rate must be <= 1", "must be <= 1", ""),
        ("Wrong. Did you mean: 'Dense'?", "Did you mean: 'Dense'?", ""),
        ("To keep the old one, set `quux=False`.", "set `quux=False`", ""),
        ("Set TF_USE_LEGACY_KERAS=1 for Keras 2.", "Set TF_USE", "TF_USE_LEGACY_KERAS=1 python train.py"),
        ("The frobnicator of release 9 is unset. Please call `keras.frobnicate()` before fit.", "Please call", ""),
    ],
)
def test_instruction(message: str, said: str, command: str) -> None:
    found = instruction_in(message.split("\n"))
    assert found is not None
    assert said in found.text
    assert found.command == command


@pytest.mark.parametrize(
    "message",
    [
        "Unrecognized keyword arguments passed to Dense: {'input_dims': 4}",
        "logits and labels must have the same first dimension, got logits shape [32,10] and labels shape [64]",
        "Assign requires shapes of both tensors to match. lhs shape= [4096,539]",
        "Dst tensor is not initialized. Please report this issue on https://github.com/x/y",
        "Hint: If you want to see a list of allocated tensors, add report_tensor_allocations_upon_oom to RunOptions",
        "No such file or directory: 'set/use/x.npy'",
        "What you should do instead is wrap `f` in a layer:",
        "",
    ],
)
def test_no_instruction(message: str) -> None:
    assert instruction_in(message.split("\n")) is None


@pytest.mark.parametrize("hostile", ["a; rm -rf ~", "x && y", "$(id)", "`id`", "--index-url http://evil foo"])
def test_command_is_never_built_from_unsafe_words(hostile: str) -> None:
    found = instruction_in([f"Please run pip install {hostile}"])
    assert found is not None
    assert not set(found.command) & set(";&$`|")
    assert "evil" not in found.command
