"""The code in executed cells that a fit builds on: edits to it are found, and nothing else counts as an edit."""

from __future__ import annotations

import pytest

from oomph.script.cell_code import THE_CALL, built_on
from oomph.script.cells import Executed

IMPORTS = "import numpy as np\nimport keras"
DATA = "x = np.ones((8, 4))\ny = np.zeros((8, 2))"
MODEL = "model = keras.Sequential([keras.layers.Dense(2)])"
COMPILE = "model.compile('sgd', 'mse')"
FIT = "history = model.fit(x, y, epochs=5)"
NOTEBOOK = (IMPORTS, DATA, MODEL, COMPILE, FIT)
_NONE = compile("", "<cell>", "exec")


def code_behind(*cells: str, line: int = 1):
    """Return the code that a line of the last cell builds on, by name."""
    return built_on(Executed(("", *cells[:-1]), cells[-1], (line,), _NONE))


def changed(before, after) -> set[str]:
    """Return the names whose code differs in a later kernel; code that only one kernel ran does not count."""
    return {name for name in before.keys() & after.keys() if before[name].digest != after[name].digest}


def edited(*cells: str, line: int = 1) -> set[str]:
    return changed(code_behind(*NOTEBOOK), code_behind(*cells, line=line))


def test_fit_builds_on_the_code_that_made_its_model_and_data():
    found = code_behind(*NOTEBOOK)
    assert {name: code.cell for name, code in found.items()} == {
        "np": 1, "keras": 1, "x": 2, "y": 2, "model": 3, "model.compile()": 4, THE_CALL: 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        ((IMPORTS, DATA.replace("8", "9"), MODEL, COMPILE, FIT), {"x", "y"}),
        ((IMPORTS, DATA, MODEL.replace("2", "3"), COMPILE, FIT), {"model"}),
        ((IMPORTS, DATA, MODEL, COMPILE.replace("sgd", "adam"), FIT), {"model.compile()"}),
        ((IMPORTS, DATA, MODEL, COMPILE, FIT.replace("5", "7")), {THE_CALL}),
        (("import numpy as np\nimport tf_keras as keras", DATA, MODEL, COMPILE, FIT), {"keras"}),
    ],
)
def test_edit_is_attributed_to_the_names_that_it_affects(cells, names):
    assert edited(*cells) == names


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param((IMPORTS, DATA + "  # ones", MODEL, "model.compile(\n  'sgd',\n  'mse'\n)", FIT), id="layout"),
        pytest.param((IMPORTS, DATA, DATA, MODEL, COMPILE, COMPILE, FIT), id="cells run twice"),
        pytest.param((DATA, IMPORTS, DATA, MODEL, COMPILE, FIT), id="in another order"),
        pytest.param((IMPORTS, MODEL, COMPILE, DATA, FIT), id="re-ordered"),
        pytest.param((IMPORTS, DATA + "\n" + MODEL, COMPILE, FIT), id="cells merged"),
        pytest.param((IMPORTS, *DATA.split("\n"), MODEL, COMPILE, FIT), id="cells split"),
        pytest.param(
            (IMPORTS, "import os", DATA, "print(x.shape)", MODEL, "model.summary()", COMPILE, "z = x + 1", FIT),
            id="unrelated cells",
        ),
        pytest.param((IMPORTS.replace("keras", "keras, os"), DATA, MODEL, COMPILE, FIT), id="another import"),
        pytest.param((IMPORTS, DATA, MODEL, "model.compile('adam')", COMPILE, FIT), id="corrected and run again"),
        pytest.param((IMPORTS, "x = 3", DATA, MODEL, COMPILE, FIT), id="assigned anew"),
        pytest.param((IMPORTS, DATA, MODEL, COMPILE, "model.fit(x, y)", FIT), id="an earlier fit"),
        pytest.param(
            (
                IMPORTS,
                DATA,
                MODEL,
                COMPILE,
                f"get_ipython().run_cell_magic('time', '', {FIT + chr(10)!r})",
            ),
            id="%%time on an earlier cell",
        ),
    ],
)
def test_change_without_effect_on_the_training_is_not_an_edit(cells):
    assert edited(*cells, *([FIT] if "run_cell_magic" in cells[-1] else [])) == set()


