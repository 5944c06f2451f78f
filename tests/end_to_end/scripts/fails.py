"""The user's own errors, in and around fit, each shown as Python shows it. The last one ends the script."""

import traceback

import keras
import numpy as np
import tensorflow as tf

x, y = np.zeros((8, 4), "float32"), np.zeros((8, 1), "float32")


def new_model(*layers, **compiled):
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1, name="last")], name="model")
    model.compile(**{"optimizer": "sgd", "loss": "mse", "jit_compile": False, **compiled})
    return model


class Fails(keras.callbacks.Callback):
    def __init__(self, hook):
        super().__init__()
        setattr(self, hook, self.fail)

    def fail(self, *args, **kwargs):
        raise ValueError("the callback's own")


class FailingLayer(keras.layers.Layer):
    def call(self, x):
        return tf.debugging.check_numerics(x / 0.0, "not a number")


def failing_loss(y, p):
    raise KeyError("the loss's own")


def failing_generator():
    yield x, y
    raise OSError("the data's own")


ERRORS = {
    "callback at the beginning": lambda: new_model().fit(x, y, verbose=0, callbacks=[Fails("on_train_begin")]),
    "callback after a batch": lambda: new_model().fit(x, y, verbose=0, callbacks=[Fails("on_train_batch_end")]),
    "callback after an epoch": lambda: new_model().fit(x, y, verbose=0, callbacks=[Fails("on_epoch_end")]),
    "callback at the end": lambda: new_model().fit(x, y, verbose=0, callbacks=[Fails("on_train_end")]),
    "shapes that do not match": lambda: new_model().fit(np.zeros((8, 3)), y, verbose=0),
    "lengths that do not match": lambda: new_model().fit(x, y[:5], verbose=0),
    "targets that do not match": lambda: new_model(loss="sparse_categorical_crossentropy").fit(x, x, verbose=0),
    "a layer while it runs": lambda: new_model(FailingLayer()).fit(x, y, verbose=0),
    "a loss while it is traced": lambda: new_model(loss=failing_loss).fit(x, y, verbose=0),
    "the data": lambda: new_model().fit(failing_generator(), steps_per_epoch=3, verbose=0),
    "an unknown argument": lambda: new_model().fit(x, y, verbos=0),
    "no compile": lambda: keras.Sequential([keras.layers.Dense(1)]).fit(x, y),
    "train_on_batch": lambda: new_model().train_on_batch(np.zeros((2, 3)), y[:2]),
}
for name, error in ERRORS.items():
    keras.backend.clear_session()
    print("==", name, flush=True)
    try:
        error()
        print("no error", flush=True)
    except Exception:
        traceback.print_exc()
new_model().fit(x, y, verbose=0, callbacks=[Fails("on_train_batch_begin")])
