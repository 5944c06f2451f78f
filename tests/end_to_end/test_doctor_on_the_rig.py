"""Each fault that the rig can simulate: what the doctor reports, and that TensorFlow behaves accordingly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.doctor.check import FAIL, WARN

pytestmark = pytest.mark.rig

SOURCE = {"PYTHONPATH": str(Path(oomph.__file__).parents[1])}
"""The oomph under test, even if another one is installed."""
ONE_OP = Path(__file__).parents[1] / "rig" / "examples" / "one_op.py"
LIBRARIES = (
    "libcudart.so.12",
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcudnn.so.9",
    "libcusolver.so.11",
    "libcusparse.so.12",
    "libcufft.so.11",
)


@dataclass(frozen=True)
class Fault:
    """A fault simulated by the rig: how it is set up, what the doctor reports, and what TensorFlow does."""

    env: dict[str, str]
    check: str
    status: str
    message: str
    remedy: str
    op: str = "list"
    """What TensorFlow is asked to run."""
    said: tuple[str, ...] = ("PROBE physical []",)
    """What its output then contains."""
    unsaid: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Rig files that are missing."""


NO_GPU = "PROBE physical []"
HAS_GPU = "PROBE physical [PhysicalDevice(name='/physical_device:GPU:0'"


def cuinit(code: int, name: str, message: str, remedy: str) -> Fault:
    said = (f"failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: {name}", NO_GPU)
    return Fault({"FAKE_CUINIT": str(code)}, "driver-start", FAIL, message, remedy, said=said)


def missing(library: str) -> Fault:
    return Fault({}, "cuda-libraries", FAIL, library, "pip install", said=(NO_GPU,), without=(f"runtime/{library}",))


FAULTS = {
    "cuinit-3": cuinit(3, "CUDA_ERROR_NOT_INITIALIZED", "could not be initialised", "modprobe nvidia_uvm"),
    "cuinit-34": cuinit(34, "CUDA_ERROR_STUB_LIBRARY", "a stub for linking", "from LD_LIBRARY_PATH"),
    "cuinit-46": cuinit(46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "exclusive mode", "--compute-mode=DEFAULT"),
    "cuinit-100": cuinit(100, "CUDA_ERROR_NO_DEVICE", "sees no GPU", "nvidia-smi -L"),
    "cuinit-101": cuinit(101, "CUDA_ERROR_INVALID_DEVICE", "does not exist", "nvidia-smi -L"),
    "cuinit-802": cuinit(802, "CUDA_ERROR_SYSTEM_NOT_READY", "Fabric Manager", "nvidia-fabricmanager"),
    "cuinit-803": cuinit(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "different versions", "sudo reboot"),
    "cuinit-804": cuinit(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "cuda-compat", "from LD_LIBRARY_PATH"),
    "cuinit-999": cuinit(999, "CUDA_ERROR_UNKNOWN", "without saying why", "dmesg"),
    "driver-11.4": Fault(
        {"FAKE_DRV": "11040", "FAKE_DRVSTR": "470.82.01"},
        "driver-version",
        FAIL,
        "needs driver 525.60.13 or newer; this is driver 470.82.01 (CUDA 11.4)",
        "tensorflow[and-cuda]==2.14.1",
        op="matmul",
        said=(HAS_GPU, "PROBE exc", "CUDA driver version is insufficient for CUDA runtime version"),
    ),
    "cc-3.0": Fault(
        {"FAKE_CC": "30"},
        "gpu-architecture",
        FAIL,
        "TensorFlow ignores the GPU",
        "6.0 or newer",
        said=("Ignoring visible gpu device", "The minimum required Cuda capability is 3.5", NO_GPU),
    ),
    "cc-5.2": Fault(
        {"FAKE_CC": "52"},
        "gpu-architecture",
        FAIL,
        "still lists the GPU, but its operations fail",
        "tensorflow[and-cuda]==2.16.*",
        op="add",
        said=(HAS_GPU, "failed with 'CUDA_ERROR_NO_BINARY_FOR_GPU'", "PROBE exc"),
    ),
    "cc-12.0": Fault(
        {"FAKE_CC": "120"},
        "gpu-architecture",
        FAIL,
        "the only PTX is for 9.0",
        "nvcr.io/nvidia/tensorflow",
        said=(HAS_GPU, "not built with CUDA kernel binaries compatible with compute capability 12.0"),
    ),
    **{f"no-{library}": missing(library) for library in LIBRARIES},
    "cudnn-8.9.7": Fault(
        {"FAKE_CUDNN": "80907"},
        "cudnn-version",
        FAIL,
        "libcudnn.so.9 8.9.7",
        "nvidia-cudnn-cu12>=9.3,<10",
        op="conv",
        said=("Loaded runtime CuDNN library: 8.9.7 but source was compiled with: 9.3.0", "PROBE exc", "No DNN"),
    ),
    "nvml-missing": Fault(
        {}, "nvml", FAIL, "libnvidia-ml.so.1 is missing", "NVIDIA_DRIVER_CAPABILITIES|nvidia-utils",
        unsaid=("NVML", "nvml", "failed call", "dlopen"), without=("driver/libnvidia-ml.so.1",),
    ),
    "nvml-18": Fault(
        {"FAKE_NVML_INIT": "18"},
        "nvml",
        FAIL,
        "nvmlInit returns 18",
        "reboot",
        unsaid=("nvml", "failed call", "dlopen"),
    ),
    "memory-held": Fault(
        {"FAKE_OTHER_MB": "7000", "FAKE_MEM_MB": "8192"},
        "gpu-memory",
        WARN,
        "0.9 GiB of 8.0 GiB free, 6.8 GiB held",
        "TF_FORCE_GPU_ALLOW_GROWTH=true",
        said=("GPU:0 with 967 MB memory",),
        unsaid=("W0000",),
    ),
    "two-sizes": Fault(
        {"FAKE_NGPU": "2", "FAKE_MEM_MB": "8192,4096", "CUDA_VISIBLE_DEVICES": "0,1"},
        "unequal-gpus",
        WARN,
        "GPU 0 NVIDIA Fake 4000, 8.0 GiB, GPU 1 NVIDIA Fake 4000, 4.0 GiB",
        "CUDA_VISIBLE_DEVICES=GPU-00000000-0000-4000-8000-000000000000",
        said=("GPU:0 with 6656 MB memory", "GPU:1 with 2560 MB memory"),
    ),
    "few-multiprocessors": Fault(
        {"FAKE_NGPU": "2", "FAKE_SM": "40,4", "FAKE_NAME": "Big,Small", "CUDA_VISIBLE_DEVICES": "0,1"},
        "unequal-gpus",
        WARN,
        "skips GPU 1",
        "largest kind",
        said=("Ignoring visible gpu device (device: 1", "with core count: 4. The minimum required count is 8"),
    ),
    "visible-cut": Fault(
        {"FAKE_NGPU": "2", "CUDA_VISIBLE_DEVICES": "1,7,0"},
        "cuda-visible-devices",
        WARN,
        "sees only 1",
        "CUDA_VISIBLE_DEVICES=0,1",
        said=("device: 0, name: NVIDIA Fake 4000, pci bus id: 0000:02:00.0",),
        unsaid=("device: 1,",),
    ),
    "growth-yes": Fault(
        {"TF_FORCE_GPU_ALLOW_GROWTH": "yes"},
        "gpu-growth",
        WARN,
        "treats this as false",
        "TF_FORCE_GPU_ALLOW_GROWTH=true",
        said=('could not be parsed: "yes". Valid values are "true" or "false"',),
    ),
    "allocator-bogus": Fault(
        {"TF_GPU_ALLOCATOR": "bogus"},
        "gpu-allocator",
        WARN,
        "silently ignores others",
        "unset TF_GPU_ALLOCATOR",
        op="add",
        said=("PROBE ok",),
        unsaid=("bogus",),
    ),
    "xla-flag": Fault(
        {"XLA_FLAGS": "--xla_bogus_flag=1"},
        "xla-flags",
        FAIL,
        "--xla_bogus_flag",
        "unset XLA_FLAGS",
        said=("Unknown flag in XLA_FLAGS: --xla_bogus_flag=1",),
    ),
}  # fmt: skip

