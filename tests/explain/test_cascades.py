"""The cause among several faults, its line in the user's code, and growing memory."""

from __future__ import annotations

import io

import pytest

from oomph.explain.diagnose import diagnose, words
from oomph.explain.matching.named_fault import SUSPICION, Diagnosis
from oomph.explain.reading.log import read_log


def found(*lines: str) -> tuple[Diagnosis, ...]:
    return diagnose(read_log(io.BytesIO("\n".join(lines).encode())))


def roles(*lines: str) -> list[tuple[str, str]]:
    return [(diagnosis.name, diagnosis.role) for diagnosis in found(*lines)]


STICKY = "E cuda_event.cc:29] Error polling for event status: failed to query event: CUDA_ERROR_ILLEGAL_ADDRESS"
RESET = "[1,0]<stderr>:Collective ops is aborted by: recvmsg:Connection reset by peer"
OOM = "[1,1]<stderr>:OOM when allocating tensor with shape[2,3] and type float on /device:GPU:0 by allocator GPU_0_bfc"


def test_errors_after_an_illegal_memory_access_are_its_consequences() -> None:
    lines = (
        STICKY,
        "E cuda_dnn.cc:1] CUDNN_STATUS_EXECUTION_FAILED",
        "NCCL: unhandled cuda error",
        "F a.cc:1] Check failed",
    )
    assert roles(*lines)[0] == ("illegal-memory-access", "cause")
    assert {role for _, role in roles(*lines)[1:]} == {"consequence"}


@pytest.mark.parametrize("lines", [(OOM, RESET), (RESET, OOM)])
def test_rank_fault_explains_lost_peers_before_or_after_it(lines: tuple[str, str]) -> None:
    assert roles(*lines) == [("device-oom", "cause"), ("worker-lost", "consequence")]


def test_script_error_in_one_rank_explains_its_lost_peers() -> None:
    lines = (
        "[1,1]<stderr>:Traceback (most recent call last):",
        '[1,1]<stderr>:  File "/home/user/train.py", line 118, in step',
        "[1,0]<stderr>:Collective ops is aborted by: Socket closed",
        "[1,1]<stderr>:ValueError: bad sample",
    )
    assert roles(*lines) == [("unrelated", "cause"), ("worker-lost", "consequence")]
    assert found(*lines)[0].captured["where"] == "/home/user/train.py:118 in step"


def test_survived_fault_does_not_explain_a_later_script_error() -> None:
    lines = (
        "W gpu_device.cc:2365] Cannot dlopen some GPU libraries.",
        "Traceback (most recent call last):",
        "KeyError: 'x'",
    )
    assert roles(*lines) == [("unrelated", "cause"), ("cuda-library-missing", "cause")]


def test_training_on_a_machine_without_a_gpu_is_not_diagnosed() -> None:
    noise = "E0000 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: cuInit: UNKNOWN ERROR (303)"
    missing = (
        "W dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot"
    )
    assert roles(noise, missing, "Epoch 1/2", "10/10 - 1s - loss: 0.3") == []
    assert roles(noise, "Num GPUs Available:  0")[0] == ("driver-missing", "cause")


def test_notebook_traceback_is_located_by_cell_and_line() -> None:
    lines = (
        "---------------------------------------------------------------------------",
        "KeyError                                  Traceback (most recent call last)",
        "Cell In[3], line 5",
        "      4 y = 1",
        "----> 5 d['x']",
        "KeyError: 'x'",
    )
    assert roles(*lines) == [("unrelated", "cause")]
    assert found(*lines)[0].captured["where"] == "In[3]:5"


def test_library_frame_is_not_reported_as_the_users_line() -> None:
    lines = (
        "Traceback (most recent call last):",
        r'  File "C:\Users\a b\train.py", line 7, in main',
        r'  File "C:\Users\a b\venv\Lib\site-packages\keras\trainer.py", line 99, in fit',
        "ValueError: Shapes (None, 1) and (None, 10) are incompatible",
    )
    assert found(*lines)[0].captured["where"] == r"C:\Users\a b\train.py:7 in main"


