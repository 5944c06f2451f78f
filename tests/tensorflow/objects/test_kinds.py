"""Every kind of object: its changes are restored in a new process, in the objects that exist there."""

from __future__ import annotations

import collections
import contextvars
import copy
import csv
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import math
import mmap
import multiprocessing
import pathlib
import random
import re
import threading
import time
import types
import uuid
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.objects import walk
from oomph.objects.picture import Picture, changes_between
from oomph.objects.restoration import Restoration

Point = collections.namedtuple("Point", "a b")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Entry:
    n: int
    items: list


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


class MyDict(dict):
    pass


class MyList(list):
    pass


class Private:
    __slots__ = ("__n",)

    def __init__(self):
        self.__n = 1

    def count(self):
        self.__n += 1

    def counted(self):
        return self.__n


class Tallies(dict):
    hits = 0


class Rows(list):
    def __init__(self, *items):
        super().__init__(items)
        self.total = 0


class Holder:
    """Has one value under two names."""

    def __init__(self, value):
        self.value = self.alias = value


class Scheduling:
    def __call__(self, epoch):
        return 0.1


def shown(thing):
    """Return an object's contents in a comparable form."""
    if isinstance(thing, (tf.Variable, tf.Tensor, keras.Variable)):
        return (str(thing.dtype), np.asarray(thing).tolist())
    if isinstance(thing, np.ndarray):
        return (str(thing.dtype), thing.shape, thing.tolist())
    if isinstance(thing, (np.random.Generator, np.random.RandomState)):
        return [float(copy.deepcopy(thing).random()) for _ in range(2)]
    if isinstance(thing, random.Random):
        return thing.getstate()
    if isinstance(thing, (Entry, Holder)):
        return {name: shown(value) for name, value in vars(thing).items()}
    if isinstance(thing, Slotted):
        return {name: shown(getattr(thing, name)) for name in Slotted.__slots__ if hasattr(thing, name)}
    if isinstance(thing, dict):
        return (type(thing).__name__, [(shown(k), shown(v)) for k, v in thing.items()])
    if isinstance(thing, (ctypes._SimpleCData, type(multiprocessing.Value("i")))):
        return thing.value
    if isinstance(thing, threading.local):
        return {name: shown(value) for name, value in vars(thing).items()}
    if isinstance(thing, contextvars.ContextVar):
        return shown(thing.get(None))
    if isinstance(thing, (ctypes.Array, memoryview, mmap.mmap)):
        return bytes(thing)
    if isinstance(thing, (list, tuple, collections.deque)):
        return (type(thing).__name__, [shown(each) for each in thing])
    if isinstance(thing, float) and math.isnan(thing):
        return "nan"
    return (type(thing).__name__, thing)


def put(value):
    return lambda holder: setattr(holder, "value", value)


def do(action):
    return lambda holder: action(holder.value)


