"""Wordings that once had no diagnosis, or one that said too much."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log

BAR = "━" * 20
RAN_OUT = "UserWarning: Your input ran out of data; interrupting training.\n"
SLOW, EMPTY = "100/100 {} 2s 12ms/step - accuracy: 0.6 - loss: 1.1\n", "100/100 {} 0s 650us/step - {}\n"


def first(text: str) -> str:
    found = diagnose_log(text.encode())
    return found[0].name if found else ""


@pytest.mark.parametrize(
    "line",
    [
        "trainer-1 exited with code 139",
        "    Exit Code:    139",
        "srun: error: node1: task 0: Exited with exit code 139",
        "(raylet) The worker exited with exit code 139",
        "Process 0 exit with status code 139.",
        '"ExitCode": 139,',
        "exit status 139",
    ],
)
def test_every_wording_of_exit_status_139_is_a_segmentation_fault(line: str) -> None:
    assert first(line) == "segmentation-fault"
    assert first(line.replace("139", "1390")) != "segmentation-fault"


@pytest.mark.parametrize(
    "line",
    [
        "Container [pid=8788,containerID=c] is running beyond physical memory limits. Current usage: 9.8 GB of 9.8 GB",
        "Container [pid=8788] is running 22081205248B beyond the 'PHYSICAL' memory limit. Current usage: 2 GB of 2 GB",
        "WARN YarnAllocator: Container killed by YARN for exceeding memory limits. 8.3 GB of 8 GB physical memory",
    ],
)
def test_container_killed_by_yarn_is_host_oom(line: str) -> None:
    assert first(line) == "host-oom"


# The log from github.com/tensorflow/tensorflow/issues/62963, whose reader has enough data.
ENDS = (
    "W tensorflow/core/framework/local_rendezvous.cc:404] Local rendezvous is aborting with status: OUT_OF_RANGE: End "
    "of sequence\n\t [[{{node IteratorGetNext}}]]\n/usr/lib/python3.12/contextlib.py:158: " + RAN_OUT
)


def test_end_of_data_is_a_fault_only_with_a_known_epoch_length() -> None:
    done = "927/927 ━━━ 2s 2ms/step - loss: 1.0546\n"
    assert first(f"    919/Unknown 1s 2ms/step - loss: 1.05462024-05-23 10:15:02.410200: {ENDS}{done}") == ""
    assert first(f"    919/1000 1s 2ms/step - loss: 1.0546 {ENDS}{done}") == "input-pipeline"


def test_remedies_for_exhausted_data_are_not_repeated() -> None:
    remedies = diagnose_log(f"    919/1000 1s 2ms/step - loss: 1.0546 {ENDS}".encode())[0].remedies
    assert ["repeat()" in remedy.text for remedy in remedies[:2]] == [True, False]


@pytest.mark.parametrize("figures", ["accuracy: 0.0000e+00 - loss: 0.0000e+00", "accuracy: 0.5 - loss: 1.2"])
def test_data_missing_in_every_other_epoch_is_an_input_fault(figures: str) -> None:
    epochs = ["Epoch 1/4\n", SLOW.format(BAR), "Epoch 2/4\n", RAN_OUT, EMPTY.format(BAR, figures), "Epoch 3/4\n"]
    assert first("".join([*epochs, SLOW.format(BAR)])) == "input-pipeline"


def test_fast_epochs_after_a_slow_one_are_not_a_fault() -> None:
    fast = EMPTY.format(BAR, "accuracy: 0.5 - loss: 1.2")
    assert first("".join(["Epoch 1/3\n", SLOW.format(BAR), RAN_OUT, "Epoch 2/3\n", fast, "Epoch 3/3\n", fast])) == ""


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: You must feed a value for placeholder tensor 'x' with dtype float, or set a default",
        "Note: callbacks are not supported with the native Keras format",
        "I checked the scope: Variable w does not exist, or was not created with tf.get_variable",
    ],
)
def test_non_error_sentence_leads_to_a_guess_at_most(line: str) -> None:
    assert all(diagnosis.confidence <= 0.5 for diagnosis in diagnose_log(line.encode()))


def test_session_started_after_waiting_for_a_worker_is_not_a_hang() -> None:
    waits = "I] CreateSession still waiting for response from worker: /job:local/replica:0/task:1\n"
    assert first(waits) == "hang"
    assert first(f"{waits}I] Start master session a8ebceffea7be4f9 with config: \n") == ""


def test_reduced_driver_memory_is_not_a_fault_once_computing_starts() -> None:
    less = "E cuda_driver.cc:1002] failed to allocate 6.45G (6929413888 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY\n"
    assert first(less) == "device-oom"
    assert first(f"{less}I service.cc:180] XLA service executing computations on platform CUDA. Devices:\n3.0\n") == ""


def test_script_attribute_error_without_a_traceback_header_is_unrelated() -> None:
    frame = '  File "/home/user/train.py", line 151, in main\n    print(window.example)\n'
    error = "AttributeError: 'WindowGenerator' object has no attribute 'example'\n"
    assert first(frame + error) == "unrelated"


def test_gpu_only_operation_is_a_device_fault() -> None:
    head = "InvalidArgumentError: No OpKernel was registered to support Op 'CudnnRNN' used by node a with these attrs\n"
    kernels = "Registered devices: [CPU]\nRegistered kernels:\n  device='GPU'; T in [DT_FLOAT]\n"
    assert first(head + kernels) == "device-placement"
    assert first(f"{head}{kernels}  device='CPU'; T in [DT_FLOAT]\n") == "operation-not-registered"


HBM = "Ran out of memory in memory space hbm. Used 16.79G of 7.48G hbm. Exceeded hbm capacity by 9.31G."
JAX = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869 bytes."


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "ResourceExhaustedError: 9 root error(s) found.\n  (0) Resource exhausted: {{function_node "
            f"__inference_train_function_453721}}}} Compilation failure: {HBM}",
            "needs 16.79G of the 7.48G",
        ),
        (f"UnfilteredStackTrace: RuntimeError: RESOURCE_EXHAUSTED: {HBM}\n\nTotal hbm usage >= 9.60G:", "TPU core"),
        (f"jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: {HBM}", "TPU core"),
        (
            "RuntimeError: Resource exhausted: Attempting to reserve 5.50G at the bottom of memory. That was not "
            "possible. There are 5.23G free, 0B reserved, and 4.94G reservable.",
            "TPU core",
        ),
        (f"F0000 00:00:1733229811.410829 12345 tpu_compile_op_common.cc:176] ...\n{JAX}", "17179869 bytes"),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes.", "not of JAX"),
        (
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2.0GiB.",
            "not of JAX",
        ),
    ],
)
def test_out_of_memory_outside_batches_does_not_suggest_micro_batches(log: str, words: str) -> None:
    found, *_ = diagnose_log(log.encode())
    assert found.name == "device-oom"
    assert words in str(found.remedies[0].text)
    assert not any(remedy.action for remedy in found.remedies)


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: Cannot create a tensor proto whose content is larger than 2GB.",
        "ValueError: GraphDef cannot be larger than 2GB.",
        "[libprotobuf ERROR google/protobuf/io/zero_copy_stream_impl_lite.cc:173] Cannot allocate buffer larger than "
        "kint32max for StringOutputStream.\nValueError: GraphDef cannot be larger than 2GB.",
        "InvalidArgumentError: Cannot serialize protocol buffer of type tensorflow.GraphDef as the serialized size "
        "(2400000211bytes) would be larger than the limit (2147483647 bytes)",
    ],
)
def test_oversized_graph_suggests_moving_the_data_out(error: str) -> None:
    where = '  File "train.py", line 12, in load\n    data = tf.data.Dataset.from_tensor_slices(arrays)\n'
    found, *_ = diagnose_log(f"Traceback (most recent call last):\n{where}{error}\n".encode())
    assert found.name == "input-pipeline"
    assert "out of the graph" in str(found.remedies[0].text)


RETRACED = (
    "WARNING:tensorflow:6 out of the last 6 calls to <function Model.make.<locals>.train_function at 0x7f2> "
    "triggered tf.function retracing. Tracing is expensive\n"
)


def test_kill_remedy_mentions_earlier_retracing() -> None:
    (found, *_) = diagnose_log(f"{RETRACED}Killed\n".encode())
    assert found.name == "killed"
    assert "(Model.make.<locals>.train_function was retraced 6 times)" in str(found.remedies[0].text)
    assert diagnose_log(RETRACED.encode()) == ()
