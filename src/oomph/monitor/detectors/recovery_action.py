"""What NVML advises to do with a GPU. Pure.

Source: NVML's GPU recovery action (field 230, nvmlDeviceGpuRecoveryAction_t). Any but "none" is a finding.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.monitor.finding import Finding
from oomph.monitor.window import Window

FAULTS = ("hardware-fault",)
EVERY = 1.0
_ACTIONS = {
    1: "reset the GPU",
    2: "restart the machine",
    3: "end the programs that exchange data between this GPU and others",
    4: "end the programs that exchange data between this GPU and others, and reset it",
    5: "recover the IMEX domain",
    6: "reset the PCIe bus of the GPU",
    7: "restart the machine",
}


def find(window: Window) -> Iterable[Finding]:
    """The GPUs for which the driver advises something."""
    for gpu in window.gpus():
        code = int(window.latest(gpu.uuid).get("recovery_action", 0.0))
        if code:
            action = _ACTIONS.get(code, f"recovery action {code}")
            text = f"the driver advises: {action}"
            evidence = {"recovery_action": code}
            yield Finding(
                "hardware-fault",
                gpu.title,
                text,
                "critical",
                evidence,
                action[0].upper() + action[1:],
                kind=f"advice {code}",
            )
