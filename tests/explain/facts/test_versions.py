"""VersionReader are read from what logs print, and from paths that only some versions have."""

from __future__ import annotations

import pytest

from oomph.explain.facts.fact import Library
from oomph.explain.facts.version_range import VersionRange
from oomph.explain.facts.versions import VersionReader

_ABSEIL = "I0000 00:00:1734567890.123456    1234 gpu_device.cc:2022] Created device"
_DEVICE = (
    "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 13949 MB memory:  -> device: 0, "
    "name: Tesla T4, pci bus id: 0000:00:04.0, compute capability: 7.5"
)


def _read(*lines: str) -> VersionReader:
    versions = VersionReader()
    for number, line in enumerate(lines, 1):
        versions.see(line, number)
    return versions


@pytest.mark.parametrize(
    ("line", "library", "exact"),
    [
        ("TensorFlow version: 2.10.1", "tensorflow", (2, 10, 1)),
        ("tf.__version__ = 2.15.0", "tensorflow", (2, 15, 0)),
        ("TF version: 2.9.0-rc1", "tensorflow", (2, 9, 0)),
        ("tensorflow==2.12.0", "tensorflow", (2, 12, 0)),
        ("tensorflow-intel             2.13.0", "tensorflow", (2, 13, 0)),
        ("tf_keras                     2.16.0", "tf_keras", (2, 16, 0)),
        ("Successfully installed keras-3.3.3 ml-dtypes-0.3.2 numpy-1.26.4", "keras", (3, 3, 3)),
        ("Successfully installed keras-3.3.3 ml-dtypes-0.3.2 numpy-1.26.4", "numpy", (1, 26, 4)),
        ("Python 3.11.4 (main, Jul  5 2023, 13:45:01) [GCC 11.2.0]", "python", (3, 11, 4)),
        ('  File "/usr/lib/python3.10/threading.py", line 1016, in _bootstrap', "python", (3, 10)),
        ("| NVIDIA-SMI 535.54.03    Driver Version: 535.54.03    CUDA Version: 12.2     |", "driver", (535, 54, 3)),
        ("kernel reported version is: 470.82.1", "driver", (470, 82, 1)),
        ("Cuda compilation tools, release 11.8, V11.8.89", "cuda", (11, 8)),
        ("gpu_dnn.cc:432] Loaded cuDNN version 8906", "cudnn", (8, 9, 6)),
        ("gpu_dnn.cc:432] Loaded cuDNN version 90101", "cudnn", (9, 1, 1)),
        ("Loaded runtime CuDNN library: 8.1.0 but source was compiled with: 8.6.0.", "cudnn", (8, 1, 0)),
        ("A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.2 as it may crash", "numpy", (2, 0, 2)),
    ],
)
def test_printed_version_is_exact(line: str, library: Library, exact: tuple[int, ...]) -> None:
    (fact,) = (each for each in _read("", line).found if each.library == library)
    assert fact.versions == VersionRange.exactly(exact)
    assert fact.line == 2


@pytest.mark.parametrize(
    "line",
    [
        "pip install tensorflow==2.10.0",
        "ERROR: tf-models 2.9 requires tensorflow==2.9.0, but you have something else",
        "tensorflow 2.15.0 requires numpy<2.0.0",  # the version that somebody needs stands at the end
        "ERROR: Could not find a version that satisfies the requirement keras==2.15.0 (from versions: none)",
    ],
)
def test_requirement_is_not_an_installed_version_of_what_it_names(line: str) -> None:
    found = {each.library: each.versions for each in _read(line).found}
    assert found in ({}, {"tensorflow": VersionRange.exactly((2, 15, 0))})


@pytest.mark.parametrize(
    ("line", "library", "versions"),
    [
        ('  File "/e/site-packages/keras/src/models/model.py", line 1, in x', "keras", VersionRange((3,))),
        (
            r'  File "C:\e\site-packages\keras\src\engine\training.py", line 1, in x',
            "keras",
            VersionRange((2, 13), (2, 15)),
        ),
        ('  File "/e/site-packages/keras/engine/training.py", line 1, in x', "keras", VersionRange(until=(2, 12))),
        ('  File "/e/site-packages/keras/src/optimizers/base_optimizer.py", line 4, in x', "keras", VersionRange((3,))),
        ("2024-01-01 external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc", "tensorflow", VersionRange((2, 15))),
        ("tensorflow/stream_executor/platform/default/dso_loader.cc:60]", "tensorflow", VersionRange(until=(2, 11))),
        (_ABSEIL, "tensorflow", VersionRange((2, 17))),
    ],
)
def test_path_implies_a_range(line: str, library: Library, versions: VersionRange) -> None:
    (fact,) = (each for each in _read(line).found if each.library == library)
    assert fact.versions == versions


def test_file_that_both_generations_of_keras_have_implies_nothing() -> None:
    assert not _read('  File "/e/site-packages/keras/src/models/cloning.py", line 4, in x').found


def test_ranges_of_several_lines_are_joined_and_keep_the_line_that_narrowed_them() -> None:
    versions = _read("external/local_xla/xla/a.cc", "train", _ABSEIL, "external/local_xla/xla/b.cc").found
    assert [(each.versions, each.line) for each in versions] == [(VersionRange((2, 17)), 3)]


def test_last_printed_version_is_in_force() -> None:
    lines = ("tensorflow==2.10.0", "Successfully installed tensorflow-2.15.0", "external/local_xla/xla/a.cc")
    (fact,) = _read(*lines).found
    assert (fact.versions, fact.line) == (VersionRange.exactly((2, 15, 0)), 2)


def test_gpu_is_known_by_name_and_compute_capability() -> None:
    (gpu,) = _read(_DEVICE, _DEVICE).gpus
    assert (gpu.name, gpu.compute_capability, gpu.line) == ("Tesla T4", (7, 5), 1)