WELL = {
    "cc-7.5": {"FAKE_CC": "75"},
    "cc-8.6": {},
    "cc-9.0": {"FAKE_CC": "90"},
    "two equal": {"FAKE_NGPU": "2", "CUDA_VISIBLE_DEVICES": "0,1"},
    "known flag": {"XLA_FLAGS": "--xla_gpu_autotune_level=2"},
    "async": {"TF_GPU_ALLOCATOR": "cuda_malloc_async"},
}


@dataclass
class Rig:
    """A machine simulated by the rig: some of its files, and variables."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def doctor(self, *words: str) -> Any:
        ended = self._run("-m", "oomph", "doctor", "--json", *words, seconds=60)
        document = json.loads(ended.stdout)
        document["exit_code"] = ended.returncode
        return document

    def finding(self, name: str) -> Any:
        return next(entry for entry in self.doctor()["checks"] if entry["name"] == name)

    def tensorflow(self, op: str) -> str:
        """Return what TensorFlow prints when it lists its devices and runs one operation."""
        ended = self._run(str(ONE_OP), op, seconds=120)
        return ended.stdout + ended.stderr

    def _run(self, *words: str, seconds: float) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=seconds
        )


@pytest.fixture
def machine(work, rig):
    """Return a function that simulates a machine with these variables, without these files."""

    def make(variables: dict[str, str], without: tuple[str, ...] = ()) -> Rig:
        paths = rig["LD_LIBRARY_PATH"]
        if without:
            built = Path(paths.split(os.pathsep)[0]).parent
            shutil.copytree(built, work.folder / "rig")
            for name in without:
                (work.folder / "rig" / name).unlink()
            paths = os.pathsep.join(str(work.folder / "rig" / name) for name in ("driver", "runtime"))
        environ = work.environ(LD_LIBRARY_PATH=paths, TF_CPP_MIN_LOG_LEVEL="0", **SOURCE, **variables)
        if "CUDA_VISIBLE_DEVICES" not in variables:
            del environ["CUDA_VISIBLE_DEVICES"]
        return Rig(work.folder, environ)

    return make


@pytest.mark.parametrize("name", FAULTS)
def test_doctor_reports_only_the_simulated_fault_with_its_fix(machine, name):
    fault = FAULTS[name]
    document = machine(fault.env, fault.without).doctor()
    wrong = {entry["name"]: entry for entry in document["checks"] if entry["status"] in (FAIL, WARN)}
    assert set(wrong) == {fault.check}
    entry = wrong[fault.check]
    assert entry["status"] == fault.status
    assert fault.message in entry["message"]
    told = "\n".join(remedy["text"] for remedy in entry["remedies"])
    assert any(word in told for word in fault.remedy.split("|")), told
    assert document["exit_code"] == (1 if fault.status == FAIL else 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_tensorflow_prints_the_message_described_by_the_check(machine, name):
    fault = FAULTS[name]
    printed = machine(fault.env, fault.without).tensorflow(fault.op)
    for words in fault.said:
        assert words in printed
    for words in fault.unsaid:
        assert words not in printed.replace("Nvml call failed with 3(Not Supported)", "")


@pytest.mark.parametrize("name", WELL)
def test_healthy_machine_triggers_no_warnings(machine, name):
    document = machine(WELL[name]).doctor()
    assert [entry for entry in document["checks"] if entry["status"] in (FAIL, WARN) or entry["could_not_check"]] == []
    assert document["verdict"].startswith("Ready: TensorFlow")


@pytest.mark.slow
@pytest.mark.parametrize("name", WELL)
def test_tensorflow_runs_an_operation_on_a_healthy_machine(machine, name):
    printed = machine(WELL[name]).tensorflow("bias")
    assert "PROBE ok /job:localhost/replica:0/task:0/device:GPU:0" in printed
    assert "jit-compiled from PTX" not in printed


def test_missing_driver_is_reported_as_a_machine_without_a_gpu(machine):
    """Neither the PCI bus nor /dev of this machine shows a GPU."""
    document = machine({}, without=("driver/libcuda.so.1", "driver/libnvidia-ml.so.1")).doctor()
    if not document["verdict"].startswith("No NVIDIA GPU here"):
        pytest.skip("this machine has a GPU of its own")
    assert [entry for entry in document["checks"] if entry["status"] in (FAIL, WARN)] == []
    assert document["exit_code"] == 0


@pytest.mark.slow
def test_tensorflow_without_a_driver_prints_error_303(machine):
    printed = machine({}, without=("driver/libcuda.so.1", "driver/libnvidia-ml.so.1")).tensorflow("list")
    assert "UNKNOWN ERROR (303)" in printed
    assert "Could not find cuda drivers" not in printed, "that line is about libcudart"
    assert NO_GPU in printed


@pytest.mark.slow
def test_missing_libcudart_makes_tensorflow_report_missing_cuda_drivers(machine):
    assert "Could not find cuda drivers" in machine({}, without=("runtime/libcudart.so.12",)).tensorflow("list")


def test_hanging_or_crashing_driver_is_reported_and_other_checks_run(machine):
    hanging = machine({"FAKE_NVML_SLEEP": "60", "FAKE_CUINIT_SIGNAL": "11"}).doctor()
    found = {entry["name"]: entry for entry in hanging["checks"]}
    assert "ended by SIGSEGV" in found["driver-start"]["message"]
    assert "no answer within 5 s" in found["nvml"]["message"]
    assert found["cuda-libraries"]["status"] == "pass"
    assert 5 <= hanging["seconds"] < 7


def test_cuinit_duration_is_reported_separately(machine):
    document = machine({"FAKE_CUINIT_SLEEP": "1"}).doctor()
    assert 1 <= document["cuinit_seconds"] < 2
    assert document["seconds"] - document["cuinit_seconds"] < 1


@pytest.mark.parametrize("field", ["PENDING", "FAIL"])
def test_pending_memory_repair_is_a_warning_and_a_failed_one_a_failure(machine, field):
    status = {"PENDING": WARN, "FAIL": FAIL}[field]
    assert machine({f"FAKE_ROW_{field}": "1"}).finding("gpu-health")["status"] == status


def test_driver_query_neither_creates_a_context_nor_uses_memory(machine):
    rig = machine({"FAKE_TRACE": "1"})
    command = [sys.executable, "-I", "-S", str(Path(oomph.__file__).parent / "gpu" / "ask_cuda.py")]
    asked = subprocess.run(command, env=rig.environ, capture_output=True, text=True, timeout=60)
    calls = {line.split()[1] for line in asked.stderr.splitlines() if line.startswith("[fakecuda]")}
    assert "cuInit" in calls
    assert {call for call in calls if "Mem" in call or "Ctx" in call} == set()
