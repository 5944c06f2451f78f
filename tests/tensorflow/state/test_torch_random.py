"""PyTorch's random numbers, which order its DataLoader's batches, are restored without importing PyTorch."""

from __future__ import annotations

import json
import sys

import pytest

from oomph.resume.state import training_state

torch = pytest.importorskip("torch", reason="needs PyTorch")


def test_global_torch_generator_resumes_at_its_position():
    torch.manual_seed(3)
    state = json.loads(json.dumps(training_state.random_state()))
    expected = torch.randperm(50).tolist()
    torch.manual_seed(4)
    training_state.restore_random_state(state)
    assert torch.randperm(50).tolist() == expected


def test_nothing_is_saved_or_restored_without_pytorch(monkeypatch):
    state = training_state.random_state()
    monkeypatch.delitem(sys.modules, "torch")
    assert "torch" not in training_state.random_state()
    training_state.restore_random_state(state)
    assert "torch" not in sys.modules
