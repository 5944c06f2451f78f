"""Thirty Adam steps in float64, every tenth on a smaller batch: `exact.py OUT.npz [--jit] [--batch N] [--width N]`."""

import argparse
import gc

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--jit", action="store_true")
parser.add_argument("--batch", type=int, default=2048)
parser.add_argument("--width", type=int, default=256)
args = parser.parse_args()

keras.backend.set_floatx("float64")
keras.utils.set_random_seed(3)
rng = np.random.default_rng(0)
count = 9 * args.batch + args.batch // 3  # ten batches, the last of them smaller
x = rng.normal(size=(count, 16))
y = rng.integers(0, 4, count)
out = {}


def keep(name, model, history):
    for index, variable in enumerate([*model.variables, *model.optimizer.variables]):
        out[f"{name}/{index}"] = np.asarray(variable)
    for key, series in history.history.items():
        out[f"{name}/history/{key}"] = np.asarray(series, "float64")


def train(name, **options):
    model = keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(args.width, "tanh", kernel_regularizer=keras.regularizers.L2(1e-4)),
            keras.layers.Dense(args.width, "tanh"),
            keras.layers.Dense(args.width, "tanh"),
            keras.layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"], weighted_metrics=["accuracy"], jit_compile=args.jit
    )
    keep(name, model, model.fit(x, y, batch_size=args.batch, epochs=3, verbose=0, shuffle=True, **options))
    del model
    gc.collect()


train("plain")
train("sample_weight", sample_weight=rng.uniform(0.1, 2, count))
train("class_weight", class_weight={0: 0.2, 1: 1.0, 2: 3.0, 3: 1.0})
np.savez(args.out, **out)
