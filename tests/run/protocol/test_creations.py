"""A script's creations: detected as they happen, and recognised when a later attempt creates the same thing."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import stat
import time
from pathlib import Path

import pytest

import oomph
from oomph.protocol import creations
from oomph.protocol.creations import DIRECTORY, FILE, LINK, SCHEMA, Creation, Earlier, Notes
from oomph.script.created_before import FAILS, Before, Creating, _Link, _MakeDirectory, _Open, _OpenDescriptor

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY
OTHER = "some.other.event"
_HOOKED = """
def call(*given, **named):
    hook(event, args(*given, **{k: v for k, v in named.items() if k != "opener"}))
    return function(*given, **named)
"""


class Attempt:
    """One attempt: its hook, which is called manually since hooks cannot be removed, and its functions."""

    def __init__(self, run_dir: Path, number: int) -> None:
        self.earlier = Earlier.read(run_dir, number)
        self.creating = Creating(Notes(run_dir, number), self.earlier)
        self.told: list[tuple[str, str, str]] = []
        self.before = Before(self.earlier, self.creating, lambda *told: self.told.append(told))
        self.hook = self.creating.hook()
        self.mkdir = _MakeDirectory(self._hooked(os.mkdir, "os.mkdir", lambda path: (path, 511, -1)), "os", self.before)
        self.symlink = _Link(self._hooked(os.symlink, "os.symlink", lambda *paths: (*paths, -1)), "os", self.before)
        self.link = _Link(self._hooked(os.link, "os.link", lambda *paths: (*paths, -1, -1)), "os", self.before)
        hooked = self._hooked(os.open, "open", lambda path, flags, mode=511: (path, None, flags))
        self.os_open = _OpenDescriptor(hooked, "os", self.before)
        flags = lambda path, mode="r", **_: (path, mode, _NEW if "x" in mode else 0)  # noqa: E731
        self.open = _Open(self._hooked(open, "open", flags), "io", self.before, self.os_open.existing)

    def _hooked(self, function, event, args):
        """Stands in for a Python function that reports its event to this attempt's hook, from outside the script."""
        names = {"hook": self.hook, "function": function, "event": event, "args": args}
        exec(compile(_HOOKED, str(Path(oomph.__file__).parent / "hooked.py"), "exec"), names)
        names["call"].__name__ = function.__name__
        return names["call"]

    def on(self) -> None:
        self.hook(OTHER, ())


@pytest.fixture
def first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    return Attempt(tmp_path / "run", 1)


def again(number: int = 2) -> Attempt:
    return Attempt(Path.cwd() / "run", number)


def make(attempt: Attempt, path: str = "out") -> None:
    attempt.mkdir(path)


def make_elsewhere(attempt: Attempt, path: str = "out") -> None:
    attempt.mkdir(path)


def write(attempt: Attempt, text: str) -> io.TextIOWrapper:
    with attempt.open("log", "x") as file:
        file.write(text)
    return file


def test_creation_by_an_earlier_attempt_is_recognised_at_the_same_line(first):
    make(first)
    first.on()
    second = again()
    make(second)
    line = make.__code__.co_firstlineno + 1
    assert second.told == [(DIRECTORY, str(Path.cwd() / "out"), f"test_creations.py:{line}")]


def test_folder_created_at_another_line_or_a_second_time_is_refused(first):
    make(first)
    first.on()
    second = again()
    with pytest.raises(FileExistsError):
        make_elsewhere(second)
    make(second)
    with pytest.raises(FileExistsError):
        make(second)


def test_folder_older_than_the_run_is_refused(first):
    os.mkdir("out")
    with pytest.raises(FileExistsError):
        make(first)
    first.on()
    with pytest.raises(FileExistsError):
        make(again())


def test_folder_replaced_by_another_process_is_not_recreated(first):
    make(first)
    first.on()
    os.rename("out", "old")
    os.mkdir("out")
    with pytest.raises(FileExistsError):
        make(again())
    os.rmdir("out")
    os.symlink("old", "out")
    with pytest.raises(FileExistsError):
        make(again())


def test_folder_the_script_failed_to_create_is_not_considered_its_own(first):
    with pytest.raises(FileNotFoundError):
        make(first, "no/out")
    first.on()
    os.makedirs("no/out")
    with pytest.raises(FileExistsError):
        make(again(), "no/out")


def test_creation_is_noted_even_if_no_event_follows(first):
    make(first)  # and no later event
    make(again())


def test_loop_can_recreate_each_of_its_folders(first):
    for number in range(3):
        make(first, f"out{number}")
    first.on()
    second = again()
    for number in range(3):
        make(second, f"out{number}")
    make(second, "out3")
    second.on()
    make(again(3), "out3")
    make(again(3), "out1")


