"""A machine on which nothing is wrong; each test changes the part that it covers."""

from __future__ import annotations

import machines
import pytest

from oomph.doctor.snapshot import Snapshot


@pytest.fixture(name="healthy")
def _healthy() -> Snapshot:
    return machines.healthy()
