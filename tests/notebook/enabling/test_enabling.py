"""What enabling says and does before TensorFlow is imported, in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from oomph.notebook import kernel_run
from oomph.notebook.naming import Notebook
from oomph.run.directory.run_directory import FINISHED, RUNNING, read_record

LIMIT = 60


def run(folder, words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OOMPH_")}
    return subprocess.run(
        [sys.executable, "-c", words],
        cwd=folder,
        env=plain | environ | {"IPYTHONDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def test_missing_tensorflow_is_reported_in_one_sentence(tmp_path):
    words = (
        "import importlib.util as util; found = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'tensorflow' else found(name, *rest)\n"
        "import oomph; oomph.enable(); oomph.disable()"
    )
    ended = run(tmp_path, words)
    reason = f"TensorFlow is not installed for {sys.executable}, so there is nothing to guard"
    assert ended.stderr == f"oomph: {reason}: install it, and restart\n"


def test_doctor_answers_in_a_kernel_without_tensorflow(tmp_path):
    words = (
        "import sys; sys.modules.pop('tensorflow', None); import importlib.util as util; found = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'tensorflow' else found(name, *rest)\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(); shell.run_line_magic('load_ext', 'oomph')\n"
        "shell.run_line_magic('oomph', 'doctor'); shell.run_line_magic('unload_ext', 'oomph')\n"
        "print(shell.find_line_magic('oomph'))"
    )
    ended = run(tmp_path, words)
    assert "TensorFlow is not installed for" in ended.stderr, ended.stderr
    assert "checks" in ended.stdout, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == "None"


def test_handover_of_a_guarded_parent_is_hidden_while_enabled(tmp_path):
    """A program that the notebook starts must not become a worker in the notebook's run."""
    words = (
        "import os, oomph; oomph.enable(); print('OOMPH_HANDOVER' in os.environ)\n"
        "oomph.disable(); print(os.environ['OOMPH_HANDOVER'], os.environ['OOMPH_OWNER'])"
    )
    ended = run(tmp_path, words, OOMPH_HANDOVER="{}", OOMPH_OWNER="1")
    assert ended.stdout == "False\n{} 1\n", ended.stderr


def test_fresh_sets_aside_what_a_dead_kernel_left(tmp_path):
    left = kernel_run.begin(Notebook(tmp_path, "python"), "")
    words = "from oomph.notebook import enabling; enabling.enable(); enabling.fresh(); enabling.disable()"
    assert " is in use by " in run(tmp_path, words).stderr
    left.directory.close()
    aside = tmp_path / ".oomph/notebooks/python.1"
    assert run(tmp_path, words).stderr == f"oomph: what earlier kernels left is now in {aside}\n"
    assert aside.is_dir()
    assert run(tmp_path, words).stderr == "oomph: there was nothing to resume\n"


def test_kernel_that_is_shut_down_finishes_its_run(start, tmp_path):
    kernel = start(JPY_SESSION_NAME=str(tmp_path / "lesson.ipynb"))
    kernel.good("%load_ext oomph\nfrom oomph.notebook import enabling; enabling._guard.session()")
    record = read_record(tmp_path / ".oomph/notebooks/lesson")
    assert (record.status, record.attempts) == (RUNNING, 1)
    kernel.shut_down()
    assert read_record(tmp_path / ".oomph/notebooks/lesson").status == FINISHED


def test_enabling_and_disabling_under_oomph_run_keeps_the_environment(tmp_path):
    words = (
        "import os, sys, oomph; from oomph.protocol.handover import Handover; from oomph.script.session import join\n"
        "join(Handover(package='', run_dir=None)); before = dict(os.environ), list(sys.meta_path)\n"
        "oomph.enable(); print(before == (dict(os.environ), sys.meta_path))\n"
        "oomph.disable(); print(before == (dict(os.environ), sys.meta_path))"
    )
    assert run(tmp_path, words).stdout == "True\nTrue\n"


@pytest.mark.parametrize("first", ["oomph", "IPython.extensions.autoreload"])
def test_autoreload_skips_oomphs_modules(tmp_path, first):
    (tmp_path / "theirs.py").write_text("")
    words = (
        f"import {first}\nimport oomph, sys; oomph.enable()\n"
        "from IPython.extensions.autoreload import ModuleReloader; import theirs, oomph.errors\n"
        "looked = ModuleReloader().filename_and_mtime\n"
        "print(looked(oomph.errors), looked(oomph), looked(theirs)[0] is not None)\n"
        "oomph.disable(); print(ModuleReloader().filename_and_mtime(oomph)[0] is not None)"
    )
    ended = run(tmp_path, words)
    assert ended.stdout == "(None, None) (None, None) True\nTrue\n", ended.stderr


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([], True),
        (["%load_ext oomph\nimport numpy"], True),
        (["import random; random.seed(1)\n%load_ext oomph"], False),
        (["1", "%load_ext oomph"], False),
        (["# first\n%pip install oomph", "\n%cd work\n%load_ext oomph\nimport numpy"], True),
        (["import oomph; oomph.enable()"], False),
        (["# %load_ext oomph comes after the seed\nimport random; random.seed(1)", "%load_ext oomph"], False),
    ],
)
def test_shell_counts_as_touched_once_a_cell_may_have_seeded_generators(tmp_path, cells, expected):
    words = (
        "from IPython.core.interactiveshell import InteractiveShell; from oomph.script import shell\n"
        "its = InteractiveShell.instance()\n"
        f"for number, cell in enumerate({cells!r}, 1): its.history_manager.store_inputs(number, cell, cell)\n"
        "print(shell.is_untouched(), shell.is_kernel(), shell.arguments())"
    )
    assert run(tmp_path, words).stdout == f"{expected} False []\n"


def test_process_under_examination_is_not_guarded(tmp_path):
    """A second hook would come before `oomph check`'s, and the notebook would train instead of being examined."""
    words = "import sys, oomph; before = list(sys.meta_path); oomph.enable(); print(sys.meta_path == before)"
    assert run(tmp_path, words, OOMPH_REACH="{}").stdout == "True\n"
    assert not (tmp_path / ".oomph").exists()
