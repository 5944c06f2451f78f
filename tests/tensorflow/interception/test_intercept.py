"""The start of a guarded fit: whatever goes wrong there, nothing is left behind."""

from __future__ import annotations

import inspect
import os
import signal

import keras
import pytest
from keras.src.backend.tensorflow import trainer

from oomph.hooks import intercept
from oomph.journal.journal import Journal
from oomph.protocol.handover import Handover
from oomph.protocol.progress import Phase, unpack
from oomph.resume.training.fits import Fits
from oomph.script.pulse import Pulse
from oomph.script.session import Session


@pytest.fixture
def beats():
    read_fd, write_fd = os.pipe()
    yield read_fd, write_fd
    os.close(read_fd)
    os.close(write_fd)


@pytest.mark.parametrize(("error", "raised"), [(ValueError("ours"), False), (SystemExit(93), True)])
def test_fit_that_fails_to_start_leaves_no_handler_or_callback_behind(small_model, monkeypatch, beats, error, raised):
    """A phase without steps would look like a hang, and a handler nobody checks would swallow SIGTERM."""

    def fail(fits, fit):
        raise error

    monkeypatch.setattr(intercept.continuation, "settle", fail)
    session = Session(
        Handover(package="", run_dir=None), Journal(None, 1, "script"), True, "script", os.getpid(), None, None,
        Pulse(beats[1]),
    )  # fmt: skip
    fits, model = Fits(session), small_model()
    both = keras.callbacks.CallbackList([keras.callbacks.Callback()], model=model)
    own = list(both.callbacks)
    arguments = {"x": [[1.0]], "callbacks": both}
    signature = inspect.signature(inspect.unwrap(trainer.TensorFlowTrainer.fit))
    before = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGUSR1)]
    try:
        if raised:
            with pytest.raises(SystemExit):
                intercept._begin(fits, model, signature, (), arguments)
        else:
            assert intercept._begin(fits, model, signature, (), arguments) is None
        assert signal.getsignal(signal.SIGTERM) == before[0]
    finally:
        for signum, handler in zip((signal.SIGTERM, signal.SIGUSR1), before, strict=True):
            signal.signal(signum, handler)
    assert fits.running is None
    assert both.callbacks == own
    assert [beat.phase for beat in unpack(os.read(beats[0], 4096))][-1] is Phase.OWN_CODE
