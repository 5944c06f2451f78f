"""A live exception gets the same diagnosis as the traceback Python would have printed for it."""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from oomph.explain.diagnose import diagnose, words
from oomph.explain.reading.log import read_log

KERAS = "/usr/lib/python3.11/site-packages/keras/src/layers/layer.py"
TENSORFLOW = "/usr/lib/python3.11/site-packages/tensorflow/python/framework/ops.py"
OWN = "/home/user/train.py"
OTHER = "/usr/lib/python3.11/site-packages/pandas/core/frame.py"


def error_class(name: str, module: str) -> type[Exception]:
    return type(name, (Exception,), {"__module__": module})


INVALID = error_class("InvalidArgumentError", "tensorflow.python.framework.errors_impl")
EXHAUSTED = error_class("ResourceExhaustedError", "tensorflow.python.framework.errors_impl")
XLA = error_class("XlaRuntimeError", "jaxlib.xla_extension")


def raised_in(file: str, error: BaseException, function: str = "call") -> Callable[[], None]:
    """Return a function whose code claims to come from that file."""
    space: dict[str, Any] = {"error": error}
    name = "<module>" if function == "<module>" else function
    source = "raise error" if name == "<module>" else f"def {name}():\n    raise error\n{name}()"
    code = compile(source, file, "exec")
    return lambda: exec(code, space)


def caught(action: Callable[[], None], cause: BaseException | None = None) -> BaseException:
    try:
        try:
            if cause is not None:
                raise cause
            action()
        except BaseException:
            action()
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


IN_USER_CODE = (
    "in user code:\n\n"
    f'    File "{KERAS}", line 7, in train_step  *\n        y = self(x)\n\n'
    "    ValueError: Input 0 of layer is incompatible: expected shape=(None, 4), found shape=(None, 5)\n"
)
ERRORS = [
    (KERAS, ValueError("Argument `target` has another rank than `output`, shapes differ")),
    (KERAS, TypeError("Dense.__init__() got an unexpected keyword argument 'input_dims'")),
    (KERAS, AttributeError("'Functional' object has no attribute 'predict_classes'")),
    (KERAS, ValueError(IN_USER_CODE)),
    (KERAS, KeyError("label")),
    (OWN, ValueError("the number of dimensions and the shape of my thing are wrong")),
    (OWN, KeyError("label")),
    (OWN, AttributeError("'NoneType' object has no attribute 'shape'")),
    (OTHER, ValueError("shape mismatch: objects cannot be broadcast to a single shape")),
    (TENSORFLOW, ValueError("Cannot take the length of shape with unknown rank.")),
    (TENSORFLOW, INVALID("Incompatible shapes: [32,10] vs. [16,10] [Op:Sub]")),
    (TENSORFLOW, INVALID("Something nobody has ever seen")),
    (TENSORFLOW, EXHAUSTED("OOM when allocating tensor with shape[8] and type float on GPU:0 by allocator GPU_0_bfc")),
    (TENSORFLOW, EXHAUSTED("OOM when allocating tensor with shape[8] on /device:CPU:0 by allocator cpu")),
    (TENSORFLOW, XLA("INTERNAL: Failed to launch CUDA kernel: fusion_1")),
    (OWN, MemoryError()),
    (OWN, OSError(28, "No space left on device")),
    (OWN, FileNotFoundError(2, "No such file or directory", "cfg.yaml")),
    (OWN, RuntimeError("CUDA error: an illegal memory access was encountered")),
]


def named_live(error: BaseException) -> list[tuple[str, str]]:
    return [(each.name, each.role) for each in diagnose(error)]


def named_in_its_traceback(error: BaseException) -> list[tuple[str, str]]:
    printed = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return [(each.name, each.role) for each in diagnose(read_log(io.BytesIO(printed.encode()), words=words()))]


@pytest.mark.parametrize(("file", "error"), ERRORS, ids=lambda value: str(value)[:40])
def test_live_exception_matches_its_traceback_diagnosis(file: str, error: BaseException) -> None:
    found = caught(raised_in(file, error))
    assert named_live(found) == named_in_its_traceback(found) != []


@pytest.mark.parametrize(("file", "error"), ERRORS, ids=lambda value: str(value)[:40])
def test_chained_live_exception_matches_its_traceback_diagnosis(file: str, error: BaseException) -> None:
    found = caught(raised_in(file, error), cause=EXHAUSTED("Out of memory while trying to allocate 1.02GiB."))
    assert named_live(found) == named_in_its_traceback(found) != []


FOLDERS = ("a b", "tensorflow/models", "keras/examples", "checkpoint/oom", "runfiles/x", "disk/full", "x" * 150)


@pytest.mark.parametrize("folder", FOLDERS)
def test_live_exception_diagnosis_does_not_depend_on_the_folder(folder: str) -> None:
    """Words in a path also count: if two faults are equally likely, one more word decides."""
    for file, error in ERRORS:
        for cause in (None, EXHAUSTED("Out of memory while trying to allocate 1.02GiB."), KeyError("label")):
            action = raised_in(f"/home/user/{folder}/train.py", RuntimeError("while cleaning up"))
            found = caught(raised_in(file, error), cause=caught(action, cause))
            assert named_live(found) == named_in_its_traceback(found) != []


def test_message_diagnosis_depends_on_the_raising_file() -> None:
    message = "Argument `target` has another rank than `output`, shapes differ"
    names = [diagnose(caught(raised_in(file, ValueError(message))))[0].name for file in (KERAS, OWN)]
    assert names == ["shape-mismatch", "unrelated"]


def test_error_during_a_package_import_is_diagnosed() -> None:
    error = caught(raised_in(TENSORFLOW, ImportError("cannot load"), "<module>"))
    assert named_live(error) == named_in_its_traceback(error)
    assert named_live(error)[0][0] == "binary-incompatibility"
