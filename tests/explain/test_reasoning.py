"""Remedies follow from what a log shows: versions, whose code fails, figures, and what was tried."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log
from oomph.explain.matching.named_fault import Diagnoses
from oomph.explain.render import as_text

_HEAD = "Traceback (most recent call last):"
_OWN = '  File "/home/eva/fit.py", line 31, in <module>\n    main()'
_KERAS_3 = (
    '  File "/e/lib/python3.11/site-packages/keras/src/ops/operation.py", line 228, in input\n    raise ValueError('
)


def _of(*lines: str) -> Diagnoses:
    return diagnose_log("\n".join(lines).encode())


def _remedies(*lines: str) -> list[str]:
    return [f"{each.text} {each.command}" for diagnosis in _of(*lines) for each in diagnosis.remedies]


def _frame(package: str, function: str = "wrap", code: str = "return model.thing") -> str:
    return f'  File "/e/lib/python3.11/site-packages/{package}/core.py", line 7, in {function}\n    {code}'


# Which side is old


def test_nothing_brings_keras_2_where_the_log_shows_it() -> None:
    error = "TypeError: add_weight() got multiple values for argument 'name'"
    assert not any("tf_keras" in each for each in _remedies("keras 2.3.1,", "tensorflow 1.15.5", error))
    assert any("tf_keras" in each for each in _remedies("tensorflow 2.17.0", error)), "otherwise it could not fail"


@pytest.mark.parametrize(
    ("error", "command"),
    [
        ("TypeError: __init__() got an unexpected keyword argument 'ragged'", "--upgrade tensorflow"),
        ("TypeError: __init__() got an unexpected keyword argument 'batch_shape'", '"tensorflow>=2.16"'),
    ],
)
def test_file_with_an_argument_that_the_reader_lacks_is_newer_than_the_reader(error: str, command: str) -> None:
    first = _remedies("from keras.models import load_model", "net = load_model('net.h5')", error)[0]
    assert command in first
    assert "tf_keras" not in first


def test_class_of_keras_itself_is_never_registered() -> None:
    lines = ("net = load_model('net.h5')", "ValueError: Unknown layer: Functional")
    assert not any("custom_objects" in each for each in _remedies(*lines))
    assert any("custom_objects" in each for each in _remedies(lines[0], "ValueError: Unknown layer: MyAttention"))


def test_tf_keras_is_that_of_the_installed_tensorflow() -> None:
    error = "ValueError: Only instances of `keras.Layer` can be added to a Sequential model. Received: <x>"
    assert any('"tf_keras==2.18.*"' in each for each in _remedies("TensorFlow version: 2.18.0", error))


def test_name_that_this_release_has_means_an_incomplete_installation() -> None:
    first = _remedies("keras   3.4.1", _HEAD, _OWN, "ModuleNotFoundError: No module named 'keras.layers'")[0]
    assert "--force-reinstall keras" in first


# Whose code fails


def test_call_in_a_package_is_not_for_the_reader_to_rewrite() -> None:
    error = "ValueError: A KerasTensor cannot be used as input to a TensorFlow function."
    in_package = _remedies(_HEAD, _OWN, _frame("netbits"), error)
    assert "--upgrade netbits" in in_package[0]
    assert not any("keras.ops in place" in each for each in in_package)
    assert "keras.ops in place" in _remedies(_HEAD, _OWN, error)[0]


def test_error_of_keras_below_a_package_of_keras_2_is_a_mismatch() -> None:
    error = "ValueError: The layer sequential_4 has never been called and thus has no defined input."
    found = _of(_HEAD, _OWN, _frame("retinaface"), _KERAS_3, error)
    assert found[0].name == "keras-version-mismatch"
    assert "TF_USE_LEGACY_KERAS=1" in found[0].remedies[0].command
    assert _of(_HEAD, _OWN, error)[0].name == "unrelated", "in the reader's own code the call is to be changed"


def test_package_that_uses_private_names_of_tensorflow_is_updated() -> None:
    error = "ImportError: cannot import name 'tf_utils' from 'tensorflow.python.keras.utils'"
    first = _remedies(_HEAD, _OWN, _frame("spektral", "<module>"), error)[0]
    assert "--upgrade spektral" in first


# Pairs of packages


@pytest.mark.parametrize(
    ("stated", "error", "first"),
    [
        ("tensorflowjs 4.22.0", "ValueError: Unsupported class name in topology", "TF_USE_LEGACY_KERAS=1"),
        ("CSBDeep version 0.7.4", "FileNotFoundError: weights_best.h5", '"csbdeep>=0.8.1"'),
        ("3. Horovod version: 0.28.1", "AttributeError: 'Variable' object has no attribute 'handle'", "Keras 2"),
    ],
)
def test_package_beside_keras_3_decides(stated: str, error: str, first: str) -> None:
    found = _of("- TensorFlow version: 2.17.1", stated, error)
    assert found[0].name == "keras-version-mismatch"
    assert first in f"{found[0].remedies[0].text} {found[0].remedies[0].command}"


def test_package_beside_keras_2_decides_nothing() -> None:
    found = _of("- TensorFlow version: 2.12.0", "tensorflowjs 4.22.0", "ValueError: Unsupported class name in topology")
    assert not any("LEGACY" in each.command for diagnosis in found for each in diagnosis.remedies)


def test_package_for_keras_3_over_keras_2_asks_for_keras_3() -> None:
    error = "AttributeError: 'Functional' object has no attribute 'compiled'"
    first = _remedies(_HEAD, _OWN, _frame("scikeras"), error)[0]
    assert '"tensorflow>=2.16"' in first


def test_name_that_an_old_package_lacks_asks_for_a_newer_one() -> None:
    error = "AttributeError: module 'tensorflow_hub' has no attribute 'resolve'"
    found = _of("TensorFlow v1.14", "TensorFlow Hub v0.2.0", error)
    assert found[0].name == "removed-api"
    assert '"tensorflow>=2" tensorflow-hub' in found[0].remedies[0].command


def test_package_says_itself_which_tensorflow_it_needs() -> None:
    error = "ImportError: This version requires TensorFlow version >= 2.19; Detected an installation of version 2.16.2."
    given = _remedies(_HEAD, _OWN, _frame("tensorflow_probability", "_check"), error)
    assert '"tensorflow>=2.19"' in given[0]
    assert not any("LEGACY" in each for each in given)


def test_keras_3_beside_an_older_tensorflow_is_replaced_by_the_keras_of_that_one() -> None:
    given = _remedies(
        "tensorflow==2.14.1",
        "keras==3.1.0",
        "ImportError: cannot import name '__internal__' from 'keras.api._v2.keras'",
    )
    assert '"keras==2.14.*"' in given[0]


def test_version_that_python_was_asked_for_is_a_fact() -> None:
    given = _remedies(
        ">>> tf.__version__",
        "'2.11.0'",
        "ValueError: Only instances of `keras.Layer` can be added to a Sequential model.",
    )
    assert not any("tf_keras" in each for each in given)


# What Keras refuses


def test_method_of_keras_with_arguments_in_another_order_is_called_by_name() -> None:
    found = _of(_HEAD, _OWN, "TypeError: Layer.add_weight() got multiple values for argument 'initializer'")
    assert found[0].name == "keras-version-mismatch"
    assert "by name" in found[0].remedies[0].text


def test_values_of_evaluate_are_unpacked_as_keras_3_gives_them() -> None:
    lines = (_HEAD, '  File "/home/eva/fit.py", line 40, in <module>', "    a, b, c = net.evaluate(x, (y, z))")
    error = "ValueError: not enough values to unpack (expected 3, got 2)"
    assert "return_dict=True" in _remedies("tensorflow 2.18.0", *lines, error)[0]
    assert _of("tensorflow 2.18.0", *lines, error)[0].name == "keras-version-mismatch"
    assert _of(*lines, error)[0].name == "unrelated"


def test_loss_alone_is_one_number() -> None:
    frame = '  File "/home/eva/gan.py", line 40, in train\n    loss, acc = d.train_on_batch(x, y)'
    assert (
        "return_dict=True" in _remedies(_HEAD, frame, "TypeError: cannot unpack non-iterable numpy.float32 object")[0]
    )


def test_refused_argument_is_not_called_a_plain_python_error() -> None:
    error = "ValueError: When `loss` argument is a dict, it should have the model's output names as keys"
    text = as_text(_of(error), "log", "", "", 80)
    assert "a call that Keras refuses" in text
    assert "As the error itself says" in text


def test_unknown_backend_is_a_setting_of_keras() -> None:
    found = _of(_HEAD, _OWN, _frame("keras_hub", "<module>"), "ValueError: Unable to import backend : cntk")
    assert "keras.json" in found[0].remedies[0].text


def test_function_of_tensorflow_is_replaced_by_that_of_keras() -> None:
    frame = '  File "/home/eva/fit.py", line 9, in <module>\n    top = tf.reduce_max(x, axis=1)'
    error = "ValueError: A KerasTensor cannot be used as input to a TensorFlow function."
    assert "Write keras.ops.max in place of tf.reduce_max" in _remedies(_HEAD, frame, error)[0]


def test_other_arguments_of_the_same_call_that_are_gone_are_named_too() -> None:
    frame = '  File "/home/eva/fit.py", line 9, in <module>\n    opt = SGD(lr=0.1, momentum=0.9, decay=1e-6)'
    first = _remedies("keras==3.5.0", _HEAD, frame, "ValueError: Argument(s) not recognized: {'lr': 0.1}")[0]
    assert "learning_rate in place of lr" in first
    assert "decay" in first
    assert "momentum" not in first


def test_variable_that_is_set_after_the_import_is_set_too_late() -> None:
    given = _remedies(
        "import widgets",
        "import os",
        "os.environ['TF_WIDGETS'] = '1'",
        "RuntimeError: the widgets of Keras need TF_WIDGETS=1 in the environment",
    )
    assert "after the import" in given[0]


def test_name_of_a_package_s_own_function_names_the_package() -> None:
    error = "ValueError: `quantize_model` can only quantize keras models. You passed an instance of type: Sequential."
    first = _remedies("TensorFlow version: 2.17.0", error)[0]
    assert "tensorflow-model-optimization" in first


# Reckoning


def test_batch_that_differs_while_the_classes_agree_is_no_matter_of_the_labels() -> None:
    given = _remedies(
        "InvalidArgumentError: logits and labels must be broadcastable: logits_size=[96,7] labels_size=[32,7]"
    )
    assert "3 positions" in given[0]
    assert not any("to_categorical" in each for each in given)


def test_list_of_arrays_is_not_a_matter_of_the_number_of_samples() -> None:
    sizes = ", ".join(["1"] * 30)
    given = _remedies(_HEAD, _OWN, "ValueError: Data cardinality is ambiguous:", "  x sizes: 30", f"  y sizes: {sizes}")
    assert "np.array(y)" in given[0]
    assert not any("len(x), len(y)" in each for each in given)


def test_data_that_ends_after_all_training_steps_is_the_validation_data() -> None:
    ended = (
        "WARNING:tensorflow:Your input ran out of data; interrupting training. Make sure that your dataset or "
        "generator can generate at least `steps_per_epoch * epochs` batches (in this case, 40 batches)."
    )
    in_validation = _remedies("Epoch 1/5", f"90/90 [==============================] - ETA: 0s - loss: 1.1{ended}")
    assert "validation_steps" in in_validation[0]
    in_training = _remedies("Epoch 1/5", f"31/90 [=========>....................] - ETA: 9s - loss: 1.1{ended}")
    assert "validation_steps" not in in_training[0]


@pytest.mark.parametrize(
    ("wanted", "python"),
    [("tensorflow==2.2.0", "3.8"), ("tensorflow==2.6.0", "3.9"), ("tensorflow-gpu==1.14.0", "3.7")],
)
def test_python_is_reckoned_from_the_release_that_pip_did_not_find(wanted: str, python: str) -> None:
    first = _remedies(f"ERROR: No matching distribution found for {wanted}")[0]
    assert f"python={python} " in first
    assert wanted in first


def test_old_pip_is_told_by_the_releases_that_it_offers() -> None:
    offered = "(from versions: 1.13.1, 1.13.2, 1.14.0)"
    given = _remedies(f"Could not find a version that satisfies the requirement tensorflow==1.15.2 {offered}")
    assert "--upgrade pip" in given[0]
    assert not any("this Python is a different one" in each for each in given)


# What the log shows as done, and the surroundings


def test_module_that_was_missing_under_both_names_is_not_taken_from_the_other() -> None:
    given = _remedies(
        "ModuleNotFoundError: No module named 'keras.wrappers'",
        "ModuleNotFoundError: No module named 'tensorflow.keras.wrappers'",
    )
    assert not any("tensorflow.keras what" in each for each in given)


def test_tensorflow_that_runs_is_not_installed_again_for_another_module() -> None:
    error = "ModuleNotFoundError: No module named 'keras'"
    given = _remedies("- **TensorFlow version**: 2.3.0", error)
    assert not any("uninstall -y tensorflow" in each for each in given)
    assert any('"keras<2.4"' in each for each in given)


def test_commands_are_those_of_pipenv() -> None:
    given = _remedies(
        "CRITICAL:pipenv.patched.pip:Could not find a version that satisfies the requirement tensorflow==2.13.0"
    )
    assert "pipenv --python 3.11 && pipenv install" in given[0]


def test_path_of_checkpoint_that_was_never_written_is_not_corrected() -> None:
    given = _remedies(
        "Epoch 1/2",
        "a.py:9: UserWarning: Can save best model only with val_f1 available, skipping.",
        "Epoch 2/2",
        _HEAD,
        _OWN,
        "ValueError: File not found: filepath=best.keras. Please ensure the file is an accessible `.keras` zip file.",
    )
    assert "monitor" in given[0]


# Other programs


def test_kernel_that_ends_another_program_is_no_fault() -> None:
    line = "[ 77.1] Out of memory: Killed process 901 ({}) total-vm:18122040kB, anon-rss:12201144kB, file-rss:0kB"
    assert not _of(line.format("postgres"))
    assert _of(line.format("python3"))[0].name == "host-oom"


def test_memory_error_of_pytorch_is_not_tensorflows() -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    frame = '  File "/e/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 1, in forward\n    return f(x)'
    assert [each.name for each in _of(_HEAD, _OWN, frame, error)][:1] == ["unrelated"]


def test_fault_of_the_machine_is_no_other_name_for_an_error_that_python_raised() -> None:
    found = _of(_HEAD, _OWN, "AttributeError: 'Adam' object has no attribute 'minimize'")
    assert not {each.fault.domain for each in found} & {"gpu", "memory", "hardware", "distributed", "process"}
