"""`oomph report --serve`: the report of a run that may be going on, which the page in the browser keeps up to date."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from oomph.errors import OomphError
from oomph.page.axis import in_local_time
from oomph.report import charts, timeline
from oomph.report.html import as_inline_json, as_page, page_data, sections
from oomph.report.recording import Recording, read_recording
from oomph.serving.address import Address
from oomph.serving.server import Served, Server
from oomph.watch.signals import ENDING, NotedSignals

_LEAST_SECONDS, _SHARE = 2.0, 0.05
"""The run is read anew at most every two seconds, and never for more than a twentieth of the time."""
_HTML, _JSON = "text/html; charset=utf-8", "application/json"


def serve(run_dir: Path, address: Address, say: Callable[[str], None]) -> int:
    """Serve until a signal arrives, and return 128 plus its number.

    Raises UsageError if the address cannot be used, and the errors of `read_recording` if the run cannot be read now.
    """
    latest = _Latest(run_dir)
    texts = {
        "/": Served(_HTML, lambda: as_page(latest(), serves=True)),
        "/news.json": Served(_JSON, lambda: _news(latest())),
    }
    server = Server(address, texts, "the report is at /")
    server.start()
    say(f"serving http://{server.address}/ until Ctrl-C")
    try:
        with NotedSignals() as signals:
            while True:
                select.select([signals.fd], [], [])
                ended = next((number for number in signals.taken() if number in ENDING), None)
                if ended is not None:
                    return 128 + ended
    finally:
        server.close()


class _Latest:
    """Reads the run, but not too often: reading a day of samples takes seconds."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._lock = run_dir, threading.Lock()
        began = time.monotonic()
        self._recording = read_recording(run_dir)
        self._due = _due(began)

    def __call__(self) -> Recording:
        with self._lock:
            began = time.monotonic()
            if began >= self._due:
                self._recording = self._read()
                self._due = _due(began)
            return self._recording

    def _read(self) -> Recording:
        """Read the run again. If it was removed meanwhile, what was last read of it stays, with a remark."""
        try:
            return read_recording(self._run_dir)
        except OomphError:
            clock = in_local_time(self._recording.now, "%H:%M:%S")
            lost = f"{self._run_dir} can no longer be read: this is its report as of {clock}"
            return replace(self._recording, missing=(lost,))


def _due(began: float) -> float:
    """Return when to read the run again, after a reading that began then."""
    now = time.monotonic()
    return now + max(_LEAST_SECONDS, (now - began) / _SHARE)


def _news(recording: Recording) -> str:
    line, drawn = timeline.timeline_of(recording), charts.charts_of(recording.curves)
    data = page_data(recording, line, drawn) if drawn else None
    return as_inline_json({"data": data, "sections": sections(recording, line, drawn)})
