"""Detects training that oomph does not guard: Keras 2, estimators, TensorFlow 1, other backends, some strategies.

Each row specifies a method that this kind of training always calls, during its first step or before. The method is
replaced only until it is first called: nothing is measured or changed, and tracebacks don't include oomph's frames.

Source: `Model.make_train_function` in tf_keras/src/engine/training.py, which `fit` and `train_on_batch` call, and
`_make_train_function` in training_v1.py; `apply_gradients` in optimizers/optimizer.py; `Estimator.train` in
tensorflow_estimator/python/estimator/estimator.py; `is_autograph_artifact` in tensorflow/python/autograph/impl/api.py.
Standard library only.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

from oomph.journal.events import UnguardedTraining
from oomph.protocol.replacements import unguarded_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oomph.script.session import Session

    Join = Callable[[], Session | None]
    Act = Callable[[str], None]


class _Row(NamedTuple):
    kind: str
    module: str
    owner: str
    method: str


def _rows() -> Iterator[_Row]:
    for keras in ("tf_keras.src", "keras.src", "keras"):  # next to Keras 3, up to TensorFlow 2.15, up to 2.12
        yield _Row("keras-2", f"{keras}.engine.training", "Model", "make_train_function")
        yield _Row("keras-2", f"{keras}.engine.training_v1", "Model", "_make_train_function")
        yield _Row("keras-2", f"{keras}.optimizers.optimizer", "_BaseOptimizer", "apply_gradients")  # in its own loop
        yield _Row("keras-2", f"{keras}.optimizers.legacy.optimizer_v2", "OptimizerV2", "apply_gradients")
    estimator = "tensorflow_estimator.python.estimator.estimator"
    yield _Row("estimator", estimator, "Estimator", "_convert_train_steps_to_hooks")
    yield _Row("tensorflow-1", "tensorflow.python.training.optimizer", "Optimizer", "apply_gradients")
    distribute = "tensorflow.python.distribute"
    for kind, module, owner in (
        ("parameter-servers", "parameter_server_strategy_v2", "ParameterServerStrategyV2"),
        ("tpu", "tpu_strategy", "TPUStrategyV2"),
    ):
        yield _Row(kind, f"{distribute}.{module}", owner, "__init__")
    yield _Row("jax", "keras.src.backend.jax.trainer", "JAXTrainer", "make_train_function")
    yield _Row("torch", "keras.src.backend.torch.trainer", "TorchTrainer", "make_train_function")


def watching(join: Join) -> dict[str, Callable[[ModuleType], None]]:
    """Return import hooks by module name, which call `join` and report the training at its first step."""
    told: set[str] = set()
    return at_first_step(lambda kind: _tell(kind, join, told))


def at_first_step(act: Act) -> dict[str, Callable[[ModuleType], None]]:
    """Return import hooks by module name, which call `act` with the kind of training at its first step."""
    return {row.module: lambda module, row=row: _watch(module, row, act) for row in _rows()}  # type: ignore[misc]


def _watch(module: ModuleType, row: _Row, act: Act) -> None:
    from oomph.process import undoing

    owner = getattr(module, row.owner, None)
    original = vars(owner).get(row.method) if isinstance(owner, type) else None
    if not callable(original):
        return  # Keras 3 has modules with the same names

    def put_back() -> bool:
        is_there = vars(owner).get(row.method) is first_call
        if is_there:
            setattr(owner, row.method, original)
        return is_there

    def first_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if put_back():
            act(row.kind)
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            from oomph.script.script_line import without_ours

            error.__traceback__ = without_ours(error.__traceback__)
            raise

    first_call.autograph_info__ = {}  # type: ignore[attr-defined]  # AutoGraph does not convert a function with this attribute
    setattr(owner, row.method, first_call)
    undoing.remember(put_back)


def _tell(kind: str, join: Join, told: set[str]) -> None:
    """Report each kind of training once, without reporting an estimator's optimizer as well."""
    try:
        session = join()
        if session is None or kind in told or (kind == "tensorflow-1" and told):
            return
        told.add(kind)
        from oomph.script.script_line import calling

        line = calling()
        site = "the script" if line is None else line.site
        session.journal.write(UnguardedTraining(kind=kind, site=site))
        session.warn(unguarded_in_words(site, kind))
    except Exception:
        pass  # a mere remark must not stop training
