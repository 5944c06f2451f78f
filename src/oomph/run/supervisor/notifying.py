"""Sends the notifications of `oomph run --notify` to a command or a web address, without ever waiting for either.

Each notification is sent by a process of its own, which is ended if it takes too long. A thread would not do, because
the supervisor forks. Whatever fails is said in one line, and changes nothing about the run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from subprocess import STDOUT
from typing import Any, NamedTuple

from oomph.errors import UsageError
from oomph.monitor.webhook import Webhook
from oomph.process import process_identity
from oomph.process.child import Child, as_stdin
from oomph.process.own_process import isolated_command, isolated_environ, without_own_variables
from oomph.run.report.notification import Notification, document_of
from oomph.terminal.endings import ProcessEnd
from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import shortened

_MOST_SECONDS, _REAP_SECONDS, _LOOK_SECONDS = 10.0, 0.1, 0.02
_MOST_OF_OUTPUT = 4096
_MOST_OF_PROBLEM = 200
_MODULE = "oomph.monitor.webhook"


class CommandTarget(NamedTuple):
    """A command that receives the message as its last argument, and the document on its stdin."""

    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name for messages."""
        return self.words[0]

    def start(self, document: Mapping[str, Any]) -> Child:
        """Start the command. Raises OSError or ValueError if that is not possible."""
        with as_stdin(document) as stdin:
            words = [*self.words, document["text"]]
            return Child(words, os.environ, stdin=stdin, stderr=STDOUT, reap_seconds=_REAP_SECONDS)


class WebTarget(NamedTuple):
    """A web address to which the document is posted."""

    webhook: Webhook

    @property
    def name(self) -> str:
        """The name for messages, without the path, which is often secret."""
        return self.webhook.host

    def start(self, document: Mapping[str, Any]) -> Child:
        """Start a process that posts the document. Raises OSError if that is not possible."""
        environ = isolated_environ(without_own_variables(os.environ))
        with as_stdin({"url": self.webhook.url, "document": document}) as stdin:
            return Child(isolated_command(_MODULE), environ, stdin=stdin, reap_seconds=_REAP_SECONDS)


Target = CommandTarget | WebTarget


def target_of(asked: str) -> Target:
    """Interpret the value of `--notify`. Raises UsageError for one that could never work, before the run starts."""
    if is_address(asked):
        try:
            return WebTarget(Webhook(asked))
        except ValueError as error:
            raise UsageError(
                "--notify: a web address must start with https:// or http:// and name a host, with a valid port if any,"
                " and without a password"
            ) from error
    try:
        words = tuple(shlex.split(asked))
    except ValueError as error:
        raise UsageError(f"--notify={asked} cannot be split into words: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--notify={asked}: there is no command {words[0] if words else asked!r}")
    return CommandTarget(words)


def is_address(asked: str) -> bool:
    """True if the value of `--notify` is meant as a web address."""
    return "://" in asked.partition(" ")[0]


class Notifier:
    """Sends notifications about one run.

    Args:
        target: where to send them, or None to send nothing.
        say: a function that prints a line.
        command: the script, as it appears in a sentence.
        run_dir: the run directory as the user would type it, or None.
    """

    def __init__(self, target: Target | None, say: Callable[[str], None], command: str, run_dir: str | None) -> None:
        self._target, self._say, self._command, self._run_dir = target, say, command, run_dir
        self._sending: list[_Sending] = []
        self._said: set[str] = set()

    def send(self, notification: Notification) -> None:
        """Start sending a notification. Never raises, and does not wait."""
        if self._target is None:
            return
        try:
            document = document_of(notification, self._command, self._run_dir, process_identity.host(), time.time())
            self._sending.append(_Sending(self._target.start(document)))
        except Exception as error:
            self._complain(getattr(error, "strerror", None) or f"{type(error).__name__}: {error}")

    def attend(self) -> None:
        """Look after the notifications under way: report those that failed, and end those that take too long."""
        self._sending = [sending for sending in self._sending if not self._is_over(sending)]

    def close(self) -> None:
        """Wait until the last notifications are sent, for as long as one may take."""
        for sending in self._sending:
            sending.wait()
        self.attend()

    def _is_over(self, sending: _Sending) -> bool:
        try:
            problem = sending.problem()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            self._complain(problem)
        return problem is not None

    def _complain(self, problem: str) -> None:
        name = "" if self._target is None else self._target.name
        text = f"--notify: {name} could not be notified: {problem}"
        if text not in self._said:
            self._said.add(text)
            self._say(text)


class _Sending:
    """A notification under way."""

    def __init__(self, child: Child) -> None:
        self._child, self._output = child, b""
        self._until = time.monotonic() + _MOST_SECONDS

    def wait(self) -> None:
        """Wait until the child has exited, but not longer than it may take."""
        while self._child.returncode is None and time.monotonic() < self._until:
            self._read(_LOOK_SECONDS)
            self._child.wait(_LOOK_SECONDS)

    def _read(self, seconds: float = 0.0) -> None:
        self._output = (self._output + self._child.read(seconds))[-_MOST_OF_OUTPUT:]

    def problem(self) -> str | None:
        """Return why the notification was not sent, an empty string if it was, or None while it is under way."""
        is_late = time.monotonic() >= self._until
        self._read()
        if self._child.returncode is None and not is_late:
            return None
        returncode = self._child.returncode
        self._child.close()
        if returncode is None:
            return f"no answer within {_MOST_SECONDS:.0f} s"
        if returncode == 0:
            return ""
        said = self._output.decode(errors="replace").strip().rpartition("\n")[2]
        return shortened(shown_line(said), _MOST_OF_PROBLEM) or ProcessEnd(returncode).problem
