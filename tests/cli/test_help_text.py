"""Each verb's help fits the terminal, and its examples can be pasted."""

from __future__ import annotations

import importlib

import pytest

from oomph import cli
from oomph.cli import output

EXAMPLES = {
    "run": ["oomph run --checkpoint-every 5m train.py --epochs 5"],
    "doctor": ["oomph doctor", "oomph doctor --deep", 'eval "$(oomph doctor --fix-env)"'],
    "explain": [
        "oomph explain train.log",
        "python train.py 2>&1 | oomph explain",
        "oomph explain RUN --decisions",
        "oomph explain train.log --exit-status 137 --kernel-log",
        "oomph explain CUDA_ERROR_ILLEGAL_ADDRESS",
    ],
    "rehearse": ["oomph rehearse --steps 60 train.py --epochs 1", "oomph rehearse --faults kill,oom train.py"],
    "plan": [
        "oomph plan --gpu 'RTX 4090' train.py --epochs 5",
        "oomph plan --gpu 24GiB --batch 32,64,128 --html plan.html train.py",
    ],
    "check": ["oomph check train.py --epochs 5", "oomph check --fit 2 train.py"],
    "watch": ["oomph watch", "oomph watch RUN", "oomph watch --once --json", "oomph watch --serve 9400"],
    "runs": ["oomph runs", "oomph runs prune --older-than 30d", "oomph runs prune --keep 10 --dry-run"],
    "kernel": [
        "oomph kernel install",
        "oomph kernel install --like NAME",
        "oomph kernel list",
        "oomph kernel uninstall",
    ],
    "report": [
        "oomph report",
        "oomph report RUN --out report.html",
        "oomph report RUN RUN --out both.html",
        "oomph report --format md",
        "oomph report --format csv > run.csv",
        "oomph report --serve 8000",
    ],
    "submit": [
        "oomph submit --slurm --workers 4 --gpus 1 --time 8:00:00 --dry-run train.py --epochs 90",
        "oomph submit --kubernetes --workers 4 --image IMAGE --claim SHARED train.py",
    ],
    "completion": [
        'eval "$(oomph completion bash)"',
        'eval "$(oomph completion zsh)"',
        "oomph completion fish > ~/.config/fish/completions/oomph.fish",
    ],
    "demo": ["oomph demo --keep what-the-demo-left"],
}


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("verb", EXAMPLES)
def test_examples_stay_on_one_line_and_other_help_fits_the_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str, width: int
) -> None:
    monkeypatch.setattr(output, "width", lambda: width)
    assert cli.main([verb, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [line.removeprefix("example:").strip() for line in lines]
    for example in EXAMPLES[verb]:
        assert any(f"{command}  ".startswith(f"{example}  ") for command in commands), example
    long = [line for line in lines if len(line) > width and len(line.split()) > 1]  # a word is never broken
    assert [line for line in long if not any(line.endswith(example) for example in EXAMPLES[verb])] == []


def test_every_verb_has_an_example() -> None:
    assert EXAMPLES.keys() == cli.COMMANDS.keys()
    for verb, (module, _) in cli.COMMANDS.items():
        epilog = importlib.import_module(module)._EPILOG
        assert all(example in epilog for example in EXAMPLES[verb])
