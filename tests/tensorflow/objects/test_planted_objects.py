"""A checkpoint by an attacker: nothing it contains is run, called, or used as a path to write to."""

from __future__ import annotations

import array
import builtins
import collections
import copy
import ctypes
import io
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomph.objects import generators
from oomph.objects.picture import Changes, Picture, changes_between
from oomph.objects.restoration import Restoration
from oomph.script import restorable

RAN: list[object] = []
tell = RAN.append
"""A Python function; the walk does not search it for the list."""
OUT = "results.txt"
Point = collections.namedtuple("Point", "a b")


def danger(*arguments):
    tell(arguments)
    return 1


def uses():
    """The names in the script's code."""
    return OUT, os, subprocess, danger, Runner, print, Entry


class Entry:
    def __init__(self, n=0):
        self.n = n


class Runner:
    def __init__(self):
        self.command = "true"

    def __call__(self, *arguments):
        danger(self.command)

    def __del__(self):
        if vars(self).get("command", "true") != "true":
            danger(self)


class Hashed:
    def __hash__(self):
        return danger(self)

    def __eq__(self, other):
        return danger(self) == 1


class Iterated:
    def __iter__(self):
        danger(self)
        return iter([1])


class Mine(keras.callbacks.ModelCheckpoint):
    def __init__(self, path):
        super().__init__(path)
        self.seen, self.report, self.note, self.log = 0, print, "log.csv", None

    def on_epoch_end(self, epoch, logs=None):
        self.seen += 1


class Rows(list):
    pass


def script(folder="."):
    """Create a script's objects, as each attempt does."""
    callback = Mine(f"{folder}/best.keras")
    callback.held = {
        "numbers": [1, 2, 3],
        "by key": {"a": 1, (1, 2): [2]},
        "map": map(str, [1, 2, 3]),
        "cycle": itertools.cycle([1, 2]),
        "array": np.zeros(3),
        "objects": np.array([1, "a", None], object),
        "generator": np.random.default_rng(1),
        "state": np.random.RandomState(2),
        "random": random.Random(3),
        "buffer": io.BytesIO(b"abc"),
        "address": ctypes.c_void_p(1),
        "variable": tf.Variable([1.0]),
        "entry": Entry(),
        "point": Point(1, 2),
        "rows": Rows([1]),
        "hashed": Hashed(),
        "iterated": Iterated(),
        "steps": counting(),
    }
    return callback


def counting():
    n = 0
    while True:
        n += 1
        yield n


def picture(callback):
    return Picture.of([("callback", callback), ("uses", uses)], seconds=30)


def restored(callback, changed, new=None, arrays=None):
    """Return what is lost when the changes are restored."""
    restoration = Restoration(picture(callback), Changes(changed, new or {}, arrays or {}))
    restoration.apply()
    return [*map(str, restoration.lost)]


def key_of(now, thing):
    return now.graph.by_id[id(thing)].key


@contextmanager
def nothing_happens():
    """Fail if anything is run, imported, compiled or opened for writing in the meantime."""
    found = []
    watching.found = found
    try:
        yield found
    finally:
        watching.found = None
    assert found == []
    assert RAN == []


class Watching(threading.local):
    found = None


