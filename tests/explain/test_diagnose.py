"""diagnose on real logs, exceptions and exit statuses."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.explain.catalogue.catalogue import load
from oomph.explain.catalogue.fault import neighbours
from oomph.explain.diagnose import diagnose, diagnose_log
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.named_fault import SUSPICION
from oomph.explain.reading.log import read_log

LOGS = Path(__file__).parents[1] / "logs"

# What each real log shows, best first; every log in the folder that is not listed here shows no fault.
FIRST = {
    "async_ok.log": "device-oom",
    "bias_209.log": "no-kernel-image",
    "cublas_rc3.log": "cublas-init-failed",
    "ctx_2.log": "device-oom-other-process",
    "ctx_999.log": "driver-failure",
    "cudnn_90100.log": "cudnn-version-mismatch",
    "cudnn_init.log": "cudnn-init-failed",
    "eager_fill.log": "device-oom",
    "launch_209.log": "no-kernel-image",
    "oomgraph.log": "device-oom",
    "other_7000.log": "device-oom",
    "sync_700.log": "illegal-memory-access",
    "xla_badflag.log": "invalid-flag",
    "xla_oom.log": "device-oom",
    "cc_52.log": "no-kernel-image",
    "cuinit_101.log": "no-gpu-visible",
    "cuinit_3.log": "driver-failure",
    "cuinit_46.log": "device-unavailable",
    "cuinit_803.log": "driver-library-mismatch",
    "cuinit_999.log": "driver-failure",
    "module_209.log": "no-kernel-image",
    "no_libcublas.so.12.log": "cuda-library-missing",
    "no_libcudart.so.12.log": "cuda-library-missing",
    "no_libcufft.so.11.log": "cuda-library-missing",
    "other_full.log": "device-oom-other-process",
    "sp_nocusolver.log": "cuda-library-missing",
    "sp_shadow.log": "cuda-library-missing",
    "sp_wheel.log": "cuda-library-missing",
    "crash/abort.log": "abort",
    "crash/bad_alloc.log": "host-oom",
    "crash/cast.log": "dtype-mismatch",
    "crash/double_free.log": "abort",
    "crash/kernel_oom.log": "host-oom",
    "crash/keyerr.log": "unrelated",
    "crash/kill.log": "killed",
    "crash/memerr.log": "host-oom",
    "crash/cpu_pool.log": "device-oom",
    "crash/onednn_segv.log": "host-oom",
    "crash/segv.log": "segmentation-fault",
    "crash/segv_fh.log": "segmentation-fault",
    "crash/sig4.log": "fatal-signal",
    "crash/sig7.log": "fatal-signal",
    "crash/sig8.log": "fatal-signal",
    "distributed/custom_exc__worker0.log": "worker-lost",
    "distributed/custom_exc__worker1.log": "unrelated",
    "distributed/custom_hang_collto8__worker0.log": "hang",
    "distributed/custom_hang_collto8__worker1.log": "worker-lost",
    "distributed/custom_oom__worker0.log": "worker-lost",
    "distributed/custom_oom__worker1.log": "host-oom",
    "distributed/custom_segv_osexit__worker0.log": "worker-lost",
    "distributed/custom_sigkill__worker0.log": "worker-lost",
    "distributed/custom_sigstop__worker0.log": "worker-lost",
    "distributed/custom_sigstop_hb2s__worker0.log": "worker-lost",
    "distributed/custom_sigstop_leader__worker1.log": "worker-lost",
    "distributed/fit_ok_nofilter__worker0.log": "strategy-not-supported",
    "distributed/fit_ok_nofilter__worker1.log": "strategy-not-supported",
    "distributed/fit_sigkill_raise__worker0.log": "worker-lost",
    "distributed/mirrored_oom.log": "host-oom",
    "distributed/ray_sigkill.log": "worker-lost",
    "distributed/sup_sigkill__attempt0_worker0.log": "worker-lost",
    **{f"checkpoint/{path.name}": "checkpoint-failure" for path in (LOGS / "checkpoint").glob("*.log")},
}


def of_text(*lines: str) -> list[Evidence]:
    return list(read_log(io.BytesIO("\n".join(lines).encode())))


def names(evidence: list[Evidence]) -> list[str]:
    """Return the diagnosed faults, without others that would fit the same evidence."""
    return [diagnosis.name for diagnosis in diagnose(evidence) if diagnosis.confidence > SUSPICION]


@pytest.mark.parametrize("path", sorted(LOGS.rglob("*.log")), ids=lambda path: str(path.relative_to(LOGS)))
def test_recorded_log_is_diagnosed_as_its_fault(path: Path) -> None:
    with path.open("rb") as stream:
        found = diagnose(read_log(stream))
    assert (found[0].name if found else None) == FIRST.get(str(path.relative_to(LOGS)))


def test_every_expected_diagnosis_has_a_log_file() -> None:
    assert [name for name in FIRST if not (LOGS / name).is_file()] == []


def test_bfc_out_of_memory_captures_tensor_device_and_operation() -> None:
    (found,) = diagnose(read_log(io.BytesIO((LOGS / "oomgraph.log").read_bytes())))
    expected = {
        "shape": "524288,1024",
        "dtype": "float",
        "device": "/job:localhost/replica:0/task:0/device:GPU:0",
        "allocator": "GPU_0_bfc",
        "requested": "2.00GiB",
        "requested_bytes": "2147483648",
        "op": "Tile",
        "limit": "512.00MiB",
        "in_use": "32.00MiB",
        "peak": "32.00MiB",
        "free": "480.00MiB",
        "largest_free": "480.00MiB",
        "first_dimension": "524288",
        "node": "Tile",
    }
    assert dict(found.captured) == expected
    assert [fact.line for fact in found.evidence] == [18, 66, 67]


def test_xla_out_of_memory_captures_the_requested_memory() -> None:
    (found,) = diagnose(read_log(io.BytesIO((LOGS / "xla_oom.log").read_bytes())))
    assert found.captured["requested"] == "1.02GiB"


def test_older_xla_wording_captures_the_requested_bytes() -> None:
    (found,) = diagnose(of_text("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes."))
    assert (found.name, found.captured["requested"]) == ("device-oom", "2147483648 bytes")


NOT_A_FAILURE = (
    "W0000 00:00:1795244960.523109    3858 bfc_allocator.cc:311] Allocator (GPU_0_bfc) ran out of memory trying to "
    "allocate 1.02GiB with freed_by_count=0. The caller indicates that this is not a failure, but this may mean that "
    "there could be performance gains if more memory were available."
)


@pytest.mark.parametrize(
    "line",
    [
        NOT_A_FAILURE,
        "W0000 00:00:1795244958.310310 3858 hlo_rematerialization.cc:3198] Can't reduce memory use below 583.43MiB "
        "(611769056 bytes) by rematerialization; only reduced to 1.00GiB (1078214672 bytes)",
        "W0000 00:00:1795237229.78 742 local_rendezvous.cc:412] Local rendezvous is aborting with status: "
        "OUT_OF_RANGE: End of sequence",
        "W0000 00:00:1795237229.78 742 local_rendezvous.cc:412] Local rendezvous is aborting with status: "
        "ABORTED: Shutdown",
        "If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will "
        "improve the situation.",
        "W tensorflow/core/framework/cpu_allocator_impl.cc:83] Allocation of 4294967296 exceeds 10% of "
        "free system memory.",
        "E0000 00:00:1795237218.912537 742 cuda_executor.cc:1827] Nvml call failed with 3(Not Supported).",
        "I0000 00:00:1795236757.782001 21381 cudart_stub.cc:31] Could not find cuda drivers on your machine",
        "Epoch 3/10",
        "the driver killed the music",
    ],
    ids=lambda line: line[:40],
)
def test_benign_noise_is_not_reported(line: str) -> None:
    assert names(of_text(line)) == []


def test_allocator_notice_raises_later_out_of_memory_confidence() -> None:
    suspicion = "E0000 cuda_dnn.cc:522] Loaded runtime CuDNN library: CUDNN_STATUS_ALLOC_FAILED"
    alone, supported = diagnose(of_text(suspicion))[0], diagnose(of_text(NOT_A_FAILURE, suspicion))[0]
    assert (alone.name, alone.confidence) == ("device-oom", 0.5)
    assert supported.confidence == 0.65


# Wordings from versions and programs that none of the logs comes from, with the issues that reported them.
REPORTED = {
    # github.com/tensorflow/tensorflow/issues/14231
    "cuda_driver.cc:924] failed to allocate 1.97G (2120187392 bytes) from device: "
    "CUDA_ERROR_OUT_OF_MEMORY": "device-oom",
    # github.com/tensorflow/tensorflow/issues/45423
    "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED": "cudnn-init-failed",
    "failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED": "cublas-init-failed",
    # older TensorFlow, stream_executor/cuda/cuda_driver.cc
    "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory; total memory reported: "
    "11995578368": "device-oom-other-process",
    # github.com/nextflow-io/nextflow/issues/5932, github.com/ArjunaCluster/ArjunaUsers/issues/52
    "slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks": "host-oom",
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup.": "host-oom",
    "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  python3 main.py": "killed",
    "./run.sh: line 14: 12070 CPU time limit exceeded python gru.py": "fatal-signal",
    "CPU time limit exceeded (core dumped)": "fatal-signal",
    "*** Received signal 7 ***": "fatal-signal",
    "[algo-1:00482] Signal: Bus error (7)": "fatal-signal",
    # github.com/HiKapok/SSD.TensorFlow/issues/43
    "ValueError: destinations must be one of a `DistributedValues` object, a device string or None": (
        "strategy-not-supported"
    ),
    # github.com/tensorflow/tensorflow/issues/1088, 37186 and 68710
    "F cuda_driver.cc:383] Check failed: CUDA_SUCCESS == dynload::cuCtxSetCurrent(context) (0 vs. 216)": (
        "device-unavailable"
    ),
    "F statusor.cc:34] Attempting to fetch value instead of handling error Internal: failed to get device attribute 13 "
    "for device 0: CUDA_ERROR_UNKNOWN: unknown error": "driver-failure",
    "cuda_driver.cc:282] failed call to cuInit: CUDA_ERROR_NOT_FOUND: named symbol not found": "driver-failure",
    # github.com/tensorflow/tensorflow/issues/58980 and tensorflow/decision-forests/issues/108
    "I loader.cc:303] SavedModel load for tags { serve }; Status: fail: Not found: Op type not registered "
    "'TFRA>CuckooHashTableOfTensors' in binary running on machine.": "operation-not-registered",
    "**FileNotFoundError: Op type not registered 'SimpleMLLoadModelFromPathWithHandle**' in binary running on b5d4": (
        "operation-not-registered"
    ),
    # github.com/art-programmer/PlaneNet/issues/34, keras-team/keras/issues/6986 and 12484
    "AttributeError: 'module' object has no attribute 'contrib'": "removed-api",
    "TypeError: Received unknown keyword arguments: {'epochs': 1}": "keras-version-mismatch",
    "OSError: Unable to create file (Unable to open file: name = 'm/w.h5', errno = 2, error message = 'no such file or "
    "directory', flags = 13, o_flags = 242)": "checkpoint-failure",
    "AttributeError: module 'tensorflow' has no attribute 'Variable'": "broken-installation",
    # github.com/kubeflow/trainer/issues/1045 and 1158
    "Message:              Node is shutting, evicting pods": "preempted",
    "Non-OK-status: GpuLaunchKernel(FillPhiloxRandomKernelLaunch<Distribution>, num_blocks) status: Internal: out of "
    "memory": "device-oom",
    # github.com/deepfakes/faceswap/issues/973, apple/tensorflow_macos/issues/202, faustomorales/keras-ocr/issues/69
    "You do not have enough GPU memory available to train the selected model": "device-oom",
    "Error: command buffer exited with error status.": "kernel-launch-failure",
    "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)": "device-oom",
    "Apr 25, 2020, 1:41:12 PM | WARNING | LLVM ERROR: out of memory": "host-oom",
    # github.com/horovod/horovod/issues/1364 and 1950
    "[0]<stderr>:  what():  [/tmp/b/gloo/gloo/transport/tcp/pair.cc:572] Connection closed by peer [10.1]": (
        "worker-lost"
    ),
    "An MPI communication peer process has unexpectedly disconnected.  This": "worker-lost",
    "I executor.cc:1197] [/device:GPU:2] (DEBUG INFO) Executor start aborting (this does not indicate an error and you "
    "can ignore this message): UNKNOWN: Error invoking NCCL: unhandled cuda error": "nccl-failure",
    # Wordings from GNU time, dash, Flyte, uv, darkflow, Kubernetes, nvidia-smi, tf.estimator and the driver
    "Command terminated by signal 9": "killed",
    "./train.sh:  60: 11880 killed              python3 train.py": "killed",
    "[f8107735c673549d7acd-n0-0] terminated with exit code (137). Reason [Error]. Message: ": "killed",
    "tensorflow==2.15.0 has no wheels with a matching Python ABI tag (e.g., `cp313`)": "no-matching-package",
    "Because all versions of tensorflow have no wheels with a matching Python version tag (e.g., `cp314`)": (
        "no-matching-package"
    ),
    "W gpu_device.cc:1766] Invalid gpu_thread_mode: gpu_privat": "invalid-flag",
    "[6/6] fit arch=f  Killed": "killed",
    " 102/3910 [..........] - ETA: 21:11 - loss: 1.2003CPU time limit exceeded (core dumped)": "fatal-signal",
    "2021-07-14 13:22:10    0    89  198.0W      885  hw_thermal_slowdown            871": "thermal-throttle",
    "  Warning  Evicted    41s    kubelet  The node was low on resource: ephemeral-storage.": "preempted",
    "waiting for remainder of ranks for more than 60 seconds.": "hang",
    "== worker received signal SIGTERM!": "preempted",
    "User defined signal 2": "preempted",
    "step 1655 - loss        nan - moving ave loss        nan": "nan-loss",
    "Loss at step 100 : nan": "nan-loss",
    "  Message:               TFJob job has failed because 1 Worker replica(s) failed.": "worker-lost",
    "InvalidArgumentError: assertion failed: [Label IDs must < n_classes] [Condition x < y]": "label-out-of-range",
    "NVRM: installed in this system requires use of the NVIDIA open kernel modules.": "driver-failure",
    "built with cuda: False  gpu support: False": "cpu-only-build",
    "A deterministic GPU implementation of fused batch-norm backprop is not currently available.": "device-placement",
    "downgrade to 'numpy<2' or try to upgrade the affected module.": "binary-incompatibility",
    "E0712 Thread saver.py:1817] Couldn't match files for checkpoint /w/model.ckpt-25076": "checkpoint-failure",
    "bfc_allocator.cc:696] Sum Total of in-use chunks: 479.76MiB": "device-oom",
    "bfc_allocator.cc:646] Bin for 8.49GiB was 256.00MiB, Chunk State: ": "device-oom",
    "E use_cudnn.cc:30] Invalid argument: Failed to parse the env-var ${TF_CUDNN_USE_AUTOTUNE} into bool: off. Use 1": (
        "invalid-flag"
    ),
    "RESOURCE_EXHAUSTED:  /w/cache.tf-data_0.data-00000-of-00001.tempstate109; No space left on device": "disk-full",
}


@pytest.mark.parametrize(("line", "expected"), REPORTED.items(), ids=lambda value: value[:40])
def test_wording_not_in_the_recorded_logs_is_diagnosed(line: str, expected: str) -> None:
    assert names(of_text(line))[0] == expected


def test_full_disk_is_not_diagnosed_as_out_of_memory() -> None:
    found, why = diagnose(read_log(io.BytesIO((LOGS / "checkpoint/disk.log").read_bytes())))
    assert (why.name, why.role) == ("disk-full", "cause")
    assert found.captured["path"].endswith(".tempstate16137585150842733677")


def test_onednn_crash_after_a_failed_allocation_follows_host_oom() -> None:
    found = diagnose(read_log(io.BytesIO((LOGS / "crash/onednn_segv.log").read_bytes())))
    assert [(d.name, d.role) for d in found] == [
        ("host-oom", "cause"),
        ("device-oom", "consequence"),
        ("segmentation-fault", "consequence"),
    ]


@pytest.mark.parametrize(
    ("returncode", "oom_kills", "expected"),
    [
        (0, 0, []),
        (0, None, []),
        (-9, 1, ["host-oom", "killed"]),
        (-9, 0, ["killed"]),
        (-9, None, ["killed"]),
        (137, 2, ["host-oom", "killed"]),
        (1, 1, ["host-oom"]),
        (-11, 0, ["segmentation-fault"]),
        (139, None, ["segmentation-fault"]),
        (-6, 0, ["abort"]),
        (-7, 0, ["fatal-signal"]),
        (-4, 0, ["fatal-signal"]),
        (-15, 0, []),
        (-2, 0, []),
        (130, 0, []),
        (3, 0, []),
        (-64, 0, []),
    ],
)
def test_exit_status_alone_is_diagnosed(returncode: int, oom_kills: int | None, expected: list[str]) -> None:
    assert names([Evidence.of_exit(returncode, oom_kills)]) == expected


class ResourceExhaustedError(Exception):
    """Has the same name as TensorFlow's class."""


