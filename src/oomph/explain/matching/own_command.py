"""The command line of the run at hand, which stands for `train.py` in the commands of remedies. Pure."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

_BY_OOMPH = re.compile(r"\boomph run( --resume)? train\.py(?!\S)")
_BY_PYTHON = re.compile(r"\bpython( -X faulthandler)? train\.py(?!\S)")
_PROGRAM = "--"


class OwnCommand(NamedTuple):
    """The command that started a run: `oomph run OPTIONS WORDS`."""

    options: tuple[str, ...] = ()
    """The options of `oomph run`, except those that name the run."""
    words: tuple[str, ...] = ()
    """The script with its arguments, `-m` and a module, or `--` and a program; empty when it is not known."""

    def put_into(self, command: str) -> str:
        """The command of a remedy, with what the user runs in place of `train.py`."""
        if not self.words:
            return command
        command = _BY_OOMPH.sub(lambda found: self._by_oomph(found[1] or ""), command)
        return _BY_PYTHON.sub(lambda found: self._by_python(found[1] or "") or found[0], command)

    def _by_oomph(self, resume: str) -> str:
        return f"oomph run{resume} {shlex.join((*self.options, *self.words))}"

    def _by_python(self, option: str) -> str:
        """The words for Python with this option and the script; empty for a program that takes no option of
        Python's."""
        if self.words[0] != _PROGRAM:
            return f"python{option} {shlex.join(self.words)}"
        return "" if option else shlex.join(self.words[1:])
