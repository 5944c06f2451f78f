"""The script and the packages that a traceback names are read if they are those that failed, and never run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from oomph.cli import main
from oomph.explain.facts.fact import CodePlace, LogFacts
from oomph.explain.facts.version_range import VersionRange
from oomph.explain.reading.at_hand import with_what_is_at_hand

HEAD = "Traceback (most recent call last):\n"
SCRIPT = """import keras
raise SystemExit("never run")
model.compile(optimizer="adam", loss="categorical_crossentropy")
model.fit(
    x, y, batch_size=1,
)
"""
ERROR = "ValueError: Shapes (32, 1) and (32, 10) are incompatible\n"


def _frame(file: Path | str, line: int, code: str, function: str = "<module>") -> str:
    return f'  File "{file}", line {line}, in {function}\n    {code}\n'


def _explained(capsys: pytest.CaptureFixture[str], log: Path, *options: str) -> dict[str, object]:
    assert main(["explain", str(log), "--json", *options]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def _log(tmp_path: Path, *frames: str, error: str = ERROR) -> Path:
    log = tmp_path / "train.log"
    log.write_text(HEAD + "".join(frames) + error)
    return log


def test_call_in_the_script_shows_the_mistake(capsys: pytest.CaptureFixture[str], tmp_path: Path, script: Path) -> None:
    log = _log(tmp_path, _frame(script, 4, "model.fit("))
    assert main(["explain", str(log)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"from {script}:4: model.fit( x, y, batch_size=1, )" in text
    assert f'{script}:3, compile: the labels are class numbers: use loss="sparse_categorical_crossentropy"' in text
    assert "fits your log" in text


@pytest.mark.parametrize("name", ["train.py", "./train.py"])
def test_relative_path_is_looked_for_beside_the_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, script: Path, name: str
) -> None:
    facts = _explained(capsys, _log(tmp_path, _frame(name, 4, "model.fit(")))["facts"]
    assert isinstance(facts, dict)
    assert facts["at_hand"]["script"]["line"] == 4
    assert {"step": "smaller batch", "line": None} in facts["failed"]


@pytest.mark.parametrize(
    ("line", "code", "options"),
    [
        (4, "model.train(", ()),  # another file of that name
        (400, "model.fit(", ()),
        (3, "model.fit(", ()),
        (4, "model.fit(", ("--text-only",)),
    ],
)
def test_other_files_and_text_only_leave_the_log_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, script: Path, line: int, code: str, options: tuple[str, ...]
) -> None:
    log = _log(tmp_path, _frame(script, line, code))
    facts = _explained(capsys, log, *options)["facts"]
    assert isinstance(facts, dict)
    assert "at_hand" not in facts
    main(["explain", str(log), *options])
    assert "from " + str(script) not in capsys.readouterr().out


def test_script_that_is_not_python_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    for text in ("model.fit(\n" + "(" * 5000, "model.fit(\nprint 'x'\n\tif:\n"):
        script.write_text(text)
        assert main(["explain", str(_log(tmp_path, _frame(script, 1, "model.fit(")))]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f"{script} cannot be read as Python, so only the log was read" in out


def test_devices_pipes_and_large_files_are_not_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pipe, large, link = tmp_path / "pipe.py", tmp_path / "large.py", tmp_path / "link.py"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(1 << 40)
    link.symlink_to("/dev/zero")
    for path in (pipe, large, link, Path("/dev/zero"), Path("/proc/kmsg"), tmp_path):
        facts = _explained(capsys, _log(tmp_path, _frame(path, 1, "model.fit(")))["facts"]
        assert isinstance(facts, dict)
        assert "at_hand" not in facts


def _environment(tmp_path: Path) -> tuple[Path, Path]:
    packages = tmp_path / "env/lib/python3.11/site-packages"
    layer = packages / "keras/src/layers/layer.py"
    layer.parent.mkdir(parents=True)
    layer.write_text("def f():\n    raise ValueError(1)\n")
    (packages / "keras-3.5.0.dist-info").mkdir()
    (packages / "tensorflow_cpu-2.17.1.dist-info").mkdir()
    return packages, layer


def test_versions_of_the_packages_in_the_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    packages, layer = _environment(tmp_path)
    facts = _explained(capsys, _log(tmp_path, _frame(layer, 2, "raise ValueError(1)", "f")))["facts"]
    assert isinstance(facts, dict)
    assert facts["at_hand"]["packages"] == str(packages)
    since = {each["library"]: each["versions"]["since"] for each in facts["versions"]}
    assert since["keras"] == "3.5.0"
    assert since["tensorflow"] == "2.17.1"


def test_packages_of_another_machine_with_the_same_path_count_for_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, layer = _environment(tmp_path)
    facts = _explained(capsys, _log(tmp_path, _frame(layer, 2, "raise TypeError(2)", "f")))["facts"]
    assert isinstance(facts, dict)
    assert "at_hand" not in facts
    assert not any(each["versions"]["since"] == "3.5.0" for each in facts["versions"])


def test_traceback_of_ten_thousand_frames(capsys: pytest.CaptureFixture[str], tmp_path: Path, script: Path) -> None:
    frames = [_frame(f"/x/other{number}.py", 4, "f()", "f") for number in range(10_000)]
    facts = _explained(capsys, _log(tmp_path, *frames, _frame(script, 4, "model.fit(")))["facts"]
    assert isinstance(facts, dict)
    assert facts["at_hand"]["script"]["file"] == str(script)


def test_driver_counts_only_if_the_log_is_of_this_machine(tmp_path: Path, script: Path) -> None:
    driver = tmp_path / "version"
    driver.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC 12.3\n"
    )
    here = LogFacts(own_place=CodePlace(str(script), 4, "f", 2, "model.fit("))
    assert with_what_is_at_hand(here, None, driver).version_of("driver") == VersionRange.exactly((550, 54, 15))
    elsewhere = LogFacts(own_place=CodePlace(str(script), 4, "f", 2, "model.train("))
    assert with_what_is_at_hand(elsewhere, None, driver) == elsewhere
