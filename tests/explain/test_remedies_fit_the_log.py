"""The first remedy never contradicts the log, and makes use of what it shows."""

from __future__ import annotations

import pytest
from advised import first, first_remedy

from oomph.explain.diagnose import diagnose_log

FEED = "ValueError: Cannot feed value of shape {} for Tensor 'x:0', which has shape '{}'"
LAUNCH = "E cuda_event.cc:29] Error polling: failed to query event: CUDA_ERROR_LAUNCH_FAILED: unspecified"
INTERACTIVE = (
    'Python 2.7.11\nType "help", "copyright", "credits" or "license" for more information.\n>>> import tensorflow\n'
)
CRASH = "zsh: segmentation fault (core dumped)  python"
OOM = (
    "W bfc_allocator: Allocator (GPU_0_bfc) ran out of memory trying to allocate {} (rounded to 3575808)requested "
    "by op a\nIf the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' "
    "will improve the situation.\n"
)
FILLING = "I shuffle_dataset_op.cc:111] Filling up shuffle buffer (this may take a while): 257 of 2048\nKilled\n"
PLACED = (
    "InvalidArgumentError: Cannot assign a device for operation 'a': Could not satisfy explicit device specification "
    "'/device:GPU:0' because no supported kernel for GPU devices is available.\n"
    "Colocation group had the following types and devices: \nAssign: GPU CPU \nIdentity: CPU \nQr: CPU \n"
)
MISMATCH = (
    "E cuda_diagnostics.cc:313] kernel version 470.57.2 does not match DSO version 515.65.1 -- cannot find working"
)
NUMPY = "RuntimeError: module compiled against API version {} but this version of numpy is {}\n"


@pytest.mark.parametrize(
    ("found", "needed", "words"),
    [
        ("(64, 784)", "(?, 28, 28, 1)", "x.reshape(-1, ...)"),
        ("(784,)", "(?, 784)", "x[None] makes a batch of one sample"),
    ],
)
def test_remedy_for_a_placeholder_names_both_shapes(found: str, needed: str, words: str) -> None:
    assert words in first_remedy(FEED.format(found, needed))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("Input 'y' of 'Mul' Op has type float32 that does not match type int32 of argument 'x'.", "write 1.0"),
        (
            "Input 'y' of 'Sub' Op has type int32 that does not match type float32 of argument 'x'.",
            "tf.cast(y, tf.float32)",
        ),
        (
            "cannot compute AddV2 as input #1(zero-based) was expected to be a int32 tensor but is a float tensor",
            "cast the operand of AddV2 that is int32",
        ),
        (
            "cannot compute MatMul as input #1(zero-based) was expected to be a double tensor but is a float tensor",
            "bring both inputs of MatMul to one type",
        ),
    ],
)
def test_remedy_casts_the_operand_that_is_not_a_float(error: str, words: str) -> None:
    assert words in first_remedy(f"TypeError: {error}")


def test_numpy_is_upgraded_when_too_old_and_downgraded_when_too_new() -> None:
    failed = "ImportError: numpy.core.multiarray failed to import"
    assert "Update NumPy" in first_remedy(NUMPY.format("a", "9") + failed)
    assert "Update NumPy" in first_remedy(NUMPY.format("0x10", "0xf") + failed)
    assert "Install NumPy 1" in first_remedy(failed)
    abi = "RuntimeError: module compiled against ABI version 0x1000009 but this version of numpy is 0x2000000"
    assert "Install NumPy 1" in first_remedy(abi)


def test_missing_releases_are_not_blamed_on_the_python_version() -> None:
    log = "ERROR: Could not find a version that satisfies the requirement tensorflow==2.10.1 (from versions: none)\n"
    assert "tensorflow-macos==2.10.1" in first_remedy(log)
    assert "conda create -n tf python=3.10" not in first_remedy(log)


def test_failed_kernel_launch_gets_no_memory_advice() -> None:
    assert "no shortage of memory" in first_remedy(LAUNCH)
    assert "ALLOW_GROWTH" not in first_remedy(LAUNCH)


