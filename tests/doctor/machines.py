"""A snapshot of a machine on which nothing is wrong; each test changes the part that it covers."""

from __future__ import annotations

from dataclasses import replace

from oomph.doctor.snapshot import (
    Candidate,
    CudaDevice,
    DeviceNode,
    Driver,
    HostFacts,
    Library,
    NvmlAnswers,
    NvmlDevice,
    Package,
    Packages,
    PciDevice,
    Python,
    Snapshot,
    TensorFlow,
    Toolchain,
)

SITE = "/env/lib/python3.11/site-packages"
GIB = 1 << 30
_WHEELS = {
    "libcudart.so.12": "cuda_runtime",
    "libcublas.so.12": "cublas",
    "libcublasLt.so.12": "cublas",
    "libcufft.so.11": "cufft",
    "libcusolver.so.11": "cusolver",
    "libcusparse.so.12": "cusparse",
    "libcudnn.so.9": "cudnn",
}


def wheel_library(soname: str, version: str = "12.5.82") -> Library:
    """Return a library that the RUNPATH finds in its wheel."""
    folder = f"{SITE}/nvidia/{_WHEELS[soname]}/lib"
    version = "9.3.0.75" if "cudnn" in soname else version
    return Library(soname, True, (Candidate(f"{folder}/{soname}", "RUNPATH", folder, version=version),))


def _driver_library(soname: str) -> Library:
    folder = "/usr/lib/x86_64-linux-gnu"
    return Library(soname, True, (Candidate(f"{folder}/{soname}", "ld.so.cache", folder),))


def device(index: int = 0, **changes: object) -> CudaDevice:
    """Return a GPU as reported by libcuda."""
    uuid = f"0000000000004000800000000000000{index}"
    whole = CudaDevice(index, "NVIDIA A10", f"0000:0{index + 1}:00.0", uuid, 24 * GIB, 8, 6, 72)
    return replace(whole, **changes)  # type: ignore[arg-type]


def nvml_device(index: int = 0, **changes: object) -> NvmlDevice:
    """Return the same GPU as reported by NVML."""
    whole = NvmlDevice(
        index=index,
        name="NVIDIA A10",
        uuid=f"GPU-00000000-0000-4000-8000-00000000000{index}",
        pci=f"00000000:0{index + 1}:00.0",
        total_bytes=24 * GIB,
        used_bytes=GIB // 4,
        free_bytes=24 * GIB - GIB // 4,
        processes=(),
        compute_mode=0,
        persistence=True,
        mig=False,
        ecc_uncorrected=0,
        remapped_rows=(0, 0, 0, 0),
        retired_pending=False,
        celsius=40,
        slowdown_celsius=95,
        throttle=1,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def healthy() -> Snapshot:
    """Return a snapshot of a healthy machine."""
    requires = (
        "numpy>=1.26.0",
        "protobuf<8.0.0,>=6.31.1",
        'nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',
        'nvidia-cusolver-cu12<12.0,>=11.6.3.83; extra == "and-cuda"',
        'nvidia-cublas-cu12<13.0,>=12.5.3.2; extra == "and-cuda"',
    )
    tags = ("cp311-cp311-manylinux_2_27_x86_64",)
    packages = (
        Package("tensorflow", "2.21.0", SITE, requires=requires, tags=tags),
        Package("keras", "3.12.0", SITE),
        Package("numpy", "2.1.3", SITE),
        Package("protobuf", "6.32.0", SITE),
        Package("nvidia-cudnn-cu12", "9.3.0.75", SITE),
        Package("nvidia-cublas-cu12", "12.5.3.2", SITE),
    )
    return Snapshot(
        python=Python("/env/bin/python", (3, 11, 9), "cpython", "/env", "/usr", (SITE,), "cp311"),
        host=HostFacts(
            system="Linux",
            machine="x86_64",
            release="6.8.0",
            libc="glibc 2.39",
            memory_bytes=64 * GIB,
            shm_bytes=32 * GIB,
            disk_path="/work",
            disk_free_bytes=500 * GIB,
            cache_path="/home/user/.nv/ComputeCache",
            pci=(PciDevice("0000:01:00.0", "10de", "2236"),),
            nodes=tuple(DeviceNode(f"/dev/{name}", True) for name in ("nvidia0", "nvidiactl", "nvidia-uvm")),
            kernel_driver="550.54.15",
            modules=("nvidia", "nvidia_uvm"),
        ),
        packages=Packages(packages),
        tensorflow=TensorFlow(
            version="2.21.0",
            distribution="tensorflow",
            folder=f"{SITE}/tensorflow",
            loader=f"{SITE}/tensorflow/libtensorflow_framework.so.2",
            cuda=True,
            cuda_version=(12, 5, 1),
            cudnn_version=(9, 3),
            capabilities=("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"),
            source="build_info.py",
        ),
        libraries=(
            _driver_library("libcuda.so.1"),
            _driver_library("libnvidia-ml.so.1"),
            *(wheel_library(soname) for soname in _WHEELS),
        ),
        toolchain=Toolchain("/usr/local/cuda/bin/ptxas", "/usr/local/cuda/nvvm/libdevice/libdevice.10.bc"),
        driver=Driver(True, "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "", 12050, 0, 0.21, (device(),)),
        nvml=NvmlAnswers(True, init=0, driver="550.54.15", cuda_version=12050, devices=(nvml_device(),)),
        seconds=0.1,
    )
