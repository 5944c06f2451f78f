"""A changed global is found however a function reaches it, and settings next to it stay the script's."""

from __future__ import annotations

import contextlib
import functools
import sys

import pytest

from oomph.objects.instances import wrapped_by

COUNTED = {"steps": 0, "drop": 3}
TOTAL, LIMIT = 0, 5


def by_text():
    globals()["TOTAL"] = globals()["TOTAL"] + 1


def by_import_of_its_own():
    import counted_by_a_test as counted

    counted.total += 1


def by_name_imported_of_its_own():
    from counted_by_a_test import seen

    seen.append(len(seen))


@contextlib.contextmanager
def in_context():
    COUNTED["steps"] += 1
    yield


@functools.cache
def kept(turn):
    COUNTED["steps"] += turn
    return turn


class Calling:
    def __init__(self, function):
        self.function = function


@pytest.fixture
def counted(tmp_path, monkeypatch):
    (tmp_path / "counted_by_a_test.py").write_text("total = 0\nseen = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    import counted_by_a_test

    yield counted_by_a_test
    del sys.modules["counted_by_a_test"]


@pytest.fixture
def start_over(monkeypatch):
    """Set this module's globals to the values that they have in a new process."""

    def begin(drop=3, limit=5):
        COUNTED.update(steps=0, drop=drop)
        globals().update(TOTAL=0, LIMIT=limit)

    begin()
    yield begin
    begin()


def test_global_accessed_by_name_is_restored(resume, start_over):
    found = resume(lambda: start_over() or Calling(by_text), lambda thing: thing.function())
    assert (found.lost, TOTAL) == ([], 1)


def test_globals_of_a_module_imported_within_a_function_are_restored(resume, counted):
    def begin():
        counted.total, counted.seen = 0, []
        return [Calling(by_import_of_its_own), Calling(by_name_imported_of_its_own)]

    found = resume(begin, lambda both: [each.function() for each in both])
    assert (found.lost, counted.total, counted.seen) == ([], 1, [0])


def test_globals_changed_by_decorated_functions_are_restored(resume, start_over):
    def change(both):
        with both[0].function():
            both[1].function(2)

    found = resume(lambda: start_over() or [Calling(in_context), Calling(kept)], change)
    assert (found.lost, COUNTED["steps"]) == ([], 3)


def test_edited_setting_takes_effect_alongside_a_restored_dict_counter(resume, start_over):
    drops = iter([3, 9])
    change = lambda thing: COUNTED.update(steps=7)  # noqa: E731
    found = resume(lambda: start_over(drop=next(drops)) or Calling(kept), change)
    assert COUNTED == {"steps": 7, "drop": 9}
    assert found.lost == [f"global of {__name__}: COUNTED['drop']: 3 → 9"]


def limited():
    global TOTAL
    TOTAL += LIMIT


def test_edited_global_setting_takes_effect_alongside_a_restored_counter(resume, start_over):
    limits = iter([5, 6])
    found = resume(lambda: start_over(limit=next(limits)) or Calling(limited), lambda thing: thing.function())
    assert (TOTAL, LIMIT) == (5, 6)
    assert found.lost == [f"global of {__name__}: LIMIT: 5 → 6"]


class Answering:
    """Runs code when a missing attribute is accessed."""

    def __getattr__(self, name):
        pytest.fail(f"asked for {name}")


def test_finding_the_function_behind_a_decorator_does_not_run_code():
    kept_by_hand = functools.lru_cache(len)
    kept_by_hand.__wrapped__ = Answering()
    assert wrapped_by(kept_by_hand) is None
