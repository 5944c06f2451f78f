"""Which GPU XLA compiles for."""

from __future__ import annotations

import itertools

import pytest

from oomph.planning.gpu_list import gpus
from oomph.planning.xla.targets import TARGETS, choose, description


@pytest.mark.parametrize(
    ("capability", "chosen", "is_nearest"),
    [
        ("8.9", (8, 9), False),
        ("9.0", (9, 0), False),
        ("8.7", (8, 6), True),
        ("6.2", (6, 1), True),
        ("12.1", (12, 0), True),
        ("10.3", (10, 0), True),
        ("", (9, 0), True),
        ("unknown", (9, 0), True),
    ],
)
def test_target_has_the_capability_of_the_gpu_or_the_next_lower_one(capability, chosen, is_nearest) -> None:
    found = choose(capability)
    assert found is not None
    assert found.target.capability == chosen
    assert found.is_nearest is is_nearest


@pytest.mark.parametrize("capability", ["3.7", "5.2", "5.3"])
def test_gpus_older_than_xla_supports_have_no_target(capability: str) -> None:
    assert choose(capability) is None


def test_targets_are_in_ascending_order_of_capability() -> None:
    assert all(one.capability < other.capability for one, other in itertools.pairwise(TARGETS))


def test_every_gpu_from_pascal_on_has_a_target() -> None:
    without = {gpu.capability for gpu in gpus() if choose(gpu.capability) is None}
    assert without <= {"3.7", "5.2", "5.3"}


def test_target_description_states_the_gpu_memory_and_is_well_formed() -> None:
    found = choose("8.9")
    assert found is not None
    text = description(found.target, 24 << 30)
    assert f"device_memory_size: {24 << 30}\n" in text
    assert "major: 8 minor: 9" in text
    assert text.count("{") == text.count("}")