class InternalError(Exception):
    """Has the same name as TensorFlow's class."""


OOM_MESSAGE = (
    "Graph execution error:\n\nDetected at node Tile defined at (most recent call last):\n"
    "OOM when allocating tensor with shape[524288,1024] and type float on /job:localhost/replica:0/task:0/device:GPU:0 "
    "by allocator GPU_0_bfc\n\t [[{{node Tile}}]]"
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ResourceExhaustedError(OOM_MESSAGE), ["device-oom"]),
        (ResourceExhaustedError("Out of memory while trying to allocate 1.02GiB."), ["device-oom"]),
        (InternalError("Failed copying input tensor: Dst tensor is not initialized."), ["device-oom"]),
        (ResourceExhaustedError("received message larger than max"), ["unrecognised"]),
        (MemoryError(), ["host-oom"]),
        (OSError(12, "Cannot allocate memory"), ["host-oom"]),
        (KeyError("learning_rat"), ["unrelated"]),
        (ValueError(), ["unrelated"]),
        (KeyboardInterrupt(), []),
        (SystemExit(1), []),
    ],
    ids=repr,
)
def test_exception_object_alone_is_diagnosed(error: BaseException, expected: list[str]) -> None:
    assert names([Evidence.of_exception(error)]) == expected


def test_exception_with_a_broken_str_is_shown_by_its_class_name() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert Evidence.of_exception(Broken()).text == f"{Broken.__module__}.{Broken.__qualname__}"


