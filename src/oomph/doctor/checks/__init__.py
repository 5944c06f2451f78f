"""CHECKS: every check, causes before consequences. To add one, write a function under `@check` in a module here."""

from __future__ import annotations

from oomph.doctor.check import Check
from oomph.doctor.checks import cuda, driver, gpu, host, installation, settings

CHECKS: tuple[Check, ...] = tuple(
    value
    for module in (installation, driver, cuda, settings, gpu, host)
    for value in vars(module).values()
    if isinstance(value, Check)
)
"""All checks, by module; within a module, in source order."""
