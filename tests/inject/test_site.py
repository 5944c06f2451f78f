"""The sitecustomize that runs before the script: the script cannot notice it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import oomph
from oomph.protocol.handover import VARIABLE

_LOOK = """
import json, sys
print(json.dumps({"path": sys.path, "argv": sys.argv, "name": __name__, "file": __file__,
                  "meta": [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path],
                  "site": getattr(sys.modules.get("sitecustomize"), "__file__", None)}))
"""


def test_script_sees_its_usual_path_and_main_module(start):
    ours, plain = (json.loads(start(_LOOK, injected=injected).stdout) for injected in (True, False))
    assert ours["meta"] == ["AwaitingFinder", *plain["meta"]]
    assert [entry for entry in ours["path"] if "inject" in entry] == []
    assert ours["path"] == plain["path"]
    assert (ours["name"], ours["site"]) == (plain["name"], plain["site"])


def test_script_path_does_not_expose_oomph(start):
    probe = "import sys; del sys.modules['oomph']\ntry: import oomph\nexcept ImportError: print('none')\n"
    if start(probe.replace("del sys.modules['oomph']", "pass"), injected=False).stdout == "none\n":
        assert start(probe).stdout == "none\n"


def test_script_environment_reads_are_recorded(start):
    look = """
    import json, os
    os.environ.get("RATE"), os.getenv("EPOCHS")
    from oomph.script.environment_read import read_by_script
    print(json.dumps(sorted(read_by_script())))
    """
    assert json.loads(start(look, RATE="1").stdout) == ["EPOCHS", "RATE"]


def test_user_sitecustomize_runs_and_is_in_sys_modules(start, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys; sys.own = 'ran'\n")
    result = start(
        "import sys, sitecustomize; print(sys.own, sitecustomize.__file__)", PYTHONPATH=str(tmp_path / "own")
    )
    assert result.stdout == f"ran {tmp_path / 'own' / 'sitecustomize.py'}\n"


def test_broken_user_sitecustomize_fails_just_as_it_does_without_oomph(start, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("raise RuntimeError('theirs')\n")
    ours, plain = (
        start("print('on')", injected=injected, PYTHONPATH=str(tmp_path / "own")) for injected in (True, False)
    )
    assert "theirs" in plain.stderr
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)


def test_oomph_is_not_loaded_without_a_handover(tmp_path):
    site = Path(oomph.__file__).parent / "inject" / "site"
    environ = {k: v for k, v in os.environ.items() if k != VARIABLE} | {"PYTHONPATH": str(site)}
    code = "import sys; print('oomph' in sys.modules, any('inject' in p for p in sys.path))"
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60)
    assert (result.stdout, result.stderr) == ("False False\n", "")


def test_script_runs_unchanged_with_an_unreadable_handover(tmp_path):
    site = Path(oomph.__file__).parent / "inject" / "site"
    for text in ("{", "[]", '{"unknown": 1}', "3"):
        environ = dict(os.environ, PYTHONPATH=str(site), **{VARIABLE: text})
        result = subprocess.run(
            [sys.executable, "-c", "print('on')"], env=environ, capture_output=True, text=True, timeout=60
        )
        assert (result.stdout, result.stderr, result.returncode) == ("on\n", "", 0)


def test_broken_oomph_leaves_the_script_unguarded_with_one_message(tmp_path):
    package = tmp_path / "oomph"
    site = package / "inject" / "site"
    shutil.copytree(Path(oomph.__file__).parent / "inject" / "site", site)
    (package / "__init__.py").write_text("raise RuntimeError('broken')\n")
    environ = dict(os.environ, PYTHONPATH=str(site), **{VARIABLE: "{}"})
    result = subprocess.run(
        [sys.executable, "-c", "print('on')"], env=environ, capture_output=True, text=True, timeout=60
    )
    assert result.stdout == "on\n"
    assert result.stderr == "oomph: RuntimeError: broken; the script runs unguarded\n"


def test_script_runs_unchanged_without_its_run_directory(start, run_dir):
    shutil.rmtree(run_dir)
    run_dir.write_text("a file")
    result = start("print('on')")
    assert (result.stdout, result.stderr, result.returncode) == ("on\n", "", 0)


def test_isolated_python_runs_without_oomph(start):
    for flag in ("-I", "-E", "-S"):
        result = start("import sys; print('oomph' in sys.modules)", flag)
        assert result.stdout == ("False\n" if flag != "-S" else result.stdout)
        assert result.returncode == 0


def test_startup_in_the_script_does_not_import_heavy_modules(start):
    result = start("import sys; print(*sys.modules)")
    loaded = set(result.stdout.split())
    heavy = ("tensorflow", "keras", "numpy", "importlib.metadata", "asyncio", "subprocess", "logging", "psutil")
    assert not loaded & set(heavy)


def test_sitecustomize_uses_only_syntax_that_old_pythons_support():
    source = (Path(oomph.__file__).parent / "inject" / "site" / "sitecustomize.py").read_text()
    assert "version_info >= (3, 10)" in source
    for modern in (' f"', " match ", ":=", "->  None", "from __future__"):
        assert modern not in source


def _interrupted_while_oomph_starts(folder: Path, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """`before` determines how the parent handles SIGINT before it becomes the script's Python."""
    package = folder / "oomph"
    site = package / "inject" / "site"
    shutil.copytree(Path(oomph.__file__).parent / "inject" / "site", site)
    (package / "__init__.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)\n")
    (package / "inject" / "__init__.py").write_text("")
    (package / "inject" / "bootstrap.py").write_text("def start(): pass\n")
    environ = dict(os.environ, PYTHONPATH=str(site), **{VARIABLE: "{}"})
    launch = f"import os, signal, sys; {before}; os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])"
    return subprocess.run([sys.executable, "-E", "-c", launch], env=environ, capture_output=True, text=True, timeout=60)


def test_interrupt_during_startup_kills_the_script_silently_with_sigint(tmp_path):
    ended = _interrupted_while_oomph_starts(tmp_path)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", -signal.SIGINT)


@pytest.mark.parametrize(
    "before",
    ["signal.signal(signal.SIGINT, signal.SIG_IGN)", "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])"],
    ids=["ignored", "blocked"],
)
def test_interrupt_blocked_by_the_parent_stays_blocked(tmp_path, before):
    ended = _interrupted_while_oomph_starts(tmp_path, before)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("1\n", "", 0)


def test_script_signal_handling_matches_plain_python(start):
    look = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGINT))"
    assert start(look).stdout == start(look, injected=False).stdout
