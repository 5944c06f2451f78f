"""Unseeded draws are the same in every attempt of a run, and different in every other run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from oomph.protocol.entropy import fresh, hash_seed, seeding

DRAWS = """
import random, sys
from oomph.inject.hook import after_import
from oomph.protocol.entropy import seeding
after_import(seeding(sys.argv[1]))
import numpy as np
for statement in sys.argv[2:]:
    exec(statement)
print([random.random() for _ in range(2)], np.random.rand(2))
print(np.random.default_rng().random(2), np.random.default_rng().random(), np.random.RandomState().rand())
print(random.Random(5).random(), np.random.default_rng(5).random())
"""

SEEDED = DRAWS.partition("print")[0]


def drawn(entropy: str, *statements: str, script: str = DRAWS) -> str:
    pytest.importorskip("numpy")
    environ = {**os.environ, **hash_seed(entropy, {})}
    ended = subprocess.run(
        [sys.executable, "-c", script, entropy, *statements], env=environ, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_run_gets_different_entropy():
    assert fresh() != fresh()
    assert len(fresh()) == 32
    int(fresh(), 16)


def test_attempts_of_a_run_draw_the_same_numbers_but_other_runs_do_not():
    first, second = "0" * 31 + "1", "f" * 32
    assert drawn(first) == drawn(first)
    assert drawn(first) != drawn(second)
    assert drawn("") != drawn(""), "no run, no help"


def test_seeded_script_draws_the_same_numbers_as_under_plain_python():
    seeds = ("random.seed(3)", "np.random.seed(4)")
    alone = "import random, numpy as np\nrandom.seed(3); np.random.seed(4)\nprint(random.random(), np.random.rand(3))"
    ours = SEEDED + "print(random.random(), np.random.rand(3))"
    assert drawn("a" * 32, *seeds, script=ours) == drawn("a" * 32, script=alone)


FORKS = (
    SEEDED
    + """
import os
for number in range(3):
    if os.fork() == 0:
        print(np.random.default_rng().random(), flush=True)
        os._exit(0)
    os.wait()
print(np.random.default_rng().random())
"""
)


def test_forked_processes_draw_different_numbers():
    """Otherwise, all data-loading workers would augment their images in the same way."""
    first, second = (drawn("a" * 32, script=FORKS).split() for _ in range(2))
    assert len(set(first)) == 4
    assert first[3] == second[3]
    assert not set(first[:3]) & set(second[:3])


def test_string_hashes_are_the_same_in_every_attempt_of_a_run():
    script = "print(hash('oomph'), list({'a', 'b', 'c', 'd'}))"
    assert drawn("b" * 32, script=script) == drawn("b" * 32, script=script)
    assert len({drawn(number * 32, script=script) for number in "cdef"}) == 4


def test_hash_seed_set_by_the_user_is_kept():
    assert hash_seed("a" * 32, {"PYTHONHASHSEED": "0"}) == {}
    assert hash_seed("", {}) == {}


@pytest.mark.parametrize("entropy", ["0" * 32, "f" * 32, "1"])
def test_hash_seed_is_within_the_range_python_accepts(entropy):
    (seed,) = hash_seed(entropy, {}).values()
    assert 0 < int(seed) <= 4294967295, "0 would switch it off"


def test_secrets_and_temporary_names_differ_between_attempts():
    script = SEEDED + (
        "import os, secrets, tempfile, uuid\n"
        "print(os.urandom(8), secrets.token_hex(8), uuid.uuid4(), tempfile.mktemp())"
    )
    one, other = (drawn("a" * 32, script=script).split() for _ in range(2))
    assert not set(one) & set(other)


def test_nothing_is_seeded_without_entropy():
    assert seeding("") == {}
    assert set(seeding("a" * 32)) == {"random", "numpy.random", "tensorflow.python.data.util.random_seed"}


def test_old_numpy_without_bit_generators_is_seeded_through_its_seed_function():
    class Old:
        seeds = ()

        @classmethod
        def seed(cls, seeds):
            cls.seeds = tuple(seeds)

    act = seeding("a" * 32)["numpy.random"]
    act(Old)  # type: ignore[arg-type]
    assert len(Old.seeds) == 16
