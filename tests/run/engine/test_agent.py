"""The agent on a machine: what it refuses, and which lines it exchanges with the supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import oomph
from oomph.protocol.handover import Guarding
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.engine.agent import why_not
from oomph.run.engine.wire import Assignment, Lines, bytes_of, line_of, text_of

SECONDS = 30
ENTROPY = "0" * 32


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Assignment]:
    """Return an assignment that can be carried out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    run = RunDirectory.create(tmp_path / "run", RunRecord(("train.py",), "", "", "", entropy=ENTROPY))
    yield Assignment(
        oomph=oomph.__version__,
        words=("train.py",),
        python="",
        folder=str(tmp_path),
        run_dir=str(run.path),
        run=ENTROPY,
        run_root=str(run.path),
        entropy=ENTROPY,
        rank=0,
        workers=1,
        attempt=1,
        guarding=json.loads(json.dumps(Guarding(guard=False)._asdict())),
        changes=(),
        environ={"TF_SAID": "here"},
    )
    run.close()


class StartedAgent:
    """An agent in a process of its own."""

    def __init__(self, given: Assignment) -> None:
        words = [sys.executable, "-m", "oomph.run.engine.agent"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", bufsize=0)
        self._lines = Lines()
        self._heard: list[Any] = []
        self.tell(given._asdict())

    def tell(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line_of(message))

    def wait_for(self, kind: str) -> Any:
        """Return the next message of this kind, leaving out others."""
        assert self.process.stdout is not None
        while True:
            for number, message in enumerate(self._heard):
                if message["is"] == kind:
                    del self._heard[: number + 1]
                    return message
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, f"the agent ended without {kind}: {self._heard}"
            self._heard = self._lines.take(data)

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait(SECONDS)


@pytest.fixture
def started(given: Assignment) -> Iterator[StartedAgent]:
    """Return an agent that has started a script, which prints, and then sleeps."""
    says = 'os.write(1, f\'{os.environ["TF_SAID"]} {os.environ["OTHER"]}\'.encode())'
    Path("train.py").write_text(f"import os, time\n{says}\ntime.sleep(50)\n")
    agent = StartedAgent(given)
    try:
        assert agent.wait_for("ready")["port"] > 0
        agent.tell({"do": "start", "environ": {"OTHER": "there"}})
        assert bytes_of(agent.wait_for("output")["text"]) == b"here there"
        yield agent
    finally:
        agent.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"oomph": "0.0.1"}, "has oomph .*, not 0.0.1: install the same version on all machines"),
        ({"folder": "/nowhere"}, "cannot enter the working directory /nowhere: No such file or directory"),
        ({"words": ("other.py",)}, "has no /.*/other.py: put the script where all machines find it"),
        ({"words": ("-m", "other")}, ""),
        ({"run": "1" * 32}, "does not see the run directory /.*/run: choose one that all machines share"),
        ({"run_root": "/nowhere"}, "does not see the run directory /nowhere: choose one that all machines share"),
    ],
)
def test_machine_that_lacks_something_says_what(given, change, why):
    assert re.match(why or r"\Z", why_not(given._replace(**change)))


def test_machine_that_may_not_write_to_the_run_directory_says_so(given, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (given.run_dir, os.W_OK | os.X_OK))
    assert re.match(
        "may not write to the run directory /.*/run: mount it there with the right to write", why_not(given)
    )


def test_refusal_ends_the_agent(given):
    agent = StartedAgent(given._replace(words=("other.py",)))
    assert "has no " in agent.wait_for("refused")["text"]
    assert agent.process.wait(SECONDS) == 0
    agent.close()


def test_signal_reaches_the_script_and_its_end_is_reported(started):
    started.tell({"do": "signal", "signum": int(signal.SIGTERM)})
    ended = started.wait_for("ended")
    assert (ended["returncode"], ended["stopped"]) == (-signal.SIGTERM, True)


def test_other_signals_are_not_obeyed(started):
    started.tell({"do": "signal", "signum": int(signal.SIGKILL)})
    started.tell({"do": "end", "seconds": 5})
    assert started.wait_for("ended")["stopped"] is False


def test_stopped_script_is_reported_and_killed(started):
    (child,) = _children(started.process.pid)
    os.kill(child, signal.SIGSTOP)
    assert started.wait_for("stopped")["stopped"] is True
    started.tell({"do": "kill", "seconds": 0})
    assert started.wait_for("ended")["returncode"] == -signal.SIGKILL


def test_agent_without_a_supervisor_kills_the_script(started, alive):
    (child,) = _children(started.process.pid)
    started.process.stdin.close()
    assert started.process.wait(SECONDS) == 0
    assert not alive(child)


def test_any_bytes_pass():
    every = bytes(range(256))
    (message,) = Lines().take(line_of({"text": text_of(every)}))
    assert bytes_of(message["text"]) == every


def test_lines_that_are_no_objects_are_left_out():
    lines = Lines()
    assert lines.take(b'[1]\nno\n{"is"') == []
    assert lines.take(b': "x"}\n') == [{"is": "x"}]


def _children(pid: int) -> list[int]:
    """Return the processes of the script, without the watchdog."""
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):  # one that has ended
            found += [child.pid] if "train.py" in child.cmdline() else []
    return found
