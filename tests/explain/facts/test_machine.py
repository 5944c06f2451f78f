"""The package manager, and the steps that did not help, are read from the log."""

from __future__ import annotations

import pytest

from oomph.explain.facts.fact import FailedStep, PackageManager
from oomph.explain.facts.machine import Machine


@pytest.mark.parametrize(
    ("line", "manager"),
    [
        ('  File "/home/u/miniconda3/envs/tf/lib/python3.10/site-packages/keras/engine/training.py", line 1', "conda"),
        ('  File "/opt/anaconda/lib/python3.8/site-packages/x.py", line 1', "conda"),
        ("Successfully installed tensorflow-2.15.0", "pip"),
        ('  File "/home/u/.cache/pypoetry/virtualenvs/a/lib/python3.10/x.py", line 1', "poetry"),
    ],
)
def test_package_manager(line: str, manager: PackageManager) -> None:
    machine = Machine()
    machine.see("Epoch 1/3", 1)
    machine.see(line, 2)
    assert [(each.manager, each.line) for each in machine.managers] == [(manager, 2)]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("modprobe: ERROR: could not insert 'nvidia': No such device", "modprobe"),
        ("ERROR: No matching distribution found for tensorflow==1.15", "pip install"),
        ("I already tried batch size 1 and it fails", "smaller batch"),
        ("TF_FORCE_GPU_ALLOW_GROWTH=true python train.py", "memory growth"),
    ],
)
def test_step_that_did_not_help(line: str, step: FailedStep) -> None:
    machine = Machine()
    machine.see(line, 1)
    assert [each.step for each in machine.failed] == [step]


@pytest.mark.parametrize("line", ["batch size 16", "batch_size=128", "sudo modprobe nvidia"])
def test_nothing_failed(line: str) -> None:
    machine = Machine()
    machine.see(line, 1)
    assert not machine.failed