TRACEBACK = ("Traceback (most recent call last):", '  File "train.py", line 2, in <module>')


def test_ordinary_error_after_an_oom_is_its_consequence() -> None:
    oom = Evidence.of_exception(ResourceExhaustedError(OOM_MESSAGE))
    found = diagnose([oom, *of_text(*TRACEBACK, "KeyError: 'x'")])
    assert [(d.name, d.role) for d in found] == [("device-oom", "cause"), ("unrelated", "consequence")]


@pytest.mark.parametrize("went_on", [Evidence.of_progress("recovered"), Evidence("log", "Epoch 2/5", 9)])
def test_survived_fault_ranks_below_the_fatal_one(went_on: Evidence) -> None:
    oom = Evidence.of_exception(ResourceExhaustedError(OOM_MESSAGE))
    assert names([oom, went_on, *of_text(*TRACEBACK, "KeyError: 'x'")]) == ["unrelated", "device-oom"]
    assert names([oom, went_on, Evidence.of_exit(-9, 0)]) == ["killed", "device-oom"]
    assert names([oom, went_on, Evidence.of_exit(3, 0)]) == ["device-oom"]
    assert names([*of_text(*TRACEBACK, "KeyError: 'x'"), went_on]) == []


def test_fault_supported_by_the_exit_status_ranks_first() -> None:
    oom = Evidence.of_exception(ResourceExhaustedError(OOM_MESSAGE))
    assert names([oom, Evidence.of_exit(-9, 1)])[0] == "host-oom"


