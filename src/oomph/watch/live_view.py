"""The live view: updates once a second, fills the terminal, responds to keys, and restores the terminal on exit.

It is drawn with rich and not with Textual, which takes 0.16 s instead of 0.04 s of CPU and 32 MB instead of 15 MB to
import, and twice as much of a core (1.8 % instead of 0.8 %) to draw 200 by 60 characters once a second. A few keys are
all that Textual would add.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from oomph.process.process_group import stop_self
from oomph.terminal.screen import screen_of
from oomph.watch.charts import ASCII, BLOCKS
from oomph.watch.keys import ViewChoice, keys_in, pressed
from oomph.watch.screen import lines_of
from oomph.watch.signals import ENDING, NotedSignals
from oomph.watch.view import View

_EVERY_SECONDS = 1.0
_USUAL_SIZE = (80, 24)


def show(look: Callable[[], View]) -> int:
    """Show the views that `look` returns until the user quits. Return the exit code: 0, or 128 + n for signal n."""
    try:
        return _show(look)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        sys.stdout = None  # otherwise, the interpreter flushes it at exit
        return 128 + signal.SIGHUP  # the terminal is gone


def _show(look: Callable[[], View]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for characters that the terminal cannot show, such as °
    console = Console(force_terminal=True, no_color=not screen_of(1).colour, highlight=False, legacy_windows=False)
    with NotedSignals() as signals, Keyboard() as keyboard:
        with Live(
            console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        ) as live:
            return _Loop(look, console, live, signals, keyboard).run()


class _Loop:
    def __init__(
        self, look: Callable[[], View], console: Console, live: Live, signals: NotedSignals, keyboard: Keyboard
    ) -> None:
        self._look, self._console, self._live = look, console, live
        self._signals, self._keyboard = signals, keyboard
        self._marks = BLOCKS if console.encoding.startswith("utf") else ASCII
        self._choice = ViewChoice()

    def run(self) -> int:
        """Show the view until the user quits or a signal ends it, and return the exit code."""
        view, due = self._look(), time.monotonic() + _EVERY_SECONDS
        while True:
            self._paint(view)
            self._wait(due - time.monotonic(), view)
            ended = self._obey_signals()
            if ended:
                return 128 + ended
            if self._choice.quits:
                return 0
            if time.monotonic() >= due:
                due = time.monotonic() + _EVERY_SECONDS
                view = view if self._choice.paused else self._look()

    def _paint(self, view: View) -> None:
        try:
            width, height = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            width, height = 0, 0
        if not width or not height:
            width, height = _USUAL_SIZE
        self._console.size = (width, height)
        lines = lines_of(view, self._choice, width, height, self._marks)
        self._live.update(_Rows(lines), refresh=True)

    def _wait(self, seconds: float, view: View) -> None:
        """Wait for a key, a signal, or the next update."""
        sources = [self._signals.fd, *([] if self._keyboard.fd is None else [self._keyboard.fd])]
        ready, _, _ = select.select(sources, [], [], max(seconds, 0.0))
        if self._keyboard.fd in ready:
            try:
                for key in keys_in(self._keyboard.read()):
                    self._choice = pressed(self._choice, key, view.jobs)
            except EOFError:
                self._choice = pressed(self._choice, "q")

    def _obey_signals(self) -> int:
        """Handle the signals that have arrived. Return the one that ends the view, or 0 if there is none."""
        for number in self._signals.taken():
            if number in ENDING:
                return number
            if number == signal.SIGTSTP:
                self._live.stop()
                self._keyboard.give_back()
                stop_self()
                self._resume()
            elif number == signal.SIGCONT:  # after SIGSTOP, during which the shell used the terminal
                self._keyboard.take()
                self._console.set_alt_screen(True)
        return 0

    def _resume(self) -> None:
        self._keyboard.take()
        self._live.start()


class _Rows:
    """Rows that already fit the terminal. Looking for places to wrap them would take rich twice the time."""

    def __init__(self, rows: Sequence[Text]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for place, row in enumerate(self._rows):
            if place:
                yield Segment.line()
            yield from row.render(console) if row.spans else [Segment(row.plain, console.get_style(row.style))]


_LOCAL_MODES = 3


class Keyboard:
    """Standard input without echo and without waiting for Enter. Ctrl-C and Ctrl-Z still send signals.

    If standard input is not a terminal, there are no keys.
    """

    def __init__(self) -> None:
        self.fd: int | None = None
        """The file descriptor to wait on, or None if there are no keys."""
        self._before: list[Any] | None = None

    def __enter__(self) -> Keyboard:
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.give_back()

    def take(self) -> None:
        """Switch off echo and line mode in the terminal."""
        try:
            modes, before = termios.tcgetattr(0), termios.tcgetattr(0)
        except termios.error:
            return
        self._before = self._before or before
        modes[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(0, termios.TCSANOW, modes)
        self.fd = 0

    def give_back(self) -> None:
        """Restore the modes of the terminal."""
        if self._before is None:
            return
        try:
            termios.tcsetattr(0, termios.TCSANOW, self._before)
        except termios.error:
            pass  # the terminal is gone
        self._before = self.fd = None

    def read(self) -> str:
        """Return the keys pressed since the last call. Raises EOFError if the terminal is gone."""
        try:
            data = os.read(0, 64)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        return data.decode(errors="replace")