watching = Watching()
FORBIDDEN = (
    *("exec", "compile", "import", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"),
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"),
    *("shutil.rmtree", "socket.connect", "ctypes.dlopen", "ctypes.string_at", "ctypes.call_function"),
    *("pickle.find_class", "code.__new__", "function.__new__"),
)  # fmt: skip


def audit(event, arguments):
    found = getattr(watching, "found", None)
    if found is None:
        return
    writes = event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    if writes or event in FORBIDDEN:
        found.append((event, str(arguments)[:200]))


sys.addaudithook(audit)


@pytest.fixture(autouse=True)
def none_ran():
    RAN.clear()
    yield
    assert RAN == []


# -- what is called ---------------------------------------------------------------------------------------------------

SYSTEM = ("made", "", "iterator", ("map", (("named", "posix:system"), ("list", "touch ran"))))
DANGER = ("ref", "global of test_planted_objects: danger")
CONSUMING = ("tuple", "list", "frozenset")


def planted_iterators():
    """Iterators that call functions, and iterators that read them when created."""
    lazy = ("map", "filter", "starmap", "takewhile", "dropwhile", "filterfalse")
    for function in (("named", "posix:system"), DANGER, ("type", "posix:system")):
        for name in lazy:
            yield ("made", "", "iterator", (name, (function, ("list", ("tuple", "touch ran")))))
        yield ("made", "", "iterator", ("accumulate", (("list", "a", "b"), function)))
        yield ("made", "", "iterator", ("iter", (function, 0)))
        inner = ("made", "", "iterator", ("map", (function, ("list", "touch ran"))))
        for name in ("product", "permutations", "cycle", "enumerate", "zip", "chain", "islice", "zip_longest", "iter"):
            yield ("made", "", "iterator", (name, (inner, 1) if name in ("permutations", "islice") else (inner,)))
        yield ("made", "", "iterator", ("combinations", (inner, 1)))


@pytest.mark.parametrize("iterator", list(planted_iterators()), ids=str)
def test_checkpoint_cannot_make_an_iterator_call_a_function(iterator):
    path = picture(script()).contents["callback"][0]
    for key, content in (
        ("callback", (path, "held", iterator)),
        ("callback", (path, "seen", ("tuple", iterator, 1))),
        ("callback.held['numbers']", (None, iterator)),
        ("callback.held['by key']", ("dict", None, "a", iterator)),
    ):
        with nothing_happens():
            assert restored(script(), {key: content}) != []


def test_an_iterator_keeps_the_function_of_this_process():
    callback = script()
    now = picture(callback)
    held = key_of(now, callback.held)
    content = list(now.contents[held])
    at = content.index("map") + 1
    _, key, tag, (made_by, arguments, *state) = content[at]
    content[at] = ("made", key, tag, (made_by, (DANGER, *arguments[1:]), *state))
    with nothing_happens():
        assert "a checkpoint must not choose it" in restored(callback, {held: tuple(content)})[0]
    assert list(callback.held["map"]) == ["1", "2", "3"], "it is neither replaced nor read"


def test_a_checkpoint_cannot_start_iteration_of_a_python_object():
    callback = script()
    key = key_of(picture(callback), callback.held["iterated"])
    content = ("made", "", "iterator", ("enumerate", (("ref", key), 0)))
    with nothing_happens():
        assert restored(callback, {key_of(picture(callback), callback.held["numbers"]): (None, content)}) != []


@pytest.mark.parametrize(
    "value",
    [
        ("named", "posix:system"),
        ("type", "posix:system"),
        ("member", "posix:system", "x"),
        ("named tuple", "subprocess:Popen", "true"),
        DANGER,
        ("ref", "global of test_planted_objects: os"),
        ("ref", "global of test_planted_objects: subprocess"),
        ("ref", "global of test_planted_objects: Runner"),
        ("tuple", 1, DANGER),
        ("frozenset", DANGER),
    ],
    ids=str,
)
def test_a_checkpoint_cannot_plant_a_callable_anywhere(value):
    callback = script()
    now = picture(callback)
    path = now.contents["callback"][0]
    places = {
        "callback": (path, "seen", 5, "report", value, "held", ("ref", key_of(now, callback.held))),
        key_of(now, callback.held["numbers"]): (None, value),
        key_of(now, callback.held["by key"]): ("dict", None, "a", value),
        key_of(now, callback.held["objects"]): ((1,), value),
        key_of(now, callback.held["entry"]): (f"{__name__}:Entry", "n", value),
        "class Mine": ("late", value),
        "uses": ((), "late", value),
        "global of test_planted_objects: ": ("OUT", value),
    }
    for key, content in places.items():
        with nothing_happens():
            assert restored(callback, {key: content}) != [], key
    assert (callback.seen, callback.report, OUT) == (5, print, "results.txt"), "what is beside it comes back"
    assert not hasattr(Mine, "late")
    assert not hasattr(uses, "late")


@pytest.mark.parametrize(
    "content",
    [
        ("OUT", 5, "print", 5),
        ("__builtins__", 5),
        ("__name__", "x"),
        ("danger", 5),
        ("os", 5),
        ("Runner", 5),
        ("len", 5),
    ],
)
def test_a_checkpoint_cannot_set_globals_that_are_not_the_scripts_variables(content):
    before = dict(globals())
    try:
        with nothing_happens():
            assert restored(script(), {"global of test_planted_objects: ": content}) != []
        changed = {name for name, value in globals().items() if before.get(name) is not value} - {"OUT"}
        assert changed - {"__builtins__"} == set()
        assert "print" not in globals()
        assert "len" not in globals()
    finally:
        globals()["OUT"] = "results.txt"


@pytest.mark.parametrize(
    "name", ["filepath", "monitor", "_model", "on_epoch_end", "__class__", "__dict__", "set_model", 5]
)
def test_keras_attributes_methods_and_special_names_are_not_set(name):
    callback = script()
    path = picture(callback).contents["callback"][0]
    with nothing_happens():
        assert restored(callback, {"callback": (path, name, "/tmp/elsewhere")}) != []
    assert type(callback) is Mine
    assert callback.filepath == "./best.keras"
    assert callable(callback.on_epoch_end)


@pytest.mark.parametrize("name", ["on_epoch_end", "__call__", "__getattribute__", "__del__", "__init__"])
def test_a_checkpoint_cannot_set_attributes_defining_class_behaviour(name):
    before = dict(vars(Mine))
    with nothing_happens():
        assert restored(script(), {"class Mine": (name, 5)}) != []
    assert dict(vars(Mine)) == before


@pytest.mark.parametrize("kind", ["Runner", "Hashed", "Iterated", "nowhere", "Mine", "Watching"])
def test_objects_that_run_code_on_their_own_are_not_created(kind):
    callback = script()
    numbers = key_of(picture(callback), callback.held["numbers"])
    new = {"new": ("instance", (f"{__name__}:{kind}", "command", "touch ran"))}
    changed = {numbers: (None, ("ref", "new"))}
    if kind in ("Hashed", "Iterated"):  # is data, but not a key
        callback.held["keys"] = {}
        changed = {key_of(picture(callback), callback.held["keys"]): ("dict", None, ("ref", "new"), 1)}
        kind = "Hashed"
        new = {"new": ("instance", (f"{__name__}:{kind}",))}
    with nothing_happens():
        assert restored(callback, changed, new) != []


@pytest.mark.parametrize("path", ["posix:stat_result", "subprocess:Popen", "builtins:object", "threading:Thread", "x"])
def test_types_outside_the_script_are_not_created(path):
    callback = script()
    numbers = key_of(picture(callback), callback.held["numbers"])
    for tag, content in (("instance", (path,)), ("list with attributes", ((None,), (path,)))):
        with nothing_happens():
            assert restored(callback, {numbers: (None, ("ref", "new"))}, {"new": (tag, content)}) != []
    with nothing_happens():
        assert restored(callback, {numbers: (None, ("named tuple", path, 1, 2))}) != []


@pytest.mark.parametrize("tag", ["variable", "tensor", "tensorflow random", "array"])
def test_numeric_objects_are_created_only_from_numbers(tag):
    """`tf.Variable` calls any function that it is given."""
    callback = script()
    numbers = key_of(picture(callback), callback.held["numbers"])
    for content in (DANGER, ("ref", key_of(picture(callback), callback.held["iterated"])), ("list", 1), 5, "x"):
        with nothing_happens():
            assert restored(callback, {numbers: (None, ("ref", "new"))}, {"new": (tag, content)}) != []


# -- strings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_of_elsewhere", [False, True])
@pytest.mark.parametrize("holder", ["words", "tensor", "table", "frame", "objects", "numbers", "buffer", "bytes"])
def test_only_a_local_checkpoint_restores_strings(monkeypatch, holder, is_of_elsewhere):
    """The script may open or run any of the strings it stores."""
    pandas = pytest.importorskip("pandas")
    callback, other = script(), script()
    for each in (callback, other):
        each.held["words"] = np.array(["a.csv", "b.csv"], "<U300")
        each.held["table"] = tf.lookup.experimental.MutableHashTable(tf.int64, tf.string, "")
        each.held["frame"] = pandas.DataFrame({"path": ["a.csv"], "loss": [1.0]})
        each.held["tensor"] = tf.constant(["a.csv"])
        each.held["bytes"] = array.array("B", b"before")
    before, text = picture(callback), "../victim"
    callback.held["words"][0] = callback.held["frame"].loc[0, "path"] = text
    callback.held["objects"][1], callback.held["tensor"] = text, tf.constant([text])
    callback.held["numbers"][:] = [text]
    callback.held["table"].insert(tf.constant([1], tf.int64), tf.constant([text]))
    callback.held["buffer"].write(b"xyz")
    callback.held["bytes"][:] = array.array("B", b"victim")
    now = Picture.of([("callback", callback), ("uses", uses)], before, seconds=30)
    changes = changes_between(before, now)
    key = key_of(now, callback.held if holder == "tensor" else callback.held[holder])
    monkeypatch.setattr(restorable, "_is_from_elsewhere", is_of_elsewhere)
    lost = restored(other, {key: changes.changed[key]}, changes.new, changes.arrays)
    assert (lost != []) is is_of_elsewhere, lost


def test_packed_list_of_strings_is_rejected():
    callback = script()
    texts = np.array([b"/etc/passwd", b"touch x"]).tobytes()
    listed = key_of(picture(callback), callback.held["numbers"])
    assert len(restored(callback, {listed: (None, ("numbers", "|S11", texts))})) == 1
    assert callback.held["numbers"] == [1, 2, 3]


def test_instance_function_is_not_removed_if_its_class_defines_another():
    callback = script()
    callback.on_epoch_end = lambda epoch, logs=None: None
    held = picture(callback).contents["callback"][0]
    assert "a function is missing from it" in restored(callback, {"callback": (held, "seen", 5)})[0]
    assert "on_epoch_end" in vars(callback)


# -- numbers that set memory sizes, or point outside of it ------------------------------------------------------------


@pytest.mark.parametrize("place", [625, 10**6, -1, 2**31])
def test_position_beyond_a_random_generators_buffer_is_rejected(place):
    """NumPy does not check the position and would read memory beyond the buffer."""
    callback = script()
    callback.held["twister"] = np.random.Generator(np.random.MT19937(1))
    callback.held["philox"] = np.random.Generator(np.random.Philox(1))
    now = picture(callback)
    for name in ("twister", "philox", "state"):
        key = key_of(now, callback.held[name])
        content = json.loads(json.dumps(str(now.contents[key])))
        forged = replaced(now.contents[key], place)
        assert str(forged) != content
        assert restored(callback, {key: forged}) != [], name
    bits = key_of(now, callback.held["random"])
    version, numbers, gauss = now.contents[bits]
    assert restored(callback, {bits: (version, (*numbers[:-1], place), gauss)}) != []
    assert restored(callback, {bits: (version, numbers, "x")}) != []


def replaced(content, place):
    if type(content) is tuple:
        found = [replaced(each, place) for each in content]
        for name in ("pos", "buffer_pos"):
            if name in found:
                found[found.index(name) + 1] = place
        return tuple(found)
    return content


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("objects", ((1 << 40,), 1)),
        ("objects", ((-1,), 1)),
        ("buffer", ("BytesIO", b"abc", 1 << 40)),
        ("buffer", ("BytesIO", b"abc", -1)),
        ("buffer", ("BytesIO", "abc", 1)),
        ("address", b"\0" * 8),
        ("array", ("large", "", "<f8", (1 << 20, 1 << 20))),
        ("array", ("large", "", "O", (3,))),
        ("array", ("large", "", "(3,)f8", (1,))),
    ],
)
def test_contents_with_a_false_declared_size_are_rejected(name, content):
    callback = script()
    key = key_of(picture(callback), callback.held[name])
    with nothing_happens():
        assert restored(callback, {key: content}, arrays={key: bytes(24)}) != []


