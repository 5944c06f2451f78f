"""Lineage: the mark that tells the descendants of an attempt's owner that they are no owners themselves."""

from __future__ import annotations

import os

VARIABLE = "OOMPH_OWNER"


def mark_owner() -> None:
    """Let every process that this one starts know that the attempt has its owner."""
    os.environ[VARIABLE] = str(os.getpid())


def below_owner() -> bool:
    """True in a process that an owner started; False in an owner that replaced itself by `os.execv`."""
    return os.environ.get(VARIABLE, "") not in ("", str(os.getpid()))
