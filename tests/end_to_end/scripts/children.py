"""Trains a model in child processes: `children.py METHOD ...`, where the methods are those of multiprocessing."""

import multiprocessing
import sys


def train(name):
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    x = np.random.normal(size=(64, 8)).astype("float32")
    model.fit(x, x[:, :1], epochs=2, batch_size=16, verbose=0)
    np.savez(f"{name}.npz", *[np.asarray(v) for v in [*model.variables, *model.optimizer.variables]])


if __name__ == "__main__":
    for method in sys.argv[1:]:
        process = multiprocessing.get_context(method).Process(target=train, args=(method,))
        process.start()
        process.join()
        print(method, "ended with", process.exitcode)
