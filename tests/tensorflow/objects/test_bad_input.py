"""Uncooperative objects: bounded in time and size, never an obstacle, and none of their code runs."""

from __future__ import annotations

import collections
import gc
import itertools
import json
import resource
import threading
import time
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.objects.picture import Changes, Picture, changes_between
from oomph.objects.restoration import Restoration
from oomph.objects.walk import walk


class Holder:
    def __init__(self, value=None):
        self.value, self.counter = value, 0


RAN = []


def refuses(self, *args, **options):
    RAN.append(1)
    raise RuntimeError("do not look at me")


class Attributes:
    n = 0
    __getattr__ = __getattribute__ = __setattr__ = __delattr__ = refuses


class Special:
    __len__ = __iter__ = __repr__ = __str__ = __eq__ = __hash__ = __bool__ = __getitem__ = refuses
    __reduce__ = __reduce_ex__ = __getstate__ = __dir__ = __format__ = __sizeof__ = __array__ = refuses


class Dict(dict):
    items = keys = values = get = __iter__ = __len__ = __getitem__ = __contains__ = __repr__ = refuses


class List(list):
    __iter__ = __len__ = __getitem__ = __repr__ = __eq__ = refuses


class Tuple(tuple):
    __iter__ = __len__ = __getitem__ = __repr__ = __eq__ = __hash__ = refuses


class Number(float):
    __repr__ = __float__ = __eq__ = __hash__ = refuses


class Word(str):
    __repr__ = __str__ = __eq__ = refuses
    __hash__ = str.__hash__


class Property:
    @property
    def slow(self):
        RAN.append(1)
        time.sleep(60)

    value = slow


class Descriptor:
    __get__ = __set__ = refuses


class Described:
    d = Descriptor()


class Lies:
    @property
    def __class__(self):
        RAN.append(1)
        return dict


class Meta(type):
    __getattribute__ = __call__ = __instancecheck__ = __subclasscheck__ = __eq__ = refuses
    __hash__ = type.__hash__


class OfMeta(metaclass=Meta):
    n = 0


class Proxy:
    def __init__(self):
        object.__setattr__(self, "_wrapped", [])

    def __getattr__(self, name):
        RAN.append(1)
        return Proxy()


class Array(np.ndarray):
    __repr__ = __array_finalize__ = __array_ufunc__ = __eq__ = refuses


ODD = {
    "attributes": Attributes,
    "special methods": Special,
    "a dict": lambda: Dict(a=1),
    "a list": lambda: List([1]),
    "a tuple": lambda: Tuple([1, 2]),
    "a number": lambda: Number(2.0),
    "a word": lambda: Word("x"),
    "a property": Property,
    "a descriptor": Described,
    "a class that lies": Lies,
    "a class of a class": lambda: OfMeta,
    "a proxy": Proxy,
    "an exception": lambda: ValueError(Special()),
    "a weak reference": lambda: weakref.ref(Holder),
    "a lock": threading.Lock,
    "a local": threading.local,
    "a thread": threading.Thread,
    "a file": lambda: open(__file__),  # noqa: SIM115
    "a memory": lambda: memoryview(b"abc"),
    "a frame": lambda: __import__("sys")._getframe(),
    "a mapping proxy": lambda: vars(Holder),
    "an event": threading.Event,
    "a weak dict": weakref.WeakKeyDictionary,
    "a chain map": lambda: collections.ChainMap({}),
    "a tee": lambda: itertools.tee([1])[0],
    "a map": lambda: map(str, [1]),
    "a coroutine": lambda: _coroutine(),
    "an object": object,
    "a structured array": lambda: np.zeros(3, "i4,f8"),
    "a record": lambda: np.zeros(3, "i4,f8")[0],
    "dates": lambda: np.zeros(2, "M8[s]"),
    "void": lambda: np.void(b"abc"),
    "a ragged tensor": lambda: tf.ragged.constant([[1], [2, 3]]),
    "a sparse tensor": lambda: tf.sparse.from_dense([[1, 0]]),
    "a symbolic tensor": lambda: keras.Input((3,)),
    "a strategy": tf.distribute.get_strategy,
    "a checkpoint": tf.train.Checkpoint,
    "a tensor array": lambda: tf.TensorArray("float32", 2),
    "an optional": lambda: tf.experimental.Optional.from_value(1),
    "a graph": tf.Graph,
    "a variable of variants": lambda: tf.data.experimental.to_variant(tf.data.Dataset.range(3)),
    "a spec": lambda: tf.TensorSpec([1]),
    "a hash table": lambda: tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0),
}


