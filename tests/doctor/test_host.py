"""Host facts are read from small files under a root, even if some are missing or unreadable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.doctor.observe import observe
from oomph.doctor.observe.host import observe_environment, observe_host
from oomph.doctor.observe.python import observe_python
from oomph.errors import ExamineError
from oomph.run.supervisor.interpreter import has_module


def write(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_host_facts_are_empty_for_an_empty_root(tmp_path):
    host = observe_host({}, tmp_path)
    assert (host.container, host.pci, host.nodes, host.kernel_driver, host.memory_bytes) == ("", (), (), "", None)


@pytest.mark.parametrize(
    ("path", "environ", "container"),
    [
        (".dockerenv", {}, "docker"),
        ("run/.containerenv", {}, "podman"),
        ("x", {"KUBERNETES_SERVICE_HOST": "1"}, "kubernetes"),
        ("x", {"container": "lxc"}, "lxc"),
        ("x", {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
    ],
)
def test_container_kind_is_detected(tmp_path, path, environ, container):
    write(tmp_path, path)
    assert observe_host(environ, tmp_path).container == container


def test_smallest_parent_cgroup_memory_limit_applies(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", "1000\n")
    write(tmp_path, "sys/fs/cgroup/a/b/memory.max", "max\n")
    assert observe_host({}, tmp_path).memory_limit_bytes == 1000


def test_cgroup_v1_limit_is_read_unless_unlimited(tmp_path):
    write(tmp_path, "proc/self/cgroup", "4:memory:/job\n")
    write(tmp_path, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", str((1 << 63) - 4096))
    assert observe_host({}, tmp_path).memory_limit_bytes == 2000


def test_gpus_device_files_and_kernel_module_are_found(tmp_path):
    for name, vendor, kind in (
        ("0000:01:00.0", "0x10de", "0x030200"),
        ("0000:02:00.0", "0x1002", "0x030000"),
        ("0000:03:00.0", "0x10de", "0x040300"),
    ):
        write(tmp_path, f"sys/bus/pci/devices/{name}/vendor", vendor)
        write(tmp_path, f"sys/bus/pci/devices/{name}/class", kind)
        write(tmp_path, f"sys/bus/pci/devices/{name}/device", "0x2330")
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        write(tmp_path, f"dev/{name}")
    write(
        tmp_path,
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version: 12\n",
    )
    (tmp_path / "sys/module/nouveau").mkdir(parents=True)
    host = observe_host({}, tmp_path)
    assert [(each.address, each.vendor) for each in host.pci] == [("0000:01:00.0", "10de"), ("0000:02:00.0", "1002")]
    assert [Path(node.path).name for node in host.nodes] == ["nvidia-uvm", "nvidia0", "nvidiactl"]
    assert (host.kernel_driver, host.modules) == ("550.54.15", ("nouveau",))


def test_folder_in_place_of_a_system_file_is_ignored(tmp_path):
    for path in ("proc/meminfo", "proc/self/cgroup", "proc/driver/nvidia/version", "proc/1/cgroup"):
        (tmp_path / path).mkdir(parents=True)
    host = observe_host({}, tmp_path)
    assert (host.memory_bytes, host.kernel_driver) == (None, "")


def test_kernel_cache_path_matches_cuda(tmp_path):
    assert observe_host({"CUDA_CACHE_PATH": str(tmp_path / "c")}, tmp_path).cache_path == str(tmp_path / "c")
    write(tmp_path, "file")
    assert not observe_host({"CUDA_CACHE_PATH": str(tmp_path / "file/c")}, tmp_path).cache_writable


def test_python_is_queried_without_modules_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("json.py", "importlib.py"):
        (tmp_path / name).write_text("raise SystemExit(9)")
    (tmp_path / "own.py").touch()
    link = tmp_path / "python"
    link.symlink_to(os.path.realpath(sys.executable))
    assert observe_python(str(link), {}).version == sys.version_info[:3]
    assert [has_module(str(link), name) for name in ("own", "no_such")] == [True, False]


def test_version_and_tag_of_another_python_are_read(tmp_path):
    link = tmp_path / "python"
    link.symlink_to(os.path.realpath(sys.executable))
    asked = observe_python(str(link), {})
    assert asked.version == sys.version_info[:3]
    assert asked.tag == f"cp3{sys.version_info[1]}"


def test_non_python_program_raises_examine_error(tmp_path):
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho hello\n")
    path.chmod(0o755)
    with pytest.raises(ExamineError, match="cannot be queried: unexpected output"):
        observe_python(str(path), {"PATH": os.defpath})


def test_moved_virtual_environment_is_detected(tmp_path):
    """Created with venv and then moved by hand: bin/pip still points to the old location."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "old")], check=True, timeout=120)
    write(tmp_path, "old/bin/pip", f"#!{tmp_path / 'old/bin/python'}\n")
    assert observe_python(str(tmp_path / "old/bin/python"), {}).moved_from == ""
    (tmp_path / "old").rename(tmp_path / "new")
    moved = observe_python(str(tmp_path / "new/bin/python"), {})
    assert moved.moved_from == str(tmp_path / "old")
    assert not moved.pip


def test_environment_variables_that_may_hold_secrets_are_not_recorded():
    """Terraform uses the TF_ prefix, too."""
    kept = {"LD_LIBRARY_PATH": "/a", "TF_GPU_ALLOCATOR": "x", "NVIDIA_VISIBLE_DEVICES": "all", "XLA_FLAGS": "--xla_a"}
    secret = {"TF_VAR_password": "p", "TF_TOKEN_app": "t", "NVIDIA_API_KEY": "k", "CUDA_SECRET": "s", "HOME": "/h"}
    assert observe_environment({**kept, **secret}) == kept


def test_unreadable_part_is_recorded_and_the_rest_is_read(monkeypatch):
    def broken(*words: object) -> None:
        raise PermissionError("/proc is closed")

    monkeypatch.setattr("oomph.doctor.observe.observe_host", broken)
    snapshot = observe(environ={})
    assert snapshot.unread == {"host": "PermissionError: /proc is closed"}
    assert snapshot.python.executable == sys.executable
