"""Objects and files in a process that has used a foreign checkpoint: only numbers are restored."""

from __future__ import annotations

import numpy as np
import pytest

from oomph.objects.admission import RefusedError, admitted
from oomph.objects.kind import NOTHING
from oomph.objects.texts import Among
from oomph.script import restorable


@pytest.fixture(autouse=True)
def _from_elsewhere(monkeypatch):
    monkeypatch.setattr(restorable, "_is_from_elsewhere", True)


@pytest.mark.parametrize("new", ["a word", b"bytes", (1, "a word"), np.array(["a word"])])
@pytest.mark.parametrize("old", [NOTHING, "before", Among(("before", 1))], ids=["nothing", "text", "list"])
def test_new_strings_are_rejected(new, old):
    with pytest.raises(RefusedError, match="text from a checkpoint"):
        admitted(new, old)


def test_numbers_and_strings_from_this_process_are_accepted():
    for new, old in ((1.5, 2), ("before", "before"), (("a", 2), Among(("a", "b"))), (None, "before"), ("", "before")):
        assert admitted(new, old) == new


def test_functions_cannot_be_moved_or_removed(resume):
    with pytest.raises(RefusedError, match="in a container"):
        admitted(print, Among((print, max)))
    for make, change in (
        (lambda: [max, min], lambda thing: thing.reverse()),
        (lambda: {"may": max, "count": 1}, lambda thing: thing.pop("may")),
    ):
        restored = resume(make, change)
        assert list(restored.resumed) == list(make())
        assert "was not written here" in restored.lost[0]


class Keep:
    def finish(self):
        return "kept"


class Remove:
    def finish(self):
        return "removed"


def test_object_of_another_class_is_rejected():
    assert isinstance(admitted(Keep(), Keep()), Keep)
    for old in (Keep(), NOTHING, Among((1, Keep()))):
        with pytest.raises(RefusedError, match="of a different class"):
            admitted(Remove(), old)
