"""Intervals of versions compare as people read them: 2.15 stands for 2.15.1 too."""

from __future__ import annotations

import pytest

from oomph.explain.facts.version_range import Version, VersionRange, version


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.15.0", (2, 15, 0)),
        ("2.16.0rc1", (2, 16, 0)),
        ("3.11.4+", (3, 11, 4)),
        ("2.1.", (2, 1)),
        ("535.54.03", (535, 54, 3)),
        ("", ()),
        ("v2", ()),
        ("9" * 5000, ()),
        ("1.2.3.4.5.6", (1, 2, 3, 4)),
    ],
)
def test_version_is_read_as_far_as_it_has_numbers(text: str, numbers: Version) -> None:
    assert version(text) == numbers


def test_release_contains_its_patches() -> None:
    keras = VersionRange((2, 13), (2, 15))
    assert keras.is_from((2, 13))
    assert keras.is_before((3,))
    assert not keras.is_before((2, 15, 1)), "2.15 may be 2.15.0 or 2.15.9"
    assert not keras.is_from((2, 14))


def test_open_end_proves_nothing_beyond_it() -> None:
    later = VersionRange(since=(2, 17))
    assert later.is_from((2, 16))
    assert not later.is_before((9,))


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (VersionRange((2, 13), (2, 15)), VersionRange(since=(2, 15)), VersionRange((2, 15), (2, 15))),
        (VersionRange((2, 13), (2, 15)), VersionRange((2, 15, 1), (2, 15, 1)), VersionRange((2, 15, 1), (2, 15, 1))),
        (VersionRange((3,)), VersionRange(until=(2, 12)), None),
        (VersionRange(), VersionRange(until=(2, 12)), VersionRange(until=(2, 12))),
    ],
)
def test_common_versions(one: VersionRange, other: VersionRange, common: VersionRange | None) -> None:
    assert one.common(other) == common
    assert other.common(one) == common
