"""Distributions are read from their metadata, in whatever state they are, along with a wheel's build information."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from oomph.doctor.observe.packages import observe_packages
from oomph.doctor.observe.tensorflow import observe_tensorflow

BUILD_INFO = (
    "import collections\nbuild_info = collections.OrderedDict([('cuda_compute_capabilities', ['sm_60', 'compute_90']), "
    "('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True), ('is_rocm_build', False)])\n"
)


def install(
    site: Path, name: str, version: str, *requires: str, module: str = "", tag: str = "cp311-cp311-linux_x86_64"
) -> Path:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {each}" for each in requires),
    ]
    (folder / "METADATA").write_text("\n".join(lines) + "\n\nA description: with a colon.\n")
    (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    if module:
        (site / module).mkdir()
        (site / module / "__init__.py").touch()
    return folder


def build_info(site: Path, text: str) -> None:
    folder = site / "tensorflow/python/platform"
    folder.mkdir(parents=True)
    (folder / "build_info.py").write_text(text)


def test_first_copy_of_each_relevant_package_on_the_path_is_kept(tmp_path):
    install(tmp_path / "user", "numpy", "1.26.4", module="numpy")
    install(tmp_path / "site", "numpy", "2.1.0", module="numpy")
    install(tmp_path / "site", "pandas", "2.2.0", module="pandas")
    packages = observe_packages((str(tmp_path / "user"), str(tmp_path / "site")))
    assert [(each.name, each.version) for each in packages.found] == [("numpy", "1.26.4"), ("numpy", "2.1.0")]
    assert packages.get("numpy").version == "1.26.4"


def test_tensorflow_requirements_and_tags_are_kept(tmp_path):
    install(
        tmp_path, "tensorflow", "2.21.0", 'nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"', module="tensorflow"
    )
    package = observe_packages((str(tmp_path),)).get("tensorflow")
    assert package.requires == ('nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',)
    assert package.tags == ("cp311-cp311-linux_x86_64",)
    assert package.problem == ""


def test_half_removed_package_is_reported(tmp_path):
    install(tmp_path, "tensorflow", "2.21.0")
    assert observe_packages((str(tmp_path),)).get("tensorflow").problem == "tensorflow/__init__.py is gone"


def test_missing_metadata_is_reported_and_the_folder_name_is_used(tmp_path):
    (tmp_path / "keras-3.12.0.dist-info").mkdir()
    package = observe_packages((str(tmp_path),)).get("keras")
    assert (package.version, package.problem) == ("3.12.0", "no METADATA")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00broken", b"Name\nVersion", b"\x00" * 100])
def test_broken_metadata_is_recorded_without_an_error(tmp_path, content):
    folder = tmp_path / "numpy-2.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(content)
    package = observe_packages((str(tmp_path),)).get("numpy")
    assert package.version == "2.1.0"
    assert package.problem


def test_leftovers_of_an_interrupted_pip_install_are_reported(tmp_path):
    (tmp_path / "~ensorflow-2.20.0.dist-info").mkdir()
    assert observe_packages((str(tmp_path),)).leftovers == (str(tmp_path / "~ensorflow-2.20.0.dist-info"),)


def test_missing_folders_and_files_on_the_path_are_ignored(tmp_path):
    (tmp_path / "file").touch()
    assert observe_packages((str(tmp_path / "nowhere"), str(tmp_path / "file"), "")).found == ()


def test_build_facts_are_read_without_an_import(tmp_path):
    install(tmp_path, "tensorflow", "2.21.0", module="tensorflow")
    build_info(tmp_path, BUILD_INFO + "raise RuntimeError('imported')\n")
    found = observe_tensorflow(observe_packages((str(tmp_path),)), {})
    assert (found.cuda, found.cuda_version, found.cudnn_version) == (True, (12, 5, 1), (9, 3))
    assert (found.capabilities, found.source) == (("sm_60", "compute_90"), "build_info.py")


def test_wheel_without_build_facts_uses_the_release_table(tmp_path):
    install(tmp_path, "tensorflow", "2.19.1", module="tensorflow")
    build_info(tmp_path, "build_info = {'cpu_compiler': 'clang'}\n")
    found = observe_tensorflow(observe_packages((str(tmp_path),)), {})
    assert (found.source, found.cuda_version, found.cudnn_version) == ("the release table", (12, 5, 1), (9, 3))


def test_unknown_release_takes_cudnn_version_from_its_requirements(tmp_path):
    install(
        tmp_path,
        "tensorflow",
        "2.22.0rc0",
        'nvidia-cudnn-cu12<10,>=9.10.2.21; extra == "and-cuda"',
        module="tensorflow",
    )
    found = observe_tensorflow(observe_packages((str(tmp_path),)), {})
    assert (found.source, found.cuda, found.cuda_version, found.cudnn_version) == ("unknown", None, (), (9, 10))
    assert found.capabilities == ()
    assert found.numbers == (2, 22, 0)


@pytest.mark.parametrize("text", ["", "build_info = (", "build_info = f()", "build_info = OrderedDict(x)", "\0"])
def test_broken_build_info_leaves_the_source_unknown(tmp_path, text):
    install(tmp_path, "tensorflow", "9.9.9", module="tensorflow")
    build_info(tmp_path, text)
    assert observe_tensorflow(observe_packages((str(tmp_path),)), {}).source == "unknown"


def test_missing_tensorflow_is_recorded_as_none(tmp_path):
    assert observe_tensorflow(observe_packages((str(tmp_path),)), {}) is None


@pytest.mark.skipif(shutil.which("gcc") is None, reason="makes a library with gcc")
@pytest.mark.parametrize("place", ["lib/python3.11/site-packages/tensorflow", "lib"])
def test_tensorflow_library_that_loads_cuda_is_found_in_wheels_and_conda(tmp_path, place):
    site = tmp_path / "lib/python3.11/site-packages"
    install(site, "tensorflow", "2.21.0", module="tensorflow")
    path = tmp_path / place / "libtensorflow_framework.so.2"
    command = ["gcc", "-shared", "-x", "c", "/dev/null", "-o", str(path), "-Wl,--enable-new-dtags,-rpath,$ORIGIN/x"]
    subprocess.run(command, check=True, timeout=60)
    found = observe_tensorflow(observe_packages((str(site),)), {})
    assert (found.loader, found.runpath) == (str(path), (str(path.parent / "x"),))
