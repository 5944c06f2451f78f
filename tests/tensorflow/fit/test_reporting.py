"""What a fit is announced as before its first step."""

from __future__ import annotations

import os
import types

import pytest

from oomph.exact_step.micro_batch.exactness import APPROXIMATE, EXACT, RESTART_ONLY, TO_BE_PROBED, Promise
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.journal.journal import Journal
from oomph.protocol.handover import Handover
from oomph.resume.fit.reporting import announced, tell_start
from oomph.resume.training.fits import Fits
from oomph.script.pulse import Pulse
from oomph.script.session import Session


@pytest.mark.parametrize(
    ("kind", "is_split", "words"),
    [
        (APPROXIMATE, False, "exact until a batch must be split, then approximate: BatchNormalization"),
        (APPROXIMATE, True, "approximate: BatchNormalization"),
        (EXACT, False, "exact: BatchNormalization"),
        (RESTART_ONLY, False, "restart only: BatchNormalization"),
    ],
)
def test_a_fit_is_not_called_approximate_before_a_batch_is_split(kind, is_split, words):
    assert announced(Promise(kind, "BatchNormalization"), is_split) == words


class Unheld(GuardedStep):
    """A step that holds nothing back."""

    held_bytes = 0
    micro_batch = None

    def __init__(self) -> None:
        pass


@pytest.fixture
def told(monkeypatch):
    """What is said at the start of a fit."""
    handover, journal, pulse = Handover(package="", run_dir=None), Journal(None, 1, "script"), Pulse()
    fits = Fits(Session(handover, journal, True, "script", os.getpid(), None, None, pulse))
    said = []
    monkeypatch.setattr(fits, "say", said.append)

    def tell(site="train.py:1", promise=Promise(EXACT), step=None):  # noqa: B008
        said.clear()
        identity = types.SimpleNamespace(ordinal=0, key="k", site=site, fingerprint="f")
        model = types.SimpleNamespace(jit_compile=False, _flatten_layers=lambda **_: [])
        tell_start(
            types.SimpleNamespace(fits=fits, identity=identity, promise=promise, arguments={}, epoch=0, model=model),
            step,
        )
        return [*said]

    return tell


def test_lack_of_memory_to_hold_back_an_update_is_reported(told):
    _, held = told(step=Unheld())
    assert held.startswith("too little of the device's memory is free to hold back the update of a step: ")


def test_only_the_first_five_fits_and_differently_guarded_ones_are_announced(told):
    sites = [f"train.py:{number}" for number in range(8)]
    usual = Promise(TO_BE_PROBED, "custom loss huber")
    assert [told(site, usual) for site in sites[:5]] == [
        [f"guarding fit at {site} (probed before a batch is divided: custom loss huber)"] for site in sites[:5]
    ]
    more = ["guarding more fits in these ways; only a fit that is guarded otherwise gets a line"]
    assert [told(site, usual) for site in sites] == [[]] * 5 + [more, [], []]
    (other,) = told("train.py:9", Promise(RESTART_ONLY, "custom make_train_function"))
    assert other == "guarding fit at train.py:9 (restart only: custom make_train_function)"
