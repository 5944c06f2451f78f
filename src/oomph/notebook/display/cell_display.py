"""CellDisplay: one output of a notebook cell, updated in place, even from threads and after the cell has ended."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any


def running_cell(shell: Any) -> str:
    """Return the id of the request that the kernel is executing in this thread, or "" if there is none."""
    return str((shell.kernel.get_parent("shell") or {}).get("header", {}).get("msg_id", ""))


class CellDisplay:
    """A display of the cell running when it is created, even if it is shown or updated after that cell has ended.

    ipykernel sends a thread's output to whichever cell is running at that time. Messages from here carry the header of
    their own cell instead, so they never appear below another one.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.cell = running_cell(shell)
        self._publisher = shell.display_pub  # replaced while output is captured, as by %%capture
        self._parent = dict(getattr(self._publisher, "parent_header", None) or {})
        self._name = f"oomph-{uuid.uuid4().hex}"  # unique: a display from before a restart is out of reach
        self._shown = False

    def show(self, bundle: Mapping[str, str]) -> None:
        """Show the data by MIME type, in place of what this display showed before."""
        update, self._shown = self._shown, True
        transient = {"display_id": self._name}
        if self._is_of_running_cell():
            self._publisher.publish(dict(bundle), transient=transient, update=update)
            return
        session = self._publisher.session
        content = {"data": dict(bundle), "metadata": {}, "transient": transient}
        message = session.msg("update_display_data" if update else "display_data", content, parent=self._parent)
        session.send(self._publisher.pub_socket, message, ident=self._publisher.topic)

    def _is_of_running_cell(self) -> bool:
        """True if the publisher addresses this display's cell anyway, or does not distinguish cells."""
        return not self._parent or getattr(self._publisher, "parent_header", {}).get("msg_id") == self.cell