def test_exception_ignored_by_python_is_not_diagnosed() -> None:
    ignored = "Exception ignored in: <function AtomicFunction.__del__ at 0x7f>"
    assert names(of_text(ignored, *TRACEBACK, "TypeError: 'NoneType' object is not subscriptable")) == []


def test_keyboard_interrupt_is_not_diagnosed() -> None:
    assert names(of_text(*TRACEBACK, "KeyboardInterrupt")) == []


def test_lines_from_other_threads_do_not_interrupt_a_traceback() -> None:
    between = "W0000 00:00:1795237229.78 742 op_kernel.cc:1858] something"
    assert names(of_text(*TRACEBACK, between, "    x()", "KeyError: 'x'")) == ["unrelated"]


@given(
    st.lists(st.sampled_from([path for path in sorted(LOGS.rglob("*.log")) if path.stat().st_size < 3000]), max_size=3)
)
def test_diagnose_is_pure(paths: list[Path]) -> None:
    evidence = [fact for path in paths for fact in read_log(io.BytesIO(path.read_bytes()))]
    before = list(evidence)
    assert diagnose(evidence) == diagnose(iter(evidence))
    assert evidence == before


@given(st.lists(st.builds(Evidence, st.sampled_from(["log", "exception", "exit", "progress"]), st.text())))
def test_diagnose_never_raises(evidence: list[Evidence]) -> None:
    diagnose(evidence)


