"""An object that changes in one process, is serialized, and is restored in another."""

from __future__ import annotations

import json

import pytest


class Resumed:
    """The objects of an attempt that was killed, those of the next one, and what was lost in between."""

    def __init__(self, make, change, roots=None):
        from oomph.objects.picture import Changes, Picture, changes_between
        from oomph.objects.restoration import Restoration

        def named(thing):
            return roots(thing) if roots else [("root", thing)]

        self.killed = make()
        before = Picture.of(named(self.killed))
        unchanged = changes_between(before, Picture.of(named(self.killed), before))
        assert (unchanged.changed, unchanged.lost) == ({}, []), "to look at it changes nothing"
        change(self.killed)
        self.changes = changes_between(before, Picture.of(named(self.killed), before))
        self.document = json.dumps(self.changes.to_json(), allow_nan=False)
        self.resumed = make()
        self.begin = Picture.of(named(self.resumed))
        self.same_beginning = before.fingerprint() == self.begin.fingerprint()
        restoration = Restoration(self.begin, Changes.from_json(json.loads(self.document), self.changes.arrays))
        restoration.apply()
        self.lost = [*map(str, [*self.changes.lost, *restoration.lost])]


@pytest.fixture(scope="session")
def resume():
    return Resumed