def test_changed_pointer_is_reported_by_name_as_lost():
    callback = script()
    before = picture(callback)
    callback.held["address"].value = 5
    changes = changes_between(before, Picture.of([("callback", callback), ("uses", uses)], before, seconds=30))
    assert any("address" in line for line in [*map(str, changes.lost), *restored(script(), changes.changed)])


def test_an_oversized_combinations_iterator_is_rejected():
    callback = script()
    numbers = key_of(picture(callback), callback.held["numbers"])
    content = ("made", "", "iterator", ("combinations", (("tuple", 1, 2), 1 << 40)))
    with nothing_happens():
        assert restored(callback, {numbers: (None, content)}) != []


@pytest.mark.parametrize("kind", ["list", "tuple", "set", "dict", "bytes", "bytearray", "frozenset"])
@pytest.mark.parametrize("maker", ["map", "starmap", "filter"])
def test_a_checkpoint_cannot_exhaust_memory_through_an_endless_iterator(kind, maker):
    callback = script()
    numbers = key_of(picture(callback), callback.held["numbers"])
    endless = ("made", "", "iterator", ("repeat", (("tuple", 1 << 40),)))
    content = ("made", "", "iterator", (maker, (("type", f"builtins:{kind}"), endless)))
    assert restored(callback, {numbers: (None, content)}) != []
    callback.held["map"] = map(getattr(builtins, kind), [[], [], []])
    next(callback.held["map"])
    now = picture(callback)
    held = key_of(now, callback.held)
    assert restored(callback, {held: now.contents[held]}) == [], "it calls that here, too"
    words = ("made", "", "iterator", (maker, (("type", "builtins:str"), ("list", "a"))))
    assert restored(callback, {numbers: (None, words)}) == []


