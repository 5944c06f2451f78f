"""The chain of calls to a fit, with its loop iteration.

It is unchanged by edits elsewhere, and different for every other call.
"""

from __future__ import annotations

import linecache
import os
import tempfile
import threading

import keras as keras_package
import numpy as np
import pytest

from oomph.resume.training import call_place as module
from oomph.resume.training.call_place import Place, call_site, place_of_call, plain, without_clock

KERAS = "def fit(*args, **options):\n    found.append(place_of_call())\n"


def places(tmp_path, source, name="train.py"):
    """Return what a script sees at each of its calls to `fit`, with none of our frames below it."""
    path = tmp_path / name
    if source is not None:
        path.write_text(source)
    text, found = source or "\nfit()", []
    keras = {"found": found, "place_of_call": place_of_call}
    exec(compile(KERAS, os.path.join(os.path.dirname(keras_package.__file__), "src", "trainer.py"), "exec"), keras)
    script = {"fit": keras["fit"], "__name__": "train"}
    linecache.clearcache()
    module._statement.cache_clear()
    module.tree_of.cache_clear()
    module._loop_variables.cache_clear()
    thread = threading.Thread(target=exec, args=(compile(text, str(path), "exec"), script))
    thread.start()
    thread.join(60)
    return found


@pytest.mark.parametrize("folder", ["keras/src", "tensorflow/python", "mine/oomph-trainings"])
def test_call_is_located_in_a_script_folder_named_like_a_library(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True)
    (place,) = places(tmp_path, "\nfit()\n", f"{folder}/train.py")
    assert place.site == "train.py:2"


LOOP = """
def train(width):
    for fold in range(2):
        fit()
train(3)
fit()
"""


def test_call_chain_digest_does_not_change_when_lines_move(tmp_path):
    before = places(tmp_path, LOOP)
    edited = "import os\n\nA = 5\n" + LOOP.replace("    for fold", "    seed = 3  # a comment\n    for fold")
    after = places(tmp_path, edited)
    assert [place.key for place in after] == [place.key for place in before]
    assert [place.site for place in before] == ["train.py:4", "train.py:4", "train.py:6"]
    assert [place.site for place in after] == ["train.py:8", "train.py:8", "train.py:10"]


def test_reformatting_a_statement_does_not_change_its_call_chain_digest(tmp_path):
    (one,), (other,) = places(tmp_path, "h = fit(1, 2)"), places(tmp_path, "h = fit(  # now\n    1,\n    2,\n)")
    assert one.key == other.key


ONE = "def f():\n    fit(1)\nf()\n"


@pytest.mark.parametrize(
    "other",
    [
        "def g():\n    fit(1)\ng()\n",
        "def f():\n    fit(2)\nf()\n",
        "def f():\n    fit(1)\nx = f()\n",
        "fit(1)\n",
        "class A:\n    def f():\n        fit(1)\nA.f()\n",
    ],
)
def test_changed_function_statement_or_caller_changes_the_call_chain_digest(tmp_path, other):
    (one,), (another,) = places(tmp_path, ONE), places(tmp_path, other)
    assert one.key != another.key
    assert one.key == places(tmp_path, "a = 1\n" + ONE)[0].key


def test_same_call_in_another_file_has_a_different_call_chain_digest(tmp_path):
    (one,), (other,) = places(tmp_path, "fit()"), places(tmp_path, "fit()", "finetune.py")
    assert one.key != other.key


def test_loop_iteration_records_loop_variables_and_arguments(tmp_path):
    first, second, third = places(tmp_path, LOOP)
    assert (first.turn, second.turn, third.turn) == (
        {"width": "3", "fold": "0"}, {"width": "3", "fold": "1"}, {}
    )  # fmt: skip
    assert first == second, "it is no part of the place"


def test_only_enclosing_loop_variables_identify_the_loop_iteration(tmp_path):
    source = "for i in range(2):\n    def f():\n        while True:\n            fit()\n            return\n    f()\n"
    assert [place.turn for place in places(tmp_path, source)] == [{"i": "0"}, {"i": "1"}]


def test_loop_variables_without_plain_values_do_not_identify_the_loop_iteration(tmp_path):
    source = "class A: pass\nfor model, (a, b) in [(A(), (1, 'x')), (A(), (2, 'y'))]:\n    fit()\n"
    assert [place.turn for place in places(tmp_path, source)] == [{"a": "1", "b": "'x'"}, {"a": "2", "b": "'y'"}]


def test_call_chain_is_found_without_readable_source(tmp_path):
    for name in ("gone.py", "<stdin>", "<string>", "<ipython-input-1-abc>"):
        assert [place.site for place in places(tmp_path, None, name)] == [f"{name}:2"]
    (tmp_path / "broken.py").write_text("this is ( no Python")
    assert [place.site for place in places(tmp_path, None, "broken.py")] == ["broken.py:2"]


def test_call_chain_is_found_in_a_deep_recursion(tmp_path):
    source = "def f(n):\n    return fit() if n == 0 else f(n - 1)\nf(300)\n"
    (place,) = places(tmp_path, source)
    assert len(place.turn) <= 1
    assert place.key


def test_the_call_site_is_a_line_of_the_script():
    name, line = call_site().split(":")
    assert name == "test_call_place.py"
    assert int(line) > 0


def test_call_chains_differing_only_in_their_loop_iteration_are_equal():
    assert Place("a:1", "k", "o", {"x": "1"}) == Place("a:1", "k", "o", {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (True, "True"),
        (0.1, "0.1"),
        ("a", "'a'"),
        (np.float32(0.5), "0.5"),
        ((1, "a"), "(1, 'a')"),
        ([1, (2,)], "(1, (2))"),
        (1.6e9, ""),
        (None, ""),
        (object(), ""),
        ((), ""),
        ((1, object()), ""),
        (range(3), ""),
        (list(range(17)), ""),
    ],
)
def test_only_plain_values_are_recorded_as_text(value, text):
    assert plain(value) == text


def test_small_arrays_are_distinguished_by_their_values():
    one, other = np.arange(10), np.arange(10)
    assert plain(one) == plain(other) != plain(other[::-1])
    assert plain(np.zeros(10, object)) == ""
    assert plain(np.zeros(1 << 20)) == ""
    assert len(plain("x" * 10_000)) <= 200


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("logs/20260102-030405", "logs/<time>"),
        ("run_2026-01-02_03-04-05", "run_<time>"),
        ("out/1795363320", "out/<time>"),
        ("2026-01-02T03:04:05", "<time>"),
        ("at 12:34:56", "at <time>"),
        ("log-20260102-030405-123456.csv", "log-<time>.csv"),
        ("2026-01-02 03:04:05.123456", "<time>"),
        ("run-1795363320123456789", "run-<time>"),
        ("20260102-030405-32", "<time>-32"),
        ("model_1234567", "model_1234567"),
        ("9f1c2d3e-1111-4222-8333-444455556666", "<time>"),
        ("resnet50 at 224x224", "resnet50 at 224x224"),
        (os.path.join(tempfile.gettempdir(), "tmpab12", "best.keras"), os.path.join("<temporary>", "best.keras")),
    ],
)
def test_clock_values_and_random_names_are_masked(text, without):
    assert without_clock(text) == without
