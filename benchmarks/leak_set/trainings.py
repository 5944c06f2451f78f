"""Small real trainings, some of which leak. `record.py` runs each in a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LEAKS: dict[str, Callable[[], None]] = {}
HEALTHY: dict[str, Callable[[], None]] = {}


def leaks(training: Callable[[], None]) -> Callable[[], None]:
    LEAKS[training.__name__] = training
    return training


def healthy(training: Callable[[], None]) -> Callable[[], None]:
    HEALTHY[training.__name__] = training
    return training


if len(sys.argv) > 1:  # the names alone need no TensorFlow
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import keras
    import numpy as np
    import tensorflow as tf

    from leak_set.record import LIMIT_MB
    from leak_set.series import Point, Series, write

    Callback = keras.callbacks.Callback
else:
    Callback = object

EPOCHS, ROWS, BATCH, WIDTH = 30, 1024, 64, 256
KEPT: list[Any] = []
"""Where the leaks keep what they do not need."""


class Baselines(Callback):
    """Reads the allocator as oomph's own callback does: at the end of each epoch, and here and there within."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[Any] = []
        self.every_step: list[int] = []
        self.fits = 0
        self._step, self._last = 0, 0.0

    def on_train_begin(self, logs: Any = None) -> None:
        self.fits += 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step += 1
        self.every_step.append(in_use())
        if self._step % 16 == 8 and time.time() - self._last > 0.3:
            self._last = time.time()
            self.points.append(Point(since_begin(), self.every_step[-1], self._step, 0))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.points.append(Point(since_begin(), in_use(), self._step, epoch + 1))


BEGIN, SLOWER = time.time(), 100
"""Times are recorded so many times as long: an epoch of these models takes 0.3 s, one of a real training a minute."""


def since_begin() -> float:
    return SLOWER * (time.time() - BEGIN)


def in_use() -> int:
    return int(tf.config.experimental.get_memory_info("CPU:0")["current"])


def data() -> tuple[Any, Any]:
    x = np.random.default_rng(0).random((ROWS, 64), "float32")
    return x, x[:, :1]


def net(width: int = WIDTH, normalised: bool = False, optimizer: str = "adam") -> Any:
    between = [keras.layers.BatchNormalization()] if normalised else []
    layers = [keras.layers.Dense(width, "relu"), *between, keras.layers.Dropout(0.2), keras.layers.Dense(width, "relu")]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(1)])
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


def fit(model: Any, *callbacks: Any, epochs: int = EPOCHS, **options: Any) -> None:
    x, y = data()
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=[*callbacks, BASELINES], **options)


class AtEpochEnd(Callback):
    """Calls a function with the model and the epoch."""

    def __init__(self, act: Callable[[Any, int], None]) -> None:
        super().__init__()
        self._act = act

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._act(self.model, epoch)


# -- no leak ----------------------------------------------------------------------------------------------------------


@healthy
def adam() -> None:
    fit(net())


@healthy
def batch_norm_and_validation() -> None:
    fit(net(normalised=True), validation_data=data())


@healthy
def early_stopping() -> None:
    stop = keras.callbacks.EarlyStopping("val_loss", patience=30, restore_best_weights=True)
    fit(net(), stop, validation_data=data())


@healthy
def two_fits() -> None:
    model = net()
    model.layers[0].trainable = False
    model.compile("adam", "mse")
    fit(model, epochs=12)
    model.layers[0].trainable = True
    model.compile("adam", "mse")
    fit(model, epochs=20)


@healthy
def generator() -> None:
    x, y = data()

    def batches() -> Any:
        while True:
            yield x[:BATCH], y[:BATCH]

    net().fit(batches(), steps_per_epoch=16, epochs=EPOCHS, verbose=0, callbacks=[BASELINES])


@healthy
def shuffled_dataset() -> None:
    dataset = tf.data.Dataset.from_tensor_slices(data()).shuffle(512).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    net().fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[BASELINES], validation_data=dataset)


@healthy
def cached_dataset() -> None:
    dataset = tf.data.Dataset.from_tensor_slices(data()).map(lambda x, y: (x * 2, y)).cache().batch(BATCH)
    net().fit(dataset.prefetch(2), epochs=EPOCHS, verbose=0, callbacks=[BASELINES])


@healthy
def variable_lengths() -> None:
    tokens = np.random.default_rng(1)
    rows = [tokens.integers(1, 99, tokens.integers(5, 60)) for _ in range(512)]
    dataset = tf.data.Dataset.from_generator(
        lambda: ((row, 1.0) for row in rows), output_signature=(tf.TensorSpec([None]), tf.TensorSpec([]))
    ).padded_batch(32)
    model = keras.Sequential([keras.Input((None,)), keras.layers.Embedding(100, 32), keras.layers.GRU(32)])
    model.add(keras.layers.Dense(1))
    model.compile("adam", "mse")
    model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[BASELINES])


@healthy
def predicts_each_epoch() -> None:
    x, _ = data()
    fit(net(), AtEpochEnd(lambda model, epoch: model.predict(x, verbose=0).mean()))


@healthy
def losses_kept_as_floats() -> None:
    fit(net(), AtEpochEnd(lambda model, epoch: KEPT.append(float(tf.reduce_mean(model.layers[0].kernel)))))


