"""Temperature limits: from the margin if it can be trusted, otherwise in degrees, otherwise none."""

from __future__ import annotations

import pytest

from oomph.gpu.nvml import Nvml

pytestmark = pytest.mark.rig

LIMITS = ("temperature_slowdown_celsius", "temperature_shutdown_celsius")


def limits(nvml: Nvml, now: float = 0) -> list[float | None]:
    values = nvml.read(now)[0].values
    return [values.get(key) for key in LIMITS]


def test_temperature_limits_do_not_change_with_the_temperature(machine):
    rig = machine("at 0 0 t_slowdown 91\nat 0 0 t_shutdown 97\nat 0 0 temp 40\nat 12 0 temp 66\nat 40 0 temp 90")
    nvml = Nvml()
    assert {tuple(limits(nvml, rig.at(second))) for second in (0, 15, 30, 45)} == {(91, 97)}


def test_temperature_margin_that_was_never_positive_is_not_trusted(machine):
    machine("at 0 0 temp 95").hide("nvmlDeviceGetTemperatureThreshold")
    assert limits(Nvml()) == [None, None]


def test_thresholds_are_used_when_the_margin_is_not_trusted(machine):
    machine("at 0 0 temp 95")
    assert limits(Nvml()) == [89, 92]


def test_margin_temperature_limits_return_after_a_gpu_cools_down(machine):
    rig = machine("at 0 0 temp 40\nat 5 0 temp 95\nat 25 0 temp 60")
    nvml = Nvml()
    rig.hide("nvmlDeviceGetTemperatureThreshold")
    assert limits(nvml, rig.at(0)) == [89, 92]
    assert limits(nvml, rig.at(15)) == [None, None]
    assert limits(nvml, rig.at(30)) == [89, 92]


def test_single_readable_threshold_is_used(machine):
    machine("at 0 0 err.t_shutdown 3").hide("nvmlDeviceGetMarginTemperature")
    assert limits(Nvml()) == [89, None]


def test_no_limits_are_known_without_a_margin_or_thresholds(machine):
    machine("").hide("nvmlDeviceGetMarginTemperature", "nvmlDeviceGetTemperatureThreshold")
    assert limits(Nvml()) == [None, None]