IN_PLACE = {
    "a list grows": (lambda: [1], do(lambda v: v.append("x"))),
    "a list shrinks": (lambda: [1, 2, 3], do(lambda v: v.clear())),
    "a list of a class of the user's": (lambda: MyList([1]), do(lambda v: v.append(2))),
    "a dict": (lambda: {"a": 1}, do(lambda v: v.update(b=[2], a=None))),
    "a dict loses a key": (lambda: {"a": 1, "b": 2}, do(lambda v: v.pop("a"))),
    "a dict with keys of any kind": (lambda: {(1, 2): "x"}, do(lambda v: v.update({(3, Colour.RED): 4, 2.5: 1}))),
    "a dict of a class of the user's": (lambda: MyDict(a=1), do(lambda v: v.update(b=2))),
    "a defaultdict": (lambda: collections.defaultdict(list), do(lambda v: v["k"].append(1))),
    "an OrderedDict": (lambda: collections.OrderedDict(a=1, b=2), do(lambda v: v.move_to_end("a"))),
    "a Counter": (lambda: collections.Counter("ab"), do(lambda v: v.update("aac"))),
    "a deque": (lambda: collections.deque([1], maxlen=3), do(lambda v: v.extend([1, 2, 3, 4]))),
    "a set": (lambda: {1}, do(lambda v: v.update({"q", 2}))),
    "a bytearray": (lambda: bytearray(b"ab"), do(lambda v: v.extend(b"c"))),
    "a small array": (lambda: np.zeros(5), do(lambda v: v.__setitem__(2, 7))),
    "a large array": (lambda: np.zeros((300, 400), "float32"), do(lambda v: v.__setitem__((299, 399), 7))),
    "an array of two dimensions": (lambda: np.asfortranarray(np.zeros((2, 3))), do(lambda v: v.__setitem__((1, 0), 7))),
    "an array without elements": (lambda: [np.zeros((0, 3))], do(lambda v: v.append(1))),
    "an array of bfloat16": (lambda: np.zeros(3, tf.bfloat16.as_numpy_dtype), do(lambda v: v.__setitem__(1, 2))),
    "an array of booleans": (lambda: np.zeros(3, bool), do(lambda v: v.__setitem__(1, True))),
    "an array of complex numbers": (lambda: np.zeros(3, complex), do(lambda v: v.__setitem__(1, 2j))),
    "an array of words": (lambda: np.array(["ab", "cd"]), do(lambda v: v.__setitem__(1, "x"))),
    "an array of objects": (lambda: np.array([1, "a", None], object), do(lambda v: v.__setitem__(1, [5]))),
    "a Generator": (lambda: np.random.default_rng(1), do(lambda v: v.normal(size=3))),
    "a Generator that has kept half a draw": (
        lambda: np.random.default_rng(1),
        do(lambda v: v.integers(0, 9, dtype="uint32")),
    ),
    "a Generator of another kind": (
        lambda: np.random.Generator(np.random.MT19937(1)),
        do(lambda v: v.random(700, dtype="float32")),
    ),
    "a RandomState": (lambda: np.random.RandomState(2), do(lambda v: v.randn())),
    "a random.Random": (lambda: random.Random(3), do(lambda v: v.gauss(0, 1))),
    "a tf.Variable": (lambda: tf.Variable([1.0, 2.0]), do(lambda v: v.assign([3.0, 4.0]))),
    "a variable of words": (lambda: [tf.Variable(1, dtype="int64")], do(lambda v: v[0].assign(5))),
    "a keras.Variable": (lambda: keras.Variable([1.0]), do(lambda v: v.assign([3.0]))),
    "an object of slots": (Slotted, do(lambda v: (setattr(v, "b", [1]), delattr(v, "a")))),
    "a dataclass": (lambda: Entry(1, [1]), do(lambda v: (setattr(v, "n", 2), v.items.append(3)))),
    "an array of ctypes": (lambda: (ctypes.c_double * 3)(), do(lambda v: v.__setitem__(1, 2.5))),
    "a number of ctypes": (lambda: ctypes.c_int(1), do(lambda v: setattr(v, "value", 3))),
    "a memoryview": (lambda: memoryview(bytearray(b"abc")), do(lambda v: v.__setitem__(1, 7))),
    "an mmap": (lambda: mmap.mmap(-1, 10), do(lambda v: v.__setitem__(1, 7))),
    "a multiprocessing.Value": (lambda: multiprocessing.Value("i", 1), do(lambda v: setattr(v, "value", 3))),
    "a threading.local": (threading.local, do(lambda v: setattr(v, "n", [2]))),
    "a ContextVar": (lambda: contextvars.ContextVar("turn", default=0), do(lambda v: v.set(v.get() + 2))),
    "a ContextVar of a list": (lambda: contextvars.ContextVar("turn"), do(lambda v: v.set([1]))),
    "a SimpleNamespace": (lambda: types.SimpleNamespace(n=1), do(lambda v: (setattr(v, "n", 2), setattr(v, "m", 3)))),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_object_changed_in_place_is_restored_in_place(resume, name):
    make, change = IN_PLACE[name]
    found = resume(lambda: Holder(make()), change)
    assert found.lost == []
    assert found.changes.changed, "the change was seen"
    assert shown(found.resumed.value) == shown(found.killed.value)
    assert found.resumed.alias is found.resumed.value, "whoever has it sees the change"
    assert found.same_beginning


VALUES = {
    "a number": (1, 2),
    "a large number": (1, 1 << 2000),
    "a negative one": (1, -(1 << 1025)),
    "a float": (0.5, 0.1),
    "infinity": (0.0, -math.inf),
    "not a number": (0.0, math.nan),
    "none": (None, False),
    "a word": ("a", "ü\x00\ud800"),
    "bytes": (b"", b"\x00\xff"),
    "a complex number": (1j, 2 - 3j),
    "a range": (range(3), range(0, 9, 2)),
    "a slice": (slice(1), slice(None, 2, 3)),
    "an ellipsis": (1, ...),
    "a NumPy scalar": (np.float32(0.5), np.float32(0.1)),
    "a scalar of another dtype": (np.int8(1), np.int64(1)),
    "a NumPy date": (0, np.datetime64("2021-01-02T03:04")),
    "a bfloat16": (0, tf.bfloat16.as_numpy_dtype(1.5)),
    "a dtype": (np.dtype("f4"), np.dtype("<i8")),
    "a dtype of TensorFlow's": (tf.float32, tf.bfloat16),
    "a shape": (tf.TensorShape([1]), tf.TensorShape([None, 2])),
    "an unknown shape": (tf.TensorShape([1]), tf.TensorShape(None)),
    "a member of an enum": (Colour.RED, Colour.BLUE),
    "a date": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 2)),
    "a time": (0, datetime.datetime(2021, 1, 2, 3, 4, 5, 6, datetime.timezone.utc)),
    "a duration": (0, datetime.timedelta(1, 2, 3)),
    "a Decimal": (0, decimal.Decimal("0.10")),
    "a Fraction": (0, fractions.Fraction(1, 3)),
    "a UUID": (0, uuid.UUID(int=5)),
    "a path": (0, pathlib.Path("/a/b")),
    "a tuple": ((1, 2), (1, (2, (3,)))),
    "an empty tuple": ((1,), ()),
    "a tuple of lists": ((1, [2]), (2, [3, [4]])),
    "a named tuple": (Point(1, 2), Point(3, [4])),
    "a frozenset": (frozenset({1}), frozenset({2, "x"})),
    "a list": (None, [1, {"x": [2]}]),
    "a dict": (None, {"a": {"b": (1, {"c"})}}),
    "an array": (None, np.arange(3)),
    "an array of another shape": (np.zeros(2), np.zeros((300, 300), "float16")),
    "an array that was turned": (np.zeros((2, 3)), np.arange(6.0).reshape(3, 2).T),
    "an object of data": (None, Entry(5, [Entry(6, [])])),
    "one that is frozen": (Frozen(1), Frozen(2)),
    "a type of Python's": (int, float),
    "a type of NumPy's": (None, np.float16),
    "a tensor": (tf.constant([1, 2]), tf.constant([[5.5]])),
    "a tensor of words": (None, tf.constant(["a", b"\xff"])),
    "a tensor of another shape": (tf.zeros(2), tf.zeros((50, 50))),
    "a variable": (None, tf.Variable([1.0, 2.0])),
    "a Generator": (None, np.random.Generator(np.random.PCG64DXSM(4))),
    "a RandomState": (None, np.random.RandomState(5)),
    "a random.Random": (None, random.Random(5)),
    "a deque": (None, collections.deque([1], 2)),
    "a defaultdict": (None, collections.defaultdict(int, a=1)),
    "a bytearray": (None, bytearray(b"x")),
    "an array of objects": (None, np.array([1, [2], "x"], object)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_replaced_value_is_restored(resume, name):
    before, after = VALUES[name]
    found = resume(lambda: Holder(before if before is math else copy.deepcopy(before)), put(after))
    assert found.lost == []
    assert shown(found.resumed.value) == shown(after)
    assert type(found.resumed.value) is type(after)


CALLED = {
    "a function of Python's": (math.sin, math.cos),
    "a function of the user's": (None, shown),
    "a lambda": (None, lambda: 0),
    "a class": (Entry, Slotted),
    "a module": (math, random),
    "a function of a library's": (np.sum, np.mean),
    "a bound method": (None, Private().counted),
    "a partial": (None, functools.partial(print, 1)),
    "an object with __call__": (None, Scheduling()),
    "a function in a list": (None, [math.cos]),
    "a function in a tuple": ((1, math.sin), (1, math.cos)),
    "a function that makes the values of a dict": (None, collections.defaultdict(Entry)),
}


@pytest.mark.parametrize("name", CALLED)
def test_checkpoint_cannot_choose_a_callable_but_its_siblings_are_restored(resume, name):
    before, after = CALLED[name]

    def change(holder):
        holder.value, holder.late = after, 5

    found = resume(lambda: Holder(before), change)
    assert any("root" in str(line) for line in found.lost), found.lost
    assert found.resumed.late == 5
    assert found.resumed.value is before or not found.resumed.value


ITERATORS = {
    "count": lambda: itertools.count(5),
    "count by steps": lambda: itertools.count(0.5, 0.25),
    "cycle": lambda: itertools.cycle([1, 2, 3]),
    "over a list": lambda: iter([1, 2, 3, 4, 5, 6]),
    "over a tuple": lambda: iter((1, 2, 3, 4, 5, 6)),
    "over a range": lambda: iter(range(6)),
    "enumerate": lambda: enumerate("abcdef"),
    "zip": lambda: zip(range(6), itertools.cycle("ab")),
    "repeat": lambda: itertools.repeat(3, 9),
    "islice": lambda: itertools.islice(itertools.count(), 2, 20, 3),
    "chain": lambda: itertools.chain([1, 2], [3, 4, 5], [6]),
    "reversed": lambda: reversed([1, 2, 3, 4, 5, 6]),
    "map": lambda: map(math.sqrt, [1, 4, 9, 16, 25, 36]),
    "filter": lambda: filter(None, [1, 2, 3, 4, 5, 6]),
    "starmap": lambda: itertools.starmap(math.pow, [(n, 2) for n in range(6)]),
    "accumulate": lambda: itertools.accumulate([1, 2, 3, 4, 5, 6]),
    "product": lambda: itertools.product([1, 2], [3, 4], [5, 6]),
    "permutations": lambda: itertools.permutations([1, 2, 3]),
    "combinations": lambda: itertools.combinations([1, 2, 3, 4], 2),
    "takewhile": lambda: itertools.takewhile(bool, [1, 2, 3, 4, 5, 6]),
    "zip_longest": lambda: itertools.zip_longest([1, 2], [1, 2, 3, 4, 5, 6], fillvalue=0),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_iterator_resumes_at_its_position(resume, name):
    def take_four(holder):
        for _ in range(4):
            next(holder.value)

    found = resume(lambda: Holder(ITERATORS[name]()), take_four)
    assert found.lost == []
    assert [next(found.resumed.value) for _ in range(2)] == [next(found.killed.value) for _ in range(2)]


def test_iterator_over_a_new_or_growing_list_resumes_at_its_position(resume):
    def change(holder):
        holder.over_new, holder.over_old = iter([[1], 2, 3]), iter(holder.value)
        holder.value.extend([1, 2, 3])
        for iterator in (holder.over_new, holder.over_old, holder.over_old):
            next(iterator)

    found = resume(lambda: Holder([0]), change)
    assert found.lost == []
    assert (list(found.resumed.over_new), list(found.resumed.over_old)) == ([2, 3], [2, 3])


def test_an_exhausted_iterator_stays_exhausted(resume):
    found = resume(lambda: Holder(iter([1])), lambda holder: list(holder.value))
    assert list(found.resumed.value) == []


# -- objects that refer to one another --------------------------------------------------------------------------------


def test_attributes_and_private_slots_of_user_classes_are_restored(resume):
    def change(holder):
        tallies, rows, private = holder.value
        tallies["a"], tallies.hits = 1, 2
        rows.append(3)
        rows.total = 3
        private.count()

    found = resume(lambda: Holder([Tallies(), Rows(1), Private()]), change)
    assert found.lost == []
    tallies, rows, private = found.resumed.value
    assert (tallies, tallies.hits, rows, rows.total, private.counted()) == ({"a": 1}, 2, [1, 3], 3, 2)


def test_containers_of_user_classes_are_restored_with_class_and_attributes(resume):
    def change(holder):
        holder.value = [Tallies(a=1), Rows(1, 2)]
        holder.value[0].hits, holder.value[1].total = 3, 4

    found = resume(lambda: Holder([]), change)
    assert found.lost == []
    tallies, rows = found.resumed.value
    assert (type(tallies), tallies, tallies.hits) == (Tallies, {"a": 1}, 3)
    assert (type(rows), rows, rows.total) == (Rows, [1, 2], 4)


NAN_WITH_A_PAYLOAD = np.frombuffer(bytes.fromhex("efcdab000000f87f"), np.float64)
LONG_LISTS = {
    "float": [0.1, -0.0, math.inf, float(NAN_WITH_A_PAYLOAD[0])] * 2500,
    "int": list(range(-5, 9995)),
    "int that no array holds": [2**64 + n for n in range(100)],
    "float32": [np.float32(0.1), np.float32("nan")] * 5000,
    "bool of NumPy": [np.bool_(True)] * 10_000,
    "bfloat16": [tf.constant(1.5, tf.bfloat16).numpy()] * 10_000,
    "several types": [1, 1.0, np.float32(1), True] * 100,
    "times": [np.datetime64("2026-01-01")] * 100,
}


@pytest.mark.parametrize("name", LONG_LISTS)
@pytest.mark.parametrize(
    "make", [list, collections.deque, lambda items: {"a": {"b": items}}], ids=["list", "deque", "dict"]
)
def test_long_lists_of_numbers_are_restored_with_their_types(resume, name, make):
    def put(holder):
        holder.a = make(LONG_LISTS[name])

    found = resume(Slotted, put)
    assert found.lost == []
    assert [type(found.resumed.a), repr(found.resumed.a)] == [type(found.killed.a), repr(found.killed.a)]
    items = [each["a"]["b"] if type(each) is dict else list(each) for each in (found.killed.a, found.resumed.a)]
    kept, back = [np.array(each, np.asarray(each[0]).dtype if name != "several types" else object) for each in items]
    assert list(map(type, items[0])) == list(map(type, items[1]))
    assert kept.dtype == object or kept.tobytes() == back.tobytes()


def test_million_numpy_numbers_are_saved_compactly(resume):
    def put(holder):
        holder.a = [np.float32(0.1)] * 10**6

    found = resume(Slotted, put)
    assert found.lost == []
    assert len(found.document) < 1.4 * 4 * 10**6
    assert found.resumed.a == found.killed.a


def test_new_array_is_restored_with_its_memory_order(resume):
    def put(holder):
        holder.a = [np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6.0).reshape(2, 3), np.array(1.5)]

    back = resume(Slotted, put).resumed.a
    assert [each.flags.f_contiguous for each in back] == [True, False, True]
    assert [each.tolist() for each in back] == [[[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]], 1.5]


def test_id_keys_become_the_ids_of_the_new_objects(resume):
    def make():
        holder = Holder([Slotted(), Slotted()])
        holder.seen = {id(each): 0 for each in holder.value}
        return holder

    def change(holder):
        holder.seen[id(holder.value[1])] += 5

    found = resume(make, change)
    assert found.lost == []
    assert found.resumed.seen == {id(each): 5 * number for number, each in enumerate(found.resumed.value)}


def test_weak_key_dictionaries_are_restored(resume):
    def make():
        holder = Holder([Entry(1, []), Holder(2)])
        holder.seen = weakref.WeakKeyDictionary({holder.value[1]: 1})
        return holder

    found = resume(make, lambda holder: holder.seen.update({holder.value[1]: 7}))
    assert found.lost == []
    assert dict(found.resumed.seen) == {found.resumed.value[1]: 7}


@pytest.mark.parametrize(
    ("change", "is_lost"),
    [(lambda rows: None, False), (lambda rows: rows[5].update(n=2), False), (lambda rows: rows[-1].update(n=2), True)],
    ids=["nothing", "what is within reach", "what is not"],
)
def test_changes_beyond_the_walks_limit_are_reported_as_lost(monkeypatch, change, is_lost):
    monkeypatch.setattr("oomph.objects.walk._MOST_NODES", 500)
    holder = types.SimpleNamespace(value=[{"n": 1, "at": (number, np.zeros(2))} for number in range(600)])
    before = Picture.of([("holder", holder)], seconds=60)
    change(holder.value)
    found = changes_between(before, Picture.of([("holder", holder)], before, seconds=60))
    assert bool(found.lost) is is_lost
    assert all("there was no time to examine it" in str(line) for line in found.lost)


def test_digests_distinguish_shared_containers_and_accept_circular_ones():
    shared = circular = []
    for _ in range(60):
        shared = [shared, shared]
    circular.append(circular)
    assert walk.digest_of_many([shared, (1, {2, "a"}, {"b": 3.5})], ()) == walk.digest_of_many(
        [shared, (1, {"a", 2}, {"b": 3.5})], ()
    )
    assert walk.digest_of_many([[1], [1]], ()) != walk.digest_of_many([shared, shared], ())
    one = [1]
    assert walk.digest_of_many([[one, one]], ()) != walk.digest_of_many([[[1], [1]]], ()), (
        "the same object twice is not two"
    )
    assert walk.digest_of_many([one, object()], ()) is None
    assert walk.digest_of_many([3, (4, one)], ()) == walk.digest_of_many([5, (6, one)], ()), (
        "values belong to what holds them"
    )
    assert walk.digest_of_many([one, shared], {id(shared)}) == walk.digest_of_many([one], ())


def test_an_iterator_with_a_hidden_position_is_reported_as_lost(resume):
    found = resume(lambda: Holder([1]), lambda holder: setattr(holder, "tee", itertools.tee([1, 2, 3])[0]))
    assert "_tee" in found.lost[0]


@pytest.mark.parametrize(
    "make", [lambda: re.finditer("a", "aaa"), lambda: iter([1, 2, 3].pop, 9), lambda: csv.reader(["a", "b"])]
)
def test_opaque_python_iterators_are_reported_as_lost(resume, make):
    found = resume(lambda: Holder([1]), lambda holder: setattr(holder, "reader", make()))
    assert "root.reader" in found.lost[0]


@pytest.mark.parametrize("make", [lambda: tf.queue.FIFOQueue(10, [tf.float32])])
def test_opaque_object_is_reported_by_name_as_lost(resume, make):
    found = resume(lambda: Holder(make()), do(lambda queue: queue.enqueue(1.0)))
    assert found.lost
    assert "FIFOQueue" in found.lost[0]


def test_self_references_are_restored(resume):
    def change(holder):
        holder.value.append(holder.value)
        holder.me, holder.ring = holder, {"a": []}
        holder.ring["a"].append(holder.ring)

    found = resume(lambda: Holder([1]), change).resumed
    assert found.value[1] is found.value
    assert found.me is found
    assert found.ring["a"][0] is found.ring


def test_shared_objects_stay_shared_after_restoring(resume):
    def change(holder):
        shared = [1]
        holder.one, holder.other, holder.late = {"s": shared}, (shared,), holder.value

    found = resume(lambda: Holder([5]), change).resumed
    assert found.one["s"] is found.other[0]
    assert found.late is found.value


def test_deleted_and_added_attributes_are_restored(resume):
    def change(holder):
        del holder.alias
        holder.late = 1

    found = resume(lambda: Holder(1), change)
    assert vars(found.resumed) == vars(found.killed) == {"value": 1, "late": 1}


def test_swapped_values_are_restored_swapped(resume):
    def make():
        holder = Holder([1])
        holder.alias = [2]
        return holder

    def swap(holder):
        holder.value, holder.alias = holder.alias, holder.value

    found = resume(make, swap).resumed
    assert (found.value, found.alias) == ([2], [1])


# -- code -------------------------------------------------------------------------------------------------------------

COUNT = 0
STATE = {"n": 0}


class Counts:
    seen = 0
    history = []  # noqa: RUF012

    @classmethod
    def reset(cls):
        cls.seen, cls.history = 0, []

    def step(self):
        global COUNT
        COUNT += 1
        STATE["n"] += 1
        type(self).seen += 1
        self.history.append(COUNT)
        remembers(COUNT)


def remembers(x, memo={}):  # noqa: B006  (what is tested)
    memo[x] = x
    remembers.calls = getattr(remembers, "calls", 0) + 1
    return memo


def test_globals_class_attributes_and_function_attributes_are_restored(resume):
    def make():
        global COUNT
        COUNT, STATE["n"] = 0, 0
        Counts.reset()
        remembers.__defaults__ = ({},)
        vars(remembers).clear()
        return Holder(Counts())

    def state():
        return (
            COUNT,
            dict(STATE),
            Counts.seen,
            list(Counts.history),
            dict(remembers.__defaults__[0]),
            vars(remembers).copy(),
        )

    seen = []

    def change(holder):
        holder.value.step()
        holder.value.step()
        seen.append(state())

    assert resume(make, change).lost == []
    assert state() == seen[0] == (2, {"n": 2}, 2, [1, 2], {1: 1, 2: 2}, {"calls": 2})


def closure():
    n, steps = 0, []

    def count(epoch=0, logs=None):
        nonlocal n
        n += 1
        steps.append(n)
        return n

    return count


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda f: f,
        lambda f: functools.partial(f, 3),
        lambda f: functools.partial(functools.partial(f), logs=None),
        lambda f: keras.callbacks.LambdaCallback(on_epoch_end=f),
        lambda f: keras.callbacks.LearningRateScheduler(f),
        lambda f: [{"deep": (f,)}],
    ],
)
def test_closure_variables_are_restored_from_wrapped_functions(resume, wrapped):
    def make():
        function = closure()
        return Holder([function, wrapped(function)])

    found = resume(make, lambda holder: [holder.value[0]() for _ in range(3)])
    assert found.lost == []
    assert found.resumed.value[0]() == 4
    assert found.resumed.value[0].__closure__[1].cell_contents == [1, 2, 3, 4]


