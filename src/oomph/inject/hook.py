"""The import hook: installs the guard right after the script imports Keras' TensorFlow trainer.

oomph never imports TensorFlow or Keras on its own, so a script that uses neither pays nothing, and a script that uses
them keeps its import order. The hook waits for one Keras module, which both `keras` and `tf.keras` import, and for
modules whose training oomph cannot guard or that keep a random state.
"""

from __future__ import annotations

import functools
import sys
from importlib import import_module

from oomph.journal.events import GuardFailed
from oomph.process import undoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from oomph.script.session import Session

    Join = Callable[[], Session | None]
    Act = Callable[[ModuleType], None]

TRAINER = "keras.src.backend.tensorflow.trainer"
KERAS_2 = ("tf_keras.src", "keras.src", "keras")
"""The packages of Keras 2: next to Keras 3, up to TensorFlow 2.15, and up to 2.12."""
_OF_KERAS_2 = ("engine.training", "optimizers.optimizer", "optimizers.legacy.optimizer_v2")
"""Its trainer, and its two kinds of optimizers, which the trainer imports."""
DATASETS = "tensorflow.python.data.ops.dataset_ops"
SEVERAL_WORKERS = "tensorflow.python.distribute.collective_all_reduce_strategy"


def guarding(join: Join) -> dict[str, Act]:
    """Return the action that guards Keras right after its import; `join` returns None if there is nothing to guard."""
    return {TRAINER: lambda trainer: _install(trainer, join)}


def guarding_keras_2(join: Join, unguarded: Mapping[str, Act]) -> dict[str, Act]:
    """Return the actions that guard each Keras 2, all at once when its trainer is imported.

    Args:
        unguarded: the actions that report its training instead, for versions that are not supported.
    """
    actions: dict[str, Act] = {}
    for root in KERAS_2:
        names = [f"{root}.{name}" for name in _OF_KERAS_2]
        actions |= dict.fromkeys(names, _leave)
        actions[names[0]] = functools.partial(_install_keras_2, join, {name: unguarded[name] for name in names})
    return actions


def _leave(module: ModuleType) -> None:
    """Leave a module as it is."""


def skipping() -> dict[str, Act]:
    """Return the action that lets pipelines skip corrupt data, taken when the `tf.data.Dataset` module is imported."""
    return {DATASETS: lambda datasets: _act("oomph.hooks.skip_corrupt", datasets)}


def leaving_signals() -> dict[str, Act]:
    """Return the action that leaves SIGTERM to the script, taken when the strategy that takes it is imported."""
    return {SEVERAL_WORKERS: lambda strategies: _act("oomph.hooks.termination", strategies)}


def after_import(actions: Mapping[str, Act]) -> None:
    """Act on each of these modules as soon as it is imported, or at once if it already is."""
    for name in actions.keys() & sys.modules.keys():
        actions[name](sys.modules[name])
    awaited = {name: act for name, act in actions.items() if name not in sys.modules}
    if awaited:
        finder = AwaitingFinder(awaited)
        sys.meta_path.insert(0, finder)
        undoing.remember(finder.leave)


class AwaitingFinder:
    """A finder on sys.meta_path that acts on each of its modules once.

    A script keeps it, since no script imports all of these modules. It costs one dict look-up per import.

    Args:
        actions: the action to take right after a module's import, keyed by module name.
    """

    def __init__(self, actions: dict[str, Act]) -> None:
        self._actions = actions

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that Python would find, with a loader that also acts on the module."""
        if name not in self._actions:
            return None
        spec = _find_spec(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _wrap_loader(spec.loader, lambda module: self._act(name, module))
        return spec

    def leave(self) -> None:
        """Stop acting, and leave sys.meta_path."""
        self._actions.clear()
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    def _act(self, name: str, module: ModuleType) -> None:
        """Act on the module only once: a spec may be requested without an import, as TensorFlow does for Keras."""
        act = self._actions.pop(name, None)
        if act is not None:
            act(module)


def _find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    """Ask the other finders in order, as the import statement does."""
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = (
            None if find is None or isinstance(finder, AwaitingFinder) else find(name, path, target)
        )
        if spec is not None:
            return spec
    return None


def _wrap_loader(loader: object, act: Act) -> None:
    """Shadow `exec_module` on this loader only, so that the module keeps its real loader and its type."""
    execute = loader.exec_module  # type: ignore[attr-defined]

    def exec_module(module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)
        execute(module)
        act(module)

    try:
        loader.exec_module = exec_module  # type: ignore[attr-defined]
    except AttributeError as error:
        _report(error)


def _install(trainer: ModuleType, join: Join) -> None:
    """Pass the trainer module to oomph's TensorFlow code; a failure there must not reach the script."""
    session = None
    try:
        session = join()
        if session is not None:
            import_module("oomph.hooks.intercept").install(trainer, session)
    except Exception as error:
        if session is not None:
            session.journal.write(GuardFailed(reason=f"{type(error).__name__}: {error}"))
        _report(error)


def _install_keras_2(join: Join, unguarded: Mapping[str, Act], training: ModuleType) -> None:
    """Pass the trainer module of Keras 2 to oomph's TensorFlow code; if that cannot guard it, report its training."""
    session, is_guarded = None, False
    try:
        session = join()
        is_guarded = session is not None and import_module("oomph.hooks.keras2").install(training, session)
    except Exception as error:
        if session is not None:
            session.journal.write(GuardFailed(reason=f"{type(error).__name__}: {error}"))
        _report(error)
    for name, act in unguarded.items():
        if not is_guarded and name in sys.modules:
            act(sys.modules[name])


def _act(module: str, imported: ModuleType) -> None:
    """Let one of oomph's modules act on an imported module; a failure there must not reach the script."""
    try:
        import_module(module).install(imported)
    except Exception as error:
        _report(error)


def _report(error: Exception) -> None:
    try:
        sys.stderr.write(f"oomph: {type(error).__name__}: {error}; the script runs unguarded\n")
    except Exception:
        pass  # there is no stderr