class _Awaitable:
    def __await__(self):
        yield


def _coroutine():
    async def wait():
        await _Awaitable()

    made = wait()
    made.close()
    return made


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", ODD)
def test_other_attributes_are_restored_despite_an_unusual_object(name):
    RAN.clear()

    def make():
        holder = Holder(ODD[name]())
        holder.also = [holder.value]
        return [("holder", holder)]

    started = time.monotonic()
    first = make()
    before = Picture.of(first)
    before.fingerprint()
    first[0][1].counter, first[0][1].late = 3, [4]
    changes = changes_between(before, Picture.of(first, before))
    assert "holder" in changes.changed
    second = make()
    document = json.loads(json.dumps(changes.to_json()))
    restoration = Restoration(Picture.of(second), Changes.from_json(document, changes.arrays))
    restoration.apply()
    assert (second[0][1].counter, second[0][1].late) == (3, [4])
    assert restoration.lost == []
    assert RAN == [] or name == "a class of a class", "none of its code was run"
    assert time.monotonic() - started < 5


def test_values_are_restored_alongside_a_new_lock():
    """The new process creates its own locks and similar objects along the way."""
    global GLOBAL_LOCK, GLOBAL_COUNT

    def make():
        global GLOBAL_LOCK, GLOBAL_COUNT
        GLOBAL_LOCK, GLOBAL_COUNT = None, 0
        holder = Holder({"count": 0, "lock": None})
        holder.call = closed_over(None)
        return holder

    def change(holder):
        global GLOBAL_LOCK, GLOBAL_COUNT
        GLOBAL_LOCK, GLOBAL_COUNT = threading.Lock(), 5
        holder.value.update(count=5, lock=threading.Lock())
        holder.lock, holder.counter = threading.Lock(), 5
        holder.call.lock, holder.call.count = threading.Lock(), 5

    first = make()
    before = Picture.of([("holder", first), ("uses", uses_globals)])
    change(first)
    changes = changes_between(before, Picture.of([("holder", first), ("uses", uses_globals)], before))
    second = make()
    restoration = Restoration(Picture.of([("holder", second), ("uses", uses_globals)]), changes)
    restoration.apply()
    assert restoration.lost == changes.lost == []
    assert (GLOBAL_COUNT, second.value["count"], second.counter, second.call.count) == (5, 5, 5, 5)
    assert second.value["lock"] is None, "the place that it has in the new process stays as it is there"


GLOBAL_LOCK, GLOBAL_COUNT = None, 0


def uses_globals():
    return GLOBAL_LOCK, GLOBAL_COUNT


def closed_over(lock):
    return lambda: lock


def test_list_containing_a_lock_is_reported_as_lost():
    first, second = Holder([1]), Holder([1])
    before = Picture.of([("holder", first)])
    first.value.extend([threading.Lock(), 2])
    changes = changes_between(before, Picture.of([("holder", first)], before))
    restoration = Restoration(Picture.of([("holder", second)]), changes)
    restoration.apply()
    assert [*map(str, [*changes.lost, *restoration.lost])] == ["holder.value (holds a lock)"]
    assert second.value == [1]


