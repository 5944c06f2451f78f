"""The `oomph plan` command line, with an examiner that responds without TensorFlow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from oomph import cli
from oomph.cli import plan as plan_verb
from oomph.process.isolation.descendants import adopt_orphans

PLANS = str(Path(__file__).parents[1] / "planning")
SCRIPT = f"""
import os, sys
from oomph.inject import hook
from oomph.reach.channel import Channel
from oomph.reach.channel import ReachHandover
sys.path.insert(0, {PLANS!r})
handover = ReachHandover.read()
channel = Channel(handover)
import plans
from oomph.planning.plan import as_document
assert channel.take_turn()
channel.tell(examines="fit", pid=os.getpid(), site="train.py:9")
if "--dies" in sys.argv and handover.arguments.get("probe"):
    channel.tell(progress=os.environ["DOING"])
    os.kill(os.getpid(), 9)
answer = as_document(plans.plan(notes=(repr(dict(handover.arguments)), repr(sys.argv[1:]))))
channel.answer({{}} if "--damaged" in sys.argv else answer)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "no_training.py").write_text("print('prepared')")
    (tmp_path / "lacks.py").write_text("import sys; sys.path[:] = []; sys.modules.clear(); import tensorflow")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "specify the script to plan: oomph plan train.py"),
        (["missing.py"], "no such script: missing.py"),
        (["-m"], "specify the module to plan: oomph plan -m package.train"),
        (["python3", "train.py"], "; to run the program python3: oomph plan -- python3 train.py"),
        (["--gpu", "4099", "train.py"], "unknown GPU '4099' (did you mean GeForce RTX 4090"),
        (["--gpu=A100", "train.py"], "A100 may be A100 40GB or A100 80GB: which one?"),
        (["--gpu", "auto", "train.py"], "--gpu auto found no NVIDIA GPU here"),
        (["--batch", "0", "train.py"], "--batch expects whole numbers above 0, such as 1,8,32, not 0"),
        (["--batch", "1,many", "train.py"], "--batch expects whole numbers above 0"),
        (["--batch", "", "train.py"], "--batch has no value"),
        (["--batch", ",".join(map(str, range(1, 40))), "train.py"], "--batch accepts at most 32 sizes, not 39"),
        (
            ["--policy", "bf16", "train.py"],
            "oomph: --policy expects one of float32, float64, float16, bfloat16, mixed_float16, mixed_bfloat16, not "
            "bf16",
        ),
        (["--fit", "0", "train.py"], "oomph: --fit expects a whole number from 1 to 10000, not 0"),
        (["--fit", "two", "train.py"], "--fit expects a whole number from 1 to 10000, not two"),
        (
            ["--gpu", "-1GiB", "train.py"],
            "oomph: --gpu expects the name of a GPU or an amount of memory above 0, such as 24GiB, not -1GiB",
        ),
        (["--gpu", "0GiB", "train.py"], "--gpu expects the name of a GPU or an amount of memory above 0"),
        (["--gpu", "24", "train.py"], "oomph: 24 is not a GPU name: for an amount of memory, write 24GiB"),
        (["--fit", "99999", "train.py"], "--fit expects a whole number from 1 to 10000, not 99999"),
        (["--html", "nowhere/x.html", "train.py"], "nowhere is not a writable folder"),
        (["--html", ".", "train.py"], "--html expects a file, not ."),
        (["--python", "/nope", "train.py"], "no such Python: /nope"),
        (["--", sys.executable, "-I", "train.py"], "Python's option -I keeps oomph out of the script"),
    ],
)
def test_impossible_plan_is_rejected_with_the_reason(words, said, capsys):
    assert cli.main(["plan", *words]) == 2
    captured = capsys.readouterr()
    assert said in " ".join(captured.err.split())
    assert "usage:" not in captured.err
    assert captured.out == ""


def test_plan_report_and_page_reflect_the_requested_options(capsys, tmp_path):
    words = ["--gpu", "t4", "--batch", "64,8,8", "--policy", "mixed_bfloat16", "--optimizer", "sgd", "--html", "a.html"]
    assert cli.main(["plan", *words, "train.py", "--own", "1"]) == 1  # the batch of 512 does not fit
    said = capsys.readouterr()
    out = " ".join(said.out.split())
    assert "Next: oomph run train.py --own 1" in out
    assert "'batches': [8, 64]" in out
    assert "'policy': 'mixed_bfloat16', 'optimizer': 'sgd'" in out
    assert "'device': {'name': 'Tesla T4', 'memory': 16106127360, 'capability': '7.5'}" in out
    assert "['--own', '1']" in out
    assert "Tesla T4 (15 of 16 GiB, the rest is for error correction)" in said.err
    page = (tmp_path / "a.html").read_text()
    assert page.count("<svg") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "no_training.py", "lacks.py", "a.html"}


def test_plan_option_after_the_script_is_reported(capsys):
    cli.main(["plan", "train.py", "--gpu", "t4"])
    assert "oomph: --gpu comes after the script, so the script gets it" in " ".join(capsys.readouterr().err.split())
    cli.main(["plan", "--gpu", "t4", "train.py", "--batch", "4"])
    assert "comes after" not in capsys.readouterr().err, "often an option of the script's own"


def test_plan_report_and_page_contain_no_secret_keys(capsys, tmp_path):
    words = ["--html", "a.html", "train.py", "--api-key", "sk-Zm9vYmFyYmF6MTIz"]
    assert cli.main(["plan", *words]) == 1
    captured = capsys.readouterr()
    for text in (captured.out, captured.err, (tmp_path / "a.html").read_text()):
        assert "Zm9vYmFyYmF6MTIz" not in text
    assert "oomph run train.py --api-key" in captured.out


def test_plan_json_is_the_only_output_on_stdout(capsys):
    assert cli.main(["plan", "--json", "train.py"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["notes"][0] == "{'batches': [], 'policy': None, 'optimizer': None, 'device': None}"


def test_script_killed_in_a_gpu_step_is_replanned_without_gpu_steps(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOING", "running a few steps on the GPU: 8 samples")
    assert cli.main(["plan", "--json", "--gpu", "T4", "train.py", "--dies"]) == 1
    captured = capfd.readouterr()
    assert "'probe': False" in json.loads(captured.out)["notes"][0]
    said = " ".join(captured.err.split())
    assert "killed by SIGKILL" in said
    assert "while running a few steps on the GPU: 8 samples; planning again without it" in said


def test_script_killed_outside_gpu_steps_is_not_restarted(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOING", "tracing the training step")
    assert cli.main(["plan", "--json", "--gpu", "T4", "train.py", "--dies"]) == 3
    assert "once more" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no_training.py"], "nothing was planned: the script exited without training: it never called Keras' fit"),
        (["train.py", "--damaged"], "the plan of train.py:9 cannot be read: not a plan: KeyError"),
        (["lacks.py"], "No module named 'tensorflow'; "),
    ],
)
def test_unplannable_script_exits_with_3_and_a_reason(capfd, words, said):
    assert cli.main(["plan", "--json", *words]) == 3
    captured = capfd.readouterr()
    assert said in captured.err
    document = json.loads(captured.out)
    assert (document["schema"], document["estimates"]) == (1, [])
    assert said in document["reason"]
    assert "prepared" not in captured.out


def test_plan_summary_matches_the_help():
    assert cli.COMMANDS["plan"][1] == plan_verb.SUMMARY


def test_process_no_longer_adopts_orphans_after_planning(capsys) -> None:
    """Otherwise, orphans of its other children would stay around as zombies."""
    assert cli.main(["plan", "no_training.py"]) == 3
    assert not adopt_orphans(False)
