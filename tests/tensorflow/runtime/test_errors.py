"""Which of TensorFlow's exceptions are device out-of-memory errors, and which are not."""

from __future__ import annotations

import threading

import pytest
import tensorflow as tf

from oomph.keras_bridge.runtime.errors import as_out_of_memory, being_handled, handled, lost_worker, outcome_of

BFC = (
    "Graph execution error:\n\nDetected at node gradients/MatMul defined at (most recent call last):\n<stack traces>\n"
    "OOM when allocating tensor with shape[4096,512] and type float on /job:localhost/replica:0/task:0/device:GPU:0 "
    "by allocator GPU_0_bfc\n\t [[{{node x}}]]\nHint: If you want to see a list of allocated tensors ..."
)
XLA = "Out of memory while trying to allocate 1.02GiB. [tf-allocator-allocation-error='']"


def exhausted(text):
    return as_out_of_memory(tf.errors.ResourceExhaustedError(None, None, text))


def test_tensor_size_and_allocator_are_read_from_an_allocator_error():
    oom = exhausted(BFC)
    assert (oom.requested_bytes, oom.whole_step) == (4096 * 512 * 4, False)
    assert oom.line.startswith("OOM when allocating tensor with shape[4096,512]")
    assert oom.line.endswith("GPU_0_bfc")


def test_the_gpu_that_ran_out_of_memory_is_read_from_the_error():
    assert exhausted(BFC).gpu == "GPU:0"
    assert exhausted(BFC.replace("GPU:0", "GPU:13")).gpu == "GPU:13"
    assert exhausted(BFC.replace("device:GPU:0", "device:CPU:0")).gpu is None
    assert exhausted(XLA).gpu is None


def test_errors_in_replica_threads_count_as_handled_while_the_parent_handles_them():
    class _MirroredReplicaThread(threading.Thread):
        """Has the same name as in TensorFlow."""

    def seen(thread):
        found = []
        running = thread(target=lambda: found.append(being_handled()))
        running.start()
        running.join(10)
        return found

    with handled():
        assert (being_handled(), seen(_MirroredReplicaThread), seen(threading.Thread)) == (True, [True], [False])
    assert (being_handled(), seen(_MirroredReplicaThread)) == (False, [False])


def test_a_command_buffer_error_counts_as_out_of_memory():
    """XLA cannot instantiate a CUDA graph for lack of memory (cuda_command_buffer.cc)."""
    text = "Underlying backend ran out of memory trying to instantiate command buffer with 19 nodes"
    oom = exhausted(text)
    assert (oom.line, oom.requested_bytes, oom.disguised) == (text, None, False)


@pytest.mark.parametrize(
    ("what", "nbytes"),
    [
        ("[2,3] and type double", 48),
        ("[2,3] and type half", 12),
        ("[7] and type bfloat16", 14),
        ("[] and type int64", 8),
        ("[0,5] and type float", 0),
        ("[2] and type unheard_of", None),
    ],
)
def test_requested_bytes_are_computed_from_shape_and_type(what, nbytes):
    oom = exhausted(f"OOM when allocating tensor with shape{what} on /device:GPU:0 by allocator GPU_0_bfc")
    assert oom.requested_bytes == nbytes


@pytest.mark.parametrize(
    ("amount", "nbytes"),
    [("1.5GiB", 3 << 29), ("2147483648 bytes", 1 << 31), ("848.5MiB", 1697 << 19), ("64KiB", 1 << 16), ("12B", 12)],
)
def test_an_xla_error_yields_the_requested_bytes(amount, nbytes):
    oom = exhausted(f"Out of memory while trying to allocate {amount}.")
    assert (oom.requested_bytes, oom.whole_step) == (nbytes, True)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(BFC),
        MemoryError(),
        tf.errors.ResourceExhaustedError(None, None, "Received message larger than max (5 vs. 4)"),
        tf.errors.ResourceExhaustedError(None, None, "/tmp/x; No space left on device"),
        tf.errors.InvalidArgumentError(None, None, "Incompatible shapes: [2,3] vs. [4]"),
        tf.errors.InternalError(None, None, "an illegal memory access was encountered"),
        KeyboardInterrupt(),
    ],
)
def test_other_errors_are_not_mistaken_for_out_of_memory(error):
    assert as_out_of_memory(error) is None


def test_a_failed_copy_to_a_full_device_counts_as_out_of_memory():
    oom = as_out_of_memory(tf.errors.InternalError(None, None, "Dst tensor is not initialized."))
    assert (oom.line, oom.requested_bytes) == ("Dst tensor is not initialized.", None)


def test_a_long_line_of_an_xla_error_is_shortened():
    assert len(exhausted(XLA + "x" * 10_000).line) <= 400


def test_ctrl_c_in_native_code_is_reported_as_an_interrupt():
    def interrupted():
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as press:
            raise SystemError("<method 'update' of 'dict' objects> returned a result with an exception set") from press

    with pytest.raises(SystemError) as found:
        interrupted()
    assert outcome_of(found.value) == "was interrupted (Ctrl-C)"
    assert outcome_of(KeyboardInterrupt()) == "was interrupted (Ctrl-C)"
    assert outcome_of(SystemError("of its own")) == "raised SystemError"


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("Collective ops is aborted by: recvmsg:Connection reset by peer", True),
        ("Collective ops is aborted by: Shape mismatch in the collective instance 100. Op at device d expected", False),
        ("Collective ops is aborted by: Collective instance 7 expected type 1 and data_type 1 but got type 1", False),
    ],
)
def test_worker_that_trains_another_model_is_not_lost(text: str, lost: bool) -> None:
    assert lost_worker(tf.errors.InvalidArgumentError(None, None, text)) is lost
