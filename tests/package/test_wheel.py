"""The wheel and the sdist, built as for a release, and installed in empty environments with each Python found here."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from functools import cache
from pathlib import Path

import pytest

import oomph

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 280
"""The limit, in seconds, for one command. Installing the wheel's few dependencies takes ten seconds at most."""
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
LOG = ROOT / "tests/logs/oomgraph.log"
SCRIPT = "import sys\nprint('hello', *sys.argv[1:])\nraise SystemExit(3)\n"
RIGHT = """
import numpy as np

import oomph
import oomph.testing


@oomph.guard(batched=("images",))
def train_step(images: float) -> float:
    return images * 2


@oomph.guard
def other_step(images: float) -> float:
    return images


def main() -> None:
    for step in oomph.steps([1.0, 2.0], epochs=2, state=[]):
        loss: float = train_step(step) + other_step(step)
    lengths: list[int] = list(oomph.map_batches(len, ["a", "b"], 2))
    with oomph.testing.injecting(oomph.testing.OutOfMemory(samples=16)) as injector:
        injector.steps_committed(len(lengths))
    outcome: oomph.Isolated = oomph.isolate(main, timeout=3.5)
    faults: list[str] = [diagnosis.fault.code for diagnosis in outcome.diagnoses]
    try:
        oomph.enable()
    except oomph.OomphError as error:
        faults += [diagnosis.fault.name for diagnosis in oomph.diagnose(error)]
    print(oomph.__version__, faults, loss, oomph.check(None, np.zeros(3)).has_errors, oomph.plan(None, None).max_batch)


oomph.Monitor(alert=lambda finding: print(finding.message))
"""
WRONG = {
    "oomph.steps([1.0])": "call-arg",
    'oomph.guard(batch=("images",))': "call-overload",
    "oomph.isolate(print).okay": "attr-defined",
    "oomph.gaurd": "attr-defined",
    'oomph.testing.OutOfMemory("16")': "arg-type",
}


def run(*words: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env=inherited | environ, capture_output=True, text=True, timeout=LIMIT
    )


