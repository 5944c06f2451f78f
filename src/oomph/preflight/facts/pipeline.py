"""Data pipeline costs in training, measured on this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StageCost:
    """The time that one stage adds to a batch."""

    index: int
    """Its place in the chain of stages, source first."""
    kind: str
    seconds: float
    """Seconds per batch for this stage alone: the pipeline's time up to it, minus that up to the stage before."""
    place: str = ""
    function: str = ""


@dataclass(frozen=True)
class PipelineChange:
    """One change of the pipeline, measured here, interleaved with the unchanged one."""

    line: str
    """The replacement code: ".map(decode, num_parallel_calls=tf.data.AUTOTUNE)"."""
    place: str
    before: float
    """The seconds per step without the change, including the wait."""
    after: float
    same_batches: int = 0
    """The number of first batches that are identical with and without the change; 0 if not compared or different."""
    note: str = ""
    """Effects of the change other than speed."""

    @property
    def gain(self) -> float:
        """The speedup of a step, as a factor."""
        return self.before / self.after if self.after > 0 else 1.0


@dataclass(frozen=True)
class Waiting:
    """The time steps wait for their batches, measured during training."""

    steps: int
    step_seconds: float
    """The median time of one step without the wait."""
    wait_seconds: float
    """The mean wait for one batch."""
    costs: tuple[StageCost, ...] = ()
    """Cost of each stage, source first; empty if not measured."""
    changes: tuple[PipelineChange, ...] = ()
    """The changes that paid off, best first."""
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
