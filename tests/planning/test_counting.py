"""The pool of a plan takes what is free, so that a model that needs more ends with a message."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oomph.planning import counting

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "limit", "gib"),
    [(20 * GIB, None, 18), (20 * GIB, 10 * GIB, 9), (GIB // 2, None, 1), (4 * GIB, 8 * GIB, 3.6)],
)
def test_pool_limit_stays_below_the_memory_of_the_machine(monkeypatch, free, limit, gib) -> None:
    monkeypatch.setattr(counting.psutil, "virtual_memory", lambda: SimpleNamespace(available=free, total=24 * GIB))
    monkeypatch.setattr(counting, "limit_bytes", lambda: limit)
    assert counting.counting_environ()["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == str(int(gib * 1024))
