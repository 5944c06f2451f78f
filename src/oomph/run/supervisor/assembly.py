"""Watches how the workers of an attempt come together, and says what keeps them from training as one.

A worker that does not listen at its address is still starting, or has no strategy for several workers. TensorFlow waits
for it without a word, and workers that train different things wait for one another or fail far from the cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from oomph.journal.events import FitStarted, GuardInstalled
from oomph.journal.journal import facts
from oomph.protocol.progress import Phase
from oomph.run.supervisor.cluster import Cluster
from oomph.run.supervisor.engine import WorkerEngine
from oomph.run.supervisor.gang import Worker
from oomph.terminal.amounts import counted
from oomph.terminal.message import shown_line

SLOW_SECONDS = 30.0
"""The time for which the first workers may wait for the last one before a line says so."""
_LOOK_SECONDS, _LOOK_SECONDS_EACH = 0.2, 0.01
"""The time between two looks, and what each worker adds to it: a look takes 50 µs for each."""


class FirstTraining(NamedTuple):
    """The first training of a worker."""

    tensorflow: str
    keras: str
    site: str
    model: str
    epochs: int | None


class Assembly:
    """Watches the workers of one attempt.

    Args:
        say: prints a line. Each is printed once.
        first_rank: the rank of the first of these workers among all: a scheduler starts one here, and others elsewhere.
    """

    def __init__(
        self,
        cluster: Cluster | WorkerEngine,
        say: Callable[[str], None],
        first_rank: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._say, self._first_rank, self._clock = cluster, say, first_rank, clock
        self._looked_at, self._waited_since = 0.0, 0.0
        self._present: set[int] = set()
        """The ranks of the workers that listen at their addresses."""
        self._is_complete = self._has_told_slow = self._has_compared = False

    def attend(self, workers: Sequence[Worker]) -> None:
        """Look at the workers, a few times a second at most. Called whenever the supervisor's loop turns."""
        now = self._clock()
        if self._has_compared or now < self._looked_at + _LOOK_SECONDS + _LOOK_SECONDS_EACH * len(workers):
            return
        self._looked_at = now
        if not self._is_complete:
            self._look_for_strategy(workers)
        if not self._is_complete and not self._has_told_slow:
            self._look_for_the_slow(workers, now)
        if self._is_complete and all(worker.record.progress() is not None for worker in workers):
            self._has_compared = True
            difference = unlike({worker.rank: training_of(worker) for worker in workers})
            if difference:
                self._say(difference)

    def _look_for_strategy(self, workers: Sequence[Worker]) -> None:
        training = [each for each in workers if each.watch.phase not in (None, Phase.OWN_CODE)]
        if not training:
            return
        self._is_complete = True
        rank = self._first_rank + training[0].rank
        if not self._cluster.is_served(rank):
            self._has_compared = True
            self._say(
                f"worker {rank} trains without a strategy for several workers, such as"
                " tf.distribute.MultiWorkerMirroredStrategy: each worker trains by itself"
            )

    def _look_for_the_slow(self, workers: Sequence[Worker], now: float) -> None:
        unseen = [rank for worker in workers if (rank := self._first_rank + worker.rank) not in self._present]
        self._present.update(filter(self._cluster.is_served, unseen))
        absent = [rank for rank in unseen if rank not in self._present]
        if not absent or not self._present:
            return
        self._waited_since = self._waited_since or now
        if now >= self._waited_since + SLOW_SECONDS:
            self._has_told_slow = True
            who = f"worker {absent[0]} has" if len(absent) == 1 else f"workers {', '.join(map(str, absent))} have"
            waited = now - self._waited_since
            self._say(
                f"{who} not started the strategy yet: the others have waited for {waited:.0f} s and go on waiting"
            )


def training_of(worker: Worker) -> FirstTraining | None:
    """Return the first training of a worker, or None if it has not recorded any."""
    events = worker.record.events()
    guard, fit = next(iter(facts(events, GuardInstalled)), None), next(iter(facts(events, FitStarted)), None)
    if guard is None or fit is None:
        return None
    return FirstTraining(guard.tensorflow, guard.keras, fit.site, fit.fingerprint, fit.epochs)


def unlike(trainings: Mapping[int, FirstTraining | None]) -> str:
    """Explain how a worker differs from the first one, or return an empty string if all train the same. Pure."""
    first = trainings.get(0)
    for rank, other in trainings.items():
        if first is None or other is None or other == first:
            continue
        advice = "all workers have to run the same script with the same versions and arguments"
        return shown_line(f"worker {rank} {_difference(other, first)}: {advice}")
    return ""


def _difference(one: FirstTraining, first: FirstTraining) -> str:
    if one.tensorflow != first.tensorflow:
        return f"has TensorFlow {one.tensorflow}, worker 0 {first.tensorflow}"
    if one.keras != first.keras:
        return f"has Keras {one.keras}, worker 0 {first.keras}"
    if one.site != first.site:
        return f"trains at {one.site}, worker 0 at {first.site}"
    if one.model != first.model:
        return f"trains another model than worker 0, at {one.site}"
    return f"trains {counted(one.epochs or 0, 'epoch')}, worker 0 {first.epochs or 0}"
