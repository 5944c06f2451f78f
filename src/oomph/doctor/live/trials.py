"""Runs small trials on a device, for `oomph doctor --deep`: `python trials.py GPU:0 list allocate matmul ...`.

This script runs standalone, in the script's Python. Each trial prints a line of JSON when it starts and another when it
ends, so if the process dies or hangs, the last trial to start is to blame.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

_TOLERANCE = 1e-3
_MEGABYTE = 1 << 20


class Difference(Exception):
    """Raised if the device's result differs from the CPU's."""


def _say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _same(np: Any, there: Any, here: Any, tolerance: float = _TOLERANCE) -> str:
    """Describe how much the device's result differs from the CPU's, relative to the largest value.

    Raises Difference if it is too much.
    """
    there, here = np.asarray(there, "float64"), np.asarray(here, "float64")
    apart = float(np.max(np.abs(there - here)) / max(float(np.max(np.abs(here))), 1e-12))
    if not apart <= tolerance:  # `not <=` also catches NaN
        raise Difference(f"the result differs from the CPU's by {apart:.2g} times its size")
    return f"differs from the CPU by {apart:.1g}"


def _both(tf: Any, device: str, compute: Callable[[], Any]) -> tuple[Any, Any]:
    """Run the same computation on the device and on the CPU, and return both results."""
    results = []
    for place in (device, "CPU:0"):
        with tf.device(place):
            results.append(compute().numpy())
    return results[0], results[1]


def _numbers(np: Any, *shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


def _list(tf: Any, np: Any, device: str) -> str:
    kind, index = device.split(":")
    found = tf.config.list_logical_devices(kind)
    if len(found) <= int(index):
        raise RuntimeError(f"TensorFlow lists {len(found)} devices of kind {kind}")
    return str(found[int(index)].name)


def _allocate(tf: Any, np: Any, device: str) -> str:
    with tf.device(device):
        held = tf.zeros((64, _MEGABYTE // 4))
        total = float(tf.reduce_sum(held).numpy())
    if total != 0.0:
        raise Difference(f"64 MiB of zeros add up to {total}")
    return "64 MiB"


def _matmul(tf: Any, np: Any, device: str) -> str:
    a, b = _numbers(np, 512, 512), _numbers(np, 512, 512)
    return _same(np, *_both(tf, device, lambda: tf.matmul(a, b)), 5e-3)  # TF32 has only ten bits


def _convolution(tf: Any, np: Any, device: str) -> str:
    images, kernel = _numbers(np, 8, 32, 32, 16), _numbers(np, 3, 3, 16, 32)
    return _same(np, *_both(tf, device, lambda: tf.nn.conv2d(images, kernel, 1, "SAME")), 5e-3)


def _rnn(tf: Any, np: Any, device: str) -> str:
    series = _numbers(np, 8, 20, 16)

    def compute() -> Any:
        tf.keras.utils.set_random_seed(7)
        return tf.keras.layers.LSTM(32, kernel_initializer=_fixed(tf, np), recurrent_initializer=_fixed(tf, np))(series)

    return _same(np, *_both(tf, device, compute), 1e-2)


def _fixed(tf: Any, np: Any) -> Any:
    """Return an initializer that gives the same weights on every device. Random ones may differ between devices."""
    return lambda shape, dtype=None: tf.constant(_numbers(np, *shape) * 0.1, dtype or "float32")


def _mixed_precision(tf: Any, np: Any, device: str) -> str:
    a, b = _numbers(np, 256, 256), _numbers(np, 256, 256)

    def compute() -> Any:
        return tf.cast(tf.matmul(tf.cast(a, "float16"), tf.cast(b, "float16")), "float32")

    return _same(np, *_both(tf, device, compute), 2e-2)


def _xla(tf: Any, np: Any, device: str) -> str:
    a, b = _numbers(np, 256, 256), _numbers(np, 256, 256)

    def compute(x: Any, y: Any) -> Any:  # takes arguments, since XLA would fold constants
        return tf.nn.relu(tf.matmul(x, y)) + tf.exp(-tf.abs(x))

    with tf.device(device):
        there = tf.function(compute, jit_compile=True)(tf.constant(a), tf.constant(b)).numpy()
    with tf.device("CPU:0"):
        here = compute(tf.constant(a), tf.constant(b)).numpy()
    return _same(np, there, here, 5e-3)


def _bandwidth(tf: Any, np: Any, device: str) -> str:
    data = np.zeros((64, _MEGABYTE // 4), "float32")
    rates = []
    for _ in range(5):
        started = time.perf_counter()
        with tf.device(device):
            there = tf.identity(tf.constant(data))
        half = time.perf_counter()
        there.numpy()
        rates.append((64 / 1024 / max(half - started, 1e-9), 64 / 1024 / max(time.perf_counter() - half, 1e-9)))
    up, down = (max(column) for column in zip(*rates))  # noqa: B905 (strict needs Python 3.10)
    return f"{up:.1f} GiB/s to the device, {down:.1f} GiB/s back"


def _all_reduce(tf: Any, np: Any, device: str) -> str:
    """Check a sum over two devices, which MirroredStrategy computes in every step."""
    kind = device.split(":")[0]
    devices = [found.name for found in tf.config.list_logical_devices(kind)][:2]
    strategy = tf.distribute.MirroredStrategy(devices)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def step() -> Any:
        def replica() -> Any:
            context = tf.distribute.get_replica_context()
            mine = tf.cast(context.replica_id_in_sync_group + 1, "float32") * tf.ones((1024,))
            return context.all_reduce("sum", mine)

        return strategy.run(replica)

    sums = [each.numpy() for each in strategy.experimental_local_results(step())]
    expected = sum(range(1, len(devices) + 1))
    if any(not np.all(each == expected) for each in sums):
        raise Difference(f"the sum over {len(devices)} devices is not {expected}")
    return f"{len(devices)} devices"


TRIALS: "dict[str, Callable[[Any, Any, str], str]]" = {
    "list": _list,
    "allocate": _allocate,
    "matmul": _matmul,
    "convolution": _convolution,
    "rnn": _rnn,
    "mixed-precision": _mixed_precision,
    "xla": _xla,
    "bandwidth": _bandwidth,
    "all-reduce": _all_reduce,
}


def _try(name: str, run: Callable[[], str]) -> None:
    _say(begun=name)
    started = time.monotonic()
    try:
        row = {"trial": name, "ok": True, "detail": run()}
    except Exception as error:
        row = {"trial": name, "ok": False, "detail": f"{type(error).__name__}: {str(error)[:400]}"}
    _say(row={**row, "seconds": round(time.monotonic() - started, 2)})


def _main(device: str, names: "list[str]") -> None:
    loaded: dict[str, Any] = {}

    def load() -> str:
        import numpy
        import tensorflow

        loaded.update(tf=tensorflow, np=numpy)
        return f"TensorFlow {tensorflow.__version__}"

    _try("import", load)
    for name in names if loaded else ():
        _try(name, lambda name=name: TRIALS[name](loaded["tf"], loaded["np"], device))  # type: ignore[misc]


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules TensorFlow must not import
    _main(sys.argv[1], sys.argv[2:])
