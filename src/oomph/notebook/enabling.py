"""Guards the fits of a running kernel or program, until `disable` puts everything back.

`enable` does not import Keras. Once the notebook has imported it, this process claims the notebook's run
directory, guards Keras, and checkpoints the fits. Without the directory, fits are guarded, but neither checkpointed nor
resumed. Everything fails open: an error prints one sentence, and the cells run as in plain Keras.
"""

from __future__ import annotations

import atexit
import os
import sys
from importlib import import_module
from importlib.util import find_spec

from oomph.process import undoing
from oomph.script import session, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    from oomph.notebook.kernel_run import KernelRun
    from oomph.notebook.naming import Notebook
    from oomph.protocol.handover import Handover
    from oomph.script.session import Session

_AUTORELOAD = "IPython.extensions.autoreload"
_GLOBAL_GENERATORS = ("random", "numpy.random")
"""The modules whose global generators a cell may have seeded already."""


def load_ipython_extension(ipython: Any) -> None:
    """Enable oomph for `%load_ext oomph`."""
    enable()


def unload_ipython_extension(ipython: Any) -> None:
    """Disable oomph for `%unload_ext oomph`."""
    disable()


def enable() -> None:
    """Guard the fits of this process from now on. Does nothing if they are already guarded or being examined."""
    global _guard
    if _guard is not None or session.current() is not None or os.environ.get("OOMPH_REACH"):
        return
    undoing.begin()
    try:
        _guard = NotebookGuard()
        _guard.tell_of_the_last_kernel()
        _guard.answer_in_cells()
        if "tensorflow" in sys.modules or find_spec("tensorflow") is not None:
            _guard.wait_for_keras()
        else:
            missing = f"TensorFlow is not installed for {sys.executable}"
            session.say(f"{missing}, so there is nothing to guard: install it, and restart")
    except Exception as error:
        _guard = None
        undoing.take_back()
        session.say(f"{type(error).__name__}: {error}; fits are not guarded")


def disable() -> None:
    """Put everything back as it was before `enable`: Keras, TensorFlow, signals, the environment, open files."""
    global _guard
    if _guard is None:
        return
    if _guard.is_training:
        session.say("a fit is running: call oomph.disable() again once it has ended")
        return
    guard, _guard = _guard, None
    for error in undoing.take_back():
        session.say(f"{type(error).__name__}: {error}; part of oomph is still active in this process")
    guard.end()


def fresh() -> None:
    """Set aside what earlier kernels of this notebook left, so that every fit trains from the beginning."""
    from oomph.errors import RunDirectoryError
    from oomph.notebook.naming import notebook_here
    from oomph.notebook.run_of_notebook import set_aside, set_checkpoints_aside

    disable()
    if _guard is not None:
        return
    try:
        given = _given()
        if given is None:
            aside = set_aside(notebook_here())
        else:
            aside = None if given.path is None else set_checkpoints_aside(given.path)
        session.say("there was nothing to resume" if aside is None else f"what earlier kernels left is now in {aside}")
    except (RunDirectoryError, OSError) as error:
        session.say(str(error))
    enable()


