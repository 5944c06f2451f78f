"""Containers and arrays of a script are listed with their owners, without running any of its code."""

from __future__ import annotations

import collections
import functools
import itertools
import queue
import sys
import threading
import types
import weakref

import numpy as np
import pytest

from oomph.monitor.code_limits import limits_in
from oomph.monitor.live import counting
from oomph.monitor.live.counting import Counting, _populations
from oomph.monitor.live.holdings import holdings, user_modules

MIB = 1 << 20


@pytest.fixture
def script(tmp_path):
    """Run code as a module of the script, and list its holdings by name."""
    made = []

    def run(code: str, **names):
        module = types.ModuleType("users_script")
        module.__file__ = str(tmp_path / "users_script.py")
        module.__dict__.update(np=np, collections=collections, functools=functools, queue=queue, **names)
        sys.modules["users_script"] = module
        made.append(module)
        exec(compile(code, module.__file__, "exec"), module.__dict__)
        limits = limits_in(code).limits
        return {each.name: each for each in holdings(5.0, limits) if "users_script" in each.name or "." in each.name}

    yield run
    sys.modules.pop("users_script", None)


def test_containers_are_named_by_variable_or_attribute(script):
    found = script(
        "losses = [1.0] * 500\n"
        "class Recorder:\n"
        "    kept = {}\n"
        "    def __init__(self):\n"
        "        self.outputs = [np.ones(1 << 17) for _ in range(8)]\n"
        "recorder = Recorder()\n"
    )
    assert (found["users_script.losses"].kind, found["users_script.losses"].count) == ("list", 500)
    outputs = found["Recorder.outputs"]
    assert (outputs.count, outputs.bytes, outputs.items) == (8, 8 * MIB, "ndarray")
    assert found["Recorder.kept"].kind == "dict"


def test_arrays_queues_caches_and_limits_are_recognised(script):
    found = script(
        "table = np.ones(1 << 18)\n"
        "waiting, limited = queue.Queue(), queue.LifoQueue(maxsize=7)\n"
        "for _ in range(3): waiting.put(np.ones(1 << 17))\n"
        "replay = collections.deque([1, 2], maxlen=10)\n"
        "ring = [None] * 100\n"
        "def push(place, item): ring[place] = item\n"
    )
    assert (found["users_script.table"].kind, found["users_script.table"].bytes) == ("array", 2 * MIB)
    assert (found["Queue.queue"].kind, found["Queue.queue"].bytes) == ("queue", 3 * MIB)
    assert (found["Queue.queue"].limit, found["LifoQueue.queue"].limit) == (None, 7)
    assert found["users_script.replay"].limit == 10
    assert found["users_script.ring"].is_bounded


def test_items_that_itertools_cycle_keeps_are_seen(script):
    found = script(
        "import itertools\n"
        "batches = itertools.cycle(np.ones(1 << 17) for _ in range(20))\n"
        "for _ in range(8): next(batches)\n"
    )
    assert (found["users_script.batches"].kind, found["users_script.batches"].count) == ("cycle", 8)
    assert found["users_script.batches"].bytes >= 8 * MIB


def test_what_several_items_refer_to_is_not_part_of_their_size(script):
    found = script(
        "class Result:\n"
        "    def __init__(self, model, own): self.model, self.own = model, own\n"
        "class Model: pass\n"
        "model = Model()\n"
        "model.weights = np.ones(1 << 20)\n"
        "results = [Result(model, np.ones(1 << 17)) for _ in range(8)]\n"
        "again = [model] * 8\n"
    )
    assert 8 * MIB <= found["users_script.results"].bytes < 9 * MIB
    assert found["users_script.again"].bytes == 0


def test_closures_defaults_and_caches_are_followed():
    module = types.ModuleType("users_script")
    module.__file__ = "/home/me/users_script.py"
    code = (
        "import functools\n"
        "def outer():\n"
        "    seen = [0] * 77\n"
        "    return lambda: seen\n"
        "inner = outer()\n"
        "def note(x, kept=[1] * 33): return kept\n"
        "@functools.lru_cache(maxsize=None)\n"
        "def loaded(number): return bytes(1000 + number)\n"
        "for number in range(20): loaded(number)\n"
    )
    exec(compile(code, module.__file__, "exec"), module.__dict__)
    sys.modules["users_script"] = module
    try:
        found = {each.name: each for each in holdings(5.0, limits_in(code).limits)}
    finally:
        del sys.modules["users_script"]
    assert found["seen (in <lambda>)"].count == 77
    assert found["a default of note"].count == 33
    assert (found["loaded"].kind, found["loaded"].count, found["loaded"].limit) == ("cache", 20, None)
    assert 20_000 < found["loaded"].bytes < 30_000


def test_local_variables_of_all_threads_are_seen(tmp_path):
    path = tmp_path / "threads.py"
    ready, over = threading.Event(), threading.Event()
    names = {"ready": ready, "over": over}
    code = "def work():\n    pending = list(range(321))\n    ready.set()\n    over.wait(10)\n"
    exec(compile(code, str(path), "exec"), names)
    thread = threading.Thread(target=names["work"])
    thread.start()
    ready.wait(10)
    try:
        assert {each.name: each.count for each in holdings(5.0, lambda *_: False)}["pending (in work)"] == 321
    finally:
        over.set()
        thread.join()