@pytest.mark.parametrize("wrong", ["a log's text", b"bytes", None, 5, ["a line"], KeyError, Evidence("log", "Killed")])
def test_invalid_evidence_raises_type_error(wrong: Any) -> None:
    with pytest.raises(
        TypeError,
        match=r"expects an exception, or a list of oomph.Evidence, not (str|bytes|NoneType|int|type|Evidence);",
    ):
        diagnose(wrong)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Killed", ["killed", "host-oom"]),
        ("I0000 a.cc:1] Waiting for 1/2 tasks to connect.", ["hang", "worker-lost", "kernel-timeout"]),
    ],
)
def test_rival_faults_are_low_confidence_suspicions(line: str, names: list[str]) -> None:
    first, *others = diagnose([Evidence("log", line, 1)])
    assert [first.name, *(other.name for other in others)] == names
    assert all(other.confidence <= 0.2 and other.evidence == first.evidence for other in others)


def test_uncertain_diagnosis_is_followed_by_alternatives() -> None:
    line = "2019-01-01 00:00:00.0: E cuda_driver.cc:300] failed call to cuInit: CUDA_ERROR_NO_DEVICE"
    first, *others = diagnose(of_text(line))
    assert (first.name, first.confidence < 0.9) == ("no-gpu-visible", True)
    assert [(each.confidence, each.evidence) for each in others] == [(0.1, first.evidence)] * 2
    assert {each.name for each in others} < {"device-unavailable", "driver-missing", "driver-failure"}


