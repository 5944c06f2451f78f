"""A machine on which nothing is wrong; each test changes what it is about."""

from __future__ import annotations

import machines
import pytest

from oomph.doctor.snapshot import Snapshot


@pytest.fixture(name="healthy")
def _healthy() -> Snapshot:
    return machines.healthy()