def test_time_magic_on_the_cell_with_the_call_is_not_an_edit():
    timed = f"get_ipython().run_cell_magic('time', '', {'a = 1' + chr(10) + FIT + chr(10)!r})"
    found = built_on(Executed(("", *NOTEBOOK[:-1]), timed, (1, 2), _NONE))
    assert changed(code_behind(*NOTEBOOK), found) == set()
    assert found[THE_CALL] == code_behind(*NOTEBOOK)[THE_CALL]


def test_statements_after_the_call_do_not_count():
    before = code_behind(*NOTEBOOK[:-1], FIT + "\nmodel.compile('adam', 'mae')")
    assert changed(before, code_behind(*NOTEBOOK)) == set()


def test_edit_of_a_value_is_seen_through_its_reassignment():
    scaled = (IMPORTS, DATA, "x = x / 255", MODEL, COMPILE, FIT)
    other = (IMPORTS, DATA.replace("8", "9"), "x = x / 255", MODEL, COMPILE, FIT)
    assert "x" in changed(code_behind(*scaled), code_behind(*other))


FUNCTIONS = "def build():\n    return keras.Sequential([layer()])\ndef layer():\n    return keras.layers.Dense(WIDTH)"


@pytest.mark.parametrize("late", [True, False])
def test_globals_read_by_functions_count_wherever_they_are_assigned(late):
    def cells(width, function=FUNCTIONS):
        setting = f"WIDTH = {width}"
        return (IMPORTS, DATA, *((function, setting) if late else (setting, function)), "model = build()", COMPILE, FIT)

    assert changed(code_behind(*cells(2)), code_behind(*cells(3))) == {"WIDTH"}
    assert changed(code_behind(*cells(2)), code_behind(*cells(2, FUNCTIONS.replace("Dense", "Embed")))) == {"layer"}


def test_local_variables_are_not_confused_with_those_of_cells():
    cells = "import keras", "def train():\n    z = 1\n    model.fit(z)", "z = {}", "model = 3", "train()"
    one, other = ([each.format(n) for each in cells] for n in (1, 2))
    assert changed(code_behind(*one), code_behind(*other)) == set()


def test_call_in_a_thread_builds_on_the_globals_that_its_function_reads():
    scope: dict = {}
    exec("def train():\n    model.fit(x)", scope)
    cells = ("", "x = {}", "model = 1", "y = 2")
    one, other = (
        built_on(Executed(tuple(each.format(n) for each in cells), "", (), scope["train"].__code__)) for n in (1, 2)
    )
    assert set(one) == {"x", "model"}
    assert changed(one, other) == {"x"}


@pytest.mark.parametrize(
    "text",
    [
        "this is ( no Python",
        "return 3",
        "z = " + "(" * 500 + ")" * 500,
        "\0",
        *(f"z = {'+'.join(['z'] * n)}" for n in (500, 5000)),
    ],
)
def test_cells_that_cannot_be_analysed_are_skipped(text):
    assert edited(IMPORTS, text, DATA, MODEL, COMPILE, FIT) == set()


def test_keys_and_passwords_are_neither_digested_nor_named():
    first, second = (
        code_behind("data = {}", f"data['{secret}'].append(1)\nPASSWORD = '{secret}'", "fit(data, PASSWORD)")
        for secret in ("sk-abcdefghijklmnopqrstuvwx", "sk-zyxwvutsrqponmlkjihgfedc")
    )
    assert first == second
    assert set(first) == {"data", "data[…].append()", "PASSWORD", THE_CALL}


def test_long_chain_of_cells_is_followed_to_its_beginning():
    cells = [f"a{n} = a{n - 1} + 1 if {n} else 0\nb{n} = [a{n}]\nb{n}.append(a{n})" for n in range(300)]
    assert "a0" in code_behind(*cells, "fit(a299)")
