"""Records the environment variables that the script itself reads, since they affect training as its arguments do.

`os.environ` calls its `encodekey` with every name that it looks up. Replacing that function rather than a method keeps
oomph's frames out of the traceback for a missing variable. Reads by libraries don't count, nor does a line that
iterates over the whole environment, such as `dict(os.environ)`. Only names and digests are kept. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from oomph.process import undoing
from oomph.redaction.redaction import holds_secret
from oomph.script.sources import is_own_code

SECRET = "set"
"""Recorded instead of a secret's digest, from which the secret could be guessed."""
_DIGEST_BYTES = 4
_NEARLY_ALL = 0.8
_OF_THE_JOB = frozenset((
    "HOME", "PWD", "OLDPWD", "TMP", "TEMP", "TMPDIR", "TERM", "COLUMNS", "LINES", "USER", "LOGNAME", "HOSTNAME", "HOST",
    "PATH", "LANG", "SHELL", "DISPLAY", "VIRTUAL_ENV", "JOB_ID", "MANPATH", "CUDA_VISIBLE_DEVICES",
))  # fmt: skip
_OF_JOBS = (
    "SLURM_", "PBS_", "LSB_", "SGE_", "KUBERNETES_", "RAY_", "SSH_", "XDG_", "CUDA_", "NVIDIA_", "OOMPH_", "OMP_",
    "PYTHON", "LC_", "LD_", "CONDA_", "NCCL_", "TF_", "XLA_",
)  # fmt: skip
"""Name prefixes of variables that describe the job, machine or libraries, and therefore differ between starts."""
_ADDRESSES = "TF_CONFIG"
"""Has other ports at every start, and each worker's place, which does not change."""
_OF_ARITHMETIC = (
    "TF_ENABLE_ONEDNN_OPTS", "TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC", "NVIDIA_TF32_OVERRIDE", "TF_XLA_FLAGS",
    "XLA_FLAGS",
)  # fmt: skip
"""Variables read by TensorFlow's native code that affect the exact bits of a step's result."""


class EnvironmentRead:
    """Tracks the variables that the script has read so far.

    Args:
        environ: `os.environ`, whose look-ups are watched from now on.
    """

    def __init__(self, environ: Any) -> None:
        self._data: Mapping[Any, bytes] = environ._data
        self._present = frozenset(environ)
        self._found: dict[str, str | None] = {}
        self._by_line: dict[tuple[CodeType, int], set[str]] = {}
        self._encode: Callable[[Any], Any] = environ.encodekey
        environ.encodekey = self._encoded

    def stop(self, environ: Any) -> None:
        """Stop watching."""
        environ.encodekey = self._encode

    def values(self) -> dict[str, str | None]:
        """Map the name of each variable read to a digest of its value when first read, or to None if it was not set."""
        names = {name for line in self._by_line.values() if not self._is_of_all(line) for name in line}
        return {name: value for name, value in self._found.items() if name in names}

    def _is_of_all(self, names: set[str]) -> bool:
        return len(names & self._present) >= max(2, _NEARLY_ALL * len(self._present))

    def _encoded(self, name: Any) -> Any:
        encoded = self._encode(name)
        try:
            self._note(name, encoded)
        except Exception:
            pass  # the script's own read must not fail because of oomph
        return encoded

    def _note(self, name: str, encoded: Any) -> None:
        frame = sys._getframe(2)
        if frame.f_code.co_name != "__getitem__":
            return  # the variable is being set or deleted, not read
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename in _BETWEEN:
            caller = caller.f_back
        if caller is None or not is_own_code(caller.f_code.co_filename):
            return
        self._by_line.setdefault((caller.f_code, caller.f_lasti), set()).add(name)
        if name not in self._found:
            self._found[name] = _digest(name, self._data.get(encoded))


_BETWEEN = frozenset((os.getenv.__code__.co_filename, Mapping.get.__code__.co_filename))
"""The files of the functions that a look-up goes through."""
_watched: EnvironmentRead | None = None


def watch() -> None:
    """Watch `os.environ` from now on, if it is implemented as expected."""
    global _watched
    try:
        _watched = _watched or EnvironmentRead(os.environ)
        undoing.remember(_stop)
    except AttributeError:
        pass


def _stop() -> None:
    global _watched
    if _watched is not None:
        _watched.stop(os.environ)
        _watched = None


def read_by_script() -> dict[str, str | None]:
    """Map the name of each variable that the script itself has read to a digest, or to None if it was not set."""
    return {} if _watched is None else {k: v for k, v in _watched.values().items() if not describes_the_job(k)}


def of_arithmetic() -> dict[str, str | None]:
    """Map the name of each variable that affects TensorFlow's arithmetic to a digest, or to None if it is not set."""
    values = ((name, os.environ.get(name)) for name in _OF_ARITHMETIC)
    return {name: None if value is None else _digest(name, os.fsencode(value)) for name, value in values}


def of_training() -> dict[str, str | None]:
    """Map the name of each variable that training depends on to a digest, or to None if it is not set."""
    return {**of_arithmetic(), **read_by_script()}


def read_of_the_job() -> dict[str, str | None]:
    """Map variables of the job or the machine as `read_by_script` does its own, without the workers' addresses."""
    read = {} if _watched is None else _watched.values()
    return {k: v for k, v in read.items() if describes_the_job(k) and k != _ADDRESSES}


def describes_the_job(name: str) -> bool:
    """True if a variable describes the job, machine or libraries, and therefore differs between starts."""
    return name in _OF_THE_JOB or (name.startswith(_OF_JOBS) and name not in _OF_ARITHMETIC)


def _digest(name: str, value: bytes | None) -> str | None:
    if value is None:
        return None
    if holds_secret(name, os.fsdecode(value)):
        return SECRET
    return hashlib.blake2b(value, digest_size=_DIGEST_BYTES).hexdigest()