def test_object_of_a_bound_method_is_restored(resume):
    def make():
        entry = Entry(0, [])
        return Holder(entry.items.append)

    found = resume(make, lambda holder: holder.value(5))
    assert found.lost == [] or "builtin" in found.lost[0]


class Scheduler:
    def __init__(self):
        self.n = 0

    def __call__(self, epoch, rate):
        self.n += 1
        return rate * 0.9**self.n


def test_a_callable_object_and_its_bound_method_are_restored(resume):
    def make():
        scheduler = Scheduler()
        return Holder([keras.callbacks.LearningRateScheduler(scheduler), scheduler.__call__])

    found = resume(make, lambda holder: [holder.value[1](0, 1.0) for _ in range(2)])
    assert found.lost == []
    assert found.resumed.value[0].schedule.n == 2


# -- generators -------------------------------------------------------------------------------------------------------


def decaying(start):
    rate = start
    while True:
        yield rate
        rate *= 0.9


def ending(values):
    yield from values


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_generator_resumes_at_its_position(resume, steps):
    found = resume(lambda: Holder(decaying(1.0)), lambda holder: [next(holder.value) for _ in range(steps)])
    assert found.lost == []
    assert next(found.resumed.value) == next(found.killed.value)


def test_an_exhausted_generator_stays_exhausted(resume):
    found = resume(lambda: Holder(x for x in [1, 2]), lambda holder: list(holder.value))
    assert found.lost == []
    assert list(found.resumed.value) == []


