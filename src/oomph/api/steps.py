"""steps: iterates over the batches of a custom training loop, so that the loop can be resumed."""

from __future__ import annotations

import sys
from typing import Any

from oomph.resume.loop.steps import LoopObserver, Steps, Unwatched
from oomph.script import session


def steps(dataset: Any, epochs: int | range | None = 1, *, state: Any) -> Steps:
    """Iterate over the batches of a training loop, epoch by epoch, so that `oomph run` can resume the loop.

        steps = oomph.steps(dataset, epochs=3, state=[model, optimizer, accuracy, history])
        for batch in steps:
            loss = train_step(batch)
            if steps.ends_epoch:
                history.append(float(accuracy.result()))
                accuracy.reset_state()

    Without `oomph run` this is equivalent to `for epoch in range(epochs): for batch in dataset: yield batch`. Under
    `oomph run`, checkpoints are taken between two steps. After a fault the script runs again from its top, and this
    loop resumes with the next batch; everything in `state` and the global random numbers are restored. A finished loop
    repeats only its last step, so that the variables assigned in the body exist, and compares the result with the
    earlier one.

    Args:
        dataset: a `tf.data.Dataset`, a PyDataset, a list or another iterable; a function without arguments that returns
            an iterable, called for each epoch; an iterator or generator, which has one epoch.
        epochs: the number of passes over the data; a range gives `epoch` its values; None to run until the body breaks.
        state: everything that the loop changes and that matters after a restart: a list, or a dict with names. Models,
            optimizers, metrics, variables, random generators, dicts, lists, arrays, your own objects. Objects with
            `get_state()` and `set_state(state)`, or `state_dict()` and `load_state_dict(state)`, are saved by these
            methods. Keep what the loop reassigns, such as a number, in one of these.

    Returns:
        The iterable. Its `epoch`, `step`, `steps` and `ends_epoch` give the position of the loop.

    Raises:
        TypeError, ValueError: at once, if an argument is invalid or something in `state` cannot be saved.
    """
    return Steps(dataset, epochs, state, _watch_of)


def _watch_of(steps: Steps) -> LoopObserver:
    """Return the observer of this loop; `Unwatched` outside a run."""
    if session.current() is None or "tensorflow" not in sys.modules or steps.place is None:
        return Unwatched()
    from oomph.resume.loop import loops  # needs TensorFlow

    return loops.begin(steps)
