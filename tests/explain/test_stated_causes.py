"""Lines that state their cause, with no traceback, get a diagnosis and a remedy made from their own values."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log

_STOPPING = (
    "RuntimeWarning: Early stopping conditioned on metric `{}` which is not available. Available metrics are: {}"
)


@pytest.mark.parametrize(
    ("line", "name", "advice"),
    [
        (
            _STOPPING.format("val_acc", "loss,accuracy,val_loss,val_accuracy"),
            "without-effect",
            'monitor="val_accuracy" in place of val_acc',
        ),
        (_STOPPING.format("val_auc", "loss,auc"), "without-effect", "fit had none (only loss,auc)"),
        (
            _STOPPING.format("f1", "loss,f1_score").replace("Early stopping", "Learning rate reduction is"),
            "without-effect",
            "one of loss,f1_score, in place of f1",
        ),
        (
            "lib/keras/src/trainers/trainer.py:9: UserWarning: The model does not have any trainable weights.",
            "without-effect",
            "trainable = True",
        ),
        (
            "UserWarning: You are using a softmax over axis -1 of a tensor of shape (16, 1). This axis has size 1. The "
            "softmax operation will always return the value 1, which is likely not what you intended.",
            "without-effect",
            'activation="sigmoid"',
        ),
        (
            "`GPU AvgPool gradient ops do not yet have a deterministic XLA implementation.`",
            "xla-compile-failure",
            "jit_compile=False",
        ),
        (
            'Failed to construct dataset mnist: Message type "tensorflow_datasets.DatasetInfo" has no field named "x".',
            "input-pipeline",
            "newer tensorflow_datasets",
        ),
        (
            "tensorflow-text 2.13.0 requires tensorflow<2.14,>=2.13.0, but you have tensorflow 2.17.0 which is "
            "incompatible.",
            "binary-incompatibility",
            "tensorflow-text 2.13.0 was made for tensorflow<2.14,>=2.13.0, and tensorflow 2.17.0 is installed",
        ),
        (
            "ERROR: tensorflow 2.13.0 has requirement numpy<=1.24.3,>=1.22, but you'll have numpy 1.26.4 which is "
            "incompatible.",
            "binary-incompatibility",
            'python -m pip install "numpy<=1.24.3,>=1.22"',
        ),
    ],
)
def test_line_that_states_its_cause_is_a_fault(line: str, name: str, advice: str) -> None:
    found = diagnose_log(line.encode())
    assert found[0].name == name
    assert advice in found[0].remedies[0].text


def test_requirement_that_pip_reports_is_no_fault_once_training_goes_on() -> None:
    line = "tensorflow 2.13.0 requires numpy<=1.24.3,>=1.22, but you have numpy 1.26.4 which is incompatible.\n"
    assert not diagnose_log(f"{line}Epoch 1/2\n10/10 - 1s - 9ms/step - loss: 0.7\n".encode())


def test_requirement_of_a_package_far_from_tensorflow_is_no_fault() -> None:
    assert not diagnose_log(
        b"google-colab 1.0.0 requires pandas==2.2.2, but you have pandas 2.2.3 which is incompatible."
    )


@pytest.mark.parametrize(
    "line",
    [
        "keras_tuner.src.errors.FatalTypeError: Expected the model-building function to return a valid Keras Model",
        "In the tutorial I get an error that `LossScaleOptimizer` object has no attribute `get_scaled_loss`.",
        "AttributeError : module 'tensorflow.keras.layers' has no attribute 'Dens'",
    ],
)
def test_error_line_without_a_traceback_is_never_no_fault(line: str) -> None:
    found = diagnose_log(line.encode())
    assert found
    assert found[0].error is not None


def test_attribute_of_a_python_list_is_no_removed_name() -> None:
    found = diagnose_log(b"AttributeError: 'list' object has no attribute 'value'")
    assert found[0].name == "unrelated"


def test_misspelt_name_gets_the_right_one_and_no_older_release() -> None:
    raised = "AttributeError: module 'tensorflow.keras.layers' has no attribute 'GlobalAvergePooling2D'"
    advice = [each.text for each in diagnose_log(raised.encode())[0].remedies]
    assert len(advice) == 1
    assert "Write keras.layers.GlobalAveragePooling2D" in advice[0]


def test_stateful_layer_without_a_batch_size_gets_its_remedy() -> None:
    frames = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    model.fit(x, y)\n'
    frame = '  File "/e/lib/python3.11/site-packages/keras/src/layers/rnn/rnn.py", line 3, in reset_states\n'
    message = "ValueError: If an RNN is stateful, it needs to know its batch size. Specify the batch size of the input:"
    assert (
        "batch_shape=(batch, steps, features)"
        in diagnose_log(f"{frames}{frame}{message}\n".encode())[0].remedies[0].text
    )


def test_weights_of_another_length_than_x_and_y_are_named() -> None:
    lines = [
        "ValueError: Data cardinality is ambiguous. Make sure all arrays have the same number of samples.'x' sizes: 80",
        "'y' sizes: 80",
        "'sample_weight' sizes: 100",
    ]
    head = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    model.fit(x, y)\n'
    found = diagnose_log((head + "\n".join(lines) + "\n").encode())
    assert "x and y have 80 samples, and sample_weight 100" in found[0].remedies[0].text
    lines[2] = "'sample_weight' sizes: 80"
    assert "sample_weight" not in diagnose_log((head + "\n".join(lines) + "\n").encode())[0].remedies[0].text
