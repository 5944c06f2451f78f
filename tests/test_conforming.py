"""Values from JSON are validated before use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from oomph.files.conforming import conforms
from oomph.journal.event import Event, _types_of
from oomph.journal.events import FitStarted
from oomph.journal.fact import BY_NAME


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (int, [0, -5, 2**63 - 1], [True, 1.0, "1", None, 2**63, 10**300, [1]]),
        (float, [0, 1.5, "nan", "-inf"], [True, float("inf"), float("nan"), "1.5", 2**63, None]),
        (str, ["", "x"], [b"x", 1, None, ["x"]]),
        (bool, [True, False], [0, 1, "true", None]),
        (int | None, [None, 3], [False, "3"]),
        (list[str], [[], ["a"]], ["ab", [1], {"a": 1}, None]),
        (tuple[str, int], [["a", 1], ("a", 1)], [["a"], ["a", 1, 2], [1, "a"], "ab"]),
        (tuple[str, ...], [[], ["a", "b"]], [[1], "ab"]),
        (Mapping[str, int], [{}, {"a": 1}], [{"a": "1"}, [], None]),
        (list[Mapping[str, Any]], [[{}], [{"a": object()}]], [[1], {}]),
    ],
)
def test_nested_value_conforms_only_if_all_parts_do(kind, good, bad):
    assert [conforms(value, kind) for value in good] == [True] * len(good)
    assert [conforms(value, kind) for value in bad] == [False] * len(bad)


def test_non_json_type_raises_type_error():
    with pytest.raises(TypeError):
        conforms(1, complex)


def test_damaged_event_field_falls_back_to_its_default():
    fact = Event.named("fit-started", {"epochs": "x", "fit": 1, "site": 3, "of_another_oomph": {"a": [1]}}).fact
    assert fact == FitStarted(fit=1)


@pytest.mark.parametrize("large", ["x" * 20_000, [{}] * 2000, {str(n): n for n in range(500)}, [[[["x" * 20_000]]]]])
def test_unknown_event_keeps_only_its_small_fields(large):
    assert Event.named("later", {"fit": 1, "large": large, "other": [1]}).data == {"fit": 1, "other": [1]}
    assert Event.named("later", {f"field{number}": 1 for number in range(300)}).data == {}
    assert Event.named("later", {"fit": 1}).name == "later"


@pytest.mark.parametrize("kind", BY_NAME.values(), ids=BY_NAME)
def test_every_field_default_conforms_to_its_declared_type(kind):
    types = _types_of(kind)
    assert [name for name, *_ in types] == [*kind.defaults]
    for name, of_type, _, default in types:
        assert conforms(default, of_type), name
