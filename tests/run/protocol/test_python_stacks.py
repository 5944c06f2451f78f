"""Stacks of real, stalled processes are read, and the blocking line is reported."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from oomph.protocol.python_stacks import (
    blocking_line,
    crashed_at,
    parse,
    stands_in,
    stands_in_machinery,
    waits_for_an_answer,
    waits_for_the_script,
)
from oomph.script.loop_location import enclosing_loops

OURS = "/nowhere/oomph"


def dump_of(tmp_path: Path, text: str, *arguments: str) -> str:
    """Return what faulthandler prints for a script that is stuck after a tenth of a second."""
    script = tmp_path / "train.py"
    head = "import faulthandler, sys\nfaulthandler.dump_traceback_later(0.3, exit=True, file=sys.stdout)\n"
    script.write_text(head + textwrap.dedent(text))
    unanswered, kept_open = os.pipe()
    try:
        found = subprocess.run(
            [sys.executable, str(script), *arguments], stdin=unanswered, capture_output=True, text=True, timeout=30
        )
    finally:
        os.close(unanswered)
        os.close(kept_open)
    return found.stdout.partition("Timeout")[2].partition("\n")[2]


def test_innermost_script_line_is_reported_with_the_call_it_waits_in(tmp_path: Path) -> None:
    threads = parse(
        dump_of(
            tmp_path,
            """
            import queue
            def fetch():
                queue.Queue().get()
            fetch()
            """,
        )
    )
    line = blocking_line(threads, OURS)
    assert line.startswith("train.py:6 in fetch (")
    assert "threading.py" in line or "queue.py" in line


def test_blocking_script_thread_is_blamed(tmp_path: Path) -> None:
    threads = parse(
        dump_of(
            tmp_path,
            """
            import threading, time
            def feeds_nothing():
                lock = threading.Lock(); lock.acquire(); lock.acquire()
            thread = threading.Thread(target=feeds_nothing, daemon=True)
            thread.start()
            thread.join()
            """,
        )
    )
    assert blocking_line(threads, OURS) == "train.py:6 in feeds_nothing, while train.py:9 in <module> waits"


_LOOP = """
def step():
    import time
    time.sleep(50)
def train():
    for epoch in range(3):
        for batch in range(4):
            step()
    step()
if len(sys.argv) > 1:
    train()
else:
    step()
"""


def test_stack_inside_a_loop_is_distinguished_from_one_outside(tmp_path: Path) -> None:
    script = str(tmp_path / "train.py")
    inside, outside = parse(dump_of(tmp_path, _LOOP, "train")), parse(dump_of(tmp_path, _LOOP))
    assert stands_in(inside, [(script, 8, 10)])
    assert not stands_in(outside, [(script, 8, 10)])


def test_enclosing_loop_lines_are_found_in_the_source(tmp_path: Path) -> None:
    path = tmp_path / "loops.py"
    path.write_text(
        "def inner(take):\n    return take()\n"
        "def train(take):\n    for epoch in range(1):\n        for batch in range(1):\n"
        "            found = inner(take)\n"
        "    return found\n"
        "def single(take):\n    return inner(take)\n"
    )
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)

    def of_this_file(function: str) -> list:
        found = names[function](lambda: enclosing_loops(sys._getframe(1)))
        return [lines for lines in found if lines[0] == str(path)]

    assert of_this_file("train") == [(str(path), 4, 6)]
    assert of_this_file("single") == []


KERAS = """Thread 0x00007f5fb5ffb6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f66bc4c9b80 (most recent call first):
  File "/env/lib/python3.11/site-packages/tensorflow/python/data/ops/iterator_ops.py", line 826 in __next__
  File "/env/lib/python3.11/site-packages/keras/src/trainers/trainer.py", line 371 in fit
  File "/home/user/train.py", line 60 in <module>
"""


def test_main_thread_inside_tensorflow_blames_the_script_code() -> None:
    threads = parse(KERAS)
    assert stands_in_machinery(threads)
    assert waits_for_the_script(threads, OURS)
    assert blocking_line(threads, OURS) == "train.py:60 in <module> (iterator_ops.py:826 in __next__)"
    serving = KERAS.replace("tensorflow/python/data/ops/iterator_ops.py", "tensorflow/python/training/server_lib.py")
    assert not stands_in_machinery(parse(serving))


@pytest.mark.parametrize("text", ["", "no stacks at all", "Current thread 0x1 (most recent call first):\n"])
def test_nothing_is_claimed_without_stacks(text: str) -> None:
    threads = parse(text)
    assert blocking_line(threads, OURS) == ""
    assert not stands_in_machinery(threads)
    assert not waits_for_the_script(threads, OURS)
    assert not stands_in(threads, [("train.py", 1, 9)])


_SPIED = """\
Process 23629: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 23629 (idle): "MainThread"
    Net.step.<locals>.<lambda> (/home/me/my code/train.py:5)
    fit (/usr/lib/python3/dist-packages/keras/src/trainers/trainer.py:117)
    <module> (/home/me/my code/train.py:7)
Thread 23631 (active+gil): "feeder x"
    wait (/usr/lib/python3.11/threading.py:982)
Process 23700: python worker.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 23700 (idle): "MainThread"
    <module> (/home/me/worker.py:1)
"""


def test_py_spy_stacks_are_read_without_other_processes() -> None:
    threads = parse(_SPIED)
    assert len(threads) == 2
    assert blocking_line(threads, OURS) == "train.py:5 in <lambda>"
    assert stands_in_machinery(threads)
    assert stands_in(threads, [("/home/me/my code/train.py", 4, 5)])


def test_faulthandler_stacks_are_preferred_to_py_spy() -> None:
    ours = 'Current thread 0x00007f0c2c9fd6c0 (most recent call first):\n  File "/home/me/a.py", line 3 in wait\n'
    assert blocking_line(parse(ours + _SPIED), OURS) == "a.py:3 in wait"


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("def on_epoch_end():\n    return input('go on? ')\non_epoch_end()", True),
        ("def on_epoch_end():\n    breakpoint()\n    return 1\non_epoch_end()", True),
        ("import queue\ndef on_epoch_end():\n    queue.Queue().get()\non_epoch_end()", False),
        ("import time\ndef input():\n    time.sleep(9)\ninput()", False),
    ],
    ids=["input", "debugger", "queue", "own function"],
)
def test_waiting_for_an_answer_differs_from_waiting_for_a_queue(tmp_path: Path, text: str, waits: bool) -> None:
    threads = parse(dump_of(tmp_path, text))
    assert threads[-1].own_frame(OURS) is not None
    assert waits_for_an_answer(threads, OURS) is waits


def test_no_answer_is_awaited_without_stacks() -> None:
    assert not waits_for_an_answer((), OURS)


ON_REQUEST = 'Current thread 0x1 (most recent call first):\n  File "train.py", line 3 in step\n'


def test_place_of_a_crash_is_that_of_the_thread_that_crashed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import ctypes, faulthandler\nfaulthandler.enable()\ndef step():\n    ctypes.string_at(0)\nstep()"
    )
    crashed = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30).stderr
    assert crashed_at(ON_REQUEST + crashed).endswith(" in string_at")


def test_stacks_on_request_show_no_crash() -> None:
    assert crashed_at(ON_REQUEST) == crashed_at("") == ""


def test_script_that_came_through_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")
    text = f'Current thread 0x1 (most recent call first):\n  File "{tmp_path}/train.py", line 3 in step\n'
    assert not waits_for_an_answer(parse(text), OURS)
