"""steps: the batches of a training loop of the script's own, so that the loop can be resumed."""

from __future__ import annotations

import sys
from typing import Any

from oomph.recovery.script import session
from oomph.tensorflow.loop.steps import Steps
from oomph.tensorflow.loop.watch import Unwatched, Watch


def steps(dataset: Any, epochs: int | range | None = 1, *, state: Any) -> Steps:
    """The batches of a training loop, epoch after epoch, in a form in which `oomph run` can resume the loop.

        steps = oomph.steps(dataset, epochs=3, state=[model, optimizer, accuracy, history])
        for batch in steps:
            loss = train_step(batch)
            if steps.ends_epoch:
                history.append(float(accuracy.result()))
                accuracy.reset_state()

    Without `oomph run` it is `for epoch in range(epochs): for batch in dataset: yield batch`. Under it, checkpoints
    are taken between two steps; after a fault the script runs again from its top, and this loop goes on with the batch
    that comes next, everything in `state` and the global random numbers as they were. A loop that had come to its end
    does its last step again, and no more: what the body assigns is there, and the result is compared with the first.

    Args:
        dataset: a `tf.data.Dataset`, a PyDataset, a list or another iterable; a function without arguments that
            returns an iterable, called for each epoch; an iterator or generator, which has one epoch.
        epochs: how often to go through the data; a range gives `epoch` its values; None: until the body breaks off.
        state: everything that the loop changes and that matters after a restart: a list, or a dict with names. Models,
            optimizers, metrics, variables, random generators, dicts, lists, arrays, objects of your own; those with
            `get_state()` and `set_state(state)`, or `state_dict()` and `load_state_dict(state)`, are saved by these.
            What is assigned anew in the loop, such as a number, belongs into one of these.

    Returns:
        What to iterate over. It tells where the loop is: `epoch`, `step`, `steps` and `ends_epoch`.

    Raises:
        TypeError, ValueError: at once, when an argument makes no sense, or something in `state` cannot be saved.
    """
    return Steps(dataset, epochs, state, _watch_of)


def _watch_of(steps: Steps) -> Watch:
    """Who is to be told of this loop: nobody outside of a run."""
    if session.current() is None or "tensorflow" not in sys.modules or steps.place is None:
        return Unwatched()
    from oomph.tensorflow.loop import loops  # needs TensorFlow

    return loops.begin(steps)