def test_a_generator_exhausted_before_training_does_not_stop_restoring(resume):
    def make():
        holder = Holder(ending([1]))
        list(holder.value)
        return holder

    assert resume(make, lambda holder: setattr(holder, "late", 1)).resumed.late == 1


def wandering():
    while True:
        yield random.SystemRandom().random()


def test_generator_using_system_randomness_is_moved_or_reported_as_lost(resume):
    def draws():
        while True:
            number = random.SystemRandom().random()
            yield number
            yield -number

    found = resume(lambda: Holder(draws()), lambda holder: [next(holder.value) for _ in range(3)])
    moved = next(found.resumed.value) == next(found.killed.value)
    assert moved or any("root.value" in reason for reason in found.lost)


# -- anything at all --------------------------------------------------------------------------------------------------


def is_no_path(text):
    """Paths that lead elsewhere and program names are rejected; `test_planted_objects.py` covers these."""
    return text[:1] not in ("/", "~", b"/", b"~") and ("." if isinstance(text, str) else b".") not in text


WORDS = st.text(max_size=4).filter(is_no_path) | st.binary(max_size=4).filter(is_no_path)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), WORDS)
HASHABLE = st.recursive(PLAIN, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
ANYTHING = st.recursive(
    HASHABLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.sets(HASHABLE, max_size=3),
        st.tuples(inner, inner),
        st.builds(lambda items: collections.deque(items, 5), st.lists(inner, max_size=3)),
        st.builds(Point, inner, inner),
        st.builds(lambda n, items: Holder(items), st.integers(), inner),
    ),
    max_leaves=12,
)