@cache
def python_of(version: str) -> str | None:
    """Return a Python of this version that can make virtual environments: from PATH, or installed by pyenv or uv."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = [*pyenv.glob(f"versions/{version}*/bin/{name}"), *Path.home().glob(f".local/share/uv/python/*/bin/{name}")]
    for python in (shutil.which(name), *map(str, kept)):  # pyenv's commands on PATH may refuse to start
        if python is not None and run(python, "-c", "import ensurepip, venv", cwd=Path("/")).returncode == 0:
            return python
    return None


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with wheel and sdist: those of `make release`, or new ones, the wheel built from the sdist."""
    if "OOMPH_DIST" in os.environ:
        return Path(os.environ["OOMPH_DIST"]).absolute()
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [wheel] = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that installs the wheel in an empty environment of this Python, and returns its `bin`."""

    @cache
    def install(version: str) -> Path:
        python = python_of(version)
        if python is None:
            pytest.skip(reason=f"the wheel is tried with each Python that is installed, and {version} is not")
        folder = tmp_path_factory.mktemp(f"python{version}")
        for words in (
            [python, "-m", "venv", folder],
            [folder / "bin/python", "-m", "pip", "install", "--quiet", wheel],
        ):
            done = run(*words, cwd=folder)
            assert done.returncode == 0, done.stderr
        return folder / "bin"

    return install


def metadata_in(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_wheel_has_all_that_is_read_at_run_time_and_no_tests(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"oomph-{oomph.__version__}.dist-info/"
    assert source - packed == set()
    extra = {name for name in packed - source if not name.startswith(info)}
    assert extra - {"oomph/explain/catalogue/front.jsonl"} == {"oomph/demo/digits.py"}  # both are made by the build
    licenses = {"licenses/LICENSE", "licenses/src/oomph/report/vendor/LICENSE"}
    assert {name.removeprefix(info) for name in packed if "/licenses/" in name} == licenses
    assert wheel.stat().st_size < 4 << 20


def test_sdist_has_what_a_packager_needs(built: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        "pyproject.toml",
        "hatch_build.py",
        "install_demo.py",
        "Makefile",
        "tests/conftest.py",
        "examples/digits.py",
    }
    assert needed | {"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "CITATION.cff"} <= packed


def test_metadata_says_what_the_project_says(wheel: Path) -> None:
    metadata = metadata_in(wheel)
    assert (metadata["Name"], metadata["Version"]) == ("oomph", oomph.__version__)
    assert metadata["License-Expression"] == "Apache-2.0 AND MIT"
    needed = [words for words in metadata.get_all("Requires-Dist", []) if "extra ==" not in words]
    assert [words.partition(">")[0] for words in needed] == ["nvidia-ml-py", "packaging", "psutil", "tomli"]


@pytest.mark.parametrize("version", VERSIONS)
def test_wheel_works_without_tensorflow(installed: Callable[[str], Path], tmp_path: Path, version: str) -> None:
    oomph_, python = installed(version) / "oomph", installed(version) / "python"
    assert run(python, "-c", "import tensorflow", cwd=tmp_path).returncode == 1

    said = run(oomph_, "--version", cwd=tmp_path)
    assert (said.returncode, said.stdout) == (0, f"oomph {oomph.__version__}\n")

    doctor = run(oomph_, "doctor", "--json", cwd=tmp_path)
    assert doctor.returncode in (0, 1), doctor.stderr
    assert json.loads(doctor.stdout)["checks"]

    explained = run(oomph_, "explain", LOG, "--json", cwd=tmp_path)
    assert (explained.returncode, explained.stderr) == (0, "")
    assert json.loads(explained.stdout)["diagnoses"][0]["name"] == "device-oom"

    (tmp_path / "script.py").write_text(SCRIPT)
    ran = run(oomph_, "run", "script.py", "a word", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (3, "hello a word\n")
    assert "Traceback" not in ran.stderr

    demo = run(oomph_, "demo", cwd=tmp_path)
    assert demo.returncode == 2
    assert demo.stderr.endswith("needs packages: pip install tensorflow keras\n")


@pytest.mark.parametrize("version", VERSIONS)
def test_strict_type_checker_accepts_what_is_right_and_nothing_else(
    installed: Callable[[str], Path], tmp_path: Path, version: str
) -> None:
    installed(version)

    def complaints(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        options = ["--strict", "--no-error-summary", f"--python-executable={installed(version) / 'python'}"]
        ignored = ["[mypy]", "[mypy-numpy.*]", "ignore_missing_imports = true"]
        (tmp_path / "mypy.ini").write_text("\n".join(ignored))
        return run(sys.executable, "-m", "mypy", *options, "--cache-dir", tmp_path / "cache", name, cwd=tmp_path).stdout

    assert complaints("right.py", RIGHT) == ""
    wrong = "import oomph, oomph.testing\n" + "\n".join(WRONG)
    lines = complaints("wrong.py", wrong).splitlines()
    for number, code in enumerate(WRONG.values(), start=2):
        errors = [line for line in lines if line.startswith(f"wrong.py:{number}: error:")]
        assert [line.endswith(f"[{code}]") for line in errors] == [True], lines


def test_wheel_trains_with_the_tensorflow_that_is_there(
    wheel: Path, installed: Callable[[str], Path], tmp_path: Path
) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    binaries = installed(version)
    [packages] = (binaries.parent / "lib").glob("python*/site-packages")
    borrowed = packages / "tensorflow-of-the-tests.pth"
    borrowed.write_text("\n".join(site.getsitepackages()))
    try:
        where = run(binaries / "python", "-c", "import oomph; print(oomph.__file__)", cwd=tmp_path)
        assert where.stdout.startswith(str(packages))
        words = ["run", "--run-dir", "kept", packages / "oomph/demo/digits.py", "--epochs", "2", "--out", "digits.npz"]
        limits = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "28", "TF_ENABLE_ONEDNN_OPTS": "0"}
        trained = run(binaries / "oomph", *words, cwd=tmp_path, CUDA_VISIBLE_DEVICES="-1", **limits)
    finally:
        borrowed.unlink()
    assert trained.returncode == 0, trained.stderr
    summary = json.loads((tmp_path / "kept/summary.json").read_text())
    assert (summary["faults"]["device-oom"], summary["exactness"]) == (1, "exact")
    assert (tmp_path / "digits.npz").is_file()