def test_changes_next_to_an_unserializable_value_are_restored():
    def make():
        return Holder({"variant": tf.data.experimental.to_variant(tf.data.Dataset.range(3)), "n": 1})

    first, second = make(), make()
    before = Picture.of([("holder", first)])
    first.value["n"] = 2
    changes = changes_between(before, Picture.of([("holder", first)], before))
    restoration = Restoration(Picture.of([("holder", second)]), changes)
    restoration.apply()
    assert (second.value["n"], changes.lost, restoration.lost) == (2, [], [])
    assert second.value["variant"] is not None


@pytest.mark.parametrize(
    "name", ["special methods", "a lock", "a dict", "a list", "an object", "a map", "a structured array"]
)
def test_unserializable_values_are_reported_by_name(name):
    first = [("holder", Holder())]
    before = Picture.of(first)
    first[0][1].value = ODD[name]()
    changes = changes_between(before, Picture.of(first, before))
    json.dumps(changes.to_json())
    second = [("holder", Holder())]
    restoration = Restoration(Picture.of(second), changes)
    restoration.apply()
    lost = [*map(str, [*changes.lost, *restoration.lost])]
    assert all(reason.startswith("holder") and len(reason) < 300 for reason in lost)


# -- size and time ----------------------------------------------------------------------------------------------------


def looked_at(thing, seconds=1.0):
    """Return the CPU seconds needed to examine something twice, the bytes this leaves behind, and what was seen."""
    gc.collect()
    started, size = time.thread_time(), resident_bytes()
    before = Picture.of([("root", thing)], seconds=seconds)
    now = Picture.of([("root", thing)], before, seconds=seconds)
    changes = changes_between(before, now)
    assert (changes.changed, changes.new) == ({}, {})
    return time.thread_time() - started, resident_bytes() - size, now


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def chain(length):
    first = last = Holder()
    for _ in range(length):
        last.value = last = Holder()
    last.value = None
    return first


def nested(length):
    made = []
    for _ in range(length):
        made = [made]
    return made


@pytest.mark.alone
@pytest.mark.parametrize("make", [chain, nested], ids=["objects", "lists"])
def test_object_chain_of_any_length_takes_bounded_time_and_memory(make):
    spent, left, now = looked_at(make(15_000))
    assert spent < 10
    assert left < 100 << 20
    assert len(now.contents) > 1000
    assert max(map(len, now.contents)) < 500


@pytest.mark.alone
def test_huge_number_of_objects_is_examined_only_in_part():
    spent, left, now = looked_at([Holder(n) for n in range(100_000)])
    assert spent < 10
    assert left < 200 << 20
    assert now.unseen


def test_the_walk_over_objects_stops_at_its_time_limit():
    things = [[[n]] for n in range(15_000)]
    graph = walk([("root", things)], seconds=0.001)
    assert len(graph.nodes) < 15_000
    assert graph.unseen


def test_objects_skipped_at_the_time_limit_are_reported_by_name():
    things = [Holder([n]) for n in range(10_000)]
    before = Picture.of([("root", things)], seconds=60)
    now = Picture.of([("root", things)], before, seconds=0)
    assert any("no time" in str(reason) for reason in changes_between(before, now).lost)


@pytest.mark.alone
@pytest.mark.parametrize(
    "array",
    [
        np.zeros(1 << 33, np.uint8),
        np.broadcast_to(np.float32(1), (1 << 18, 1 << 18)),
        np.lib.stride_tricks.as_strided(np.zeros(8), (1 << 40,), (0,)),
    ],
    ids=["contiguous", "broadcast", "strided"],
)
def test_gigabyte_array_is_neither_read_nor_copied(array):
    spent, left, _ = looked_at(Holder(array), seconds=30)
    assert spent < 10
    assert left < 200 << 20


def test_large_numbers_and_long_strings_are_examined_quickly():
    spent, _, _ = looked_at(Holder([1 << 1_000_000, "x" * (1 << 24), b"x" * (1 << 24)]))
    assert spent < 10


