"""Healthy logs that contain a fault's words, each paired with a log in which those words do indicate the fault."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log


def names(text: str) -> list[str]:
    return [found.name for found in diagnose_log(text.encode())]


RUNTIME = (
    "2022-03-04 10:11:12.131415: W tensorflow/stream_executor/dso_loader.cc:64] Could not load dynamic "
    "library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file\n"
)
IGNORE = (
    "2022-03-04 10:11:12.131461: I tensorflow/stream_executor/cuda/cudart_stub.cc:29] Ignore above cudart dlerror if "
    "you do not have a GPU set up on your machine.\n"
)
NO_DEVICE = "E cuda_driver.cc:266] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
LIBRARIES = "INTERNAL: CUDA Runtime error: Failed call to cudaGetRuntimeVersion: Error loading CUDA libraries.\n"
HIDDEN = 'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # this lesson needs no GPU\n'
SET_TO_NONE = "tf.config.set_visible_devices([], 'GPU')  # only the processor from here on\n"
NONE_SEEN = "Num GPUs Available:  0\n"
TOKEN = (
    "W tensorflow/core/platform/cloud/google_auth_provider.cc:184] All attempts to get a Google authentication bearer "
    'token failed, returning an empty token. Retrieving token from files failed with "NOT_FOUND: Could not locate the '
    'credentials file.". Retrieving token from GCE failed with "FAILED_PRECONDITION: Error executing an HTTP request: '
    "libcurl code 6 meaning 'Couldn't resolve host name', error details: Could not resolve host: metadata\".\n"
)
HINTS = (
    "I0000 00:00:1740000000.123456   99 gemm_fusion_autotuner.cc:1133] All configs were filtered out because none of "
    "them sufficiently match the hints. Working around this by using the full hints set instead.\n"
)
HELP = """Help on {0} in module keras.src.losses.loss:

{1}
 |  Raises
 |      ValueError: Dimensions must be equal, but are 3 and 4 for the operation.
 |      ResourceExhaustedError: OOM when allocating tensor with shape[4,4] on /device:GPU:0 by allocator GPU_0_bfc
"""
PIP = """Collecting tf-keras
  Downloading tf_keras-2.18.0-py3-none-any.whl (1.7 MB)
Installing collected packages: namex, tf-keras
Successfully installed namex-0.0.8 tf-keras-2.18.0
Requirement already satisfied: tf-keras in /opt/v/lib/python3.11/site-packages (2.18.0)
$ pip install tf-keras
"""
SIZE = (
    "numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject\n"
)
WARNED = f"/opt/v/lib/python3.6/importlib/_bootstrap.py:219: RuntimeWarning: {SIZE}  return f(*args, **kwds)\n"
DONE = "scores 0.91 0.93\n"


@pytest.mark.parametrize(
    "log",
    [
        RUNTIME + IGNORE + DONE,
        NO_DEVICE + HIDDEN + "GPUs: []\n" + DONE,
        HIDDEN + LIBRARIES + NO_DEVICE + NONE_SEEN + DONE,
        HIDDEN + RUNTIME + DONE,
        SET_TO_NONE + NONE_SEEN + DONE,
        TOKEN + "Dataset flowers downloaded and prepared.\n",
        HINTS + "7 of 7 batches scored\n",
        HELP.format("class Loss", "class Loss(builtins.object)"),
        HELP.format("function fit", "fit(x, y)").replace(" |", "  "),
        PIP,
        WARNED + DONE,
    ],
)
def test_healthy_log_gets_no_diagnosis(log: str) -> None:
    assert names(log) == []


@pytest.mark.parametrize(
    ("log", "name"),
    [
        (RUNTIME + DONE, "cuda-library-missing"),
        (RUNTIME + IGNORE + "I gpu_device.cc:1733] Found device 0 with properties:\n", "cuda-library-missing"),
        (RUNTIME + IGNORE + NONE_SEEN, "cuda-library-missing"),
        (LIBRARIES, "cuda-library-missing"),
        (NO_DEVICE + "GPUs: []\n", "no-gpu-visible"),
        (NONE_SEEN, "no-gpu-visible"),
        (TOKEN.partition("failed with ")[2].replace("bearer", ""), "input-pipeline"),
        ("E autotuner.cc:9] All configs were filtered out\n", "xla-compile-failure"),
        (HELP.partition("Raises\n |      ")[2].partition("\n")[0], "shape-mismatch"),
        (HELP.format("class Loss", "class Loss") + "Traceback (most recent call last):\nMemoryError\n", "host-oom"),
        ("ValueError: Please install the backwards-compatible tf-keras package\n", "keras-version-mismatch"),
        (f"Traceback (most recent call last):\nValueError: {SIZE}", "binary-incompatibility"),
    ],
)
def test_words_harmless_in_a_healthy_log_are_diagnosed_in_a_failed_run(log: str, name: str) -> None:
    assert names(log)[0] == name


@pytest.mark.parametrize(
    "line",
    [
        "[warn] consumer: missed heartbeat from celery@web-2",
        "kafka-1 | Member consumer-9 in group orders has failed, removing it from the group: heartbeat timeout",
        "uwsgi: worker 3 (pid: 212) has died, starting another",
        "supervisord: worker died unexpectedly, restarting",
        "puppeteer: browser Process 1 exited with status code 1",
        "postgres: Worker 7 lost connection to server",
        "rpc error: code = Unavailable desc = transport: dial tcp 10.0.0.9:2379: connect: Connection refused",
        "make: Barrier 3 timed out after 10s",
        "zookeeper: Unavailable, Socket closed",
        "web-1 | grpc: addrConn.createTransport failed to connect to all addresses",
        "nginx: upstream Unavailable, Connection reset by peer while reading response header",
    ],
)
def test_lost_peer_is_diagnosed_only_in_a_training_log(line: str) -> None:
    served = f"10:00:01 service is up\n{line}\n10:00:09 request served in 3 ms\n"
    assert names(served) == []
    assert names(f"Using TensorFlow backend.\n{served}")[0] == "worker-lost"


@pytest.mark.parametrize(
    "warning",
    [
        "UserWarning: Argument `decay` is no longer supported and will be ignored.",
        "UserWarning: Do not pass an `input_shape`/`input_dim` argument to a layer. When using Sequential models, "
        "prefer using an `Input(shape)` object as the first layer in the model instead.",
    ],
)
def test_warning_of_keras_3_about_old_code_is_no_fault(warning: str) -> None:
    head = "E0000 00:00:1.1 10 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call to "
    log = f"{head}cuInit: UNKNOWN ERROR (303)\n/x/site-packages/keras/src/layer.py:86: {warning}\n  warnings.warn(\n"
    assert diagnose_log(log.encode()) == ()
