"""Lists all checks, causes before consequences. To add one, write a function with `@check` in one of the modules."""

from __future__ import annotations

from oomph.doctor.check import Check
from oomph.doctor.checks import cuda, driver, gpu, host, installation, settings

CHECKS: tuple[Check, ...] = tuple(
    value
    for module in (installation, driver, cuda, settings, gpu, host)
    for value in vars(module).values()
    if isinstance(value, Check)
)
"""All checks, by module, and in source order within each module."""
