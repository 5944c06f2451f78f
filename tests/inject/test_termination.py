"""SIGTERM is left to the script, also after a strategy has replaced its handler in C, as TensorFlow's does."""

from __future__ import annotations

import signal

import pytest

_STRATEGY = """
import ctypes

class CollectiveAllReduceStrategy:
    def __init__(self, options=None):
        self.options = options
        ctypes.CDLL(None).signal(15, ctypes.c_void_p(1))  # SIG_IGN, unseen by Python
"""
_MODULE = "tensorflow.python.distribute.collective_all_reduce_strategy"
_SCRIPT = f"""
import os, signal, threading, time
from {_MODULE} import CollectiveAllReduceStrategy
{{before}}
assert CollectiveAllReduceStrategy(options=3).options == 3
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.2)
print("survived")
"""


@pytest.fixture
def packages(tmp_path):
    path = (tmp_path / "site-packages").joinpath(*_MODULE.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    for folder in path.relative_to(tmp_path / "site-packages").parents[:-1]:
        (tmp_path / "site-packages" / folder / "__init__.py").touch()
    path.write_text(_STRATEGY)
    return str(tmp_path / "site-packages")


def test_sigterm_ends_a_script_that_does_not_handle_it(start, packages):
    ended = start(_SCRIPT.format(before=""), PYTHONPATH=packages)
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "")


def test_handler_of_the_script_receives_sigterm(start, packages):
    before = "signal.signal(signal.SIGTERM, lambda *_: print('received'))"
    ended = start(_SCRIPT.format(before=before), PYTHONPATH=packages)
    assert (ended.returncode, ended.stdout) == (0, "received\nsurvived\n"), ended.stderr


def test_sigterm_that_the_script_ignores_stays_ignored(start, packages):
    ended = start(_SCRIPT.format(before="signal.signal(signal.SIGTERM, signal.SIG_IGN)"), PYTHONPATH=packages)
    assert (ended.returncode, ended.stdout) == (0, "survived\n")


def test_strategy_made_in_another_thread_is_left_alone(start, packages):
    script = _SCRIPT.replace(
        "assert CollectiveAllReduceStrategy(options=3).options == 3",
        "made = threading.Thread(target=CollectiveAllReduceStrategy); made.start(); made.join()",
    )
    ended = start(script.format(before=""), PYTHONPATH=packages)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "survived\n", "")
