"""Starts oomph in every Python process under `oomph run`, then runs the user's own sitecustomize.

Python imports the first `sitecustomize` on its path before the script. This one starts oomph, removes itself from the
path, and imports `sitecustomize` again. That finds the user's or the system's own; if there is none, it raises the
ImportError that `site` expects. The script sees the sys.path and the sitecustomize of a plain start.

A script may start any Python, so the syntax here must be valid even in the oldest versions.
"""

import os
import sys


def _load_oomph(folder):
    # type: (str) -> None
    """Import the oomph package that this file belongs to from its location, since sys.path belongs to the script."""
    if "oomph" in sys.modules:
        return
    # importlib.util re-exports these two functions, but importing it costs more than everything else here.
    from importlib._bootstrap import module_from_spec
    from importlib._bootstrap_external import spec_from_file_location

    path = os.path.join(folder, "__init__.py")
    spec = spec_from_file_location("oomph", path, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError("no package in " + folder)
    sys.modules["oomph"] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop("oomph", None)
        raise


def _start_oomph(folder):
    # type: (str) -> None
    """Start oomph; the script must run whatever goes wrong."""
    try:
        _load_oomph(folder)
        from oomph.inject.bootstrap import start

        start()
    except Exception as error:
        what = type(error).__name__ + ": " + str(error)
        if os.environ.get("OOMPH_REACH"):
            _refuse_to_train(what)
            return
        try:
            sys.stderr.write("oomph: " + what + "; the script runs unguarded\n")
        except Exception:
            pass  # there is no stderr


class _RefusingFinder:
    """A finder that terminates this process when it imports a training library: training could not be examined."""

    def __init__(self, reason):
        # type: (str) -> None
        self._reason = reason

    def find_spec(self, name, path=None, target=None):
        # type: (str, object, object) -> None
        """Terminate the process for a package that trains; find nothing for any other package."""
        if name in ("tensorflow", "keras", "tf_keras"):
            sys.stderr.write("oomph: " + name + " cannot be examined in this Python: " + self._reason + "\n")
            sys.stderr.flush()
            os._exit(3)


def _refuse_to_train(reason):
    # type: (str) -> None
    """Prevent this process from training, for the given reason; everything else is allowed."""
    sys.meta_path.insert(0, _RefusingFinder(reason))


def _hold_interrupts():
    # type: () -> set[int] | None
    """Block Ctrl-C while oomph starts: here it would stop Python with a fatal error that shows oomph's files.

    Returns the signals that were blocked before, or None if blocking is not possible.
    """
    try:
        import _signal as signals  # type: ignore[import-not-found]  # built in; importing `signal` is slow

        before = signals.pthread_sigmask(signals.SIG_BLOCK, [signals.SIGINT])  # type: set[int]
    except (ImportError, AttributeError):
        return None
    return before


def _let_interrupts_through(before):
    # type: (set[int] | None) -> None
    """Unblock Ctrl-C. If it was pressed meanwhile, the plain signal kills Python before any line of the script runs."""
    if before is None:
        return
    import _signal as signals

    ctrl_c = signals.SIGINT
    has_come = ctrl_c not in before and ctrl_c in signals.sigpending()
    if has_come and signals.getsignal(ctrl_c) is signals.default_int_handler:
        signals.signal(ctrl_c, signals.SIG_DFL)
    signals.pthread_sigmask(signals.SIG_SETMASK, before)


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _here]
sys.path_importer_cache.pop(_here, None)
if os.environ.get("OOMPH_REACH") and sys.version_info < (3, 10):
    _refuse_to_train("it is older than Python 3.10")
elif os.environ.get("OOMPH_REACH") or (os.environ.get("OOMPH_HANDOVER") and sys.version_info >= (3, 10)):
    _held = _hold_interrupts()
    _start_oomph(os.path.dirname(os.path.dirname(_here)))
    _let_interrupts_through(_held)
sys.modules.pop("sitecustomize", None)
__import__("sitecustomize")
