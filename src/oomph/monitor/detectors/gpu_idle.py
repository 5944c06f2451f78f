"""A training that takes no step while neither its GPUs nor its processes work. Pure.

Under `oomph run` the supervisor finds hangs by the limits of each phase, and sooner; this is for trainings watched by
`oomph.Monitor` alone. Threshold: 5 minutes and 20 steps' time, oomph's own. Compiling, tracing and reading data keep a
core busy and validation keeps the GPU busy, so both have to be idle.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.monitor.finding import Finding
from oomph.monitor.sample import Sample
from oomph.monitor.window import Window

FAULTS = ("hang",)
EVERY = 30.0
_SECONDS = 300.0
_STEPS = 20
_IDLE_GPU, _IDLE_CORES = 0.01, 0.1


def find(window: Window) -> Iterable[Finding]:
    """The training, if it stands still."""
    earlier, training = window.ago(_SECONDS), window.newest.training
    stands = window.newest.time - earlier.time
    steps = training.get("steps_total", 0.0)
    if stands < _SECONDS or not steps or not window.newest.gpus or not (_fits(window.newest) and _fits(earlier)):
        return
    step_seconds = training.get("step_seconds_total", 0.0) / steps
    if earlier.training.get("steps_total") != steps or stands < _STEPS * step_seconds:
        return
    if all(_is_idle(sample) for sample in window.last(_SECONDS)):
        text = f"no step for {stands / 60:.0f} minutes, and neither the GPUs nor the script's processes work"
        evidence = {"seconds": stands, "steps_total": steps}
        remedy = "See where it waits: py-spy dump --pid PID, or start it with oomph run, which does that by itself"
        yield Finding("hang", "training", text, "notice", evidence, remedy)


def _fits(sample: Sample) -> bool:
    """Whether a fit is running: it takes this away when it is over."""
    return "epochs" in sample.training


def _is_idle(sample: Sample) -> bool:
    uses = [gpu.values.get("utilization_ratio", 1.0) for gpu in sample.gpus]
    return max(uses) <= _IDLE_GPU and sample.process.get("cpu_cores", 1.0) <= _IDLE_CORES