@healthy
def searches_and_clears() -> None:
    for width in (64, 256, 128, 512, 96, 384, 192, 320, 160, 448, 224, 288):
        fit(net(width), epochs=2)
        keras.backend.clear_session()


@healthy
def cross_validation() -> None:
    for _ in range(12):
        fit(net(), epochs=2)
        keras.backend.clear_session()


@healthy
def momentum_in_a_loop_of_fits() -> None:
    model = net(optimizer="sgd")
    for _ in range(25):
        fit(model, epochs=1)


@healthy
def garbage_in_cycles() -> None:
    def make(model: Any, epoch: int) -> None:
        ring: list[Any] = [tf.random.normal([256, 256])]
        ring.append(ring)  # freed when Python's collector comes

    fit(net(), AtEpochEnd(make))


@healthy
def averages_weights() -> None:
    model = net()
    model.compile(keras.optimizers.Adam(use_ema=True), "mse")
    fit(model)


@healthy
def keeps_the_last_five() -> None:
    def keep(model: Any, epoch: int) -> None:
        KEPT.append(tf.identity(model.layers[0].kernel))
        del KEPT[:-5]

    fit(net(), AtEpochEnd(keep))


# -- leaks ------------------------------------------------------------------------------------------------------------


@leaks
def list_of_tensors() -> None:
    x, _ = data()
    fit(net(), AtEpochEnd(lambda model, epoch: KEPT.append(tf.repeat(model(x), WIDTH, axis=1))))


@leaks
def list_of_losses_each_step() -> None:
    class Keeps(Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            KEPT.append(tf.random.normal([64, 64]))

    fit(net(), Keeps())


@leaks
def cache_that_grows() -> None:
    cache: dict[int, Any] = {}
    KEPT.append(cache)
    fit(net(), AtEpochEnd(lambda model, epoch: cache.update({epoch: tf.random.normal([200 + epoch, 256])})))


@leaks
def weights_kept() -> None:
    fit(net(), AtEpochEnd(lambda model, epoch: KEPT.append([tf.identity(w) for w in model.weights])))


@leaks
def retraced_for_numbers() -> None:
    @tf.function
    def scaled(x: Any, by: float) -> Any:
        return x * tf.constant(np.full((128, 256), by, "float32"))

    x = tf.ones([128, 256])
    fit(net(), AtEpochEnd(lambda model, epoch: scaled(x, epoch * 1.5)))


@leaks
def retraced_for_shapes() -> None:
    @tf.function
    def product(x: Any) -> Any:
        return x @ tf.constant(np.ones((256, 512), "float32"))

    fit(net(), AtEpochEnd(lambda model, epoch: product(tf.ones([epoch + 1, 256]))))


@leaks
def predictions_kept() -> None:
    x, _ = data()
    fit(net(), AtEpochEnd(lambda model, epoch: KEPT.append(tf.constant(model.predict(x, verbose=0).repeat(64)))))


@leaks
def gradients_kept_in_validation() -> None:
    x, y = data()

    def keep(model: Any, epoch: int) -> None:
        if epoch % 2:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            KEPT.append(tape.gradient(loss, model.trainable_variables))

    fit(net(), AtEpochEnd(keep), validation_data=data(), epochs=40)


@leaks
def models_kept() -> None:
    for _ in range(25):
        KEPT.append(net())
        fit(KEPT[-1], epochs=2)


@leaks
def one_epoch_fits_keep() -> None:
    model = net()
    for _ in range(30):
        fit(model, epochs=1)
        KEPT.append(tf.random.normal([256, 256]))


@leaks
def starts_late() -> None:
    def keep(model: Any, epoch: int) -> None:
        if epoch > 15:
            KEPT.append(tf.random.normal([256, 256]))

    fit(net(), AtEpochEnd(keep), epochs=40)


@leaks
def datasets_in_a_loop() -> None:
    def keep(model: Any, epoch: int) -> None:
        KEPT.append(iter(tf.data.Dataset.from_tensors(tf.random.normal([256, 256])).repeat()))
        next(KEPT[-1])

    fit(net(), AtEpochEnd(keep))


@leaks
def under_garbage() -> None:
    def make(model: Any, epoch: int) -> None:
        ring: list[Any] = [tf.random.normal([128, 128])]
        ring.append(ring)
        KEPT.append(tf.random.normal([256, 256]))

    fit(net(), AtEpochEnd(make), epochs=40)


# -- recording --------------------------------------------------------------------------------------------------------


def main() -> int:
    if len(sys.argv) == 1:
        print("\n".join([*HEALTHY, *LEAKS]))
        return 0
    name, path = sys.argv[1], Path(sys.argv[2])
    (HEALTHY | LEAKS)[name]()
    leak = name in LEAKS
    planned = 0 if BASELINES.fits > 1 else BASELINES.params["epochs"]  # what the monitor knows of a fit
    inside = Series(name, "recorded", "inside", leak, LIMIT_MB << 20, tuple(BASELINES.points), epochs=planned)
    write(path, [inside])
    settled = BASELINES.every_step[len(BASELINES.every_step) // 2 :]
    ends = [int(point.bytes) for point in inside.points if point.epoch][-10:]
    print(name, "ends of epochs:", ends, "range over steps:", max(settled) - min(settled), "bytes", flush=True)
    return 0


if __name__ == "__main__":
    BASELINES = Baselines() if len(sys.argv) > 1 else None
    sys.exit(main())