def test_repeatedly_created_and_removed_folder_can_be_recreated(first):
    for _ in range(2):
        make(first)
        first.on()
        os.rmdir("out")
    make(first)
    second = again()
    for _ in range(2):
        make(second)
        second.on()
        os.rmdir("out")
    make(second)


def test_recreated_file_is_emptied_and_looks_new(first):
    write(first, "first attempt\n")
    first.on()
    inode = os.stat("log").st_ino
    file = write(again(), "second\n")
    assert Path("log").read_text() == "second\n"
    assert (file.name, file.mode, os.stat("log").st_ino) == ("log", "x", inode)


def test_recreated_descriptor_is_emptied(first):
    def lock(attempt):
        return attempt.os_open("lock", _NEW)

    os.write(fd := lock(first), b"1234")
    os.close(fd)
    first.on()
    fd = lock(again())
    assert os.fstat(fd).st_size == 0
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_file_replaced_by_the_script_can_be_recreated(first):
    write(first, "first")
    first.on()
    Path("new").write_text("whole")
    first.hook("os.rename", ("new", "log", -1, -1))
    os.replace("new", "log")
    write(again(), "second")
    assert Path("log").read_text() == "second"


def test_link_put_in_place_of_a_file_is_not_followed(first):
    write(first, "first")
    first.on()
    os.remove("log")
    Path("precious").write_text("kept")
    os.symlink("precious", "log")
    with pytest.raises(FileExistsError):
        write(again(), "second")
    assert Path("precious").read_text() == "kept"


def test_link_is_recreated_with_its_new_target(first):
    def link(attempt, target):
        attempt.symlink(target, "latest")

    link(first, "run-1")
    first.on()
    link(again(), "run-2")
    assert os.readlink("latest") == "run-2"


def test_mkdir_that_accepts_an_existing_folder_is_not_recorded(first):
    namespace = {"__name__": "pathlib", "make": first.mkdir}
    exec("def mkdir(path, exist_ok):\n make(path)", namespace)
    namespace["mkdir"]("out", exist_ok=True)
    first.on()
    assert again().earlier.kinds == frozenset()
    namespace["mkdir"]("strict", exist_ok=False)
    assert again().earlier.kinds == {DIRECTORY}


def test_temporary_names_are_not_recorded(first):
    namespace = {"__name__": "tempfile", "make": first.mkdir}
    exec("def mkdtemp(path):\n make(path)", namespace)
    namespace["mkdtemp"]("xyz")
    assert again().earlier.kinds == frozenset()


def test_opening_a_file_without_exclusive_creation_is_not_recorded(first):
    for flags in (os.O_RDONLY, os.O_CREAT | os.O_WRONLY, None):
        first.hook("open", ("log", "w", flags))
    first.hook("open", (3, "x", _NEW))
    first.hook("os.mkdir", ("out", 511, 7))  # relative to a descriptor
    assert list(Path("run").iterdir()) == []


@pytest.mark.parametrize("args", [(), (None,), (object(), None, _NEW), ("\0", None, _NEW), (b"\xff", None, _NEW)])
def test_audit_hook_never_raises(first, args):
    for event in ("open", "os.mkdir", "os.symlink", "os.link", "os.rename"):
        first.hook(event, args)
        first.on()


def test_forked_child_does_not_write_notes(first):
    first.creating._pid -= 1
    make(first)
    assert not list(Path("run").glob("created-*"))


def test_notes_are_accessible_only_to_the_run_owner(first):
    make(first)
    (notes,) = Path("run").iterdir()
    assert notes.name == "created-1.jsonl"
    assert stat.S_IMODE(notes.stat().st_mode) == 0o600


def test_missing_run_directory_does_not_prevent_creation(first):
    os.rmdir("run")
    make(first)
    first.on()
    assert Path("out").is_dir()


def test_damaged_notes_are_skipped(first):
    make(first)
    first.on()
    path = Path("run/created-1.jsonl")
    bad = ["", "[]", "3", '{"schema":1}', '{"schema":1,"id":[],"kind":3}', "[" * 9999]
    bad += ['{"schema":1,"inode":"x","path":[]}']
    bad += [json.dumps({"schema": SCHEMA + 1, "id": "1", "kind": FILE, "path": "/x", "place": "", "number": 1})]
    path.write_text("\n".join([*bad, path.read_text(), '{"schema":1,"id":"9-9","ki']))
    second = again()
    assert second.earlier.paths == {str(Path.cwd() / "out")}
    make(second)


def test_number_of_notes_read_is_limited(first, monkeypatch):
    monkeypatch.setattr("oomph.protocol.creations._MOST_NOTES", 5)
    for number in range(9):
        make(first, f"out{number}")
        first.on()
    assert len(again().earlier.paths) == 5


def test_notes_from_the_same_attempt_are_ignored(first):
    make(first)
    first.on()
    with pytest.raises(FileExistsError):
        make(again(1))


