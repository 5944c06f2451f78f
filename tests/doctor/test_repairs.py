"""Repairs that only set environment variables, and how they are printed for a shell."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from machines import SITE

from oomph.doctor.render import as_exports
from oomph.doctor.repairs import repairs
from oomph.doctor.snapshot import Candidate, Library

LOST = f"{SITE}/nvidia/cusolver/lib"


def changed(snapshot, library: Library, **environment: str):
    libraries = [library if each.soname == library.soname else each for each in snapshot.libraries]
    return replace(snapshot, libraries=tuple(libraries), environment=environment)


def lost_cusolver() -> Library:
    return Library("libcusolver.so.11", True, (Candidate(f"{LOST}/libcusolver.so.11", "wheel", LOST),))


def test_healthy_machine_needs_no_repair(healthy):
    assert repairs(healthy) == ()
    assert as_exports((), healthy).startswith("# nothing")


def test_missing_library_folder_is_appended_to_the_library_path(healthy):
    (repair,) = repairs(changed(healthy, lost_cusolver(), LD_LIBRARY_PATH="/mine"))
    assert (repair.variable, repair.value) == ("LD_LIBRARY_PATH", f"/mine:{LOST}")
    assert "libcusolver.so.11" in repair.why


def test_cudnn_from_a_wheel_precedes_an_outdated_one(healthy):
    old = Candidate("/old/libcudnn.so.9", "LD_LIBRARY_PATH", "/old", version="9.1.0")
    own = Candidate(f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "RUNPATH", f"{SITE}/nvidia/cudnn/lib", version="9.3.0")
    (repair,) = repairs(changed(healthy, Library("libcudnn.so.9", True, (old, own)), LD_LIBRARY_PATH="/old"))
    assert repair.value == f"{SITE}/nvidia/cudnn/lib:/old"


def test_outdated_cudnn_without_a_replacement_gets_no_repair(healthy):
    old = Candidate("/old/libcudnn.so.9", "LD_LIBRARY_PATH", "/old", version="9.1.0")
    assert repairs(changed(healthy, Library("libcudnn.so.9", True, (old,)), LD_LIBRARY_PATH="/old")) == ()


def test_stub_is_removed_only_if_a_real_driver_follows(healthy):
    stub = Candidate("/stubs/libcuda.so.1", "LD_LIBRARY_PATH", "/stubs")
    real = Candidate("/usr/lib/libcuda.so.1", "ld.so.cache", "/usr/lib")
    refused = replace(healthy, driver=replace(healthy.driver, init=34))
    (repair,) = repairs(changed(refused, Library("libcuda.so.1", True, (stub, real)), LD_LIBRARY_PATH="/stubs"))
    assert repair.value is None
    assert repairs(changed(refused, Library("libcuda.so.1", True, (stub,)), LD_LIBRARY_PATH="/stubs")) == ()


@pytest.mark.parametrize(
    ("value", "meant"), [("yes", "true"), ("1", "true"), ("True", "true"), ("0", "false"), ("nonsense", "false")]
)
def test_memory_growth_value_is_rewritten_for_tensorflow(healthy, value, meant):
    (repair,) = repairs(replace(healthy, environment={"TF_FORCE_GPU_ALLOW_GROWTH": value}))
    assert repair.value == meant


@pytest.mark.parametrize(("value", "meant"), [("cuda_malloc_asinc", "cuda_malloc_async"), ("bfc", None)])
def test_misspelt_allocator_is_corrected_or_removed(healthy, value, meant):
    (repair,) = repairs(replace(healthy, environment={"TF_GPU_ALLOCATOR": value}))
    assert repair.value == meant


def test_export_lines_set_the_repaired_values_in_a_shell(healthy):
    environment = {"TF_GPU_ALLOCATOR": "bfc", "TF_FORCE_GPU_ALLOW_GROWTH": "yes", "LD_LIBRARY_PATH": "/a b"}
    snapshot = changed(healthy, lost_cusolver(), **environment)
    lines = as_exports(repairs(snapshot), snapshot)
    shell = f'{lines}\nprintf "%s|%s|%s" "$LD_LIBRARY_PATH" "$TF_FORCE_GPU_ALLOW_GROWTH" "${{TF_GPU_ALLOCATOR-none}}"'
    done = subprocess.run(["sh", "-euc", shell], env=environment, capture_output=True, text=True, timeout=30)
    assert done.stdout == f"/a b:{LOST}|true|none"
    assert f'ctypes.CDLL("{LOST}/libcusolver.so.11"' in lines


def test_machine_without_a_gpu_gets_no_library_path_repair(healthy):
    host = replace(healthy.host, pci=(), nodes=(), kernel_driver="")
    without = replace(healthy, host=host, driver=replace(healthy.driver, asked=False))
    assert repairs(changed(without, lost_cusolver())) == ()
