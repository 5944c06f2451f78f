"""ELF files, built here with gcc or corrupted by hand, are read as the loader reads them."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from oomph.doctor.observe.elf import names_in, problem_of, read_elf
from oomph.doctor.observe.libraries import SearchPath, read_cache, split_path, wheel_folders
from oomph.doctor.observe.tensorflow import architectures
from oomph.doctor.snapshot import Candidate, Library

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="makes libraries with gcc")


def build(path: Path, *options: str, code: str = "int answer(void) { return 42; }") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), *options]
    subprocess.run(command, input=code.encode(), check=True, timeout=60)
    return path


@needs_gcc
def test_runpath_is_read_with_origin_resolved_and_duplicates_removed(tmp_path):
    path = build(
        tmp_path / "tf/lib.so", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../nvidia/a/lib:/opt/x:$ORIGIN/../nvidia/a/lib"
    )
    assert read_elf(path).runpath == (str(tmp_path / "nvidia/a/lib"), "/opt/x")


@needs_gcc
def test_rpath_is_used_when_there_is_no_runpath(tmp_path):
    path = build(tmp_path / "lib.so", "-Wl,--disable-new-dtags,-rpath,/opt/old")
    assert read_elf(path).runpath == ("/opt/old",)


@needs_gcc
def test_partial_name_is_not_found_in_a_library(tmp_path):
    code = 'const char *names[] = {"xla_dump_to", "xla_gpu_autotune_level_of_old"};'
    path = build(tmp_path / "lib.so", "-O1", code=code)
    asked = ("xla_dump_to", "xla_gpu_autotune_level", "xla_gpu_autotune_level_of_old")
    assert names_in(path, asked) == {"xla_dump_to", "xla_gpu_autotune_level_of_old"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not an ELF file"),
        (b"\x7fELF\x01\x01" + bytes(100), "built for a different machine"),
        (b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 183) + bytes(60), "built for a different machine"),
        (b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 62) + bytes(60), ""),
    ],
)
def test_unloadable_file_is_reported(tmp_path, content, words):
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    assert problem_of(path, "x86_64") == words


def test_broken_link_is_reported(tmp_path):
    path = tmp_path / "lib.so"
    path.symlink_to(tmp_path / "gone.so")
    assert problem_of(path, "x86_64") == "broken link"


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(200), os.urandom(4096)])
def test_reader_raises_only_its_documented_errors(tmp_path, content):
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    try:
        read_elf(path)
    except (ValueError, OSError):
        pass


def candidate(folder: Path, name: str = "libx.so.1") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 62) + bytes(60))
    return str(folder)


def test_search_order_matches_the_loader(tmp_path):
    places = {name: candidate(tmp_path / name) for name in ("first", "runpath", "cached", "lib64", "wheel")}
    cache = {"libx.so.1": (f"{places['cached']}/libx.so.1",)}
    search = SearchPath((places["first"],), (places["runpath"],), cache, (places["wheel"],), root=tmp_path)
    library = search.find("libx.so.1", True)
    assert [each.where for each in library.candidates] == [
        "LD_LIBRARY_PATH",
        "RUNPATH",
        "ld.so.cache",
        "default folder",
        "wheel",
    ]
    assert library.winner == library.candidates[0]
    os.remove(tmp_path / "first/libx.so.1")
    assert search.find("libx.so.1", True).winner.where == "RUNPATH"


def test_broken_files_and_unsearched_wheels_are_never_chosen(tmp_path):
    broken, wheel = candidate(tmp_path / "broken"), candidate(tmp_path / "site/nvidia/x/lib")
    (tmp_path / "broken/libx.so.1").write_bytes(b"")
    library = SearchPath((broken,), (), {}, (wheel,), root=tmp_path).find("libx.so.1", True)
    assert library.winner is None
    assert library.candidates[0].problem == "an empty file"
    assert [each.folder for each in library.in_wheels] == [wheel]


def test_library_path_is_split_into_entries():
    assert split_path(None) == ()
    assert split_path("/a::/b") == ("/a", ".", "/b")


def test_wheel_folders_of_cuda_12_and_13_are_found(tmp_path):
    for name in ("cublas", "cu13"):
        (tmp_path / "nvidia" / name / "lib").mkdir(parents=True)
    assert [Path(each).parent.name for each in wheel_folders((str(tmp_path),))] == ["cu13", "cublas"]


@pytest.mark.skipif(not Path("/etc/ld.so.cache").exists() or shutil.which("ldconfig") is None, reason="no glibc cache")
def test_loader_cache_entries_match_ldconfig():
    printed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, timeout=30).stdout
    expected: dict[str, list[str]] = {}
    for line in printed.splitlines()[1:]:
        if " => " in line:
            expected.setdefault(line.split()[0], []).append(line.split(" => ")[1])
    assert expected
    assert {name: list(paths) for name, paths in read_cache().items()} == expected


def test_damaged_loader_cache_has_no_entries(tmp_path):
    (tmp_path / "etc").mkdir()
    for content in (b"", b"nonsense", b"glibc-ld.so.cache1.1" + struct.pack("<I", 9) + bytes(40)):
        (tmp_path / "etc/ld.so.cache").write_bytes(content)
        assert read_cache(tmp_path) == {}


def fat_binary(*entries: tuple[int, int]) -> bytes:
    """Build a fat binary as nvcc does, from (kind, architecture) pairs, with some bytes in place of the code."""
    body = b""
    for kind, number in entries:
        header = struct.pack("<HHIQ", kind, 0x101, 64, 32) + bytes(12) + struct.pack("<I", number)
        body += header.ljust(64, b"\0") + bytes(32)
    return b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, len(body)) + body


@needs_gcc
def test_gpu_architectures_of_a_library_are_read_from_its_fat_binaries(tmp_path):
    content = fat_binary((2, 60), (2, 80), (1, 90)) + bytes(8) + fat_binary((2, 90), (1, 90))
    numbers = ",".join(map(str, content))
    code = f'__attribute__((section(".nv_fatbin"))) const unsigned char code[] = {{{numbers}}};'
    path = build(tmp_path / "lib.so", code=code)
    assert architectures(path) == ("sm_60", "sm_80", "sm_90", "compute_90")


@needs_gcc
def test_library_without_gpu_code_has_no_architectures(tmp_path):
    assert architectures(build(tmp_path / "lib.so")) == ()


def test_only_site_packages_folders_are_treated_as_wheels():
    """Docker images add /usr/local/nvidia/lib to LD_LIBRARY_PATH."""
    folders = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/env/site-packages/nvidia/cublas/lib")
    library = Library("l", True, tuple(Candidate(f"{folder}/l", "LD_LIBRARY_PATH", folder) for folder in folders))
    assert [each.folder for each in library.in_wheels] == ["/env/site-packages/nvidia/cublas/lib"]
