"""Detecting which system a log comes from."""

from __future__ import annotations

import pytest

from oomph.explain.catalogue.fault import LINUX, SYSTEMS
from oomph.explain.diagnose import diagnose, diagnose_log
from oomph.explain.matching.systems import Systems


def systems(*lines: str) -> frozenset[str]:
    read = Systems()
    for line in lines:
        read.see(line)
    return read.names


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (r'  File "C:\Users\me\train.py", line 3, in <module>', "windows"),
        (r'  File "D:\\work\\train.py", line 3, in <module>', "windows"),
        ("Could not load dynamic library 'cudart64_110.dll'; dlerror: cudart64_110.dll not found", "windows"),
        (r"F .\tensorflow/core/kernels/conv_2d_gpu.h:710] Non-OK-status", "windows"),
        ("OSError: [WinError 126] The specified module could not be found", "windows"),
        ("Linux box 5.15.167.4-microsoft-standard-WSL2 x86_64 GNU/Linux", "wsl"),
        ("libcudnn.so.8: cannot open shared object file; LD_LIBRARY_PATH: /usr/lib/wsl/lib", "wsl"),
        ("could not open file to read NUMA node: /sys/bus/pci/devices/0000:01:00.0/numa_node", "wsl"),
        ("I use Ubuntu 22.04 in WSL2 on a laptop", "wsl"),
        ('  File "/Users/me/train.py", line 3, in <module>', "macos"),
        ("ImportError: dlopen(/opt/homebrew/lib/libhdf5.dylib, 2): Symbol not found", "macos"),
        ("Illegal instruction: 4", "macos"),
        ("train.sh: line 3: 4242 Segmentation fault: 11  python train.py", "macos"),
        ('  File "/content/train.py", line 3, in <module>', "colab"),
        ('  File "/kaggle/working/train.py", line 3, in <module>', "colab"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0", "slurm"),
        ("srun: error: n1: task 0: Killed", "slurm"),
        ("Status: Downloaded newer image for nvcr.io/nvidia/tensorflow:24.02-tf2-py3", "container"),
        ("root@3f2a9c1b7d4e:/workspace# python train.py", "container"),
        ("I cuda_diagnostics.cc:176] hostname: 16c54693e7f2", "container"),
        (
            "I cuda_diagnostics.cc:156] kernel driver does not appear to be running on this host (16c54693e7f2)",
            "container",
        ),
        ("libcuda.so.1: cannot open; LD_LIBRARY_PATH: /usr/local/nvidia/lib:/usr/local/nvidia/lib64", "container"),
        ("WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.", "container"),
        ("I cuda_diagnostics.cc:176] hostname: idun-06-18", LINUX),
        ('  File "/home/me/train.py", line 3, in <module>', LINUX),
        ("step 12 loss 0.31", LINUX),
        ('  File "/home/me/Users/train.py", line 3', LINUX),
        ("https://example.org/content/page", LINUX),
    ],
)
def test_log_line_identifies_the_system(line: str, found: str) -> None:
    assert systems(line) == {found}
    assert found in SYSTEMS


def test_surest_sign_of_a_system_wins_in_either_order() -> None:
    wsl, windows = "5.15.0-microsoft-standard-WSL2", r"C:\Users\me"
    assert systems(wsl, windows) == systems(windows, wsl) == {"wsl"}


def test_advice_to_use_wsl_is_not_mistaken_for_running_in_wsl() -> None:
    assert systems(r'File "C:\train.py", line 1', "please use WSL2") == {"windows"}


def test_slurm_and_container_are_recognised_together() -> None:
    assert systems("srun: job 12 queued", "Pulling nvcr.io/nvidia/tensorflow:24.02") == {"slurm", "container"}


def test_kaggle_is_not_recognised_as_a_container() -> None:
    assert systems('File "/kaggle/lib/x.py", line 1', "LD_LIBRARY_PATH: /usr/local/nvidia/lib") == {"colab"}


def test_lines_without_a_signature_identify_the_system() -> None:
    log = b"Linux 5.15.1-microsoft-standard-WSL2\n" + b"step 1\n" * 400 + b"NVIDIA-SMI has failed because it couldn't "
    (found, *_) = diagnose_log(log + b"communicate with the NVIDIA driver.\n" + b"bye\n" * 30)
    assert found.systems == {"wsl"}


def test_exception_identifies_the_system() -> None:
    (found, *_) = diagnose(ImportError("DLL load failed while importing x: The specified module could not be found."))
    assert found.systems == {"windows"}
