"""Scripts that cannot be examined: what is reported, and that nothing of them remains. Without TensorFlow."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

NATIVE = b"I0000 00:00:1795269674.182208 7 cpu_feature_guard.cc:227] This TensorFlow binary is optimized\n"


def wait_for(look, seconds=30):
    until = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (
            "print('no training here')",
            "no training",
            "the script exited without training: it never called Keras' fit, train_on_batch",
        ),
        (
            "import sys; sys.exit()",
            "no training",
            "the script exited without training: it never called Keras' fit, train_on_batch",
        ),
        (
            "import sys; sys.exit('no data')",
            "failed",
            "ended with exit code 1 before its first training call; its last line was: no data",
        ),
        ("raise KeyError('label')", "failed", "with exit code 1 before its first training call: KeyError: 'label'"),
        ("import os; os.abort()", "failed", "the script was killed by SIGABRT before its first training call"),
        ("import sys; sys.exit(3)", "failed", "the script ended with exit code 3 before its first training call"),
        (
            "print('ready')\nimport sys; sys.exit(3)",
            "failed",
            "the script ended with exit code 3 before its first training call",
        ),
        (
            "import argparse\nargparse.ArgumentParser(prog='train.py').parse_args(['--data'])",
            "failed",
            "ended with exit code 2 before its first training call: train.py: error: unrecognized arguments: --data",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            "failed",
            "the script was killed by SIGKILL before its first training call, as happens when the machine runs out of "
            "memory: if so, use a machine with more memory",
        ),
        (
            "raise MemoryError('Unable to allocate 44.7 GiB')",
            "failed",
            "the script ran out of this machine's memory before its first training call: Unable to allocate 44.7 GiB; "
            "use a machine with more memory",
        ),
        (
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(50)",
            "no training",
            "the script exited without training",
        ),
    ],
)
def test_script_that_exits_before_training_is_reported_with_the_reason(scripts, text, kind, reason):
    outcome = scripts.reach(text)
    assert outcome.kind == kind
    assert reason in outcome.reason
    assert "ready" not in outcome.reason  # the last line that it prints is not a reason


def test_native_log_lines_are_shown_only_after_a_possible_crash(scripts):
    text = f"import os\nos.write(2, {NATIVE!r})\nprint('own line', flush=True)\n"
    assert scripts.reach(text).stderr == "own line\n"
    failed = scripts.reach(text + "raise ValueError(1)").stderr
    assert failed.startswith("own line\nTraceback")
    assert failed.endswith("ValueError: 1\n")
    assert scripts.reach(text + "os.abort()").stderr.endswith(NATIVE.decode())
    killed = scripts.reach(text + "os.kill(os.getpid(), 9)")
    assert killed.stderr == "own line\n"
    assert "cpu_feature_guard" not in killed.reason


def test_script_reads_standard_input_and_may_prompt_without_a_newline(scripts):
    outcome = scripts.reach("name = input('1 or 2? ')\nraise ValueError(name)", stdin="the answer\n")
    assert outcome.reason.endswith("ValueError: the answer")
    assert outcome.stderr.startswith("1 or 2? Traceback")
    assert scripts.reach("print('no newline', end='')").stderr == "no newline\n"


def test_modules_and_commands_start_as_under_oomph_run(scripts):
    module = scripts.reach("import sys\nraise ValueError(__package__, sys.argv[1:])", "-m", "train", "--a")
    assert module.reason.endswith("ValueError: ('', ['--a'])")
    command = scripts.reach(
        "import os\nraise ValueError(os.environ['A'])", "--", "env", "A=here", sys.executable, "train.py"
    )
    assert command.reason.endswith("ValueError: here")
    without = scripts.reach("", "--", "true")
    assert without.reason == "the script did not start a Python process that oomph could join"


@pytest.mark.parametrize(
    ("module", "owner", "method", "what"),
    [
        ("tf_keras.src.engine.training", "Model", "make_train_function", "Keras 2"),
        ("keras.src.backend.torch.trainer", "TorchTrainer", "make_train_function", "Keras on PyTorch"),
        ("tensorflow.python.training.optimizer", "Optimizer", "apply_gradients", "a TensorFlow 1 optimizer"),
    ],
)
def test_training_that_cannot_be_examined_is_stopped_at_its_first_step(scripts, module, owner, method, what):
    outcome = scripts.reach(
        f"""
        import pathlib, sys
        path = pathlib.Path("site-packages", *{module.split(".")!r}).with_suffix(".py")
        path.parent.mkdir(parents=True)
        path.write_text("class {owner}:\\n    def {method}(self): open('trained', 'w')\\n")
        for folder in path.relative_to("site-packages").parents[:-1]:
            pathlib.Path("site-packages", folder, "__init__.py").touch()
        sys.path.insert(0, "site-packages")
        from {module} import {owner}
        {owner}().{method}()
        """
    )
    assert outcome.kind == "unsupported"
    assert outcome.reason.startswith(f"train.py:10 trains with {what}, which oomph cannot examine: use ")
    assert outcome.files == {"site-packages"}


def test_python_that_cannot_load_oomph_does_not_train(scripts):
    outcome = scripts.reach(
        """
        import os, subprocess, sys
        os.environ["OOMPH_REACH"] = "damaged"
        sys.exit(subprocess.run([sys.executable, "-c", "import json, keras; open('trained', 'w')"]).returncode)
        """
    )
    assert outcome.files == set()
    assert outcome.reason.endswith(
        "oomph: keras cannot be examined in this Python: RuntimeError: the handover is damaged"
    )


HANGS = """
import os, signal, subprocess, sys, time
for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(signum, lambda *args: None)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
open("started", "a").close()
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
"""


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signal_stops_a_hanging_script_that_ignores_it(scripts, signum, code):
    begun = scripts.start(HANGS)
    wait_for((begun.folder / "started").exists)
    begun.process.send_signal(signum)
    assert begun.process.wait(20) == code
    assert begun.left() == []


def test_script_does_not_outlive_its_killed_parent(scripts):
    begun = scripts.start(HANGS.replace("os.setsid()", "pass").replace("start_new_session=True", ""))
    wait_for((begun.folder / "started").exists)
    begun.process.kill()
    wait_for(lambda: not begun.left(), 10)


def test_interrupting_the_script_also_interrupts_the_plan(scripts):
    begun = scripts.start("import os, signal\nos.kill(os.getpid(), signal.SIGINT)")
    assert begun.process.wait(20) == -signal.SIGINT
    assert begun.left() == []


def test_script_that_exceeds_its_time_limit_is_stopped(scripts):
    outcome = scripts.reach(HANGS, limit_seconds=1.0)
    assert outcome.kind == "limit"
    assert outcome.reason == "the script did not reach its first training call in time"


def test_plan_started_inside_a_run_does_not_join_that_run(scripts, monkeypatch, tmp_path):
    monkeypatch.setenv("OOMPH_HANDOVER", "{}")
    text = (
        "import os; raise ValueError([name for name in os.environ if name.startswith('OOMPH_') and 'TEST' not in name])"
    )
    assert scripts.reach(text).reason.endswith("ValueError: ['OOMPH_REACH']")
    assert not Path(tmp_path, ".oomph").exists()
    assert os.environ["OOMPH_HANDOVER"]


@pytest.mark.parametrize("how", ["[sys.executable, '-I', '-c', CHILD]", "[sys.executable, '-c', CHILD], env={}"])
def test_python_with_tensorflow_but_without_oomph_is_stopped_and_reported(scripts, how):
    outcome = scripts.reach(
        f"""
        import subprocess, sys
        with open("libtensorflow_framework.so.2", "wb") as file:
            file.write(bytes(4096))
        LOADS = "import mmap, time; f = open('libtensorflow_framework.so.2', 'r+b'); m = mmap.mmap(f.fileno(), 0); "
        CHILD = LOADS + "time.sleep(30); open('trained', 'w')"
        subprocess.run({how})
        """
    )
    assert outcome.kind == "unsupported"
    assert " uses TensorFlow where oomph cannot stop training, and was killed: start it with" in outcome.reason
    assert outcome.files == {"libtensorflow_framework.so.2"}


def test_forks_and_children_joined_by_oomph_are_left_alone(scripts):
    outcome = scripts.reach(
        """
        import mmap, os, subprocess, sys, time
        with open("libtensorflow_framework.so.2", "wb") as file:
            file.write(bytes(4096))
        LOADS = "import mmap, time; f = open('libtensorflow_framework.so.2', 'r+b'); m = mmap.mmap(f.fileno(), 0); "
        exec(LOADS)
        if os.fork() == 0:
            os.closerange(3, 100)
            time.sleep(1.5)
            os._exit(0)
        subprocess.run([sys.executable, "-c", LOADS + "time.sleep(1.5)"], close_fds=True)
        os.wait()
        raise ValueError("done")
        """
    )
    assert outcome.reason.endswith("ValueError: done")


def test_self_respawning_processes_do_not_outlive_the_script(scripts):
    outcome = scripts.reach(
        """
        import os, time
        for _ in range(6):
            if os.fork() == 0:
                until = time.monotonic() + 20
                while time.monotonic() < until:
                    if os.fork() != 0:
                        os._exit(0)
                    os.setsid()
                os._exit(0)
        time.sleep(0.5)
        raise ValueError("done")
        """
    )
    assert outcome.reason.endswith("ValueError: done")  # `finish` has checked for leftovers
