"""Objects in place of a file: a FIFO, a link loop, a folder, a device, or an endless sparse file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oomph.doctor.observe.elf import problem_of
from oomph.doctor.observe.host import observe_host
from oomph.doctor.observe.libraries import read_cache, wheel_folders
from oomph.doctor.observe.packages import observe_packages, requirements
from oomph.doctor.observe.python import observe_python
from oomph.doctor.observe.tensorflow import observe_tensorflow

MOST_SECONDS = 5


def fifo(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    """Create a file that claims to be 1 TiB in size; if possible, it starts like a library."""
    with path.open("wb") as file:
        file.write(b"\x7fELF\x02\x01")
        file.truncate(1 << 40)


STAND_INS = [fifo, loop, endless, sparse, Path.mkdir]
FILES = [
    "tensorflow-2.21.0.dist-info/METADATA",
    "tensorflow-2.21.0.dist-info/WHEEL",
    "tensorflow-2.21.0.dist-info/direct_url.json",
    "tensorflow-2.21.0.dist-info",
    "tensorflow/__init__.py",
    "tensorflow/python/platform/build_info.py",
    "tensorflow/libtensorflow_framework.so.2",
    "tensorflow/libtensorflow_cc.so.2",
    "tensorflow",
    "nvidia/cudnn/lib",
    "nvidia",
    "etc/ld.so.cache",
    "proc/meminfo",
    "proc/self/cgroup",
    "sys/bus/pci/devices",
    "bin/pip",
]


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Path:
    """Create everything that the doctor reads, in working order, in one folder."""
    texts = {
        "tensorflow-2.21.0.dist-info/METADATA": "Name: tensorflow\nVersion: 2.21.0\nRequires-Dist: keras\n",
        "tensorflow-2.21.0.dist-info/WHEEL": "Tag: cp311-cp311-linux_x86_64\n",
        "tensorflow/__init__.py": "",
        "tensorflow/python/platform/build_info.py": "build_info = {'cuda_version': '12.5.1', 'is_cuda_build': True}\n",
        "proc/meminfo": "MemTotal:  1000 kB\n",
        "proc/self/cgroup": "0::/\n",
        "bin/pip": f"#!{sys.executable}\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "nvidia/cudnn/lib").mkdir(parents=True)
    (tmp_path / "nvidia/cudnn/lib/libcudnn.so.9").write_bytes(b"")
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    return tmp_path


def look(site: Path) -> None:
    """Read everything that the doctor reads, from one folder."""
    packages = observe_packages([str(site)])
    list(requirements("tensorflow", [str(site)]))
    observe_tensorflow(packages, {"XLA_FLAGS": "--xla_dump_to=/x"})
    wheel_folders([str(site)])
    read_cache(site)
    observe_host({}, site, site)
    observe_python(sys.executable, {})
    for path in site.glob("nvidia/*/lib/*"):
        problem_of(path, "x86_64")


@pytest.mark.parametrize("stand_in", STAND_INS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", FILES)
def test_special_file_does_not_block_the_doctor(site: Path, name: str, stand_in: Callable[[Path], None]) -> None:
    path = site / name
    if path.is_dir():
        path.rename(site / "away")
    elif path.exists():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    stand_in(path)
    began = time.monotonic()
    look(site)
    assert time.monotonic() - began < MOST_SECONDS


@pytest.mark.parametrize("stand_in", [fifo, loop, endless], ids=lambda make: make.__name__)
def test_special_file_in_place_of_a_library_is_reported(site: Path, stand_in: Callable[[Path], None]) -> None:
    path = site / "libcudart.so.12"
    stand_in(path)
    assert problem_of(path, "x86_64").startswith("cannot be read")


def test_intact_files_are_read(site: Path) -> None:
    """Without this, the tests above would prove nothing."""
    packages = observe_packages([str(site)])
    found = observe_tensorflow(packages, {})
    assert found is not None
    assert (found.version, found.cuda_version, packages.get("tensorflow").requires) == (
        "2.21.0",
        (12, 5, 1),
        ("keras",),
    )
    assert list(requirements("tensorflow", [str(site)])) == ["keras"]
    assert observe_host({}, site, site).memory_bytes == 1000 * 1024
