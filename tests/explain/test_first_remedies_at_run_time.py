"""Text near a run-time message determines the first remedy: memory, GPU libraries, crashes, hangs."""

from __future__ import annotations

import pytest
from advised import first_remedy

WINDOWS = 'Traceback (most recent call last):\n  File "C:\\Users\\me\\train.py", line 1, in <module>\n'


OOM = "ResourceExhaustedError: OOM when allocating tensor with shape[{}] and type float on {} by allocator GPU_0_bfc"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


@pytest.mark.parametrize(
    ("shape", "beginning"),
    [
        (
            "64,224,224,64",
            "Use a smaller batch (the tensor that did not fit has the shape [64,224,224,64], whose first",
        ),
        ("1,5095,3729,3", "Scale the images down, crop them or shorten the sequences: the tensor [1,5095,3729,3]"),
        (
            "3,3,512,512",
            "End whatever else uses the GPU (nvidia-smi; restart a notebook's kernel), then use a smaller batch",
        ),
        ("10000,32,28,28", "Use a smaller batch, in validation and prediction too: 10000 samples went through at once"),
        (
            "100352,1024",
            "Use a smaller batch, or let oomph split each batch into micro-batches; if [100352,1024] are the",
        ),
    ],
)
def test_first_remedy_of_out_of_memory_depends_on_the_tensor_shape(shape: str, beginning: str) -> None:
    assert first_remedy(OOM.format(shape, GPU)).startswith(beginning)


def test_out_of_memory_in_attention_suggests_shorter_sequences() -> None:
    log = OOM.format("32,12,512,512", GPU) + "\n\t [[node bert/encoder/layer_3/attention/self/MatMul]]"
    assert first_remedy(log).startswith("Shorten the sequences")


def test_out_of_memory_after_many_models_suggests_freeing_them() -> None:
    log = OOM.format("128,1024", GPU) + "\n\t [[node dense_134/MatMul (defined at search.py:3) ]]"
    assert "layer 134 of its kind" in first_remedy(log)


def test_first_remedy_states_the_memory_requested_by_xla() -> None:
    log = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1.02GiB."
    assert first_remedy(log).startswith("Use a smaller batch (1.02GiB was requested at once)")


CUDNN = "E cuda_dnn.cc:373] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED\n"
CUBLAS = "E cuda_blas.cc:218] failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED\n"
FULL = "E cuda_driver.cc:965] failed to allocate 172.19M (180551680 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY\n"
CUDA_10 = "I dso_loader.cc:44] Successfully opened dynamic library libcudart.so.10.1\n"
RTX_30 = "I gpu_device.cc:1716] pciBusID: 0000:01:00.0 name: GeForce RTX 3090 computeCapability: 8.6\n"
OLD_CUDNN = "E cuda_dnn.cc:378] Loaded runtime CuDNN library: {} but source was compiled with{} CuDNN library"
NO_IMAGE = (
    "F ./x.h:71] Non-OK-status: GpuLaunchKernel(f) status: {}: no kernel image is available for execution on the device"
)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (CUDNN, ("nvidia-smi", "restart a notebook's kernel", "TF_FORCE_GPU_ALLOW_GROWTH=true")),
        (CUDNN + "E cuda_dnn.cc:381] Possibly insufficient driver version: 515.86.1", ("restart a notebook's kernel",)),
        (FULL + CUDNN, ("Restart the notebook's kernel", "not even 172.19M was left")),
        (FULL + CUBLAS, ("Restart the notebook's kernel", "not even 172.19M was left")),
        (CUDA_10 + RTX_30 + CUDNN, ("CUDA 11", "compute capability 8.6")),
        (CUDA_10 + RTX_30 + CUBLAS, ("CUDA 11", "compute capability 8.6")),
        (
            CUBLAS + "W asm_compiler.cc:111] You are using ptxas 11.0.167, which is older than 11.1.",
            ("ptxas is of 11.0.167",),
        ),
        (
            "W op_kernel.cc:1780] OP_REQUIRES failed : UNIMPLEMENTED: DNN library is not found.",
            ("8.1 for 2.5 to 2.11",),
        ),
        ("InternalError: cuDNN launch failure : input shape ([64,128,1,1])", ("1.13 to 2.0: 10.0 with 7.4",)),
        ("InternalError: Failed to call ThenRnnBackward with model config: 2, 0, 0", ("drop_remainder=True",)),
        (OLD_CUDNN.format("7301 (compatibility version 7300)", " 7003"), ("cuDNN 7301 by 7.0 (7.0.3)", "cudnn=7.0")),
        (OLD_CUDNN.format("8.0.5", ": 8.6.0. "), ("nvidia-cudnn-cu11==8.6.0.*",)),
        (OLD_CUDNN.format("7.3.1", ": 7.4.2. "), ("7.4.2 or newer", "cudnn>=7.4,<8")),
        (
            "I gpu_device.cc:1] name: GTX 960M, compute capability: 5.0\n" + NO_IMAGE.format("Internal"),
            ("capability 5.0,",),
        ),
        (CUDA_10 + RTX_30 + NO_IMAGE.format("Internal"), ("CUDA 11", "compute capability 8.6")),
    ],
)
def test_gpu_library_error_remedy_depends_on_surrounding_lines(log: str, words: tuple[str, ...]) -> None:
    first = first_remedy(log)
    assert all(word in first for word in words), first


