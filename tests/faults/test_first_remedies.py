"""The remedy that comes first is the one that solves this wording, on this system."""

from __future__ import annotations

import pytest

from oomph.faults.diagnose import diagnose_log

WINDOWS = 'Traceback (most recent call last):\n  File "C:\\Users\\me\\train.py", line 1, in <module>\n'
DLL = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library '{0}'; dlerror: {0}"
)
XLA = "InvalidArgument: Detected unsupported operations when trying to compile graph __inference_f_1 on XLA_GPU_JIT"
SYMBOL = "undefined symbol: _ZN10tensorflow12OpDefBuilder4AttrENSt7__cxx1112basic_stringIcEE"


def remedies(log: str) -> list[str]:
    (best, *_) = diagnose_log(log.encode())
    return [f"{remedy.text} {remedy.command}" for remedy in best.remedies]


@pytest.mark.parametrize("verb", ["open", "synchronously open", "create", "synchronously create"])
def test_a_lock_of_hdf5_is_answered_with_the_variable_that_switches_locking_off(verb: str) -> None:
    reason = "unable to lock file, errno = 11, error message = 'Resource temporarily unavailable'"
    (first, *_) = remedies(f"BlockingIOError: [Errno 11] Unable to {verb} file ({reason})")
    assert "HDF5_USE_FILE_LOCKING=FALSE" in first


@pytest.mark.parametrize(
    ("library", "cuda"), [("cudart64_110.dll", "11.2"), ("cudart64_101.dll", "10.1"), ("cublas64_100.dll", "10.0")]
)
def test_a_missing_dll_is_answered_with_its_cuda_and_path_and_nothing_of_linux(library: str, cuda: str) -> None:
    given = remedies(DLL.format(library) + " not found\nSkipping registering GPU devices...")
    assert f"CUDA {cuda} " in given[0]
    assert "PATH" in given[0]
    assert not any("and-cuda" in remedy or "LD_LIBRARY_PATH" in remedy for remedy in given)


def test_a_dll_that_fails_to_load_is_answered_with_the_redistributable() -> None:
    (first, *others) = remedies(WINDOWS + "ImportError: DLL load failed while importing _pywrap_tensorflow_internal: x")
    assert "Visual C++ Redistributable" in first
    assert not any("and-cuda" in remedy or "LD_LIBRARY_PATH" in remedy for remedy in others)


def test_an_undefined_symbol_of_an_op_of_ones_own_is_answered_with_building_it_again() -> None:
    (first, *_) = remedies(f"tensorflow.python.framework.errors_impl.NotFoundError: ./my_op.so: {SYMBOL}")
    assert first.startswith("Build ./my_op.so again")
    assert "tf.sysconfig.get_compile_flags()" in first


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/env/lib/python3.9/site-packages/tensorflow_text/core/pybinds/x.so", "--no-cache-dir tensorflow_text"),
        (
            "/env/lib/python3.9/site-packages/tensorflow/python/_pywrap_tensorflow_internal.so",
            "Install TensorFlow again",
        ),
    ],
)
def test_an_undefined_symbol_of_a_package_is_answered_with_the_package(path: str, remedy: str) -> None:
    given = remedies(f"ImportError: {path}: {SYMBOL}")
    assert remedy in given[0]
    assert not any("Build" in other for other in given[1:])


@pytest.mark.parametrize("operation", ["TensorSliceDataset", "IteratorGetNext", "ParallelMapDatasetV2"])
def test_a_compiled_loop_over_a_data_set_is_not_answered_with_tf_data(operation: str) -> None:
    given = remedies(f"{XLA}: {operation} (No registered '{operation}' OpKernel for XLA_GPU_JIT devices)")
    assert given[0].startswith("Keep the loop over the data set out of the compiled function")
    assert not any("dataset.map" in remedy or "tf.data" in remedy for remedy in given)


@pytest.mark.parametrize("status", ["CUDA_ERROR_STUB_LIBRARY: CUDA driver is a stub library", "CUresult(-1)"])
def test_the_stub_of_libcuda_is_answered_with_the_search_path(status: str) -> None:
    given = remedies(f"E cuda_driver.cc:265] failed call to cuInit: {status}")
    assert "stubs" in given[0]
    assert "LD_LIBRARY_PATH" in given[0]


@pytest.mark.parametrize(
    "words",
    [
        "failed call to cuInit: CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized",
        "Check failed: CUDA_SUCCESS == dynload::cuInit(0) (0 vs. 802)",
    ],
)
def test_a_system_that_is_not_ready_is_answered_with_the_fabric_manager(words: str) -> None:
    assert "nvidia-fabricmanager" in remedies(f"E cuda_driver.cc:265] {words}")[0]


@pytest.mark.parametrize(
    "log",
    [
        "F tensorflow/core/platform/default/env.cc:73] Check failed: ret == 0 (11 vs. 0)Thread creation via "
        "pthread_create() failed.\nAborted (core dumped)",
        "F tensorflow/core/platform/cpu_feature_guard.cc:38] The TensorFlow library was compiled to use AVX "
        "instructions, but these aren't available on your machine.\nAborted (core dumped)",
        "F tensorflow/core/framework/op.cc:55] Check failed: Register(op) is OK (x)\nAborted (core dumped)",
    ],
)
def test_a_check_that_fails_at_the_start_is_not_answered_with_another_start(log: str) -> None:
    assert "Start again" not in remedies(log)[0]


@pytest.mark.parametrize(
    ("system", "remedy"),
    [
        ("", "sudo ubuntu-drivers install"),
        ("Linux 5.15.1-microsoft-standard-WSL2\n", "/usr/lib/wsl/lib"),
        ('  File "/content/train.py", line 1\n', "Runtime > Change runtime type"),
        ("root@3f2a9c1b7d4e:/workspace# python train.py\n", "docker run --gpus all"),
        ("srun: job 12 has been allocated resources\n", "--gres=gpu:1"),
    ],
)
def test_a_missing_driver_is_answered_for_the_system_at_hand(system: str, remedy: str) -> None:
    log = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n"
    assert remedy in remedies(system + log)[0]


def test_nothing_of_oomph_run_is_given_on_windows() -> None:
    oom = "ResourceExhaustedError: OOM when allocating tensor with shape[64,224,224,64] and type float on "
    given = remedies(f"{WINDOWS}{oom}/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc")
    assert given
    assert not any("oomph run" in remedy for remedy in given)
