"""Changes to a process are remembered, and undone in reverse order."""

from __future__ import annotations

import types

import pytest

from oomph.keras_bridge.runtime.patching import patch, replaced
from oomph.process import undoing


@pytest.fixture
def owner():
    return types.SimpleNamespace(kind=type("Owner", (), {"method": "original"}))


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    undoing.take_back()


def test_patches_are_undone_even_if_one_undo_fails(owner):
    undoing.begin()
    patch(owner.kind, "method", "first")
    undoing.remember(lambda: 1 // 0)
    patch(owner.kind, "method", "second")
    patch(owner.kind, "added", "new")
    [error] = undoing.take_back()
    assert isinstance(error, ZeroDivisionError)
    assert owner.kind.method == "original"
    assert not hasattr(owner.kind, "added")
    assert undoing.take_back() == []


def test_temporary_replacement_is_not_remembered(owner):
    undoing.begin()
    with replaced(owner, "method", "for a trace"):
        pass
    assert undoing.take_back() == []


def test_later_patch_by_other_code_is_kept(owner):
    undoing.begin()
    patch(owner.kind, "method", "ours")
    owner.kind.method = "theirs"
    undoing.take_back()
    assert owner.kind.method == "theirs"


def test_patch_before_begin_is_not_remembered(owner):
    patch(owner.kind, "method", "ours")
    assert undoing.take_back() == []
    assert owner.kind.method == "ours"
