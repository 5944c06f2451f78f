"""Entropy: what a script draws from the system without a seed, drawn again when it is started again.

A restart runs the script from its top. Without a seed it would split its data in another way, make other initial
weights and iterate over its sets in another order: nothing of an earlier attempt would fit it any more. So each run has
a number of its own, drawn from the system once, and the generators that a script finds unseeded start from that in
every attempt: Python's `random`, NumPy's global one, the seeds that NumPy makes up, and the hashes of strings. A script
that sets its own seeds sees nothing of it. Standard library only; used in the script's process.

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
    return {
        "random": lambda module: module.seed(f"{entropy} random"),
        "numpy.random": lambda module: _seed_numpy(entropy, module),
    }


def _seed_numpy(entropy: str, module: ModuleType) -> None:
    import random

    draws = random.Random(f"{entropy} numpy")
    module.seed([draws.getrandbits(32) for _ in range(16)])
    bits = getattr(module, "bit_generator", None)
    if bits is not None and hasattr(bits, "randbits"):
        bits.randbits = draws.getrandbits  # what `SeedSequence()` asks the system for
