"""Starts real kernels without touching the Jupyter settings and history of whoever runs the tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from real_kernels import Kernel


@pytest.fixture(scope="session", autouse=True)
def _own_jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Return a function that starts a kernel in the test's folder, with additional environment variables."""
    from real_kernels import Kernel

    with contextlib.ExitStack() as ends:
        yield lambda **variables: ends.enter_context(Kernel(tmp_path, **variables))