@pytest.mark.parametrize(
    "evidence",
    [
        of_text("E cuda_driver.cc:1] CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"),
        of_text(*TRACEBACK, "KeyError: 'x'"),
        of_text("2023-01-01 00:00:00.0: I gpu_device.cc:1] Epoch 1/5"),
        [Evidence.of_exit(-9, 0)],
    ],
    ids=["nearly certain", "plain Python error", "no fault", "exit status"],
)
def test_clear_evidence_gives_no_suspicions(evidence: list[Evidence]) -> None:
    assert len(diagnose(evidence)) <= 1


def test_every_page_links_to_similar_faults_in_the_catalogue() -> None:
    codes = {fault.code for fault in load()}
    assert {code for fault in load() for code in neighbours(fault)} <= codes
    assert [fault.code for fault in load() if fault.domain != "python" and not neighbours(fault)] == []


def test_every_rival_is_in_the_catalogue() -> None:
    names = {fault.name for fault in load()}
    assert {rival for fault in load() for each in fault.signatures for rival in each.rivals} <= names


def test_pasted_error_is_suspected_only_if_its_words_point_to_a_fault() -> None:
    found = diagnose(of_text("ValueError: Unknown rank, the shape is not what was asked for"))[0]
    assert (found.name, found.confidence <= 0.5) == ("shape-mismatch", True)
    assert diagnose(of_text("ValueError: Unknown rank of shape", "100/100 - 3s - loss: 0.32")) == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ValueError: invalid literal for int() with base 10: 'abc'", "unrelated"),
        ("RuntimeError: the tensor went away", "unrecognised"),
    ],
)
def test_error_line_at_the_end_is_never_called_no_fault(line: str, name: str) -> None:
    (found,) = (each for each in diagnose(of_text("Epoch 1/2", line)) if each.confidence > 0.2)
    assert (found.name, found.confidence < 0.5) == (name, True)


