"""Keeps what oomph does beside a script out of the script's warnings and its logging. Standard library only."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore the warnings of a category while the script's own objects are looked at.

    `warnings.catch_warnings` and `simplefilter` declare all registries outdated, and the script would then show again
    what it has already shown. An ignored warning is not registered, so the script's own call still shows it.
    """
    filters = warnings.filters
    warnings.filters = [("ignore", None, category, None, 0), *filters]
    try:
        yield
    finally:
        warnings.filters = filters


@contextmanager
def without_configuring_logging() -> Iterator[None]:
    """Leave the root logger as it is while TensorFlow does what logs a line.

    absl, by which it logs, calls `logging.basicConfig` first: then every line of TensorFlow's own logger would be
    written twice, and the script's own `basicConfig` would do nothing.
    """
    root = logging.getLogger()
    had_none = not root.handlers
    try:
        yield
    finally:
        for handler in root.handlers[:] if had_none else ():
            if type(handler) is logging.StreamHandler and handler.stream is sys.stderr:
                root.removeHandler(handler)
