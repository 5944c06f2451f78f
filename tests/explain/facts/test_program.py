"""The last traceback tells what the program was doing, and where."""

from __future__ import annotations

import pytest

from oomph.explain.facts.fact import NodeKind, ProgramPhase
from oomph.explain.facts.program import ProgramReader

_LIB = "/e/lib/python3.11/site-packages/keras/src"
_HEAD = "Traceback (most recent call last):"


def _read(*lines: str) -> ProgramReader:
    program = ProgramReader()
    for number, line in enumerate(lines, 1):
        program.see(line, number)
    return program


def _frame(function: str, file: str = f"{_LIB}/trainers/trainer.py", line: int = 7) -> str:
    return f'  File "{file}", line {line}, in {function}'


@pytest.mark.parametrize(
    ("functions", "phase"),
    [
        (["fit", "train_step", "compute_loss"], "fit"),
        (["fit", "evaluate", "test_step"], "validation"),
        (["fit", "on_epoch_end", "save_model"], "save"),
        (["fit", "__call__", "build"], "fit"),
        (["load_model", "deserialize_keras_object", "from_config", "build"], "load"),
        (["add", "build"], "build"),
        (["compile"], "compile"),
        (["<module>", "_load_library"], "import"),
        (["error_handler"], None),
    ],
)
def test_phase_is_what_keras_was_asked_to_do(functions: list[str], phase: ProgramPhase | None) -> None:
    program = _read(_HEAD, _frame("<module>", "train.py"), *map(_frame, functions))
    assert (program.phase.phase if program.phase else None) == phase


@pytest.mark.parametrize(
    ("code", "phase"),
    [
        ("    model.fit(x, y, epochs=3)", "fit"),
        ("    model = keras.models.load_model('a.keras')", "load"),
        ("    loss = step(x)", None),
    ],
)
def test_phase_is_read_from_the_users_own_line_where_keras_hides_its_frames(
    code: str, phase: ProgramPhase | None
) -> None:
    program = _read(_HEAD, _frame("<module>", "train.py"), code, _frame("error_handler"))
    assert (program.phase.phase if program.phase else None) == phase


def test_users_own_function_named_fit_begins_no_phase() -> None:
    assert _read(_HEAD, _frame("fit", "train.py")).phase is None


def test_innermost_frames_of_user_and_library() -> None:
    program = _read(
        _HEAD, _frame("<module>", "train.py", 3), _frame("main", "train.py", 42), _frame("fit"), _frame("step")
    )
    assert program.own_place is not None
    assert (program.own_place.file, program.own_place.code_line) == ("train.py", 42)
    assert program.library_place is not None
    assert (program.library_place.function, program.library_place.line) == ("step", 5)


def test_last_traceback_counts() -> None:
    first = (_HEAD, _frame("main", "train.py"), _frame("fit"), "ValueError: x")
    program = _read(
        *first, "During handling of the above exception, another exception occurred:", _HEAD, _frame("save")
    )
    assert program.phase is not None
    assert program.phase.phase == "save"
    assert program.own_place is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("adam/AssignAddVariableOp_3", "weight slot"),
        ("Adam/Adam/update_4/mul", "weight slot"),
        ("gradient_tape/model/conv2d/Conv2D/Conv2DBackpropFilter", "gradient"),
        ("compile_loss/sparse_categorical_crossentropy/SparseSoftmaxCrossEntropyWithLogits", "loss"),
        ("sequential/embedding/embedding_lookup", "embedding"),
        ("IteratorGetNext", "iterator"),
        ("model/conv2d/Conv2D", None),
    ],
)
def test_kind_of_node(name: str, kind: NodeKind | None) -> None:
    node = _read(f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{{{node {name}}}}} OOM").node
    assert node is not None
    assert (node.name, node.kind, node.line) == (name, kind, 1)
