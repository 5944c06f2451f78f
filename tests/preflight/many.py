"""Runs scripts one after another in this process, each up to its first training, and prints what the rules find.

    python many.py wrong|right FILE ...

One line of JSON for each script: its file, the names of the errors and of the warnings, and any error that ended it
before training. For a case, "wrong" omits the lines marked `# RIGHT`, and "right" those marked `# WRONG`.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import linecache
import os
import sys
import time
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.live.training_facts import training_facts
from oomph.preflight.rule import examine
from oomph.preflight.rules import RULES
from oomph.reach.live.arrival import outside_of_traces
from oomph.reach.live.interception import model_of
from oomph.reach.request import FIT, LOOP, ON_BATCH
from oomph.resume.loop.loss_calls import listen

MARKS = {"wrong": "# RIGHT", "right": "# WRONG"}


class ReachedError(BaseException):
    """Raised when the first training starts; not an Exception, so that few scripts catch it."""


def version_of(text: str, which: str) -> str:
    """Return the wrong or right version of the script; omitted lines are left blank to keep the line numbers."""
    lines = text.splitlines()
    return "\n".join("" if line.rstrip().endswith(MARKS[which]) else line for line in lines) + "\n"


def main() -> None:
    which, files = sys.argv[1], sys.argv[2:]
    install()
    for file in files:
        began = time.monotonic()
        found = run(Path(file), version_of(Path(file).read_text(), which))
        print(json.dumps({"file": file, **found, "seconds": round(time.monotonic() - began, 2)}), flush=True)


def run(path: Path, text: str) -> dict[str, object]:
    keras.utils.clear_session()
    keras.config.set_dtype_policy("float32")
    keras.config.set_floatx("float32")
    np.random.seed(0)
    sys.argv = [str(path)]
    found: dict[str, object] = {"errors": [], "warnings": [], "ended": "", "messages": []}
    told = io.StringIO()
    linecache.cache[str(path)] = (len(text), None, text.splitlines(True), str(path))  # AutoGraph reads the source again
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        found["ended"] = "without a training"
    except ReachedError as reached:
        examined = examine(reached.args[0], RULES)
        for result in examined.results:
            found[result.severity + "s"].append(result.rule.name)
            found["messages"].append(f"{result.rule.name}: {result.finding.message}")
        found["broken"] = list(examined.broken)
    except BaseException as error:
        found["ended"] = f"{type(error).__name__}: {error}"[:300]
    return found


def facts(model, kind, given, own_optimizer, calls, graph):
    place = f"{sys.argv[0]}:1"
    return training_facts(model, kind, given, place, optimizer=own_optimizer, loss_calls=calls, graph=graph)


def install() -> None:
    """Make the first training of a script end it, once its facts are known."""
    trainer, optimizer = KERAS.trainer.value(), KERAS.optimizer.value()
    busy = []
    loss_calls = listen(lambda: bool(busy))

    def examined(model, kind, given, own_optimizer=None):
        busy.append(kind)
        graph = None if tf.executing_eagerly() or kind != LOOP else tf.compat.v1.get_default_graph()
        try:
            reached = partial(facts, model, kind, given, own_optimizer, loss_calls(), graph)
            raise ReachedError(outside_of_traces(reached))
        finally:
            busy.pop()

    def begins(name, kind):
        original = getattr(trainer, name)
        signature = inspect.signature(inspect.unwrap(original))

        def training(self, *args, **kwargs):
            if busy or not self.compiled:
                return original(self, *args, **kwargs)
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            return examined(self, kind, dict(list(bound.arguments.items())[1:]))

        setattr(trainer, name, training)

    begins("fit", FIT)
    begins("train_on_batch", ON_BATCH)
    apply = optimizer.apply

    def applied(self, grads, trainable_variables=None):
        if busy:
            return apply(self, grads, trainable_variables)
        variables = list(trainable_variables or KERAS.optimizer_variables.get(self, ()))
        return examined(model_of(variables), LOOP, {"grads": list(grads), "trainable_variables": variables}, self)

    optimizer.apply = applied


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
