"""An IPython shell in the test's own process, which runs cells as a kernel does, but without sockets."""

from __future__ import annotations

import builtins
import contextlib
import sys

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@contextlib.contextmanager
def shell_in_process():
    """Yield a new shell, and restore the process afterwards."""
    main, names = sys.modules["__main__"], {**vars(builtins)}
    hooks = {
        name: getattr(sys, name) for name in ("excepthook", "displayhook", "ps1", "ps2", "ps3") if hasattr(sys, name)
    }
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell.instance(config=config, colors="nocolor")
    try:
        yield shell
    finally:
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = main
        for name in [*vars(builtins)]:
            if name not in names:
                delattr(builtins, name)
        for name, hook in hooks.items():
            setattr(sys, name, hook)


def run(shell, text: str, cell_id: str | None = None):
    """Run a cell as a front end would, and return its result; an error in the cell is raised."""
    result = shell.run_cell(text, store_history=True, cell_id=cell_id)
    result.raise_error()
    return result
