# State in every odd corner of Python: nonlocal closures in LambdaCallback, a LearningRateScheduler driven by a running generator (.send), itertools.count, globals, function attributes.
import functools
import itertools
import os

import numpy as np
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(14)

data_rng = np.random.default_rng(0)
X = data_rng.normal(size=(960, 16)).astype("float32")
y = (np.maximum(X[:, 0], X[:, 1]) - X[:, 2] * np.abs(X[:, 3]) + data_rng.normal(0, 0.1, 960)).astype("float32")

BEST = float("inf")
TOTAL_BATCHES = 0
PENALTY = [1.0]


def make_momentum_tracker(beta=0.9):
    m = 0.0
    t = itertools.count(1)
    trace = []

    def update(loss):
        nonlocal m
        k = next(t)
        m = beta * m + (1 - beta) * loss
        trace.append(m / (1 - beta**k))
        return trace[-1]

    def read():
        return list(trace)

    return update, read


def lr_controller():
    """A coroutine: gets the last loss, gives the next learning rate."""
    lr, bad, best = 0.02, 0, float("inf")
    loss = yield lr
    while True:
        if loss < best * 0.98:
            best, bad = loss, 0
            lr *= 1.1
        else:
            bad += 1
            if bad == 2:
                lr, bad = lr * 0.5, 0
        loss = yield lr


controller = lr_controller()
first_lr = next(controller)
update, read = make_momentum_tracker()


def schedule(epoch, lr):
    schedule.calls.append(float(lr))
    if epoch == 0:
        return first_lr
    return controller.send(read()[-1])


schedule.calls = []


def on_batch_end(batch, logs):
    global TOTAL_BATCHES
    TOTAL_BATCHES += 1
    smooth = update(logs["loss"])
    if TOTAL_BATCHES % 25 == 0:
        # shrink the last layer a little, the more the longer it takes
        PENALTY[0] *= 0.995
        k = model.layers[-1].kernel
        k.assign(k * PENALTY[0])


def on_epoch_end(epoch, logs):
    global BEST
    if logs["val_loss"] < BEST:
        BEST = logs["val_loss"]
        on_epoch_end.best_epoch = epoch
        on_epoch_end.best_kernel = model.layers[0].get_weights()[0]


@functools.lru_cache(maxsize=None)
def flavour(i):
    # memoised random draw: whatever came first stays
    return float(np.random.uniform(0.9, 1.1))


def rescale_bias(batch, logs):
    b = model.layers[0].bias
    b.assign(b * flavour(batch % 10) * flavour(TOTAL_BATCHES % 7))


model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(32, "relu"), keras.layers.Dense(1)]
)
model.compile(keras.optimizers.SGD(0.01, momentum=0.8), "mae")
h = model.fit(
    X,
    y,
    batch_size=32,
    epochs=16,
    validation_split=0.2,
    verbose=0,
    callbacks=[
        keras.callbacks.LearningRateScheduler(schedule),
        keras.callbacks.LambdaCallback(on_train_batch_end=on_batch_end, on_train_batch_begin=rescale_bias),
        keras.callbacks.LambdaCallback(on_epoch_end=on_epoch_end),
    ],
)

np.savez(
    "result.npz",
    **{f"w{i}": w for i, w in enumerate(model.get_weights())},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    **{f"h_{k}": np.array(v) for k, v in h.history.items()},
    best=np.array([BEST, on_epoch_end.best_epoch, TOTAL_BATCHES, PENALTY[0]]),
    best_kernel=on_epoch_end.best_kernel,
    trace=np.array(read()),
    lr_calls=np.array(schedule.calls),
    flavours=np.array([flavour(i) for i in range(10)]),
    next_lr=np.array(controller.send(0.0)),
    pred=model.predict(X[:10], verbose=0),
)
