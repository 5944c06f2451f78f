"""The nvidia-smi fallback: field names of other versions, refusals, words instead of numbers, no response."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pynvml
import pytest

from oomph.gpu import smi as module
from oomph.gpu.gpus import Gpus
from oomph.gpu.smi import Smi

RIG = Path(__file__).parents[1] / "rig"
STAND_IN = """#!{python}
import sys
open({log!r}, "a").write("asked\\n")
answers, refused, code = {answers!r}, {refused!r}, {code!r}
fields = sys.argv[1].partition("=")[2].split(",")
for field in fields:
    if field in refused:
        print(f'Field "{{field}}" is not a valid field to query.\\n')
        sys.exit(2)
if not isinstance(answers, list):
    print(answers)
    sys.exit(code)
print(", ".join(field + (" [MiB]" if field.startswith("memory.") else "") for field in fields))
for row in answers:
    print(", ".join(str(row.get(field, "[N/A]")) for field in fields))
sys.exit(code)
"""
ONE = {"index": 0, "uuid": "GPU-1", "name": "NVIDIA A, B", "memory.used": 512, "utilization.gpu": 40}


@pytest.fixture(name="says")
def _says(tmp_path, monkeypatch):
    """Put a stand-in for nvidia-smi on the path, and return how often it was called."""

    def install(answers, refused=(), code=0):
        program, log = tmp_path / "nvidia-smi", tmp_path / "log"
        log.write_text("")
        text = STAND_IN.format(python=sys.executable, log=str(log), answers=answers, refused=tuple(refused), code=code)
        program.write_text(text.replace(f"#!{sys.executable}", f"#!{sys.executable} -IS"))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return lambda: len(log.read_text().splitlines())

    return install


def test_nvidia_smi_values_are_converted_to_the_documented_units(says):
    says([{**ONE, "name": "NVIDIA A", "clocks.current.sm": 1980, "clocks_event_reasons.active": "0x0000000000000024"}])
    (reading,) = Smi().read(0)
    assert (reading.index, reading.uuid, reading.name) == (0, "GPU-1", "NVIDIA A")
    assert reading.values == pytest.approx(
        {
            "memory_used_bytes": 512 << 20,
            "utilization_ratio": 0.4,
            "sm_clock_hertz": 1.98e9,
            "clocks_event_reasons": 0x24,
        }
    )


def test_refused_field_is_queried_by_its_older_name_or_dropped(says):
    refused = ("clocks_event_reasons.active", "clocks.current.sm", "clocks.sm", "temperature.memory")
    row = {**ONE, "name": "A", "clocks_throttle_reasons.active": "0x0000000000000004", "temperature.gpu": 60}
    asked = says([row], refused)
    smi = Smi()
    (reading,) = smi.read(0)
    assert reading.values["clocks_event_reasons"] == 4
    assert reading.values["temperature_celsius"] == 60
    assert "sm_clock_hertz" not in reading.values
    before = asked()
    assert before == 1 + len(refused)
    smi.read(10)
    assert asked() == before + 1  # a refused field is not queried again


def test_gpus_stay_listed_between_nvidia_smi_polls(says):
    asked = says([{**ONE, "name": "A"}])
    smi = Smi()
    readings = [smi.read(second)[0] for second in range(11)]
    assert asked() == 3
    assert [bool(reading.values) for reading in readings] == [second % 5 == 0 for second in range(11)]
    assert {reading.uuid for reading in readings} == {"GPU-1"}


def test_lost_gpu_is_reported(says):
    says([{**ONE, "name": "A"}, {"index": 1, "uuid": "GPU-2", "name": "A", "memory.used": "[GPU is lost]"}])
    assert [reading.problem for reading in Smi().read(0)] == ["", "GPU is lost"]


@pytest.mark.parametrize(
    ("answers", "code", "problem"),
    [
        ("NVIDIA-SMI has failed.\nMake sure.", 9, "nvidia-smi says: NVIDIA-SMI has failed."),
        ("Something new", 0, "nvidia-smi says: Something new"),
        ("", 3, "nvidia-smi exited with code 3"),
        ("", 0, "nvidia-smi exited with code 0"),
        ('Field "colour" is not a valid field to query.', 2, 'Field "colour" is not a valid field to query.'),
        ([], 0, "the NVIDIA driver sees no GPU"),
        ([ONE], 0, ""),  # a comma in a name: that row is left out
    ],
)
def test_invalid_response_is_reported_and_never_parsed(says, answers, code, problem):
    says(answers, code=code)
    smi = Smi()
    assert smi.read(0) == []
    assert smi.problem.endswith(problem)


def test_late_response_is_reported(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nexec {shutil.which('sleep')} 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "_LIMIT_SECONDS", 0.05)
    smi = Smi()
    assert smi.read(0) == []
    assert smi.problem == "nvidia-smi did not respond within 0.05 s"


def test_unstartable_nvidia_smi_is_reported(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text("not a program")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    smi = Smi()
    assert smi.read(0) == []
    assert smi.problem == "nvidia-smi cannot be started: Exec format error"


def test_missing_nvidia_smi_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    smi = Smi()
    assert smi.read(0) == []
    assert smi.problem == "nvidia-smi is not installed"


def test_use_of_nvidia_smi_in_place_of_a_missing_nvml_is_reported(says, monkeypatch):
    says([{**ONE, "name": "A"}])
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gpus = Gpus()
    assert gpus.read(0)[0].values
    assert gpus.problem == "nvidia-ml-py is not installed alongside oomph: using nvidia-smi instead, every 5 s"


def test_missing_nvml_and_nvidia_smi_are_reported_as_one_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gpus = Gpus()
    assert gpus.read(0) == []
    assert gpus.problem == "nvidia-ml-py is not installed alongside oomph"


def test_nvidia_smi_is_not_queried_when_nvml_answers(says, monkeypatch):
    asked = says([ONE])
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: (_ for _ in ()).throw(pynvml.NVMLError(9)))
    gpus = Gpus()
    gpus.read(0)
    assert (asked(), gpus.problem) == (0, "the NVIDIA driver is not loaded")


@pytest.mark.rig
def test_simulated_nvidia_smi_is_read(driver, tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {RIG / "nvidia-smi"} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("FAKE_NGPU", "2")
    smi = Smi()
    smi._fields = [field for field in smi._fields if field.key in ("memory_used_bytes", "power_limit_watts")]
    assert [reading.values for reading in smi.read(0)] == [{"memory_used_bytes": 0, "power_limit_watts": 700}] * 2