@pytest.mark.parametrize("name", ["DataFrame", "Series"])
def test_single_number_with_a_huge_index_does_not_become_a_table(name):
    pandas = pytest.importorskip("pandas")
    callback = script()
    callback.held["frame"] = pandas.DataFrame({"loss": [1.0]}) if name == "DataFrame" else pandas.Series([1.0])
    key = key_of(picture(callback), callback.held["frame"])
    index, names = ("range", 0, 1 << 44, 1, None), ("index", None, ("items", "object", "loss"))
    content = (name, index, names, ("numbers", "<f8", (), bytes(8)))
    assert "differ in length from its index" in restored(callback, {key: content})[0]


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [(2, "n", 5), (10**9, "n", 5), (2, 5, 5), (2, "n"), 5, (), ("x", "n", 5)])
def test_generator_is_not_advanced_to_an_invalid_position(content):
    generator = endless()
    callback = script()
    callback.held["endless"] = generator
    key = key_of(picture(callback), generator)
    with nothing_happens():
        assert restored(callback, {key: content}) != []
    assert next(generator) == 1


def test_all_generators_share_one_time_limit(monkeypatch):
    monkeypatch.setattr(generators.Allowance.__init__, "__defaults__", (0.5,))
    callback = script()
    callback.held["endless"] = running = [endless() for _ in range(8)]
    now = picture(callback)
    for each in running:
        next(each)
    at = running[0].gi_frame.f_lasti
    began = time.monotonic()
    keys = [key_of(now, each) for each in running]
    assert len(restored(callback, dict.fromkeys(keys, (at, "each", 1, "n", -1)))) == 8
    assert time.monotonic() - began < 3