class NotebookGuard:
    """The guard of this process, from `enable` to `disable`."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._given = _given()
        self._notebook = _notebook() if self._given is None else None
        self._entropy = _entropy(self._notebook) if self._given is None else self._given.entropy
        self._session: Session | None = None
        self._run: KernelRun | None = None
        self._fits: Any = None

    def tell_of_the_last_kernel(self) -> None:
        """Say what the kernel before this one died of, if it died."""
        if self._notebook is not None:
            from oomph.notebook.evidence.last_words import told

            for line in told(self._notebook.run_dir):
                session.say(line)

    def answer_in_cells(self) -> None:
        """Make `%oomph` available if this process has an IPython shell."""
        running = shell.running()
        if running is not None:
            from oomph.notebook.magics.words import register

            undoing.remember(register(running, self._run_dir, fresh))

    def wait_for_keras(self) -> None:
        """Guard Keras as soon as it is imported, or at once if it already is."""
        from oomph.inject import hook
        from oomph.protocol.entropy import seeding
        from oomph.script import environment_read
        from oomph.script.unguarded_training import watching

        _keep_from_children()
        environment_read.watch()
        is_untouched, is_late = shell.is_untouched(), hook.TRAINER in sys.modules
        seeds = {
            name: seed
            for name, seed in seeding(self._entropy).items()
            if is_untouched or name not in sys.modules or name not in _GLOBAL_GENERATORS
        }
        hook.after_import({
            **seeds,
            **watching(self.session),
            hook.TRAINER: lambda trainer: self._install(trainer, is_late),
            _AUTORELOAD: _keep_from_autoreload,
        })  # fmt: skip

    @property
    def _run_dir(self) -> Path | None:
        """The run directory that this process will join, or None if there is none."""
        if self._given is not None:
            return self._given.path
        return None if self._notebook is None else self._notebook.run_dir

    def session(self) -> Session:
        """Return this process's session. The first call joins the notebook's run."""
        if self._session is None:
            self._session = self._joined()
        return self._session

    @property
    def is_training(self) -> bool:
        """True if a guarded fit or loop is running."""
        return self._fits is not None and self._fits.running is not None

    def end(self) -> None:
        """Record that this kernel's attempt ends here."""
        run, self._run = self._run, None
        if run is None or os.getpid() != self._pid:
            return
        try:
            run.end()
        except Exception as error:
            session.say(f"the end of this run cannot be recorded: {type(error).__name__}: {error}")

    def _install(self, trainer: ModuleType, is_late: bool) -> None:
        try:
            guarding = import_module("oomph.notebook.live.guarding")
            self._fits = guarding.install(trainer, self.session(), is_late)
        except Exception as error:
            session.say(f"{type(error).__name__}: {error}; fits are not guarded")

    def _joined(self) -> Session:
        from oomph.notebook.cell_ending import CellEnding
        from oomph.notebook.display import showing
        from oomph.notebook.evidence.last_words import record

        if session.current() is not None:
            raise RuntimeError("this process has joined a run already")
        is_cell = shell.running() is not None
        handover = self._given or self._begun()
        joined = session.join(handover, CellEnding(), shell.execution if is_cell else None, shell.command_line())
        undoing.remember(record(joined))
        undoing.remember(showing.end)
        try:
            showing.begin(joined)
        except Exception as error:
            session.say(f"{type(error).__name__}: {error}; reports are printed on stderr")
        return joined

    def _begun(self) -> Handover:
        """Claim the notebook's run directory and return the handover, which has no run directory if that fails."""
        from oomph.errors import RunDirectoryError
        from oomph.files.user_code import PACKAGE
        from oomph.notebook.kernel_run import begin
        from oomph.protocol.handover import Handover

        try:
            if self._notebook is not None:
                self._run = begin(self._notebook, self._entropy)
                atexit.register(self.end)
                undoing.remember(lambda: atexit.unregister(self.end))
                self._tell_name(self._notebook)
                return self._run.handover()
        except RunDirectoryError as error:
            session.say(f"{error}; fits are guarded, but neither checkpointed nor resumed")
        return Handover(package=PACKAGE, run_dir=None, entropy=self._entropy)

    def _tell_name(self, notebook: Notebook) -> None:
        if not notebook.is_named:
            session.say(f"the notebook's name cannot be determined; its checkpoints are in {notebook.run_dir}")


_guard: NotebookGuard | None = None


def _given() -> Handover | None:
    """Return the supervisor's handover, or None if there is none or a guarded process started this one."""
    from oomph.protocol.handover import Handover
    from oomph.protocol.ownership import below_owner

    return None if below_owner() else Handover.read()


def _notebook() -> Notebook | None:
    """Return the notebook whose run this process may claim, or None in a worker or a deleted working directory."""
    from oomph.notebook.naming import notebook_here

    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        return None
    try:
        return notebook_here()
    except OSError:
        session.say("the working directory has been deleted: fits are neither checkpointed nor resumed")
        return None


def _entropy(notebook: Notebook | None) -> str:
    from oomph.protocol.entropy import fresh as drawn

    return ("" if notebook is None else notebook.entropy) or drawn()


def _keep_from_children() -> None:
    """Hide this process's run from programs that the notebook starts: each is on its own, or under `oomph run`."""
    from oomph.protocol import handover, ownership

    taken = {name: os.environ.pop(name) for name in (handover.VARIABLE, ownership.VARIABLE) if name in os.environ}
    undoing.remember(lambda: os.environ.update(taken))


def _keep_from_autoreload(autoreload: ModuleType) -> None:
    """Make `%autoreload` skip oomph's modules: a reload would leave a running guard with two versions of each class."""
    reloader = autoreload.ModuleReloader
    original = reloader.filename_and_mtime

    def filename_and_mtime(self: Any, module: Any) -> Any:
        name = str(getattr(module, "__name__", ""))
        return (None, None) if name == "oomph" or name.startswith("oomph.") else original(self, module)

    reloader.filename_and_mtime = filename_and_mtime
    undoing.remember(lambda: setattr(reloader, "filename_and_mtime", original))
