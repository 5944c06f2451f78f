"""The 2.21.0 wheel's library path, repaired end to end: TensorFlow finds no libcusolver in a wheel's layout.

The layout is the installed TensorFlow, linked file by file, next to nvidia/*/lib folders with the rig's libraries.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import oomph

pytestmark = [
    pytest.mark.rig,
    pytest.mark.skipif(
        distribution("tensorflow").version != "2.21.0",
        reason="about the wheel of TensorFlow 2.21.0, whose library path lacks cusolver: others need no repair",
    ),
]

FOLDERS = {
    "libcudart.so.12": "cuda_runtime",
    "libcublas.so.12": "cublas",
    "libcublasLt.so.12": "cublas",
    "libcudnn.so.9": "cudnn",
    "libcufft.so.11": "cufft",
    "libcusolver.so.11": "cusolver",
    "libcusparse.so.12": "cusparse",
    "libnccl.so.2": "nccl",
    "libcupti.so.12": "cuda_cupti",
}
LIST = "import tensorflow as tf\nprint('GPUs', len(tf.config.list_physical_devices('GPU')), tf.__file__)\n"
ONE_OP = Path(__file__).parents[1] / "rig" / "examples" / "one_op.py"


def link_tree(source: Path, target: Path) -> None:
    """Create real folders with links to the files: the loader resolves $ORIGIN to the folder of a link."""
    for folder, folders, files in os.walk(source):
        folders[:] = [name for name in folders if name not in ("include", "__pycache__")]
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in files:
            (place / name).symlink_to(Path(folder) / name)


@pytest.fixture(scope="module")
def layout(tmp_path_factory, rig):
    """Create a site-packages folder like that of `pip install tensorflow[and-cuda]`."""
    found = distribution("tensorflow")
    site = tmp_path_factory.mktemp("site")
    package = Path(importlib.util.find_spec("tensorflow").origin).parent
    link_tree(package, site / "tensorflow")
    link_tree(Path(str(found._path)), site / "tensorflow-2.21.0.dist-info")
    runtime = Path(rig["LD_LIBRARY_PATH"].split(os.pathsep)[1])
    for library, folder in FOLDERS.items():
        (site / "nvidia" / folder / "lib").mkdir(parents=True, exist_ok=True)
        shutil.copy(runtime / library, site / "nvidia" / folder / "lib" / library)
    return site


@pytest.fixture
def environ(layout, rig):
    """The driver is on the loader's path, but the CUDA libraries are only in their wheels."""
    return {
        "LD_LIBRARY_PATH": rig["LD_LIBRARY_PATH"].split(os.pathsep)[0],
        "PYTHONPATH": os.pathsep.join((str(layout), str(Path(oomph.__file__).parents[1]))),
        "CUDA_VISIBLE_DEVICES": "0",
        "TF_CPP_MIN_LOG_LEVEL": "0",
    }


def doctor(work, environ, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oomph", "doctor", *words]
    return subprocess.run(command, env=work.environ(**environ), capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_tensorflow_sees_the_gpu_only_under_oomph_run(work, layout, environ):
    script = work.write(LIST, "list.py")
    plain = work.plain(script, env=environ)
    assert plain.stdout == f"GPUs 0 {layout}/tensorflow/__init__.py\n"
    ours = work.oomph(script, env=environ)
    assert ours.stdout == f"GPUs 1 {layout}/tensorflow/__init__.py\n"
    assert (
        "oomph: repaired for this run: TensorFlow does not search the wheel folders that contain libcusolver.so.11"
        in ours.stderr
    )
    (event,) = ours.events("machine")
    path = f"{environ['LD_LIBRARY_PATH']}:{layout}/nvidia/cusolver/lib"
    assert event.data["repairs"] == {"LD_LIBRARY_PATH": path}


def test_doctor_reports_the_missing_library_and_its_folder(work, layout, environ):
    ended = doctor(work, environ, "--json")
    (entry,) = [entry for entry in json.loads(ended.stdout)["checks"] if entry["status"] in ("fail", "warn")]
    assert entry["name"] == "cuda-libraries"
    assert (
        f"libcusolver.so.11 (it is in {layout}/nvidia/cusolver/lib, where TensorFlow does not look)" in entry["message"]
    )
    assert entry["remedies"][0]["action"] == "repair-environment"
    assert ended.returncode == 1


@pytest.mark.slow
def test_fix_env_output_repairs_a_shell(work, environ):
    lines = doctor(work, environ, "--fix-env").stdout
    script = work.write(LIST, "list.py")
    command = ["sh", "-c", f'{lines}\nexec "$0" "$1"', sys.executable, script]
    ended = subprocess.run(
        command, cwd=work.folder, env=work.environ(**environ), capture_output=True, text=True, timeout=120
    )
    assert ended.stdout.startswith("GPUs 1 ")


@pytest.mark.slow
def test_notebook_lines_repair_a_running_process(work, environ):
    lines = doctor(work, environ, "--fix-env").stdout.splitlines()
    preload = "\n".join(line.removeprefix("#   ") for line in lines if line.startswith("#   "))
    assert "ctypes.CDLL" in preload
    assert work.plain(work.write(f"{preload}\n{LIST}"), env=environ).stdout.startswith("GPUs 1 ")


@pytest.mark.slow
def test_repair_puts_the_wheel_cudnn_before_an_older_one(work, layout, environ):
    old = work.folder / "old"
    old.mkdir()
    shutil.copy(layout / "nvidia/cudnn/lib/libcudnn.so.9", old)
    (old / "libcudnn.so.9.version").write_text("90100")
    environ["LD_LIBRARY_PATH"] += f"{os.pathsep}{old}{os.pathsep}{layout}/nvidia/cusolver/lib"
    ended = doctor(work, environ, "--json")
    wrong = {
        entry["name"]: entry for entry in json.loads(ended.stdout)["checks"] if entry["status"] in ("fail", "warn")
    }
    assert set(wrong) == {"cudnn-version", "library-shadowing"}
    assert f"{old}/libcudnn.so.9 (via LD_LIBRARY_PATH entry {old})" in wrong["cudnn-version"]["message"]
    plain = work.plain(str(ONE_OP), "conv", env=environ)
    assert "No DNN in stream executor" in plain.stdout
    (repair,) = json.loads(ended.stdout)["repairs"]
    mended = subprocess.run(
        [sys.executable, str(ONE_OP), "conv"],
        env=work.environ(**{**environ, "LD_LIBRARY_PATH": repair["value"]}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Loaded cuDNN version 90300" in mended.stderr
