"""An ordinary training script whose batch does not fit into the GPU memory it is given; for `make gpu-lane`.

    python benchmarks/gpu_oom.py --memory 2048 --batch 16384 --jit auto --out weights.npz

It does not use oomph. Without --memory it uses the whole GPU: the undisturbed run.
"""

from __future__ import annotations

import argparse

import keras
import numpy as np
import tensorflow as tf


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", type=int, help="MiB of the first GPU to use")
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--jit", choices=("auto", "on", "off"), default="auto")
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    gpus = tf.config.list_physical_devices("GPU")
    if args.memory and gpus:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=args.memory)
        tf.config.set_logical_device_configuration(gpus[0], [limit])
    keras.backend.set_floatx("float64" if args.float64 else "float32")
    keras.utils.set_random_seed(11)
    dtype = keras.backend.floatx()
    generator = np.random.default_rng(0)
    x = generator.standard_normal((args.batch * args.steps, 32)).astype(dtype)
    y = generator.integers(0, 10, args.batch * args.steps)
    layers = [keras.layers.Dense(512, activation="tanh") for _ in range(12)]
    model = keras.Sequential([keras.Input((32,)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    jit = {"auto": "auto", "on": True, "off": False}[args.jit]
    model.compile(keras.optimizers.Adam(1e-4), loss, metrics=["accuracy"], jit_compile=jit)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(args.batch)
    history = model.fit(data, epochs=2, verbose=0).history
    np.savez(args.out, *[np.asarray(v) for v in model.variables])
    print(f"devices {[d.name for d in gpus]}, XLA {model.jit_compile}, loss {history['loss'][-1]:.6f}")


if __name__ == "__main__":
    main()
