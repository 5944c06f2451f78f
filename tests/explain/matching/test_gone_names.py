"""What became of a name or an argument is computed from the table, for any spelling and version."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log

_KERAS_3 = '  File "/e/lib/python3.11/site-packages/keras/src/layers/layer.py", line 40, in f\n    raise ValueError(\n'
_KERAS_2 = '  File "/e/lib/python3.9/site-packages/keras/src/engine/training.py", line 4, in f\n    raise ValueError(\n'


def _first(error: str, code: str = "x", frame: str = _KERAS_3, before: str = "") -> str:
    head = f'{before}Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    {code}\n'
    log = f"{head}{frame}{error}\n"
    remedy = diagnose_log(log.encode())[0].remedies[0]
    return f"{remedy.text} {remedy.command}"


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        ("ValueError: Argument(s) not recognized: {'lr': 0.1}", "Adam(lr=0.1)", "Write learning_rate in place of lr"),
        (
            "ValueError: Unrecognized keyword arguments passed to LeakyReLU: {'alpha': 0.1}",
            "LeakyReLU(alpha=0.1)",
            "Write negative_slope in place of alpha, which layers.LeakyReLU had up to Keras 2.15",
        ),
        (
            "TypeError: Model.fit() got an unexpected keyword argument 'max_queue_size'",
            "model.fit(x, max_queue_size=4)",
            "Leave max_queue_size out, which Model.fit had up to Keras 2.15",
        ),
        (
            "ImportError: cannot import name 'Rescaling' from 'keras.layers.experimental.preprocessing' (/x)",
            "x",
            "Write keras.layers.Rescaling:",
        ),
        (
            "ImportError: cannot import name 'to_categorical' from 'tensorflow.keras.utils.np_utils'",
            "x",
            "Write tf.keras.utils.to_categorical:",
        ),
        (
            "AttributeError: module 'tensorflow' has no attribute 'estimator'",
            "x",
            'pip install "tensorflow==2.15.*"',
        ),
        ("AttributeError: module 'tensorflow' has no attribute 'Session'", "x", "Write tf.compat.v1.Session:"),
        ("AttributeError: module 'tensorflow' has no attribute 'enable_eager_execution'", "x", "Leave tf.enable_eager"),
        ("AttributeError: module 'keras.backend' has no attribute 'mean'", "x", "Write keras.ops.mean:"),
        (
            "AttributeError: module 'keras.optimizers' has no attribute 'experimental'",
            "x",
            "Write keras.optimizers in place of keras.optimizers.experimental",
        ),
        (
            "ValueError: Unrecognized keyword arguments passed to Embedding: {'input_length': 50}",
            "Embedding(9, 9, input_length=50)",
            "Leave input_length out, which layers.Embedding had up to Keras 2.15",
        ),
        (
            "ValueError: Unrecognized keyword arguments passed to InputLayer: {'input_shape': (784,)}",
            "InputLayer(input_shape=(784,))",
            "Write shape in place of input_shape",
        ),
    ],
)
def test_remedy_is_computed(error: str, code: str, remedy: str) -> None:
    assert remedy in _first(error, code)


@pytest.mark.parametrize(
    ("layer", "argument", "remedy"),
    [
        ("Dense", "quantization_config", 'pip install --upgrade "keras>=3.'),
        ("LSTM", "time_major", "pip install tf_keras"),
    ],
)
def test_saved_layer_is_loaded_by_a_keras_that_knows_its_arguments(layer: str, argument: str, remedy: str) -> None:
    error = f"TypeError: Error when deserializing class '{layer}' using config={{'name': 'a', '{argument}': None}}.\n\n"
    said = f"Exception encountered: Unrecognized keyword arguments passed to {layer}: {{'{argument}': None}}"
    assert remedy in _first(error + said, "keras.models.load_model('m.keras')")


def test_tensorflow_that_this_python_cannot_have_is_not_to_be_installed() -> None:
    error = "AttributeError: module 'tensorflow' has no attribute 'estimator'"
    first = _first(error, before="Python 3.12.1 on linux\n", frame=_KERAS_3.replace("3.11", "3.12"))
    assert "pip install" not in first
    assert "with Python 3.9, 3.10, 3.11" in first


def test_instruction_that_names_what_this_version_lacks_is_not_given() -> None:
    error = "ValueError: decay is deprecated, please use the legacy optimizer, e.g., tf.keras.optimizers.legacy.Adam."
    assert "optimizers.legacy" not in _first(error)
    assert "optimizers.legacy" in _first(error, frame=_KERAS_2)