def test_deeply_nested_tuples_are_reported_without_a_stack_overflow():
    def make(end):
        made = (end,)
        for _ in range(5000):
            made = (made,)
        return made

    holder = Holder(make([1]))
    before = Picture.of([("root", holder)])
    holder.counter = 5
    changes = changes_between(before, Picture.of([("root", holder)], before))
    json.dumps(changes.to_json())
    assert changes.changed or changes.lost or before.troubles or before.unseen


# -- threads ----------------------------------------------------------------------------------------------------------


def test_objects_changed_by_another_thread_do_not_break_the_walk():
    busy, over = {"dict": {}, "list": [], "set": set(), "deque": collections.deque(maxlen=50)}, threading.Event()

    def change():
        for n in itertools.count():
            busy["dict"][n % 97, n % 3] = [n]
            busy["dict"].pop(((n + 1) % 97, n % 3), None)
            busy["list"].append([n])
            busy["set"].add((n % 50, n % 7))
            busy["set"].discard(((n + 1) % 50, n % 7))
            busy["deque"].append([n])
            del busy["list"][:-50]
            if over.is_set():
                return

    thread = threading.Thread(target=change)
    thread.start()
    try:
        before = Picture.of([("busy", busy)])
        for _ in range(50):
            now = Picture.of([("busy", busy)], before)
            json.dumps(changes_between(before, now).to_json())
    finally:
        over.set()
        thread.join(60)


# -- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"changed": [], "new": {}, "lost": []},
        {"changed": {"a": ["what", 1]}, "new": {}, "lost": []},
        {"changed": {"a": ["bytes"]}, "new": {}, "lost": []},
        {"changed": {}, "new": {"a": 5}, "lost": []},
        {"changed": {}, "new": {"a": ["list"]}, "lost": []},
        {"changed": {}, "new": {}, "lost": 5},
        {"changed": {"a": ["bytes", "!"]}, "new": {}, "lost": []},
        {"changed": {"a": ["int", "x"]}, "new": {}, "lost": []},
    ],
)
def test_malformed_document_raises_value_error(document):
    with pytest.raises(ValueError, match=r".+"):
        Changes.from_json(document, {})


HOSTILE = [
    ("named", "os:system"),
    ("named", "nowhere:at_all"),
    ("member", "os:environ", "PATH"),
    ("what",),
    ("ref", "nowhere"),
    ("ref", "root (2)"),
    ("large", "0", "float32", (1 << 40,)),
    ("large", "0", "object", (1,)),
    ("dtype", "numpy", "O,,"),
    ("scalar", "O", b"12345678"),
    ("made", "", "iterator", ("eval", ("1",))),
    ("made", "", "nothing", ()),
    ("named tuple", "os:stat_result", 1),
    ("text", "Popen", "x"),
    ("shape", "x"),
    ("date", "date", "x"),
    (),
    ("tuple",),
]


@pytest.mark.parametrize("value", HOSTILE, ids=str)
def test_foreign_checkpoint_can_neither_run_code_nor_break_the_fit(value):
    holder = Holder([1])
    picture = Picture.of([("root", holder)])
    name = picture.contents["root"][0]
    for content in (
        (name, "value", value, "counter", 7),
        value,
        (name, "value"),
        (None, value),
        5,
        None,
        (name, value, value),
    ):
        Restoration(picture, Changes(changed={"root": content, "root.value": content, "gone": content})).apply()
    for tag in (
        "list",
        "dict",
        "instance",
        "generator",
        "function",
        "class",
        "cell",
        "opaque",
        "nothing",
        "variable",
        "array",
    ):
        made = Changes(changed={"root": (name, "value", ("ref", "new"), "counter", 7)}, new={"new": (tag, value)})
        Restoration(picture, made).apply()
    assert isinstance(holder, Holder)
