"""IPython's shell for a notebook without a kernel: outputs go into the cells and, as text, to the terminal."""

from __future__ import annotations

import builtins
import codecs
import getpass
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO, cast

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from oomph.files.user_code import is_users
from oomph.notebook.as_script.outputs import CellOutputs
from oomph.notebook.magics.words import register

_INLINE_PLOTS = "module://matplotlib_inline.backend_inline"
"""The matplotlib backend that a kernel chooses."""
_HINT = "To exit: use"
"""The beginning of the warning that IPython gives after a SystemExit."""
_UNATTENDED = (
    "nobody can answer input() in a notebook under `oomph run`: pass the answer as an argument (sys.argv[1:]) or in an"
    " environment variable"
)


class CellStream:
    """A standard stream of the notebook. Text goes to the original stream and into the outputs of the running cell.

    All other attributes, such as `fileno` and `isatty`, are those of the original stream.
    """

    def __init__(self, name: str, original: TextIO) -> None:
        self._name, self._original, self._pid = name, original, os.getpid()
        self.outputs: CellOutputs | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def write(self, text: str) -> int:
        """Write text to the original stream and to the outputs of the running cell."""
        written = self._original.write(text)
        if self.outputs is not None and os.getpid() == self._pid:  # a fork's outputs are not saved
            self.outputs.write(self._name, text)
        return written

    def writelines(self, lines: list[str]) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def echo(self, data: Mapping[str, Any]) -> None:
        """Write the plain text of a display to the original stream only."""
        if "text/plain" in data:
            text = str(data["text/plain"])
            self._original.write(text if text.endswith("\n") else f"{text}\n")
            self._original.flush()


class _CellDisplayHook(DisplayHook):
    """Adds the value of a cell's last expression to its outputs."""

    def write_output_prompt(self) -> None:
        """Skip the prompt, since the output itself has the execution count."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        """Add the value's representations to the cell's outputs, and echo its text."""
        shell = cast(CellShell, self.shell)
        shell.outputs.result(self.prompt_count, format_dict, md_dict or {})
        shell.stdout.echo(format_dict)

    def finish_displayhook(self) -> None:
        """Skip the separator that IPython writes after an output."""
        self._is_active = False


class _CellDisplayPublisher(DisplayPublisher):
    """Adds what is displayed to the cell's outputs."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *unused: Any,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **other: Any,
    ) -> None:
        """Add a display or update an earlier one, and echo its text."""
        add = self.shell.outputs.update if update else self.shell.outputs.display
        add(data, metadata or {}, (transient or {}).get("display_id"))
        self.shell.stdout.echo(data)

    def clear_output(self, wait: bool = False) -> None:
        """Remove the cell's outputs; what is on the terminal stays."""
        self.shell.outputs.clear(wait)


class CellShell(InteractiveShell):
    """The shell that runs the notebook's cells in this process. Its user module becomes this process's `__main__`."""

    displayhook_class = Type(_CellDisplayHook)
    display_pub_class = Type(_CellDisplayPublisher)

    def __init__(self, **options: Any) -> None:
        self.outputs = CellOutputs({})
        self.stdout, self.stderr = CellStream("stdout", sys.stdout), CellStream("stderr", sys.stderr)
        history = Config({"HistoryManager": {"enabled": False}})  # the user's history is for what a person types
        super().__init__(config=history, **options)  # type: ignore[no-untyped-call]

    @classmethod
    def start(cls) -> CellShell:
        """Create the shell, and make this process behave like a kernel in which nobody can answer `input()`."""
        os.environ.setdefault("MPLBACKEND", _INLINE_PLOTS)
        warnings.filterwarnings("ignore", _HINT)
        builtins.input = getpass.getpass = _refuse_input
        shell = cls.instance()
        register(shell)  # `%load_ext oomph` does nothing in this process, which is already guarded
        sys.stdout, sys.stderr = shell.stdout, shell.stderr
        return shell

    @contextmanager
    def filling(self, outputs: CellOutputs) -> Iterator[None]:
        """Collect the outputs of a cell and, until the next cell begins, of threads that outlive it."""
        self.outputs = self.stdout.outputs = self.stderr.outputs = outputs
        yield
        self.stdout.flush()
        self.stderr.flush()

    def run(self, source: str, cell_id: str | None) -> BaseException | None:
        """Run a cell. Return the exception that ended it, with a traceback that starts in the user's code, or None."""
        done = self.run_cell(source, store_history=True, cell_id=cell_id)  # type: ignore[no-untyped-call]
        error: BaseException | None = done.error_before_exec or done.error_in_exec
        if error is None:
            return None
        if not self.outputs.has_error and not is_success(error):  # IPython only prints some errors to stderr
            self.outputs.error(type(error).__name__, str(error), [f"{type(error).__name__}: {error}"])
        traceback = error.__traceback__
        while traceback is not None and not is_users(traceback.tb_frame.f_code.co_filename):
            traceback = traceback.tb_next
        return error.with_traceback(traceback)

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        """Add an exception to the cell's outputs, unless it ends the notebook without an error."""
        if not is_success(evalue):
            self.outputs.error(etype.__name__, str(evalue), stb)

    def system(self, cmd: str) -> None:
        """Run `!cmd`, and write its output as it arrives: through a pipe, since lines on a terminal end in \\r\\n."""
        if cmd.rstrip().endswith("&"):
            raise OSError("Background processes not supported.")  # as in a kernel; their output would never end
        words = self.var_expand(cmd, depth=1)  # type: ignore[no-untyped-call]
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(words, shell=True, executable=os.environ.get("SHELL"), bufsize=0, **options) as child:
            assert child.stdout is not None
            while data := child.stdout.read(1 << 16):
                sys.stdout.write(decode(data))
                sys.stdout.flush()
            sys.stdout.write(decode(b"", True))
        self.user_ns["_exit_code"] = child.returncode
        if child.returncode and self.system_raise_on_error:
            raise subprocess.CalledProcessError(child.returncode, cmd)

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: there are no windows, and `%matplotlib inline` needs no event loop."""

    def ask_exit(self) -> NoReturn:
        """End the notebook, as `exit` ends a script."""
        raise SystemExit(0)


CellShell.__name__ = "ZMQInteractiveShell"  # by which rich, and so `model.summary()`, tells a notebook from a terminal


def is_success(error: BaseException) -> bool:
    """True if the error is a SystemExit that reports success."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def _refuse_input(*prompt: object, **options: object) -> NoReturn:
    """Stand in for `input` and `getpass`: raise EOFError, as both do at the end of standard input."""
    raise EOFError(_UNATTENDED)
