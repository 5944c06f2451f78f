"""steps: iterates over the batches of a custom training loop, so that the loop can be resumed."""

from __future__ import annotations

import sys
from typing import Any

from oomph.resume.loop.steps import LoopObserver, Steps, Unwatched
from oomph.script import session


def steps(dataset: Any, epochs: int | range | None = 1, *, state: Any) -> Steps:
    """Iterate over the batches of a training loop, epoch by epoch, so that `oomph run` can resume the loop.

        steps = oomph.steps(dataset, epochs=3, state=[model, optimizer, accuracy, history])
        for images, labels in steps:
            loss = train_step(images, labels)
            if steps.ends_epoch:
                history.append(float(accuracy.result()))
                accuracy.reset_state()

    Without `oomph run`, this is equivalent to `for epoch in range(epochs): for batch in dataset: yield batch`. Under
    `oomph run`, checkpoints are taken between steps. After a fault, the script runs again from the top, and this loop
    resumes with the next batch, after everything in `state` and the global random generators have been restored. A
    finished loop repeats only its last step, so that the variables assigned in the body exist, and compares the result
    with the original one.

    Args:
        dataset: a `tf.data.Dataset`, a PyDataset, a list or another iterable; or a function that returns an iterable,
            and is called for each epoch. An iterator or generator provides a single epoch.
        epochs: the number of passes over the data; a range of values for `epoch`; or None to run until a `break`.
        state: everything that the loop changes and that matters after a restart, as a list or a dict with names. It may
            be models, optimizers, metrics, variables, random generators, dicts, lists, arrays, and your own objects.
            Objects with `get_state()` and `set_state(state)`, or `state_dict()` and `load_state_dict(state)`, are saved
            with these methods. Values that the loop reassigns, such as numbers, must be kept inside one of these.

    Returns:
        An iterable, whose `epoch`, `step`, `steps` and `ends_epoch` reflect the loop's position.

    Raises:
        TypeError, ValueError: immediately, if an argument is invalid, or something in `state` cannot be saved.
    """
    return Steps(dataset, epochs, state, _watch_of)


def _watch_of(steps: Steps) -> LoopObserver:
    """Return the observer for this loop, which is `Unwatched` outside a run."""
    if session.current() is None or "tensorflow" not in sys.modules or steps.place is None:
        return Unwatched()
    from oomph.resume.loop import loops  # needs TensorFlow

    return loops.begin(steps)