def test_growing_memory_is_a_leak_unless_it_levels_off_or_falls() -> None:
    grows = [f"epoch {n} memory in use: {1000 + 200 * n} MiB" for n in range(8)]
    steady = [f"epoch {n} memory in use: {min(1000 + 200 * n, 1400)} MiB" for n in range(9)]
    back = [f"epoch {n} memory in use: {1000 + 300 * (n % 4)} MiB" for n in range(9)]
    held = [f"get_memory_info('GPU:0') -> {{'current': {512110336 * n}, 'peak': 3181100032}}" for n in range(1, 8)]
    assert roles(*grows)[0] == roles(*held)[0] == ("memory-leak", "cause")
    assert "grew from 488.39MiB to 3.34GiB" in found(*held)[0].evidence[0].text
    assert roles(*steady) == roles(*back) == []


def test_live_exception_is_diagnosed_with_cause_and_line() -> None:
    try:
        try:
            raise MemoryError("Unable to allocate 8.00 GiB for an array with shape (1024, 1024)")
        except MemoryError as error:
            raise RuntimeError("could not load the data") from error
    except RuntimeError as error:
        first = diagnose(error)[0]
    assert (first.name, first.captured["requested"]) == ("host-oom", "8.00 GiB")
    assert "test_cascades.py" in first.captured["where"]


@pytest.mark.parametrize("lines", [("a" * 4000 + " " + OOM[14:],), ("x " * 40000 + OOM[14:],)])
def test_fault_late_in_a_long_line_is_found(lines: tuple[str]) -> None:
    assert roles(*lines) == [("device-oom", "cause")]


def test_kernel_log_hardware_fault_explains_earlier_errors() -> None:
    assert roles(
        "E cuda_event.cc:29] failed to query event: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
        "F gpu_event_mgr.cc:221] Unexpected Event status: 1",
        "NVRM: Xid (PCI:0000:03:00): 79, pid=27714, GPU has fallen off the bus.",
    )[0] == ("hardware-fault", "cause")


def test_preceding_kernel_log_explains_the_programs_exit() -> None:
    assert roles(
        "NVRM: Xid (PCI:0000:0a:00): 79, pid=0, GPU has fallen off the bus.",
        "$ docker logs trainer",
        "Epoch 17/60",
        "E cuda_driver.cc:1085] could not synchronize on CUDA context: CUDA_ERROR_LAUNCH_FAILED: unspecified",
    )[:2] == [("hardware-fault", "cause"), ("kernel-launch-failure", "consequence")]


def test_missing_driver_explains_an_earlier_missing_device() -> None:
    first, second, *_ = roles(
        "E cuda_driver.cc:328] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        "I cuda_diagnostics.cc:156] kernel driver does not appear to be running on this host (box)",
    )
    assert (first, second) == (("driver-missing", "cause"), ("no-gpu-visible", "consequence"))


NO_DEVICE = (
    "E cuda_driver.cc:300] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    "I cuda_diagnostics.cc:303] kernel version seems to match DSO: 410.104.0",
    "100/100 [====] - 1s 11us/step - loss: 0.4073",
)


def test_driver_without_a_device_is_a_fault_unless_cpu_was_chosen() -> None:
    assert roles(*NO_DEVICE)[0] == ("no-gpu-visible", "cause")
    assert roles("$ CUDA_VISIBLE_DEVICES=-1 python train.py", *NO_DEVICE) == []
    assert roles(*NO_DEVICE[::2])[0] == ("no-gpu-visible", "cause")


def test_memory_used_before_device_creation_blames_another_process() -> None:
    full = ("Total memory: 7.91GiB", "Free memory: 112.69MiB")
    refused = "E cuda_driver.cc:1002] failed to allocate 112.69M (1 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY"
    assert roles(*full, refused)[0] == ("device-oom-other-process", "cause")
    assert roles(*full) == []
    assert roles(full[0], "Free memory: 7.80GiB", refused)[0] == ("device-oom", "cause")


def test_unloadable_library_explains_the_missing_native_runtime() -> None:
    library = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"
    assert roles(library, "Failed to load the native TensorFlow runtime.")[0] == ("driver-missing", "cause")
    assert roles("Failed to load the native TensorFlow runtime.")[0] == ("binary-incompatibility", "cause")


