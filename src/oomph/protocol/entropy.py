"""Makes an unseeded script draw the same random numbers in every attempt of a run.

A restart runs the script from the top. Without a seed, the script would split its data differently, create different
initial weights and iterate over sets in a different order, so nothing from an earlier attempt would match. Each run
therefore draws one number from the system, with which every attempt seeds the unseeded generators: Python's `random`,
NumPy's global generator, the seeds that NumPy makes up, string hashes, and `tf.data` shuffles. Once Keras is imported,
the eager `tf.random` operations follow (`keras_bridge/stateful_random_ops.py`). A script that sets its own seeds is not
affected. The supervisor draws the number, and the script process uses it as a seed. Standard library only.

Values that are meant to be unique stay unique: `os.urandom`, `secrets`, `uuid` and the names of temporary files.
"""

from __future__ import annotations

import os
from types import ModuleType

from oomph.process import undoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HASH_SEED = "PYTHONHASHSEED"
_MOST_HASH_SEEDS = 4294967295


def fresh() -> str:
    """Draw the random number for a new run, in hexadecimal."""
    return os.urandom(16).hex()


def hash_seed(entropy: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable that makes string hashes equal in every attempt, unless the user has set it."""
    if environ.get(_HASH_SEED) or not entropy:
        return {}
    return {_HASH_SEED: str(1 + int(entropy, 16) % (_MOST_HASH_SEEDS - 1))}


def seeding(entropy: str) -> dict[str, Callable[[ModuleType], None]]:
    """Return, by module name, the functions that seed modules right after they are imported."""
    if not entropy:
        return {}
    here = Here(os.getpid())
    seeds: dict[str, Callable[[ModuleType], None]] = {
        "random": lambda module: module.seed(f"{entropy} random"),
        "numpy.random": lambda module: _seed_numpy(entropy, module, here),
        "tensorflow.python.data.util.random_seed": lambda module: _seed_pipelines(entropy, module, here),
    }
    return {name: _only(here, seed) for name, seed in seeds.items()}


def _only(here: Here, act: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    return lambda module: act(module) if here() else None


class Here:
    """A callable that returns True in the process with this PID, and False in its forks.

    A fork inherits the generators. If it used them, all workers would draw the same numbers.

    Args:
        process: the PID.
    """

    def __init__(self, process: int) -> None:
        self._process = process

    def __call__(self) -> bool:
        return os.getpid() == self._process


def _seed_numpy(entropy: str, module: ModuleType, here: Here) -> None:
    import random

    draws = random.Random(f"{entropy} numpy")
    module.seed([draws.getrandbits(32) for _ in range(16)])
    bits = getattr(module, "bit_generator", None)
    if bits is not None and hasattr(bits, "randbits"):  # the bits that `SeedSequence()` requests from the system
        original = bits.randbits
        bits.randbits = lambda count: (draws.getrandbits if here() else original)(count)
        undoing.remember(lambda: setattr(bits, "randbits", original))


def _seed_pipelines(entropy: str, module: ModuleType, here: Here) -> None:
    """Choose the two seeds of a dataset that has none, which TensorFlow's kernel would otherwise choose.

    The dataset still has a new order in each iteration. For a dataset created inside a function, the kernel still
    chooses: with constant seeds, all calls to that function would shuffle in the same way (`RandomSeedGenerator` in
    tensorflow/core/kernels/data/random_seed_ops.cc).
    """
    import random

    draws, original = random.Random(f"{entropy} tf.data"), module.get_seed
    context = module.random_seed.context

    def get_seed(seed: object) -> object:
        if seed is not None or context.global_seed() is not None or not (here() and context.executing_eagerly()):
            return original(seed)
        drawn = (draws.getrandbits(62) + 1, draws.getrandbits(62) + 1)
        return tuple(module.constant_op.constant(each, dtype=module.dtypes.int64) for each in drawn)

    vars(module)["get_seed"] = get_seed
    undoing.remember(lambda: setattr(module, "get_seed", original))
