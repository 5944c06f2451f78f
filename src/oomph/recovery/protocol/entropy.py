"""Entropy: what a script draws from the system without a seed, drawn again when it is started again.

A restart runs the script from its top. Without a seed it would split its data in another way, make other initial
weights and iterate over its sets in another order: nothing of an earlier attempt would fit it any more. So each run has
a number of its own, drawn from the system once, and the generators that a script finds unseeded start from that in
every attempt: Python's `random`, NumPy's global one, the seeds that NumPy makes up, the hashes of strings, and the
shuffles of `tf.data`. Once Keras is imported, the eager operations of `tf.random` follow
(`tensorflow/random_numbers/eager_ops.py`). A script that sets its own seeds is not affected. Standard library only;
used in the script's process.

What is meant to be unlike anything before stays so: `os.urandom`, `secrets`, `uuid`, the names of temporary files.
"""

from __future__ import annotations

import os
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HASH_SEED = "PYTHONHASHSEED"
_MOST_HASH_SEEDS = 4294967295


def fresh() -> str:
    """The number of a new run, in hexadecimal."""
    return os.urandom(16).hex()


def hash_seed(entropy: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variable that lets Python hash strings alike in every attempt; nothing where the user has set it."""
    if environ.get(_HASH_SEED) or not entropy:
        return {}
    return {_HASH_SEED: str(1 + int(entropy, 16) % (_MOST_HASH_SEEDS - 1))}


def seeding(entropy: str) -> dict[str, Callable[[ModuleType], None]]:
    """What to do with a module right after its import, by its name."""
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
    """Whether the present process is still the one with this number.

    A process that is forked inherits the generators. If it used them, all workers would draw the same numbers.

    Args:
        process: the number of the process.
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
    if bits is not None and hasattr(bits, "randbits"):  # what `SeedSequence()` asks the system for
        original = bits.randbits
        bits.randbits = lambda count: (draws.getrandbits if here() else original)(count)


def _seed_pipelines(entropy: str, module: ModuleType, here: Here) -> None:
    """Choose the two seeds of a dataset that the script gives none. TensorFlow's kernel would choose them itself.

    The dataset still has a new order in each iteration. Datasets made within a function keep their kernels' choice,
    because constant seeds would make all calls of that function shuffle alike (`RandomSeedGenerator` in
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