PLACED = "InvalidArgumentError: Cannot assign a device for operation 'x': Operation was explicitly assigned to "
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            f"{PLACED}/device:GPU:0 but available devices are [ {CPU} ].",
            "/device:GPU:0 is not there. To run on the CPU",
        ),
        (
            f"{PLACED}/device:GPU:1 but available devices are [ {CPU}, {GPU} ].",
            "such as /device:GPU:0: /device:GPU:1 is",
        ),
        (
            "InvalidArgumentError: Cannot assign a device to node 'SparseApply': Could not satisfy explicit device "
            f"specification '' because the node was colocated with nodes that required incompatible device '{GPU}'",
            "Put SparseApply and its variable (most often an embedding, with its optimizer) on the CPU",
        ),
    ],
)
def test_missing_device_remedy_depends_on_available_devices(log: str, words: str) -> None:
    assert words in first_remedy(log)


CRASHED = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007fbba7059b80 (most recent call first):\n"
FRAME = '  File "/env/lib/python3.9/site-packages/{}", line 16 in {}\n'


@pytest.mark.parametrize(
    ("path", "function", "words"),
    [
        ("pyarrow/parquet.py", "read", "Install pyarrow, in which it crashed, and TensorFlow again"),
        ("tensorflow/python/pywrap_tensorflow.py", "<module>", "it crashes while its library is loaded"),
    ],
)
def test_crash_remedy_depends_on_the_package_of_the_innermost_frame(path: str, function: str, words: str) -> None:
    assert words in first_remedy(CRASHED + FRAME.format(path, function))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
            "end other programs",
        ),
        (
            "The kernel appears to have died. It will restart automatically.",
            "smaller batch and keep less data in memory",
        ),
        ("nbclient.exceptions.DeadKernelError: Kernel died", "smaller batch and keep less data in memory"),
        ("libc++abi: terminating due to uncaught exception of type x: mutex lock failed: Invalid argument", "<2.20"),
        ("[mutex.cc : 452] RAW: Lock blocking 0x600000968138   @", "tensorflow<2.20"),
        ("Illegal instruction (core dumped)", "switch Hyper-V off"),
        (
            "numpy._ArrayMemoryError: Unable to allocate 5.20 GiB for an array with shape (60000, 108, 108) and "
            "data type float64",
            "float64 needs 5.20 GiB, float32 half of it",
        ),
        (
            "UNKNOWN: Error invoking NCCL: unhandled cuda error\n\t [[{{node NcclAllReduce_1}}]]",
            "HierarchicalCopyAllReduce",
        ),
        ("srun: job 1 queued\nInternal: NCCL: unhandled system error. Set NCCL_DEBUG=WARN", "ulimit -l unlimited"),
    ],
)
def test_first_remedy_is_the_most_common_fix(log: str, words: str) -> None:
    assert words in first_remedy(log)


TRAINING = "I gpu_device.cc:1] Created device GPU:0, GPU:1\nEpoch 1/10\n"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("INFO:tensorflow:batch_all_reduce: 8 all-reduces with algorithm = nccl\nit is stuck", "NCCL_P2P_DISABLE=1"),
        ("model.fit(x, workers=4, use_multiprocessing=True)\nit is stuck for hours", "use_multiprocessing=False"),
        (
            "1999/2000 [============================>.] - ETA: 0s - loss: 0.1\nit is stuck",
            "make the validation shorter",
        ),
    ],
)
def test_hang_remedy_depends_on_where_the_program_hangs(log: str, words: str) -> None:
    assert words in first_remedy(TRAINING + log)


def test_hidden_gpu_on_windows_suggests_cuda_visible_devices() -> None:
    log = WINDOWS + "E cuda_driver.cc:314] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device"
    assert first_remedy(log).startswith("Look at CUDA_VISIBLE_DEVICES")


def test_windows_exit_after_loading_cudnn_suggests_zlib() -> None:
    log = (
        WINDOWS
        + "I cuda_dnn.cc:384] Loaded cuDNN version 8400\nProcess finished with exit code -1073740791 (0xC0000409)"
    )
    assert first_remedy(log).startswith("Put zlibwapi.dll on PATH")