def bare(thing):
    """Return the values as plain tuples, whose equality distinguishes 1 from True and 1.0."""
    if isinstance(thing, Holder):
        return ("Holder", bare(vars(thing).get("value")))
    if isinstance(thing, dict):
        return ("dict", [(bare(key), bare(value)) for key, value in thing.items()])
    if isinstance(thing, (set, frozenset)):
        return (type(thing).__name__, sorted(map(repr, map(bare, thing))))
    if isinstance(thing, (list, tuple, collections.deque)):
        return (type(thing).__name__, [bare(each) for each in thing])
    return (type(thing).__name__, repr(thing))


@settings(max_examples=80, deadline=None)
@given(ANYTHING, ANYTHING)
def test_any_nested_value_is_restored(resume, before, after):
    found = resume(lambda: Holder(copy.deepcopy(before)), put(after))
    assert found.lost == []
    assert bare(found.resumed.value) == bare(after)


def test_library_database_cache_is_not_restored(resume):
    """A tuner's study continues in its database. Restoring an old cache would hide newer trials."""
    cached = type("_CachedStorage", (), {"__module__": "optuna.storages._cached_storage"})
    in_memory = type("InMemoryStorage", (), {"__module__": "optuna.storages._in_memory"})

    def make():
        holder = Holder(cached())
        holder.value.trials, holder.other = [1], in_memory()
        holder.other.trials = [1]
        return holder

    found = resume(make, lambda holder: (holder.value.trials.append(2), holder.other.trials.append(2)))
    assert found.lost == []
    assert (found.resumed.value.trials, found.resumed.other.trials) == ([1], [1, 2])