def test_walk_neither_keeps_local_variables_alive_nor_changes_what_locals_returned(tmp_path):
    class Large:
        pass

    names = {"holdings": lambda: holdings(5.0, lambda *_: False), "Large": Large, "ref": weakref.ref}
    code = (
        "def keeps():\n"
        "    large = Large()\n"
        "    gone = ref(large)\n"
        "    holdings()\n"
        "    large = None\n"
        "    return gone() is None\n"
        "def settings(rate):\n"
        "    given = locals()\n"
        "    later = 1\n"
        "    holdings()\n"
        "    return sorted(given)\n"
    )
    exec(compile(code, str(tmp_path / "locals.py"), "exec"), names)
    assert names["keeps"]()
    assert names["settings"](0.1) == ["rate"]


def test_code_of_the_script_is_not_run(script):
    found = script(
        "class Loud(list):\n"
        "    def __len__(self): raise RuntimeError('ran')\n"
        "    def __iter__(self): raise RuntimeError('ran')\n"
        "    def __getattr__(self, name): raise RuntimeError('ran')\n"
        "    def __getitem__(self, place): raise RuntimeError('ran')\n"
        "class Odd:\n"
        "    @property\n"
        "    def __dict__(self): raise RuntimeError('ran')\n"
        "    @property\n"
        "    def __class__(self): raise RuntimeError('ran')\n"
        "loud, odd = Loud([1, 2, 3]), Odd()\n"
    )
    assert found["users_script.loud"].count == 3


def test_walk_ends_in_time_however_much_there_is(script):
    found = script(
        "deep = []\nfor _ in range(100_000): deep = [deep, [0] * 9]\nwide = [[number] for number in range(10**5)]\n"
    )
    assert found["users_script.wide"].count == 10**5


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def memory(monkeypatch):
    """Set the resident memory of this process, in MiB. Censuses cost no time, whatever else this process holds."""
    held = [1000.0]
    monkeypatch.setattr(counting, "_COST", 0)
    monkeypatch.setattr(counting, "resident_bytes", lambda: held[0] * MIB)
    return held


def test_census_is_taken_only_while_memory_grows(memory):
    clock = Clock()
    counted = Counting(clock)
    taken = []
    for second in range(120):
        clock.now = float(second)
        memory[0] += 0 if second < 40 else 10 if second < 80 else 0
        if counted.census(second, 1, None) is not None:
            taken.append(second)
    assert taken
    assert 40 < min(taken) < 45
    assert max(taken) < 84


def test_object_that_cannot_be_counted_ends_the_counting_only(memory, monkeypatch):
    clock = Clock()
    counted = Counting(clock)
    monkeypatch.setattr(counting, "containers_of", lambda *_: 1 / 0)
    taken = []
    for second in range(0, 600, 10):
        clock.now, memory[0] = float(second), memory[0] + 50
        taken.append(counted.census(second, 1, None))
    assert taken == [None] * 60


@pytest.fixture
def times(memory, monkeypatch):
    """Return the seconds at which censuses are taken, each costing half a second, while 20 MiB are added a second."""

    def taken_at(free_mib: float, seconds: int = 500, tensor_limit: float | None = None) -> list[int]:
        clock, spent, taken = Clock(), [0.0], []
        monkeypatch.setattr(counting, "_COST", 200)
        monkeypatch.setattr(counting, "available_bytes", lambda: free_mib * MIB)
        monkeypatch.setattr(Counting, "_holdings", lambda self: spent.__setitem__(0, spent[0] + 0.5) or ())
        counted = Counting(clock, lambda: spent[0])
        for second in range(seconds):
            clock.now, memory[0] = float(second), memory[0] + 20
            held = None if tensor_limit is None else second * 20.0 * MIB
            if counted.census(second, 1, held, tensor_limit) is not None:
                taken.append(second)
        return taken

    return taken_at


def test_censuses_take_half_a_percent_of_the_time(times):
    assert [after - before for before, after in itertools.pairwise(times(1e6))] == [100] * 4


@pytest.mark.parametrize(("free_mib", "tensor_limit"), [(1000, None), (1e6, 12_000 * MIB)])
def test_censuses_follow_sooner_if_memory_will_soon_be_gone(times, free_mib, tensor_limit):
    assert len(times(free_mib, 60, tensor_limit)) >= 5


def test_censuses_that_follow_sooner_are_limited_too(times):
    taken = times(100, 2000)
    assert taken[4] <= 20
    assert len(taken) * 0.5 <= 4 + 0.015 * 2000 + 1


def test_growth_of_tensors_counts_too(memory):
    clock = Clock()
    counted = Counting(clock)
    clock.now = 6.0
    assert counted.census(1, 1, 100.0 * MIB) is None
    clock.now = 60.0
    found = counted.census(2, 3, 300.0 * MIB)
    assert found is not None
    assert (found.step, found.epoch, found.tensor_bytes) == (2, 3, 300 * MIB)


@pytest.mark.slow
def test_memory_that_falls_and_rises_again_is_counted_again(memory):
    clock = Clock()
    counted = Counting(clock)
    taken = 0
    for second in range(0, 600, 10):
        clock.now = float(second)
        memory[0] = 1000.0 + 50 * (second // 10 % 6)
        taken += counted.census(second, 1, None) is not None
    assert taken > 20


def test_metaclasses_of_the_script_are_not_asked(script):
    """They may define how their classes are named, hashed and compared."""
    found = script(
        "class Meta(type):\n"
        "    def refuses(cls, *_): raise RuntimeError('do not look at me')\n"
        "    __getattribute__ = __hash__ = __eq__ = __subclasscheck__ = __instancecheck__ = refuses\n"
        "class Odd(metaclass=Meta):\n"
        "    kept = [1.0] * 500\n"
        "odd = Odd()\n"
        "losses = [1.0] * 500\n"
    )
    assert found["users_script.losses"].count == 500
    assert found["Odd.kept"].count == 500
    thread = threading.Thread()
    found = {(each.kind, each.name) for each in _populations(user_modules())}
    assert ("thread", "thread") in found, thread