def endless():
    """It cannot be moved, since it is inside a `for`."""
    n = 0
    for each in itertools.repeat(1):
        n += each
        yield n


# -- anything at all --------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *(
            "ref",
            "id",
            "made",
            "large",
            "tuple",
            "named tuple",
            "frozenset",
            "list",
            "named",
            "type",
            "member",
            "unknown",
        ),
        *("scalar", "dtype", "text", "date", "shape", "range", "slice", "complex", "timedelta", "iterator", "instance"),
        *("map", "filter", "product", "iter", "cycle", "accumulate", "posix:system", "builtins:exec", "builtins:int"),
        *(
            "numpy",
            "tf",
            "Fraction",
            "PosixPath",
            "O",
            "<f8",
            "float32",
            "resource",
            "dict",
            "defaultdict",
            "RandomState",
        ),
        *(
            "global of test_planted_objects: danger",
            "global of test_planted_objects: os",
            "callback",
            "callback.held",
            "seen",
            "report",
        ),
        *(f"{__name__}:Entry", f"{__name__}:Runner", f"{__name__}:Hashed", "PCG64", "MT19937", "cell", "closed", "at"),
        *(
            "__class__",
            "__dict__",
            "__builtins__",
            "on_epoch_end",
            "filepath",
            "/etc/passwd",
            "touch ran",
            "new",
            "pos",
        ),
    ]
)
ATOMS = st.one_of(
    WORDS, st.none(), st.booleans(), st.integers(-3, 700), st.sampled_from([1 << 40, -1, 1e308]), st.binary(max_size=9)
)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=6).map(tuple), max_leaves=12)
TAGS = st.sampled_from(
    [
        *("instance", "mapping", "list", "set", "deque", "bytearray", "numpy random", "random", "variable", "tensor"),
        *("array", "object array", "iterator", "buffer", "numbers", "history", "frame", "cell", "function", "type"),
        *("list with attributes", "mapping with attributes", "tensorflow random", "lost", "outside", "memory", "class"),
    ]
)
NEW = st.dictionaries(st.sampled_from(["new", "other"]), st.tuples(TAGS, VALUES), max_size=2)


