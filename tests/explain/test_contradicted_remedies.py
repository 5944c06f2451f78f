"""No remedy is printed that a fact of the same log contradicts."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log

_KERAS_3 = '  File "/e/lib/python3.11/site-packages/keras/src/optimizers/base_optimizer.py", line 40, in __init__'
_KERAS_2 = '  File "/e/lib/python3.9/site-packages/keras/src/engine/training.py", line 40, in compile'
_NO_VERSION = "ERROR: Could not find a version that satisfies the requirement tensorflow (from versions: none)"
_TENSOR = "ValueError: A KerasTensor cannot be used as input to a TensorFlow function"
_FACES = '  File "/e/lib/python3.11/site-packages/retinaface/model.py", line 9, in build_model'
_COMPILATION = "E0000 00:00:1721980017.350017 952 tpu_compilation_cache_external.cc:112] Compilation failure: Aborting:"
_DESERIALIZED = (
    "TypeError: <class '{}'> could not be deserialized properly. Please ensure that components that are Python object "
    "instances (layers, models, etc.) returned by `get_config()` are explicitly deserialized in the model's "
    "`from_config()` method."
)
_HEAD = "Traceback (most recent call last):"


def _advice(*lines: str) -> str:
    diagnoses = diagnose_log("\n".join(lines).encode())
    return "\n".join(f"{each.text} {each.command}" for diagnosis in diagnoses for each in diagnosis.remedies)


@pytest.mark.parametrize(
    ("advice", "contradicted", "allowed"),
    [
        (
            "optimizers.legacy",
            [_HEAD, _KERAS_3, "ValueError: Argument(s) not recognized: {'decay': 0.001}"],
            [_HEAD, _KERAS_2, "ValueError: Argument(s) not recognized: {'decay': 0.001}"],
        ),
        (
            "compat.v1.keras.backend",
            ["keras==3.3.3", "ImportError: cannot import name 'set_session' from 'keras.backend'"],
            ["keras==2.10.0", "ImportError: cannot import name 'set_session' from 'keras.backend'"],
        ),
        (
            "sudo modprobe nvidia",
            ["modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.5.0", "Error: Driver Not Loaded"],
            ["Error: Driver Not Loaded"],
        ),
        (
            "[and-cuda]",
            ["C:\\env\\python.exe train.py", "ERROR: No matching distribution found for tensorflow"],
            ["python train.py", _NO_VERSION, "ERROR: No matching distribution found for tensorflow"],
        ),
        (
            "tf_keras",
            ["tensorflow==2.13.0", _HEAD, _FACES, _TENSOR],
            ["tensorflow==2.17.0", _HEAD, _FACES, _TENSOR],
        ),
        (
            "jit_compile=False",
            [f"{_COMPILATION} unlikely to have enough memory. Requires 20.5G, has 15.7G available."],
            [f"{_COMPILATION} a dynamic dimension."],
        ),
        (
            "custom_objects",
            [_DESERIALIZED.format("keras.src.models.functional.Functional")],
            [_DESERIALIZED.format("__main__.Blend")],
        ),
    ],
)
def test_remedy_is_left_out_where_a_fact_contradicts_it(
    advice: str, contradicted: list[str], allowed: list[str]
) -> None:
    assert advice not in _advice(*contradicted)
    assert advice in _advice(*allowed), "otherwise this test could not fail"


def test_variable_is_set_as_the_windows_shell_takes_it() -> None:
    frame = '  File "C:\\env\\lib\\site-packages\\retinaface\\model.py", line 9, in build_model'
    advice = _advice(_HEAD, frame, _TENSOR)
    assert "set TF_USE_LEGACY_KERAS=1&& python" in advice
    assert " TF_USE_LEGACY_KERAS=1 python" not in advice


def test_error_that_is_quoted_is_not_called_missing() -> None:
    lines = [_HEAD, _KERAS_3, "    raise ValueError(", "A KerasTensor cannot be used as input to a TensorFlow function"]
    assert not diagnose_log("\n".join(lines).encode()).facts.gaps
    assert diagnose_log("\n".join(lines[:2]).encode()).facts.gaps


def test_name_that_came_after_this_release_asks_for_a_later_one() -> None:
    raised = "AttributeError: module 'tensorflow.keras.preprocessing' has no attribute 'image_dataset_from_directory'"
    advice = _advice("keras 2.3.1", "tensorflow 2.1.0", _HEAD, raised)
    assert "this one is older" in advice
    assert "Keep Keras 2" not in advice
