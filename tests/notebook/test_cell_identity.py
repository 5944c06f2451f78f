"""The identity of a call in real kernels: the same in another process, despite edits that do not matter."""

from __future__ import annotations

import pytest

KERAS = """
import sys, types
sys.modules["oomph.keras_bridge.fingerprints"] = types.ModuleType("fingerprints")  # which imports TensorFlow
from oomph.resume.training.call_place import place_of_call

def fit(*arguments, **options):
    place = place_of_call()
    print("PLACE", place.key, place.outline, place.cell, place.site, sep="|")

async def fit_soon():
    fit()
"""
SETUP = "import asyncio, sys\nsys.path.insert(0, {folder!r})\nimport keras"
TRAIN = "def train(epochs):\n    keras.fit(epochs=epochs)"
FIT = "h = keras.fit(1, epochs=5)"


@pytest.fixture
def begin(start, tmp_path):
    """Return a function that starts a kernel with a `keras` whose `fit` prints where it is called."""
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras" / "__init__.py").write_text(KERAS)

    def begin():
        kernel = start()
        kernel.good(SETUP.format(folder=str(tmp_path)))
        return kernel

    return begin


def calls(kernel, code, cell_id=None):
    """Run a cell; return the key, outline, cell id and site of each call in it."""
    written = kernel.good(code, cell_id=cell_id).out
    return [tuple(line.split("|")[1:]) for line in written.splitlines() if line.startswith("PLACE")]


def test_call_keeps_its_identity_in_another_kernel_despite_harmless_edits(begin):
    first, second = begin(), begin()
    ((key, outline, cell, site),) = calls(first, FIT, "1f2e3d4c")
    assert (cell, site) == ("1f2e3d4c", "cell [2], line 1")
    calls(second, "an_extra_cell = 1")
    for edited in (
        FIT,
        f"# a comment\n\n{FIT};",
        "h = keras.fit(  # the same\n    1,\n    epochs=5,\n)",
        f"%%time\n{FIT}",
        f"%%time\nx = 1\n{FIT}",
        f"%time {FIT}",
        f"%%timeit -n1 -r1\n{FIT}",
        f"%%capture --no-stdout\n{FIT}",
        f"!true\n{FIT}",
        f"await asyncio.sleep(0)\n{FIT}",
    ):
        assert [found[:2] for found in calls(second, edited)] == [(key, outline)], edited
    ((_, _, cell, site),) = calls(second, f"# moved\n%time {FIT}")
    assert (cell, site) == ("", "cell [13], line 2")
    ((other, alike, *_),) = calls(second, FIT.replace("5", "7"))
    assert other != key
    assert alike == outline
    ((other, unlike, *_),) = calls(second, FIT.replace("keras.fit(1", "keras.fit(2, 3"))
    assert (other, unlike) != (key, outline)


def test_functions_and_coroutines_are_part_of_the_calls_identity(begin):
    first, second = begin(), begin()
    calls(second, "an_extra_cell = 1")

    def both(*cells):
        found = [[calls(kernel, cell) for cell in cells][-1] for kernel in (first, second)]
        assert len(found[0]) == 1, found
        assert found[0][0][:2] == found[1][0][:2]
        return found[0][0]

    called = both(TRAIN, "train(5)")
    assert called[3] == "cell [2], line 2", "where the cell with the function ran"
    assert both(f"%%time\n{TRAIN}", "%%time\ntrain(5)")[0] == called[0]
    assert both(TRAIN.replace("train", "learn"), "learn(5)")[0] != called[0]
    coroutine = TRAIN.replace("def", "async def")
    awaited = both(coroutine, "await train(5)")
    scheduled = both("await asyncio.gather(train(5))")
    assert scheduled[0] != awaited[0]
    threaded = both("import threading", f"{TRAIN}\nt = threading.Thread(target=train, args=(5,))\nt.start()\nt.join()")
    assert threaded[0] == scheduled[0], "neither an event loop nor a thread is the user's own"
    assert threaded[3].endswith("], line 2"), "of the cell that has the function"
