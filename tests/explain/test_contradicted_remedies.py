"""No remedy is printed that a fact of the same log contradicts."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log

_KERAS_3 = '  File "/e/lib/python3.11/site-packages/keras/src/optimizers/base_optimizer.py", line 40, in __init__'
_KERAS_2 = '  File "/e/lib/python3.9/site-packages/keras/src/engine/training.py", line 40, in compile'
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
    ],
)
def test_remedy_is_left_out_where_a_fact_contradicts_it(
    advice: str, contradicted: list[str], allowed: list[str]
) -> None:
    assert advice not in _advice(*contradicted)
    assert advice in _advice(*allowed), "otherwise this test could not fail"
