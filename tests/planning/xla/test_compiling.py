"""The compiling process as its caller sees it: it may respond, fail, hang or die. The test's children simulate it."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oomph.planning.gpu_list import gpus
from oomph.planning.xla import compiling
from oomph.planning.xla.compiling import (
    TARGETS,
    Compiled,
    NotCompiledError,
    choose,
    compile_step,
    description,
    why_not,
    write_toolkit,
)

ROOM = 4 << 30
SIZES = {"argument": 100, "output": 60, "alias": 50, "temp": 1000, "version": "0.0"}


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def play(text: str) -> None:
        path = tmp_path / "child.py"
        path.write_text(text)
        monkeypatch.setattr(compiling, "_CHILD", path)

    return play


def test_last_printed_sizes_are_returned(child) -> None:
    child(f"print('a warning'); print({json.dumps(SIZES)!r})")
    found = compile_step(b"step", "target", 30, ROOM)
    assert (found.arguments, found.outputs, found.aliased, found.temporary) == (100, 60, 50, 1000)
    assert found.total == 1110


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import json; print(json.dumps({'problem': 'no such target'}))", "no such target"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print('no JSON')", "returned no sizes|XLA's compiler"),
        ("print('[1]')", "returned no sizes"),
        ("print('{\"argument\": null}')", "returned no sizes"),
    ],
)
def test_missing_sizes_raise_an_error_that_gives_the_reason(child, text: str, why: str) -> None:
    child(text)
    with pytest.raises(NotCompiledError, match=why):
        compile_step(b"step", "target", 30, ROOM)


def test_compiler_that_takes_too_long_is_stopped(child, tmp_path: Path) -> None:
    child(f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    began = time.monotonic()
    with pytest.raises(NotCompiledError, match="did not finish within 3 s"):
        compile_step(b"step", "target", 3, ROOM)
    assert time.monotonic() - began < 20
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_compiler_is_not_started_without_enough_memory(child, tmp_path: Path) -> None:
    child(f"open({str(tmp_path / 'started')!r}, 'w')")
    with pytest.raises(NotCompiledError, match="memory"):
        compile_step(b"step", "target", 30, 100 << 20)
    assert not (tmp_path / "started").exists()


def test_compiler_gets_its_inputs_but_not_the_training_environment(child, monkeypatch) -> None:
    monkeypatch.setenv("OOMPH_REACH", "{}")
    monkeypatch.setenv("XLA_FLAGS", "--xla_of_the_user=1")
    child(
        "import json, os, sys\n"
        "step, target, most = sys.argv[1:]\n"
        "assert open(step, 'rb').read() == b'step' and open(target).read() == 'target' and int(most) == 4 << 30\n"
        "assert 'OOMPH_REACH' not in os.environ and 'of_the_user' not in os.environ['XLA_FLAGS']\n"
        "assert os.access(os.environ['XLA_FLAGS'].split('=')[1] + '/bin/ptxas', os.X_OK)\n"
        f"print({json.dumps(SIZES)!r})"
    )
    assert compile_step(b"step", "target", 30, ROOM).temporary == 1000


def test_missing_compiler_is_reported_with_its_install_command(monkeypatch) -> None:
    monkeypatch.setattr(compiling, "_PACKAGES", ("no-such-package-of-oomph",))
    assert "pip install 'oomph[xla]'" in why_not()


def test_compiler_may_belong_to_another_python(child, tmp_path: Path, monkeypatch) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ -z "$PYTHONPATH" ] && touch {tmp_path}/asked\nexec {sys.executable} "$@"\n')
    monkeypatch.setenv(compiling.PYTHON, str(python))
    monkeypatch.setenv("PYTHONPATH", "/of/the/script")
    assert "is not an executable program" in why_not()
    python.chmod(0o700)
    assert why_not() == ""
    child(f"print({json.dumps(SIZES)!r})")
    assert compile_step(b"step", "target", 30, ROOM).version == "0.0"
    assert (tmp_path / "asked").exists()


def test_stub_assembler_answers_version_and_writes_output(tmp_path: Path) -> None:
    write_toolkit(tmp_path / "cuda")
    assembler = str(tmp_path / "cuda" / "bin" / "ptxas")
    said = subprocess.run([assembler, "--version"], capture_output=True, text=True, check=True).stdout
    assert "release 12." in said
    subprocess.run([assembler, "in.ptx", "-o", str(tmp_path / "out"), "-arch=sm_90a"], check=True)
    assert (tmp_path / "out").stat().st_size > 0


def test_aliased_outputs_are_counted_once_in_the_total() -> None:
    assert Compiled(arguments=10, outputs=8, aliased=8, temporary=5, version="", seconds=1).total == 15


def test_jax_is_imported_only_in_the_compiling_process() -> None:
    package = Path(compiling.__file__).parents[2]
    imports = re.compile(r"^\s*(?:import|from) (?:jax|jaxlib)\b|\bdeviceless import", re.MULTILINE)
    assert [path.name for path in package.rglob("*.py") if imports.search(path.read_text())] == ["deviceless.py"]


@pytest.mark.parametrize(
    ("capability", "chosen", "is_nearest"),
    [
        ("8.9", (8, 9), False),
        ("9.0", (9, 0), False),
        ("8.7", (8, 6), True),
        ("6.2", (6, 1), True),
        ("12.1", (12, 0), True),
        ("10.3", (10, 0), True),
        ("", (9, 0), True),
        ("unknown", (9, 0), True),
    ],
)
def test_target_has_the_capability_of_the_gpu_or_the_next_lower_one(capability, chosen, is_nearest) -> None:
    found = choose(capability)
    assert found is not None
    assert found.target.capability == chosen
    assert found.is_nearest is is_nearest


@pytest.mark.parametrize("capability", ["3.7", "5.2", "5.3"])
def test_gpus_older_than_xla_supports_have_no_target(capability: str) -> None:
    assert choose(capability) is None


def test_targets_are_in_ascending_order_of_capability() -> None:
    assert all(one.capability < other.capability for one, other in itertools.pairwise(TARGETS))


def test_every_gpu_since_pascal_has_a_target() -> None:
    without = {gpu.capability for gpu in gpus() if choose(gpu.capability) is None}
    assert without <= {"3.7", "5.2", "5.3"}


def test_target_description_states_the_gpu_memory_and_is_well_formed() -> None:
    found = choose("8.9")
    assert found is not None
    text = description(found.target, 24 << 30)
    assert f"device_memory_size: {24 << 30}\n" in text
    assert "major: 8 minor: 9" in text
    assert text.count("{") == text.count("}")