@pytest.mark.parametrize(
    "part", ["meta_optimizer.cc:961] layout failed", "executor.cc:1197] (this does not indicate an error"]
)
def test_harmless_tensorflow_errors_are_never_reported(part: str) -> None:
    line = f"2023-01-01 00:00:00.0: E tensorflow/core/{part}: INVALID_ARGUMENT: Size of values 0"
    assert diagnose(of_text(line)) == ()


READ_ALL = """
import io, sys
from pathlib import Path
from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import diagnose
from oomph.explain.reading.log import read_log
GLOO = "terminate called after throwing an instance of 'gloo::IoException'\\nFatal Python error: Aborted"
logs = [path.read_text() for path in sorted(Path(sys.argv[1]).glob("*.log"))]
for text in [GLOO, *logs, *(fault.example for fault in load())]:
    for found in diagnose(read_log(io.BytesIO(text.encode()))):
        print(found.name, found.role, found.confidence, found.captured, found.evidence)
"""


def test_node_line_after_a_harmless_error_is_not_diagnosed() -> None:
    node = "\t [[{{node PyFunc}}]]"
    closing = "W generator_dataset_op.cc:107] Error occurred when finalizing GeneratorDataset iterator: Failed: closed"
    assert names(of_text("Training finished", closing, node)) == []
    assert names(of_text("UnknownError: StopIteration", node, closing, node)) == ["input-pipeline"]


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("E0000 cuda_platform.cc:52] failed call to cuInit: INTERNAL: UNKNOWN ERROR (303)", "driver-missing"),
        ("I cudart_stub.cc:28] Could not find cuda drivers on your machine, GPU will not be used.", "driver-missing"),
    ],
)
def test_cpu_training_is_a_fault_if_a_gpu_was_expected(said: str, fault: str) -> None:
    goes_on = ("Epoch 1/2", "10/10 - 3s - loss: 0.32", "Epoch 2/2", "10/10 - 3s - loss: 0.31")
    assert names(of_text(said, *goes_on)) == []
    assert names(of_text(said, "WARNING no GPU found, expect slow training", *goes_on)) == [fault]
    assert names(of_text(said, "visible GPUs: 0 - continuing on CPU", *goes_on)) == [fault]


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("E cuda_driver.cc:328] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device", "no-gpu-visible"),
        ("E cuda_driver.cc:314] failed call to cuInit: UNKNOWN ERROR (303)", "driver-missing"),
        ("W dso_loader.cc:59] Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1", "driver-missing"),
    ],
)
def test_earlier_gpu_error_is_a_fault_even_though_training_runs_on_the_cpu(said: str, fault: str) -> None:
    assert names(of_text(said, "Epoch 1/2", "10/10 - 3s - loss: 0.32", "Epoch 2/2"))[0] == fault


@pytest.mark.parametrize(
    "said",
    [
        "train.py: error: the following arguments are required: --data",
        "FATAL Flags parsing error: flag --seq_index=: invalid literal for int() with base 10: ''",
    ],
)
def test_refused_command_line_is_not_blamed_on_the_machine(said: str) -> None:
    missing = "W dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0"
    assert names(of_text(missing, said))[0] == "unrelated"