def test_replaced_functions_look_like_the_originals(first, monkeypatch):
    before = first.before
    names = {name: getattr(os, name) for name in ("mkdir", "open")}
    ours = [_MakeDirectory(names["mkdir"], "os", before), _OpenDescriptor(names["open"], "os", before)]
    try:
        for function in ours:
            function.replace(os, function.__name__)
        assert os.mkdir is ours[0]
        assert pickle.loads(pickle.dumps(os.open)) is os.open
        assert copy.deepcopy(os.mkdir) is os.mkdir
        assert {os.mkdir, os.open} <= os.supports_dir_fd
        assert os.mkdir.__doc__ == names["mkdir"].__doc__
        Kept = type("Kept", (), {"mkdir": os.mkdir})
        Kept().mkdir("out")  # not a method, as a function would be
        Path("p").mkdir()
    finally:
        for function in ours:
            setattr(os, function.__name__, names[function.__name__])
            os.supports_dir_fd.discard(function)


def test_undecidable_creation_is_expected_to_fail(first):
    assert first.before.accepts(FILE, 3, lambda *_: None) is FAILS
    assert first.before.accepts(LINK, object(), lambda *_: None) is FAILS
    assert Creation(FILE, "/a", "b", 1) == first.creating.next(FILE, "/a", "b")


NOTE = Creation(FILE, "", "train.py:1", 1)


@pytest.fixture
def exact(monkeypatch):
    """Times are compared without tolerance."""
    monkeypatch.setattr(creations, "_TICK_NS", 0)
    return lambda: time.sleep(0.05)


@pytest.mark.parametrize("ended", [False, True])
def test_notes_do_not_match_an_older_or_later_file(tmp_path, exact, ended):
    """Foreign notes must not cause a user's file to be emptied, even if they contain its inode number."""
    older, later, own = (tmp_path / name for name in ("older", "later", "own"))
    older.touch()
    exact()
    notes = Notes(tmp_path, 1)
    names = {path: notes.about_to(NOTE._replace(path=str(path))) for path in (older, later, own)}
    own.touch()
    exact()
    later_inode = None
    if ended:
        probe = tmp_path / "probe"
        probe.touch()
        later_inode = probe.stat().st_ino
        notes.ended(names[older], older.stat().st_ino)
        notes.ended(names[later], later_inode)
        notes.ended(names[own], own.stat().st_ino)
        exact()
        probe.unlink()
    exact()
    later.touch()
    earlier = Earlier.read(tmp_path)
    assert not earlier.is_still(str(older), older.stat().st_ino)
    assert not earlier.is_still(str(later), later.stat().st_ino)
    assert earlier.is_still(str(own), own.stat().st_ino)


def test_unfinished_note_matches_a_file_created_immediately(tmp_path):
    path = tmp_path / "log"
    Notes(tmp_path, 1).about_to(NOTE._replace(path=str(path)))
    path.touch()
    assert Earlier.read(tmp_path).is_still(str(path), path.stat().st_ino)


def test_creations_fail_without_file_birth_times(first, monkeypatch):
    make(first)
    first.on()
    monkeypatch.setattr(creations, "born_at", lambda path: None)
    with pytest.raises(FileExistsError):
        make(again())


def test_hard_link_is_recreated_only_to_the_same_file(first, monkeypatch, exact):
    def link(attempt, source):
        attempt.link(source, "latest")

    Path("old").write_text("older than the run")
    Path("new").write_text("too")
    exact()
    link(first, "old")
    first.on()
    link(again(), "old")
    assert os.path.samefile("old", "latest")
    with pytest.raises(FileExistsError):
        link(again(), "new")
    os.unlink("latest")
    Path("latest").write_text("somebody's")
    with pytest.raises(FileExistsError):
        link(again(), "old")


def test_notes_from_a_later_attempt_are_set_aside(tmp_path):
    for number in (1, 2, 3):
        Notes(tmp_path, number).about_to(NOTE)
    creations.refuse_later(tmp_path, 2)
    names = ["created-1.jsonl", "created-2.jsonl.refused", "created-3.jsonl.refused"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_notes_listing_every_inode_do_not_match_any_file(tmp_path):
    """An attacker who does not know a file's inode number could list every possible one."""
    notes = Notes(tmp_path, 1)
    precious = tmp_path / "precious"
    precious.touch()
    inode = precious.stat().st_ino
    name = notes.about_to(NOTE._replace(path=str(tmp_path / "other")))
    notes.ended(name, inode - 50)
    for number in range(inode - 50, inode + 50):
        notes.renamed(str(precious), number)
    assert not Earlier.read(tmp_path).is_still(str(precious), inode)
    notes.renamed(str(precious), inode)
    assert Earlier.read(tmp_path).is_still(str(precious), inode)
