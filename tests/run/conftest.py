"""Starts `oomph run` as a user does: in a separate process and folder, with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

import oomph

SECONDS = 60
SOURCE = Path(oomph.__file__).parents[1]


@dataclass
class Workplace:
    """A folder with scripts, and everything needed to run them with and without oomph."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def script(self, text: str, name: str = "train.py") -> str:
        (self.folder / name).write_text(textwrap.dedent(text))
        return name

    def environ(self, **extra: str) -> dict[str, str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("OOMPH_", "PYTHON"))}
        return {**clean, **extra}

    def oomph(self, *words: str) -> list[str]:
        code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from oomph.cli import main; sys.exit(main())"
        return [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", "-c", code, "run", *words]

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return self._run(self.oomph(*words), **options)

    def plain(self, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return self._run([sys.executable, *words], **options)

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.environ(), **options}
        process = subprocess.Popen(self.oomph(*words), cwd=self.folder, start_new_session=True, **options)
        self.started.append(process)
        return process

    def _run(self, argv: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        options = {"env": self.environ(), "timeout": SECONDS, "capture_output": True, **options}
        return subprocess.run(argv, cwd=self.folder, **options)

    @property
    def run_dir(self) -> Path:
        (path,) = (self.folder / ".oomph" / "runs").iterdir()
        return path

    def document(self, name: str, run_dir: Path | None = None) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(((run_dir or self.run_dir) / name).read_text())
        return document

    def wait_for(self, *names: str) -> list[str]:
        """Wait until the scripts have completely written these files; return their contents."""
        texts = wait_until(lambda: [self._text(name) for name in names], lambda texts: all(texts))
        return [str(text).strip() for text in texts]

    def _text(self, name: str) -> str:
        try:
            text = (self.folder / name).read_text()
        except OSError:
            return ""
        return text if text.endswith("\n") else ""

    def close(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for stream in (process.stdout, process.stderr, process.stdin):
                if stream is not None:
                    stream.close()
            process.wait(SECONDS)


def wait_until(look: Callable[[], Any], good: Callable[[Any], Any] = bool, seconds: float = 30) -> Any:
    until = time.monotonic() + seconds
    while not good(value := look()):
        assert time.monotonic() < until, f"waited {seconds} s in vain; last seen: {value!r}"
        time.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workplace]:
    place = Workplace(tmp_path)
    yield place
    place.close()


@pytest.fixture(name="wait_until")
def _wait_until() -> Callable[..., Any]:
    return wait_until


@pytest.fixture(name="alive")
def _alive() -> Callable[[int], bool]:
    return alive
