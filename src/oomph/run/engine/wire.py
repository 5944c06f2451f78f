"""Defines what the supervisor and the agents on the machines of a cluster tell each other, one JSON object to a line.

An agent supervises one worker on its machine. Any engine that connects its stdin and stdout to the supervisor will do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from oomph.files.conforming import conforms
from oomph.protocol.handover import Guarding
from oomph.protocol.progress import Phase
from oomph.run.hang.limits import Hang

Message = Mapping[str, Any]


class Assignment(NamedTuple):
    """The first line to an agent: the worker that it is to start, once it has been told the addresses of all."""

    oomph: str
    """The version of oomph that the supervisor runs."""
    words: tuple[str, ...]
    """The script and its arguments."""
    python: str
    """The Python for the script, or "" for the one that runs the agent."""
    folder: str
    """The working directory."""
    run_dir: str
    """The run directory of the worker."""
    run: str
    """The entropy in the run's run.json. Only a folder that all machines share has the same."""
    run_root: str
    """The run directory of the first worker, with run.json."""
    entropy: str
    """The entropy of the worker."""
    rank: int
    workers: int
    attempt: int
    guarding: dict[str, Any]
    """The fields of `Guarding`."""
    changes: tuple[tuple[str, str], ...]
    """The name and the value of each change in effect."""
    environ: dict[str, str]
    """The variables that the script gets in addition to those of the machine."""

    def line(self) -> bytes:
        """Return the message as a line."""
        return line_of(self._asdict())

    @classmethod
    def read(cls, message: Message) -> Assignment:
        """Read the message. Raises ValueError or TypeError if it is damaged."""
        values = dict(message)
        values["words"] = tuple(values.get("words", ()))
        values["changes"] = tuple((str(name), str(value)) for name, value in values.get("changes", ()))
        found = cls(**values)
        texts = (found.folder, found.run_dir, found.python, found.entropy, *found.words)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("an assignment of an unknown form")
        Guarding.of_document(found.guarding)
        return found


def line_of(message: Message) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode() + b"\n"


class Lines:
    """Cuts a stream into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[Message]:
        """Accept the next chunk, and return the messages that it completes. Lines that are no objects are left out."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [found for each in whole if (found := _message(each)) is not None]


def _message(line: bytes) -> Message | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def hang_in(message: Message) -> Hang:
    """Return the hang, or the standing, that an agent describes. Raises ValueError or TypeError if it is damaged."""
    values = message["hang"]
    found = Hang(**{**values, "phase": Phase(values["phase"])})
    if not all(conforms(value, kind) for value, kind in zip(found[1:], (int, float, float, str, str), strict=True)):
        raise ValueError("a hang of an unknown form")
    return found


def hang_as_data(hang: Hang) -> Message:
    """Return a hang as a part of a message."""
    return {**hang._asdict(), "phase": int(hang.phase)}


def text_of(data: bytes) -> str:
    """Return any bytes as text, one character for each."""
    return data.decode("latin-1")


def bytes_of(text: str) -> bytes:
    """Return the bytes that `text_of` was given."""
    return text.encode("latin-1", "replace")