def survives(changed, new, arrays):
    """Restore planted changes: only data may change."""
    RAN.clear()
    callback = script()
    live, before = picture(callback), (dict(globals()), dict(vars(Mine)), dict(vars(Entry)))
    document = Changes(changed, new, arrays).to_json()
    try:
        changes = Changes.from_json(json.loads(json.dumps(document)), arrays)
        with nothing_happens():
            restoration = Restoration(live, changes)
            restoration.apply_early()
            restoration.apply()
            del restoration, changes
    finally:
        globals()["OUT"] = "results.txt"
    for after, kept in zip((globals(), vars(Mine), vars(Entry)), before, strict=True):
        assert {name: value for name, value in after.items() if callable(value)} == {
            name: value for name, value in kept.items() if callable(value)
        }
    assert type(callback) is Mine
    assert callback.filepath == "./best.keras"
    assert callback.__dict__.get("report", print) is print


def check_anything(data):
    keys = st.sampled_from(list(picture(script()).graph.nodes))
    changed = data.draw(st.dictionaries(keys, VALUES, max_size=3))
    arrays = {key: bytes(24) for key in changed}
    survives(changed, data.draw(NEW), arrays)


def mutations():
    """Return a real document in which one node is replaced with anything."""
    first = script()
    before = picture(first)
    first.seen, first.note, first.log = 5, "log-2.csv", [Entry(3)]
    first.held["numbers"].append((4, Point(5, 6)))
    first.held["by key"]["b"] = {"c": np.arange(3)}
    next(first.held["map"])
    next(first.held["cycle"])
    first.held["generator"].normal()
    first.held["random"].random()
    first.held["array"][1] = 7
    first.held["variable"].assign([2.0])
    first.held["entry"].n = [1, 2]
    next(first.held["steps"])
    return changes_between(before, Picture.of([("callback", first), ("uses", uses)], before, seconds=30))


def places_in(value, at=()):
    yield at
    if type(value) is tuple:
        for number, each in enumerate(value):
            yield from places_in(each, (*at, number))


def with_one_replaced(value, at, new):
    if not at:
        return new
    return tuple(with_one_replaced(each, at[1:], new) if n == at[0] else each for n, each in enumerate(value))


def check_mutation(data, table):
    real = mutations()
    found = copy.copy(getattr(real, table))
    key = data.draw(st.sampled_from(sorted(found)))
    content = found[key][1] if table == "new" else found[key]
    forged = with_one_replaced(content, data.draw(st.sampled_from(list(places_in(content)))), data.draw(VALUES))
    found[key] = (found[key][0], forged) if table == "new" else forged
    changed, new = (found, real.new) if table == "changed" else (real.changed, found)
    survives(changed, new, real.arrays)


QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=5_000)


def test_unaltered_document_is_fully_restored():
    real, second = mutations(), script()
    restoration = Restoration(picture(second), real)
    restoration.apply()
    assert (real.lost, restoration.lost) == ([], [])
    assert (second.seen, second.note, second.log[0].n, second.held["numbers"][-1]) == (5, "log-2.csv", 3, (4, (5, 6)))


@QUICK
@given(st.data())
def test_restoring_random_content_does_not_run_code(data):
    check_anything(data)


TABLES = pytest.mark.parametrize("table", ["changed", "new"])


@TABLES
@QUICK
@given(data=st.data())
def test_restoring_a_document_with_one_change_does_not_run_code(data, table):
    check_mutation(data, table)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(QUICK, max_examples=10_000)
@given(st.data())
def test_restoring_random_content_ten_thousand_times_does_not_run_code(data):
    check_anything(data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@TABLES
@LONG
@given(data=st.data())
def test_restoring_altered_documents_five_thousand_times_does_not_run_code(data, table):
    check_mutation(data, table)


def test_a_checkpoint_cannot_make_many_copies_of_one_array():
    """A few bytes in a manifest refer to megabytes of array: a list of such references would fill the memory."""
    callback = script()
    key = key_of(picture(callback), callback.held["numbers"])
    many = (None, *[("large", "f", "<f8", (1000,))] * 700)
    lost = restored(callback, {key: many}, arrays={key: np.zeros(8000, np.uint8)})
    assert "many copies of one array" in str(lost)
    assert callback.held["numbers"] == [1, 2, 3]


def test_long_byte_strings_cannot_be_shared_by_two_objects():
    new = {f"n{number}": ["bytearray", ["apart", 0]] for number in range(2)}
    with pytest.raises(ValueError, match="missing"):
        Changes.from_json({"changed": {}, "new": new, "lost": []}, {}, [b"a" * 1000])
