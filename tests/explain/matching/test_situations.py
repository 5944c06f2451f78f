"""A generic error means what the function that raised it makes of it."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log

_HEAD = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    {own}\n'
_FRAME = '  File "/e/lib/python3.11/site-packages/{file}", line 40, in {function}\n    {code}\n'


def _log(own: str, error: str, *frames: tuple[str, str, str]) -> bytes:
    inner = "".join(_FRAME.format(file=file, function=function, code=code) for file, function, code in frames)
    return f"{_HEAD.format(own=own)}{inner}{error}\n".encode()


@pytest.mark.parametrize(
    ("log", "fault", "advice"),
    [
        (
            _log(
                "model.fit(x, y, validation_data=v)",
                "AttributeError: 'NoneType' object has no attribute 'items'",
                ("keras/src/backend/tensorflow/trainer.py", "fit", "for name, val in val_logs.items()"),
            ),
            "input-pipeline",
            "validation data held no batch",
        ),
        (
            _log(
                'load_model("m.h5")',
                "TypeError: string indices must be integers, not 'str'",
                ("keras/src/saving/legacy/saving_utils.py", "deserialize_keras_object", 'x["class_name"]'),
            ),
            "keras-version-mismatch",
            "written by another major version",
        ),
        (
            _log(
                "model.fit(dataset)",
                "ValueError: too many values to unpack (expected 3)",
                (
                    "keras/src/trainers/data_adapters/data_adapter_utils.py",
                    "unpack_x_y_sample_weight",
                    "x, y, w = data",
                ),
            ),
            "input-pipeline",
            "(x, y, sample_weight)",
        ),
    ],
)
def test_frames_decide(log: bytes, fault: str, advice: str) -> None:
    (first, *_) = diagnose_log(log)
    assert first.name == fault
    assert advice in first.remedies[0].text
    assert first.advice[0].fit == "fits"


def test_same_words_in_the_scripts_own_code_are_unrelated() -> None:
    (first, *_) = diagnose_log(_log("val_logs.items()", "AttributeError: 'NoneType' object has no attribute 'items'"))
    assert first.name == "unrelated"
