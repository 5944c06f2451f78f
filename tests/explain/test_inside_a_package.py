"""Whose code raised an error determines the remedy: users fix their own code but replace a package."""

from __future__ import annotations

import pytest
from advised import first_remedy, remedies

from oomph.explain.diagnose import diagnose_log

HEAD = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\n'
FRAME = '  File "/opt/v/lib/python3.8/site-packages/{}/core.py", line 12, in run\n    go()\n'
OWN = '  File "model.py", line 12, in run\n    go()\n'
MISFITS = (
    "AttributeError: 'Node' object has no attribute 'masks_out'",
    "AttributeError: module 'scipy' has no attribute 'imread'",
    "TypeError: make_layer() got an unexpected keyword argument 'backend'",
    "TypeError: __init__() missing 1 required positional argument: 'spec'",
)


@pytest.mark.parametrize("error", MISFITS)
def test_version_mismatch_inside_a_package_suggests_upgrading_it(error: str) -> None:
    remedy = first_remedy(HEAD + FRAME.format("netbits") + error)
    assert "was written for a different version" in remedy
    assert "pip install --upgrade netbits" in remedy


@pytest.mark.parametrize("frame", [OWN, FRAME.format("keras"), FRAME.format("numpy")])
@pytest.mark.parametrize("error", MISFITS)
def test_similar_error_in_user_code_is_not_a_version_mismatch(error: str, frame: str) -> None:
    assert not [remedy for remedy in remedies(HEAD + frame + error) if "written for a different version" in remedy]


def test_old_keras_import_remedy_differs_between_package_and_script() -> None:
    error = "ImportError: cannot import name 'dataset_utils' from 'keras.preprocessing'"
    assert "update it" in first_remedy(HEAD + FRAME.format("netbits") + error)
    assert "Import dataset_utils from tensorflow.keras" in first_remedy(HEAD + OWN + error)


def test_wrong_data_type_inside_a_package_is_not_a_version_mismatch() -> None:
    error = "AttributeError: 'list' object has no attribute 'shape'"
    assert "written for a different version" not in first_remedy(HEAD + FRAME.format("netbits") + error)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "while_loop() got an unexpected keyword argument 'maximum_iterations'",
            "TensorFlow and a Keras that match",
        ),
        ("'Tensor' object has no attribute 'numpy'", "run as a graph"),
        (
            "What I see is ValueError: No loss found. You may have forgotten to provide a `loss` argument",
            "compile a loss",
        ),
        ('Graph disconnected: cannot obtain value for tensor Tensor("a:0") at layer "add"', "Give Model the Input"),
    ],
)
def test_error_without_its_class_or_after_other_words_gets_its_remedy(said: str, words: str) -> None:
    assert words in first_remedy(said)


@pytest.mark.parametrize(
    "line",
    [
        "[WARNING] reader: ValueError: No loss found. You may have forgotten to provide a `loss` argument",
        "the model retries after ValueError: No loss found. You may have forgotten to provide a `loss` argument",
        "Raises ValueError: If the model has no `loss` argument",
        "12:00:01 INFO name 'model' is not defined in the settings, so the default is used",
    ],
)
def test_error_that_is_only_mentioned_is_not_diagnosed(line: str) -> None:
    assert diagnose_log(f"{line}\nthe service goes on\nserved 4 requests\nserved 9 requests\nbye\n".encode()) == ()
