"""What a pipeline costs a training, measured on this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StageCost:
    """The time that one stage adds to a batch."""

    index: int
    """Its place in the chain of stages, source first."""
    kind: str
    seconds: float
    """For one batch, by itself: the time of the pipeline up to it, less that up to the stage before."""
    place: str = ""
    function: str = ""


@dataclass(frozen=True)
class PipelineChange:
    """One change of the pipeline, measured here, interleaved with the unchanged one."""

    line: str
    """What to write: ".map(decode, num_parallel_calls=tf.data.AUTOTUNE)"."""
    place: str
    before: float
    """Seconds for one step, the wait included."""
    after: float
    same_batches: int = 0
    """How many first batches were compared and are the same, element by element; 0: not compared, or different."""
    note: str = ""
    """What it changes besides the speed."""

    @property
    def gain(self) -> float:
        """How many times faster a step is."""
        return self.before / self.after if self.after > 0 else 1.0


@dataclass(frozen=True)
class Waiting:
    """How long steps wait for their batches: measured while training on them."""

    steps: int
    step_seconds: float
    """The median time of one step without the wait."""
    wait_seconds: float
    """The mean wait for one batch."""
    costs: tuple[StageCost, ...] = ()
    """Of each stage, source first; empty where they were not measured."""
    changes: tuple[PipelineChange, ...] = ()
    """Those that paid, best first."""
    tried: bool = False
    """True if changes were tried."""

    @property
    def share(self) -> float:
        """The share of the time that the training waits, from 0 to 1."""
        total = self.step_seconds + self.wait_seconds
        return self.wait_seconds / total if total > 0 else 0.0

    @property
    def slowest(self) -> StageCost | None:
        """The stage that costs most."""
        return max(self.costs, key=lambda cost: cost.seconds, default=None)
