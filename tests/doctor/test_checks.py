"""Every check, run on snapshots: its finding, the severity, and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from machines import GIB, SITE, device, nvml_device

from oomph.doctor.check import FAIL, PASS, SKIP, WARN, DoctorFinding
from oomph.doctor.checks import CHECKS
from oomph.doctor.examine import examine
from oomph.doctor.snapshot import (
    Candidate,
    DeviceNode,
    HoldingProcess,
    Library,
    Package,
    PciDevice,
    Snapshot,
    Toolchain,
)

Change = Callable[[Snapshot], Snapshot]


def part(name: str, **changes: Any) -> Change:
    """Return a change to some fields of one part."""
    return lambda whole: replace(whole, **{name: replace(getattr(whole, name), **changes)})


def env(**variables: str) -> Change:
    return lambda whole: replace(whole, environment={**whole.environment, **variables})


def both(*changes: Change) -> Change:
    def change(whole: Snapshot) -> Snapshot:
        for each in changes:
            whole = each(whole)
        return whole

    return change


def package(name: str, version: str, **fields: Any) -> Change:
    """Return a change that adds a distribution, or installs a different version of it."""

    def change(whole: Snapshot) -> Snapshot:
        kept = tuple(each for each in whole.packages.found if each.name != name)
        old = whole.packages.get(name)
        new = replace(old, version=version, **fields) if old else Package(name, version, **{"folder": SITE, **fields})
        return replace(whole, packages=replace(whole.packages, found=(*kept, new)))

    return change


def library(soname: str, *candidates: Candidate) -> Change:
    """Return a change that provides different files for one library."""

    def change(whole: Snapshot) -> Snapshot:
        found = [
            Library(each.soname, each.required, candidates) if each.soname == soname else each
            for each in whole.libraries
        ]
        return replace(whole, libraries=tuple(found))

    return change


def gpus(*devices: Any, nvml: Any = None) -> Change:
    shown = nvml if nvml is not None else [nvml_device(each.index) for each in devices]
    return both(part("driver", devices=tuple(devices)), part("nvml", devices=tuple(shown)))


def without_driver(whole: Snapshot) -> Snapshot:
    whole = part("driver", asked=False, devices=(), init=None, cuda_version=None)(whole)
    return part("nvml", asked=False, init=None, devices=())(whole)


def without_gpu(whole: Snapshot) -> Snapshot:
    return part("host", pci=(), nodes=(), kernel_driver="", modules=())(without_driver(whole))


IN_DOCKER = part("host", container="docker")
WHEEL_CUSOLVER = f"{SITE}/nvidia/cusolver/lib"
OLD_CUDNN = Candidate("/opt/cudnn/libcudnn.so.9", "LD_LIBRARY_PATH", "/opt/cudnn", version="9.1.0")
OWN_CUDNN = Candidate(f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "RUNPATH", f"{SITE}/nvidia/cudnn/lib", version="9.3.0")

CASES: list[tuple[str, str, Change, str, str, str]] = [
    # subject, check, change, status, words in the message, words in the remedies
    ("windows", "platform", part("host", system="Windows", libc=""), FAIL, "Native Windows", "wsl --install"),
    ("mac", "platform", part("host", system="Darwin", libc=""), WARN, "macOS", "Linux machine"),
    ("alpine", "platform", part("host", libc="musl"), FAIL, "glibc", "docker run"),
    ("arm", "platform", both(part("host", machine="aarch64"), part("tensorflow", cuda=False)), WARN, "without CUDA", "nvcr.io"),
    ("other python", "python-version", part("python", version=(3, 12, 1), tag="cp312"), FAIL, "installed for cp311", "--force-reinstall"),
    ("moved", "environment-moved", part("python", moved_from="/old/env"), WARN, "created in /old/env", "-m venv --clear"),
    ("no tensorflow", "tensorflow-installed", lambda whole: replace(whole, tensorflow=None), FAIL, "does not have TensorFlow", "tensorflow[and-cuda]"),
    ("no pip", "tensorflow-installed", both(part("python", pip=False), lambda whole: replace(whole, tensorflow=None)), FAIL, "", "ensurepip"),
    ("uv", "tensorflow-installed", both(part("python", pip=False, uv=True), lambda whole: replace(whole, tensorflow=None)), FAIL, "", "uv pip install --python /env/bin/python"),
    ("half gone", "tensorflow-installed", package("tensorflow", "2.21.0", problem="tensorflow/__init__.py is gone"), FAIL, "is gone", "uninstall --yes tensorflow"),
    ("broken metadata", "tensorflow-installed", package("numpy", "2.1.3", problem="no METADATA"), WARN, "numpy 2.1.3: no METADATA", "install numpy"),
    ("leftovers", "tensorflow-installed", part("packages", leftovers=("/s/~ensorflow",)), WARN, "~ensorflow", "rm -r /s/~ensorflow"),
    ("twice", "tensorflow-twice", package("tensorflow-cpu", "2.20.0"), FAIL, "2 distributions", "uninstall --yes tensorflow"),
    ("in two folders", "tensorflow-twice", package("tf-nightly", "2.22.0", folder="/usr/lib/python3/dist-packages"), PASS, "there is also tf-nightly 2.22.0", ""),
    ("cpu only", "cpu-only-build", part("tensorflow", cuda=False, distribution="tensorflow-cpu"), FAIL, "built without CUDA", "uninstall --yes tensorflow-cpu"),
    ("cpu only, no gpu", "cpu-only-build", both(part("tensorflow", cuda=False), without_gpu), PASS, "there is no GPU", ""),
    ("keras 2", "keras-version", package("keras", "2.15.0"), FAIL, "needs Keras 3", "keras>=3"),
    ("legacy keras", "keras-version", env(TF_USE_LEGACY_KERAS="1"), FAIL, "tf_keras is not installed", "tf_keras==2.21.*"),
    ("old tf_keras", "keras-version", both(env(TF_USE_LEGACY_KERAS="1"), package("tf-keras", "2.16.0")), WARN, "does not match TensorFlow", "tf_keras==2.21.*"),
    ("new tf_keras", "keras-version", both(env(TF_USE_LEGACY_KERAS="1"), package("tf-keras", "2.21.0")), PASS, "divides batches that do not fit, but takes no checkpoints", ""),
    ("old keras", "keras-version", both(part("tensorflow", version="2.15.1"), package("keras", "2.15.0")), PASS, "Keras 2.15.0: oomph run divides batches", ""),
    ("older keras", "keras-version", both(part("tensorflow", version="2.10.1"), package("keras", "2.10.0")), PASS, "only supervises its fits", "tensorflow==2.15.*"),
    ("torch backend", "keras-version", env(KERAS_BACKEND="torch"), WARN, "will not use TensorFlow", "KERAS_BACKEND=tensorflow"),
    ("old protobuf", "requirements", package("protobuf", "4.25.3"), FAIL, "protobuf 4.25.3 (it requires <8.0.0,>=6.31.1)", "protobuf<8.0.0,>=6.31.1"),
    ("old numpy", "requirements", package("numpy", "1.24.0"), FAIL, "numpy 1.24.0", "numpy>=1.26.0"),
    ("old cudnn wheel", "nvidia-wheels", package("nvidia-cudnn-cu12", "9.1.0.70"), WARN, "nvidia-cudnn-cu12 9.1.0.70", "nvidia-cudnn-cu12<10.0,>=9.3.0.75"),
    ("cu11 beside cu12", "nvidia-wheels", package("nvidia-cudnn-cu11", "8.9.4"), WARN, "nvidia-cudnn-cu11, nvidia-cudnn-cu12", "uninstall"),
    ("no driver", "gpu-present", without_driver, FAIL, "no NVIDIA driver", "apt-get install -y nvidia-driver"),
    ("no driver in docker", "gpu-present", both(IN_DOCKER, without_driver), FAIL, "docker container was started without it", "--gpus all"),
    ("no driver in a pod", "gpu-present", both(part("host", container="kubernetes"), without_driver), FAIL, "", "nvidia.com/gpu: 1"),
    ("no driver in wsl", "gpu-present", both(part("host", wsl=True), without_driver), FAIL, "WSL2", "wsl.exe --shutdown"),
    ("nouveau", "gpu-present", both(part("host", modules=("nouveau",)), without_driver), FAIL, "nouveau", "nvidia-driver"),
    ("no gpu", "gpu-present", without_gpu, PASS, "No NVIDIA GPU here", "lspci"),
    ("broken libcuda", "driver-start", part("driver", init=None, load_error="file too short", devices=()), FAIL, "file too short", "--reinstall"),
    ("hanging driver", "driver-start", part("driver", init=None, problem="no answer within 5 s", devices=()), FAIL, "no answer within 5 s", "dmesg"),
    ("crashing driver", "driver-start", part("driver", init=None, problem="ended by SIGSEGV", devices=()), FAIL, "SIGSEGV", "reboot"),
    ("hangs later", "driver-start", part("driver", problem="no answer within 5 s"), FAIL, "cuInit succeeds, but then: no answer", "dmesg"),
    ("no device", "driver-start", part("driver", devices=()), FAIL, "sees no GPU", "nvidia-smi -L"),
    ("hidden", "driver-start", both(env(CUDA_VISIBLE_DEVICES="-1"), part("driver", init=100, devices=())), SKIP, "hides every GPU", ""),
    ("old driver", "driver-version", part("driver", cuda_version=11040), FAIL, "525.60.13", "nvidia-driver-550"),
    ("old driver in docker", "driver-version", both(IN_DOCKER, part("driver", cuda_version=11040)), FAIL, "", "host's driver"),
    ("older minor", "driver-version", part("driver", cuda_version=12020), PASS, "minor-version compatibility", ""),
    ("silent driver", "driver-version", both(part("driver", cuda_version=None), part("nvml", cuda_version=None)), SKIP, "could not check", ""),
    ("no nvml", "nvml", part("nvml", asked=False, init=None, devices=()), FAIL, "drops the GPU without a message", "nvidia-utils"),
    ("no nvml in docker", "nvml", both(IN_DOCKER, part("nvml", asked=False, init=None, devices=())), FAIL, "", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
    ("no nvml, 2.17", "nvml", both(part("tensorflow", version="2.17.0"), part("nvml", asked=False, init=None)), WARN, "Monitoring does not work", ""),
    ("nvml 18", "nvml", part("nvml", init=18, error="Driver/library version mismatch", devices=()), FAIL, "different versions", "reboot"),
    ("nvml 9", "nvml", part("nvml", init=9, error="Driver Not Loaded", devices=()), FAIL, "nvmlInit returns 9", "reboot"),
    ("driver of its branch", "nvml", both(part("host", kernel_driver="570.86.10"), part("nvml", asked=False, init=None, driver="", devices=())), FAIL, "", "nvidia-utils-570"),
    ("nightly", "cuda-libraries", both(part("tensorflow", distribution="tf-nightly", version="2.22.0.dev1"), library("libcublas.so.12")), FAIL, "", "tf-nightly[and-cuda]==2.22.0.dev1"),
    ("nvml hangs", "nvml", part("nvml", init=None, problem="no answer within 5 s", devices=()), FAIL, "no answer", "reboot"),
    ("no pynvml", "nvml", part("nvml", unavailable="nvidia-ml-py is not installed", init=None), SKIP, "could not check", ""),
    ("no permission", "device-nodes", part("host", nodes=(DeviceNode("/dev/nvidia0", False, "root:video crw-rw----"),)), FAIL, "No permission", "usermod -aG video"),
    ("no uvm", "device-nodes", part("host", nodes=(DeviceNode("/dev/nvidia0", True), DeviceNode("/dev/nvidiactl", True))), FAIL, "/dev/nvidia-uvm is missing", "modprobe nvidia_uvm"),
    ("amd", "amd-gpu", both(without_gpu, part("host", pci=(PciDevice("0000:03:00.0", "1002", "744c"),))), WARN, "AMD GPU", "rocm/tensorflow"),
    ("amd beside", "amd-gpu", part("host", pci=(PciDevice("1", "10de", "1"), PciDevice("2", "1002", "7"))), PASS, "alongside", ""),
    ("cusolver", "cuda-libraries", library("libcusolver.so.11", Candidate(f"{WHEEL_CUSOLVER}/libcusolver.so.11", "wheel", WHEEL_CUSOLVER)), FAIL, "where TensorFlow does not look", f"export LD_LIBRARY_PATH={WHEEL_CUSOLVER}"),
    ("cublas gone", "cuda-libraries", library("libcublas.so.12"), FAIL, "libcublas.so.12", "nvidia-cublas-cu12<13.0,>=12.5.3.2"),
    ("no loader", "cuda-libraries", both(part("tensorflow", loader=""), library("libcublas.so.12")), SKIP, "could not check", ""),
    ("truncated", "cuda-libraries", library("libcufft.so.11", Candidate("/x/libcufft.so.11", "RUNPATH", "/x", "an empty file")), FAIL, "/x/libcufft.so.11: an empty file", "tensorflow[and-cuda]==2.21.0"),
    ("shadowed", "library-shadowing", library("libcudnn.so.9", OLD_CUDNN, OWN_CUDNN), WARN, "/opt/cudnn", "LD_LIBRARY_PATH"),
    ("old cudnn first", "cudnn-version", library("libcudnn.so.9", OLD_CUDNN, OWN_CUDNN), FAIL, "built with cuDNN 9.3 but will load libcudnn.so.9 9.1.0", "Remove /opt/cudnn from"),
    ("old cudnn alone", "cudnn-version", library("libcudnn.so.9", replace(OLD_CUDNN, where="ld.so.cache")), FAIL, "9.1.0", "nvidia-cudnn-cu12>=9.3,<10"),
    ("cudnn 8", "cudnn-version", library("libcudnn.so.9", replace(OLD_CUDNN, version="8.9.7")), FAIL, "8.9.7", "and remove /opt/cudnn from"),
    ("cudnn 9.10.0", "cudnn-version", library("libcudnn.so.9", replace(OWN_CUDNN, version="9.10.0")), WARN, "a different order", ">=9.10.1,<10"),
    ("cudnn unknown", "cudnn-version", library("libcudnn.so.9", replace(OWN_CUDNN, version="")), SKIP, "could not check", ""),
    ("kepler", "gpu-architecture", gpus(device(major=3, minor=0)), FAIL, "TensorFlow ignores the GPU", "6.0 or newer"),
    ("maxwell", "gpu-architecture", gpus(device(major=5, minor=2)), FAIL, "still lists the GPU", "tensorflow[and-cuda]==2.16.*"),
    ("turing", "gpu-architecture", gpus(device(major=7, minor=5)), PASS, "has code for", ""),
    ("hopper", "gpu-architecture", gpus(device(major=9, minor=0)), PASS, "has code for", ""),
    ("blackwell", "gpu-architecture", gpus(device(major=12, minor=0)), FAIL, "CUDA_ERROR_INVALID_PTX", "nvcr.io"),
    ("hopper, 2.14", "gpu-architecture", both(part("tensorflow", capabilities=("sm_70", "compute_80"), cuda_version=(11, 8)), gpus(device(major=9, minor=0))), WARN, "30 minutes", "CUDA_CACHE_MAXSIZE"),
    ("ptx, old driver", "gpu-architecture", both(part("tensorflow", capabilities=("sm_70", "compute_80")), part("driver", cuda_version=12020), gpus(device(major=9, minor=0))), FAIL, "too old", "CUDA 12.5"),
    ("unknown wheel", "gpu-architecture", part("tensorflow", capabilities=()), SKIP, "could not check", ""),
    ("one of two", "gpu-architecture", gpus(device(), device(1, major=5, minor=2)), FAIL, "GPU 1", ""),
    ("cache off", "ptx-cache", both(env(CUDA_CACHE_DISABLE="1"), gpus(device(major=9, minor=0))), WARN, "recompiled in every process", "unset CUDA_CACHE_DISABLE"),
    ("cache read-only", "ptx-cache", both(part("host", cache_writable=False), gpus(device(major=9, minor=0))), WARN, "is not writable", "CUDA_CACHE_PATH"),
    ("cache small", "ptx-cache", both(env(CUDA_CACHE_MAXSIZE="1000"), gpus(device(major=9, minor=0))), WARN, "too small", "CUDA_CACHE_MAXSIZE=4294967296"),
    ("no toolchain, 2.21", "xla-toolchain", lambda whole: replace(whole, toolchain=Toolchain()), PASS, "includes its own", ""),
    ("no toolchain, 2.17", "xla-toolchain", both(part("tensorflow", version="2.17.1"), lambda whole: replace(whole, toolchain=Toolchain())), WARN, "No ptxas and no libdevice", "nvidia-cuda-nvcc-cu12"),
    ("wrong data dir", "xla-toolchain", lambda whole: replace(whole, toolchain=Toolchain("", "", "/nowhere", False)), FAIL, "/nowhere", "unset XLA_FLAGS"),
    ("hide all", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES="-1"), WARN, "hides every GPU", "unset CUDA_VISIBLE_DEVICES"),
    ("hide all, empty", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES=""), WARN, "hides every GPU", ""),
    ("no such gpu", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES="3"), FAIL, "no GPU 3 (GPUs found: 1)", "unset"),
    ("cut short", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES="0,7,1"), WARN, "sees only 0", "CUDA_VISIBLE_DEVICES=0"),
    ("twice the same", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES="0,0"), FAIL, "0 is listed twice", "CUDA_VISIBLE_DEVICES=0"),
    ("quoted", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES='"0"'), FAIL, "neither a number nor a UUID", ""),
    ("unknown uuid", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES="GPU-feed"), FAIL, "does not match a GPU here", ""),
    ("known uuid", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES="GPU-0000"), PASS, "GPU-0000", ""),
    ("mig uuid", "cuda-visible-devices", env(CUDA_VISIBLE_DEVICES="MIG-1234"), PASS, "MIG-1234", ""),
    ("order", "cuda-visible-devices", both(env(CUDA_VISIBLE_DEVICES="0"), part("nvml", devices=(nvml_device(), nvml_device(1, name="T4")))), PASS, "numbers them fastest first", "PCI_BUS_ID"),
    ("growth yes", "gpu-growth", env(TF_FORCE_GPU_ALLOW_GROWTH="yes"), WARN, "treats this as false", "TF_FORCE_GPU_ALLOW_GROWTH=true"),
    ("growth off", "gpu-growth", env(TF_FORCE_GPU_ALLOW_GROWTH="off"), WARN, "", "TF_FORCE_GPU_ALLOW_GROWTH=false"),
    ("growth true", "gpu-growth", env(TF_FORCE_GPU_ALLOW_GROWTH="true"), PASS, "true", ""),
    ("allocator typo", "gpu-allocator", env(TF_GPU_ALLOCATOR="cuda_malloc_asynch"), WARN, "ignores others", "TF_GPU_ALLOCATOR=cuda_malloc_async"),
    ("allocator unknown", "gpu-allocator", env(TF_GPU_ALLOCATOR="bogus"), WARN, "", "unset TF_GPU_ALLOCATOR"),
    ("async, old driver", "gpu-allocator", both(env(TF_GPU_ALLOCATOR="cuda_malloc_async"), part("driver", cuda_version=11000)), FAIL, "CUDA 11.2", "unset"),
    ("debug allocator", "gpu-allocator", env(TF_GPU_ALLOCATOR="memory_guard"), PASS, "slow", "unset"),
    ("unknown flag", "xla-flags", both(env(XLA_FLAGS="--xla_gpu_autotune_levell=2 --xla_dump_to=/d"), part("tensorflow", unknown_flags=("xla_gpu_autotune_levell",))), FAIL, "Did you mean --xla_gpu_autotune_level?", "XLA_FLAGS=--xla_dump_to=/d"),
    ("no dashes", "xla-flags", env(XLA_FLAGS="--xla_dump_to=/d xla_gpu_x=1"), FAIL, "xla_gpu_x=1", "--xla_dump_to=/d"),
    ("known flags", "xla-flags", env(XLA_FLAGS="--xla_dump_to=/d"), PASS, "", ""),
    ("blocking", "debug-variables", env(CUDA_LAUNCH_BLOCKING="1"), WARN, "slow", "unset CUDA_LAUNCH_BLOCKING"),
    ("forced ptx", "debug-variables", env(CUDA_FORCE_PTX_JIT="1"), WARN, "machine code is ignored", "unset CUDA_FORCE_PTX_JIT"),
    ("hidden warnings", "log-level", env(TF_CPP_MIN_LOG_LEVEL="2"), PASS, "hides TensorFlow's warnings", "unset"),
    ("held", "gpu-memory", part("nvml", devices=(nvml_device(used_bytes=20 * GIB, free_bytes=4 * GIB, processes=(HoldingProcess(77, 20 * GIB, "python"),)),)), WARN, "by 77 python", "ps -fp 77"),
    ("held, unseen", "gpu-memory", part("nvml", devices=(nvml_device(used_bytes=20 * GIB, free_bytes=4 * GIB),)), WARN, "cannot be seen", "fuser"),
    ("full", "gpu-memory", part("nvml", devices=(nvml_device(used_bytes=int(23.5 * GIB), free_bytes=GIB // 2),)), FAIL, "0.5 GiB of 24.0", ""),
    ("one full", "gpu-memory", gpus(device(), device(1), nvml=(nvml_device(used_bytes=23 * GIB, free_bytes=GIB), nvml_device(1))), WARN, "GPU 0", "CUDA_VISIBLE_DEVICES=1"),
    ("others busy", "gpu-memory", gpus(device(1), nvml=(nvml_device(used_bytes=23 * GIB, free_bytes=GIB), nvml_device(1))), PASS, "free", ""),
    ("desktop", "gpu-memory", part("nvml", devices=(nvml_device(used_bytes=GIB),)), PASS, "free", ""),
    ("unequal", "unequal-gpus", gpus(device(), device(1, memory_bytes=8 * GIB)), WARN, "The GPUs differ", "CUDA_VISIBLE_DEVICES=GPU-00000000-0000-4000-8000-000000000000"),
    ("few processors", "unequal-gpus", gpus(device(), device(1, multiprocessors=4, name="T400")), WARN, "skips GPU 1", ""),
    ("equal", "unequal-gpus", gpus(device(), device(1)), PASS, "2 identical GPUs", ""),
    ("mig empty", "mig", both(part("nvml", devices=(nvml_device(mig=True),)), part("driver", devices=())), FAIL, "no instance", "mig -cgi"),
    ("mig", "mig", part("nvml", devices=(nvml_device(mig=True),)), PASS, "divided", "MIG-"),
    ("ecc", "gpu-health", part("nvml", devices=(nvml_device(ecc_uncorrected=3),)), FAIL, "3 memory errors", "--gpu-reset -i 0"),
    ("remap failed", "gpu-health", part("nvml", devices=(nvml_device(remapped_rows=(0, 9, 0, 1)),)), FAIL, "no spare row is left", "nvidia-smi"),
    ("remap pending", "gpu-health", part("nvml", devices=(nvml_device(remapped_rows=(0, 1, 1, 0)),)), WARN, "next reset", "--gpu-reset"),
    ("retired", "gpu-health", part("nvml", devices=(nvml_device(retired_pending=True),)), WARN, "next reboot", ""),
    ("lost", "gpu-health", part("nvml", devices=(nvml_device(lost="GPU is lost"),)), FAIL, "has lost it", ""),
    ("hot", "gpu-heat", part("nvml", devices=(nvml_device(celsius=92),)), WARN, "slows down at 95", "nvidia-smi"),
    ("throttled", "gpu-heat", part("nvml", devices=(nvml_device(throttle=0x20),)), WARN, "because it is hot", "power-limit"),
    ("power cap", "gpu-heat", part("nvml", devices=(nvml_device(throttle=0x04),)), PASS, "", ""),
    ("exclusive, taken", "compute-mode", part("nvml", devices=(nvml_device(compute_mode=3, processes=(HoldingProcess(5),)),)), FAIL, "process 5 is using it", "compute-mode=DEFAULT"),
    ("exclusive", "compute-mode", part("nvml", devices=(nvml_device(compute_mode=3),)), PASS, "one process at a time", ""),
    ("prohibited", "compute-mode", part("nvml", devices=(nvml_device(compute_mode=2),)), FAIL, "Prohibited", ""),
    ("no persistence", "gpu-clocks", part("nvml", devices=(nvml_device(persistence=False),)), PASS, "persistence mode is off", "persistence-mode=1"),
    ("set clocks", "gpu-clocks", part("nvml", devices=(nvml_device(throttle=2),)), PASS, "manually set clocks", "reset-gpu-clocks"),
    ("small container", "host-memory", both(IN_DOCKER, part("host", memory_limit_bytes=GIB)), WARN, "control group allows 1.0 GiB", "docker run --memory"),
    ("small host", "host-memory", part("host", memory_bytes=4 * GIB), WARN, "machine has 4.0 GiB", "cache()"),
    ("small shm", "shared-memory", both(IN_DOCKER, part("host", shm_bytes=64 << 20), gpus(device(), device(1))), WARN, "64 MiB", "--shm-size"),
    ("small shm, one gpu", "shared-memory", part("host", shm_bytes=64 << 20), SKIP, "fewer than two", ""),
    ("full disk", "disk-space", part("host", disk_free_bytes=10 << 20), FAIL, "0.0 GiB is free", "--run-dir"),
    ("little disk", "disk-space", part("host", disk_free_bytes=GIB), WARN, "1.0 GiB", "--run-dir"),
]  # fmt: skip


def found(snapshot: Snapshot, name: str) -> DoctorFinding:
    return next(result.finding for result in examine(snapshot) if result.check.name == name)


@pytest.mark.parametrize(
    ("check", "change", "status", "words", "remedy"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_check_returns_the_expected_finding(healthy, check, change, status, words, remedy):
    finding = found(change(healthy), check)
    assert finding.status == status, finding
    assert words in finding.message
    told = "\n".join(f"{each.text} {each.command}" for each in finding.remedies)
    assert remedy in told
    if status in (FAIL, WARN):
        assert finding.remedies, "a problem without a remedy"
        assert finding.fault


def test_healthy_machine_has_no_findings(healthy):
    wrong = [(result.check.name, result.finding) for result in examine(healthy) if result.wrong or result.finding.blind]
    assert wrong == []


def test_every_check_has_a_case_with_a_finding(healthy):
    told = {case[1] for case in CASES if case[3] in (FAIL, WARN) or found(case[2](healthy), case[1]).note}
    assert {check.name for check in CHECKS} == told


@pytest.mark.parametrize("code", [3, 34, 46, 100, 101, 802, 803, 804, 999, 4711])
def test_every_cuinit_error_code_is_reported_with_a_remedy(healthy, code):
    finding = found(part("driver", init=code, devices=())(healthy), "driver-start")
    assert finding.status == FAIL
    assert str(code) in finding.message
    assert finding.remedies


def test_remedy_removes_a_stub_from_the_library_path(healthy):
    stub = Candidate("/cuda/lib64/stubs/libcuda.so.1", "LD_LIBRARY_PATH", "/cuda/lib64/stubs")
    real = Candidate("/usr/lib/libcuda.so.1", "ld.so.cache", "/usr/lib")
    change = both(
        env(LD_LIBRARY_PATH="/a:/cuda/lib64/stubs"),
        library("libcuda.so.1", stub, real),
        part("driver", init=34, devices=()),
    )
    remedy = found(change(healthy), "driver-start").remedies[0]
    assert (remedy.command, remedy.action) == ("export LD_LIBRARY_PATH=/a", "repair-environment")


def test_missing_tensorflow_leads_to_the_page_about_missing_packages(healthy):
    by_name = {result.check.name: result.finding for result in examine(replace(healthy, tensorflow=None))}
    assert by_name["tensorflow-installed"].fault == "broken-installation"


def test_every_finding_is_declared_by_its_check(healthy):
    declared = {check.name: check.faults for check in CHECKS}
    for _, _, change, *_ in CASES:
        for result in examine(change(healthy)):
            assert result.finding.status in (PASS, WARN, FAIL, SKIP)
            assert not result.finding.blind or result.finding.status == SKIP
            assert result.finding.fault in ("", *declared[result.check.name]), result


def test_codes_and_names_of_checks_are_unique():
    assert len({check.code for check in CHECKS}) == len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.why and check.source for check in CHECKS)