class Dropping:
    """Counts steps, and has settings from one of the script's own files."""

    def __init__(self, drop, name="a"):
        self.drop, self.every, self.name, self.began, self.steps = drop, 5, name, time.time(), 0

    def step(self):
        self.steps += 1


def test_a_setting_changed_in_the_script_takes_effect_and_is_reported(resume):
    drops = iter([3.0, 9.0])
    found = resume(lambda: Dropping(next(drops)), Dropping.step)
    assert (found.resumed.drop, found.resumed.every, found.resumed.steps) == (9.0, 5, 1)
    assert found.resumed.began == found.killed.began, "a clock value is no setting"
    assert found.lost == ["root.drop: 3.0 → 9.0"]


def test_trained_value_overrides_the_scripts_edit(resume):
    def change(thing):
        thing.drop, thing.steps = 4.5, 1

    drops = iter([3.0, 9.0])
    found = resume(lambda: Dropping(next(drops)), change)
    assert (found.resumed.drop, found.lost) == (4.5, [])


@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (lambda: np.random.default_rng(7), lambda rng: rng.spawn(1)[0].integers(1 << 30)),
        (lambda: np.random.SeedSequence(7), lambda seeds: seeds.spawn(1)[0].generate_state(1)[0]),
    ],
)
def test_seed_children_continue_in_sequence_after_restoring(resume, make, draw):
    found = resume(lambda: types.SimpleNamespace(of=make()), lambda thing: [draw(thing.of) for _ in range(3)])
    assert found.lost == []
    assert draw(found.resumed.of) == draw(found.killed.of)


def test_a_seed_sequence_that_spawned_other_children_is_reported_as_lost(resume):
    changed = resume(lambda: np.random.SeedSequence(7), lambda seeds: seeds.spawn(2)).changes
    live = np.random.SeedSequence(7)
    live.spawn(3)
    restoration = Restoration(Picture.of([("root", live)]), changes=changed)
    restoration.apply()
    assert [*map(str, restoration.lost)] == ["root (seeds that have spawned other children)"]
