"""Warnings that are ignored temporarily, and logging that stays as the script configured it."""

from __future__ import annotations

import logging
import sys
import warnings

import pytest

from oomph.script.quiet import without_configuring_logging, without_warnings


def warn(category=UserWarning):
    warnings.warn("told", category, stacklevel=1)


def fail_by_warning():
    warnings.simplefilter("error")
    warn()


@pytest.fixture
def heard():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        yield heard


def test_warning_that_was_already_shown_is_not_shown_again(heard):
    for _ in range(3):
        warn()
        with without_warnings():
            pass
    assert len(heard) == 1


def test_ignored_warning_is_shown_once_it_is_no_longer_ignored(heard):
    with without_warnings():
        warn()
    assert heard == []
    warn()
    assert len(heard) == 1


def test_other_categories_are_still_shown(heard):
    with without_warnings(DeprecationWarning):
        warn()
        warn(DeprecationWarning)
    assert [each.category for each in heard] == [UserWarning]


def test_warning_filters_are_restored_even_after_an_error(heard):
    filters = warnings.filters
    with pytest.raises(UserWarning), without_warnings():
        fail_by_warning()
    assert warnings.filters is filters
    warn()
    assert len(heard) == 1


def test_unconfigured_logging_stays_unconfigured(monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with without_configuring_logging():
        logging.basicConfig()
    assert logging.getLogger().handlers == []


def test_script_logging_configuration_is_preserved(monkeypatch):
    own = logging.StreamHandler(sys.stderr)
    monkeypatch.setattr(logging.getLogger(), "handlers", [own])
    with without_configuring_logging():
        logging.basicConfig()
    assert logging.getLogger().handlers == [own]