def test_cuda_runtime_warning_does_not_explain_a_protobuf_mismatch() -> None:
    warning = (
        "2026-01-19 09:46:06.937484: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load "
        "dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file"
    )
    found = roles(warning, "TypeError: Descriptors cannot be created directly.")
    assert found[0] == ("binary-incompatibility", "cause")


RAN_OUT = "Your input ran out of data; interrupting training. Make sure that your dataset can generate enough batches"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((f"  1/468 ━━━━ 7s 16ms/step - loss: 1.5748/opt/contextlib.py:153: UserWarning: {RAN_OUT}",), True),
        ((f"WARNING:tensorflow:{RAN_OUT} (in this case, 25 batches).",), True),
        (("1875/1875 ━━━━ 8s 3ms/step - loss: 0.4214", f"UserWarning: {RAN_OUT}"), False),
    ],
    ids=["within an epoch", "Keras 2, which knows how many are missing", "at the end of an epoch"],
)
def test_early_end_of_data_is_a_fault_even_though_training_continues(lines: tuple[str, ...], expected: bool) -> None:
    after = ("Epoch 2/4", "1875/1875 ━━━━ 6s 3ms/step - loss: 0.1187", "Epoch 3/4")
    assert (("input-pipeline", "cause") in roles("Epoch 1/4", *lines, *after)) is expected


RAISED = (
    "Traceback (most recent call last):",
    '  File "t.py", line 5, in fetch',
    "ConnectionResetError: [Errno 104] x",
)
STEPS = tuple(f"2026-11-21 23:32:0{n},361 INFO    step {n} loss 0.1306" for n in range(3))


def test_error_followed_by_logged_training_is_not_diagnosed() -> None:
    assert roles(*RAISED, *STEPS) == []


@pytest.mark.parametrize(
    "after",
    [(), STEPS[:1], ("step 9 loss 0.13", "step 10 loss 0.12"), tuple(f"[rank1]: {line}" for line in STEPS)],
    ids=["nothing", "last words", "what may have waited in a buffer", "another rank"],
)
def test_fatal_error_stays_the_cause_despite_later_lines(after: tuple[str, ...]) -> None:
    assert roles(*RAISED, *after)[0] == ("unrelated", "cause")


def test_consequence_is_linked_to_its_cause_across_steps() -> None:
    xid = "kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=2712, name=python, DBE (double bit error)"
    found = roles(xid, *STEPS, "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")
    assert found[:2] == [("hardware-fault", "cause"), ("kernel-launch-failure", "consequence")]


def readings(*values: float) -> list[str]:
    """Return the fault found in a log with these readings, read as a file is."""
    log = "".join(f"fold {n}/30  RSS {value:.1f} MB\n" for n, value in enumerate(values))
    return [found.name for found in diagnose(read_log(io.BytesIO(log.encode()), words=words()))]


def test_many_small_memory_rises_are_a_leak() -> None:
    assert readings(*(890 + 6 * n for n in range(10)))[0] == "memory-leak"
    assert readings(*(890 + 6 * n for n in range(40)))[0] == "memory-leak"
    assert readings(*(890 + 6 * (n - n % 2) for n in range(10))) == []


def test_memory_levelling_off_after_startup_is_not_a_leak() -> None:
    assert readings(*(100 + 100 * n for n in range(8)), *[806] * 20) == []


def test_missing_kernel_image_explains_an_earlier_cublas_failure() -> None:
    cublas = "E cuda_blas.cc:226] failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED"
    code = "InternalError: Failed to load in-memory CUBIN: CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available"
    assert roles(cublas, code)[:2] == [("no-kernel-image", "cause"), ("cublas-init-failed", "consequence")]


def test_dumped_training_stacks_show_a_hang() -> None:
    stack = (
        "Thread 0x00007f77ff87cb80 (most recent call first):",
        '  File "/lib/keras/src/trainer.py", line 320 in fit',
    )
    assert roles(*stack)[0] == ("hang", "cause")
    assert roles(stack[0], '  File "/srv/http.py", line 3 in serve') == []
    assert roles("Fatal Python error: Aborted", *stack)[0] == ("abort", "cause")
    crashed = found("Windows fatal exception: access violation", *stack)
    assert [d.name for d in crashed if d.confidence > SUSPICION] == ["segmentation-fault"]