def test_small_device_oom_blames_a_process_listed_by_nvidia_smi() -> None:
    created = (
        "I gpu_device.cc:1929] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 173 MB memory:  -> 0"
    )
    oom = "OOM when allocating tensor with shape[25088,3072] and type float on /device:GPU:0 by allocator GPU_0_bfc"
    table = ("pid, process_name, used_memory [MiB]", "2210034, /opt/vllm/bin/python, 44810 MiB")
    assert names(of_text(created, oom, *table))[0] == "device-oom-other-process"
    assert names(of_text(created, oom))[0] == names(of_text(oom, *table))[0] == "device-oom"


def test_orphaned_child_process_is_not_diagnosed_as_corrupt_data() -> None:
    lost = "_pickle.UnpicklingError: pickle data was truncated"
    frame = 'File "lib/multiprocessing/spawn.py", line 126, in _main'
    assert names(of_text("Traceback (most recent call last):", f"  {frame}", lost)) != ["corrupt-data"]
    assert names(of_text(lost)) == ["corrupt-data"]


def test_cluster_that_became_ready_is_not_diagnosed_as_a_hang() -> None:
    waiting = "INFO:tensorflow:Waiting for the cluster, timeout = inf"
    assert names(of_text(waiting)) == ["hang"]
    assert diagnose(of_text(waiting, "INFO:tensorflow:Cluster is ready.")) == ()


def test_nvidia_smi_throttle_column_is_recognised_by_its_heading() -> None:
    head = "timestamp, temperature.gpu, clocks.sm [MHz], clocks_throttle_reasons.hw_thermal_slowdown"
    rows = [f"2023/07/22 15:0{n}:10.110, 93, 480 MHz, {state}" for n, state in enumerate(("Not Active", "Active"))]
    assert names(of_text(head, *rows)) == ["thermal-throttle"]
    assert names(of_text(head, rows[0])) == names(of_text(rows[1])) == []


def test_diagnoses_do_not_depend_on_the_hash_seed() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", READ_ALL, str(LOGS)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in "1234"
    }
    assert [len(answers) > 1000 for answers in said] == [True]


@pytest.mark.parametrize(
    "line",
    [
        b"python3: Error while finding module specification for 'a.b' (ModuleNotFoundError: No module named 'a')\n",
        b"/usr/bin/python3.11: No module named a\n",
    ],
)
def test_python_m_with_a_missing_module_is_a_script_error(line: bytes) -> None:
    assert diagnose_log(line)[0].name == "unrelated"


def test_name_corrected_by_python_is_a_doubtful_version_mismatch():
    error = "AttributeError: module 'keras.layers' has no attribute {}\n"
    (typo, *_) = diagnose_log(error.format("'Dens'. Did you mean: 'Dense'?").encode())
    assert typo.confidence <= 0.5
    (removed, *_) = diagnose_log(error.format("'CuDNNGRU'").encode())
    assert (removed.name, removed.confidence) == ("keras-version-mismatch", 0.88)


TYPING_MISTAKE = b"""Traceback (most recent call last):
  File "/home/user/train.py", line 3, in <module>
    tf.konstant(3)
AttributeError: module 'tensorflow' has no attribute 'konstant'. Did you mean: 'constant'?
"""


def test_misspelt_name_is_unrelated_even_without_pythons_suggestion():
    exception = Evidence.of_exception_text("AttributeError", "module 'tensorflow' has no attribute 'konstant'")
    (found, *_) = diagnose_log(TYPING_MISTAKE, [exception, Evidence.of_exit(1)])
    assert (found.name, found.confidence) == ("unrelated", 0.9)
    within = TYPING_MISTAKE.replace(b"/home/user/train.py", b"/x/site-packages/tensorflow/python/framework/tensor.py")
    assert diagnose_log(within.replace(b"module 'tensorflow'", b"'EagerTensor' object"))[0].name == "unrelated"


def test_removed_name_is_still_reported_when_python_suggests_another():
    removed = TYPING_MISTAKE.replace(b"konstant'. Did you mean: 'constant", b"Session'. Did you mean: 'version")
    assert diagnose_log(removed)[0].name == "removed-api"
