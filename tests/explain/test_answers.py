"""Remedies that answer what a log says: chosen by its words, filled with its values, before what is only general."""

from __future__ import annotations

import pytest
from advised import first, first_remedy, remedies

from oomph.explain.diagnose import diagnose_log

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 30, in <module>\n    model.fit(x, y)\n'
KERAS_2 = '  File "/e/lib/python3.9/site-packages/keras/src/engine/training.py", line 4, in fit\n    raise\n'
KERAS_3 = '  File "/e/lib/python3.11/site-packages/keras/src/trainers/trainer.py", line 4, in fit\n    raise\n'


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("ValueError: Argument(s) not recognized: {'decay': 0.0001}", "schedules.InverseTimeDecay"),
        ("AttributeError: 'Sequential' object has no attribute 'fit_generator'", "Write model.fit in place of"),
        ("AttributeError: 'Adam' object has no attribute 'lr'", "Write optimizer.learning_rate in place of"),
        ("TypeError: TensorFlowTrainer.fit() got an unexpected keyword argument 'workers'", "Leave workers out"),
        ("ValueError: Invalid dtype: object", 'astype("float32")'),
        ("ValueError: Unrecognized data type: x=[[1.0]] (of type <class 'list'>)", "numpy.array(x)"),
        ("ImportError: cannot import name 'runtime_version' from 'google.protobuf'", "pip install --upgrade protobuf"),
        (
            "VersionError: Detected incompatible Protobuf Gencode/Runtime versions when loading: gencode 6.31.1 "
            "runtime 5.29.5. Runtime version cannot be older than the linked gencode version.",
            'pip install "protobuf>=6.31.1"',
        ),
    ],
)
def test_answer_is_the_first_remedy(error: str, remedy: str) -> None:
    assert remedy in first_remedy(f"{TRACEBACK}{KERAS_3}{error}\n")


def test_answer_comes_before_the_request_of_a_message_and_a_command_in_it_before_the_answer() -> None:
    unknown = "TypeError: Could not locate function 'mse'. Make sure custom classes are decorated with `@register`."
    given = remedies(f"{TRACEBACK}{unknown}\n")
    assert "compile=False" in given[0]
    assert given[1].startswith("As the error itself says")
    asked = "ImportError: cannot import name 'runtime_version' from 'google.protobuf'. Please run `pip install pydot`."
    assert first_remedy(f"{TRACEBACK}{asked}\n").endswith("python -m pip install pydot")


def test_python_does_not_know_that_a_name_is_of_tensorflow_1() -> None:
    error = "AttributeError: module 'tensorflow' has no attribute 'Session'. Did you mean: 'version'?"
    assert "tf.compat.v1.Session" in first_remedy(f"{TRACEBACK}{error}\n")


def test_general_remedies_only_fill_up_to_two() -> None:
    assert [each.fit for each in first(f"{TRACEBACK}ValueError: Invalid dtype: object\n").advice] == ["fits", "general"]


@pytest.mark.parametrize(("frame", "is_offered"), [(KERAS_3, True), (KERAS_2, False)])
def test_what_oomph_does_by_itself_is_not_promised_to_keras_2(frame: str, is_offered: bool) -> None:
    error = "ResourceExhaustedError: OOM when allocating tensor with shape[64,9] and type float on /GPU:0 by allocator"
    assert any(each.action for each in first(f"{TRACEBACK}{frame}{error} GPU_0_bfc\n").remedies) is is_offered


def test_smaller_batch_is_no_remedy_for_the_variables_of_the_optimizer() -> None:
    error = "ResourceExhaustedError: OOM when allocating tensor with shape[64,9] and type float on /GPU:0 by allocator"
    given = remedies(f"{TRACEBACK}{error} GPU_0_bfc\n\t [[{{{{node adam/mul}}}}]]\n")
    assert "keeps fewer" in given[0]
    assert not any(each.startswith("Use a smaller batch") for each in given)


def test_attribute_that_an_own_class_lacks_is_a_plain_error_even_without_a_traceback() -> None:
    assert first("AttributeError: 'Trainer' object has no attribute 'history'\n").name == "unrelated"
    assert first("AttributeError: 'Sequential' object has no attribute 'fit_generator'\n").name != "unrelated"


def test_machine_without_a_driver_is_a_fault_only_for_those_who_ask_for_the_gpu() -> None:
    line = (
        "E0000 00:00:1.1 100 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: "
    )
    log = f"{line}UNKNOWN ERROR (303)\n"
    assert diagnose_log(f"{log}0.25\n".encode()) == ()
    assert first(f"{log}Num GPUs Available:  0\n").name == "driver-missing"