def test_small_failed_allocation_is_explained_by_a_missing_block() -> None:
    assert "no free block of 34.10MiB was left" in first_remedy(OOM.format("34.10MiB"))
    assert first_remedy(OOM.format("4.10GiB")).startswith("Use a smaller batch")
    figures = "I bfc_allocator.cc:1129] Stats: \nLimit:                     8000000000\n"
    assert first_remedy(OOM.format("34.10MiB") + figures).startswith("Use a smaller batch")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (FILLING, "shuffle buffer of 2048 elements"),
        (PLACED, "place Qr on the CPU"),
        (PLACED, "allow_soft_placement=True"),
        (MISMATCH, "In a container, use an image that brings no driver libraries of its own (here 515.65.1)"),
        (
            f"root@3f2a9c1b7d4e:/workspace# python t.py\n{MISMATCH}",
            "Use an image that brings no driver libraries of its own (here 515.65.1)",
        ),
        (
            "srun: job 12 has been allocated\nE tcp_server_posix.c:284] bind addr=[::]:2223: Address already in use",
            "--ntasks-per-node=1",
        ),
        (
            "E command_line_flags.cc:106] Couldn't interpret value =/x:=--tf_xla_cpu_global_jit for flag tf_xla_x.",
            "export TF_XLA_FLAGS=--tf_xla_cpu_global_jit",
        ),
        ("IOError: Unable to open file (Unable to lock file, errno = 11)", "HDF5_USE_FILE_LOCKING=FALSE"),
        ("IOError: Unable to create file (unable to truncate a file which is already open)", "Close the file"),
        ("OSError: Unable to open file (Unable to open file: name = 'x.h5', errno = 2)", "x.h5 was not found"),
        ("IOError: Unable to open file (Truncated file: eof = 2, sblock->base_addr = 0, stored_eoa = 5)", "cut short"),
        ("InvalidArgumentError: Invalid JPEG data or crop window, data size 166476", "tf.io.decode_image"),
        ("ResourceExhaustedError: disk quota exceeded [Op:SaveV2]", "larger quota"),
        ("bash: line 1:  42 Bus error               python train.py", "Make room in /dev/shm"),
        ("Illegal instruction ( core dumped creato )", "conda-forge"),
        ("ValueError: No gradients provided for any variable.", "give compile a loss"),
        ("Status: all CUDA-capable devices are busy or unavailable", "licence"),
        ("ModuleNotFoundError: No module named 'tensorflow'", "Activate the environment"),
        ("libdevice not found at ./libdevice.10.bc", "tf.keras.optimizers.legacy"),
    ],
)
def test_first_remedy_uses_details_from_the_log(log: str, words: str) -> None:
    assert words in first_remedy(log)


def test_failed_thread_creation_is_not_blamed_on_the_input() -> None:
    failed = "Check failed: ret == 0 (11 vs. 0)Thread tf_data_iterator_resource creation via pthread_create() failed."
    best = first(f"[F tensorflow/core/platform/default/env.cc:73] {failed}")
    assert best.name == "abort"
    assert "ulimit -u" in best.remedies[0].command


def test_unavailable_gpu_is_explained_by_the_tensorflow_version() -> None:
    log = "Tensor Flow Version: 2.12.0\nKeras Version: 2.12.0\n\nGPU is NOT AVAILABLE\n"
    best = first(log)
    assert best.name == "no-gpu-visible"
    assert "2.12.0 has none" in best.remedies[0].text
    assert "2.12.0" not in first(log.replace("2.12.0", "2.10.0")).remedies[0].text


@pytest.mark.parametrize(
    ("log", "command"),
    [
        ("train.sh: line 3:  1234 Killed                  python train.py\n", "dmesg"),
        ("srun: error: c002: task 0: Killed\n", "sacct"),
    ],
)
def test_first_remedy_for_a_kill_is_to_find_its_reason(log: str, command: str) -> None:
    """The log does not show a reason, and the remedy must not suggest that it does."""
    killed = diagnose_log(log.encode())[0]
    assert killed.name == "killed"
    assert "nothing shows that memory was the reason" in killed.fault.summary
    assert command in killed.remedies[0].command
    assert "for whether memory ran out" in killed.remedies[0].text
    assert "says so" not in killed.remedies[0].text
