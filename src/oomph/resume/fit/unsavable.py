"""Warns after the first step if the script will later fail to save the whole model."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.journal.events import FindingMade
from oomph.monitor.finding import Finding, as_data, in_words
from oomph.resume.fit.running import RunningFit
from oomph.resume.state import training_state
from oomph.resume.training.saving import cannot_be_saved
from oomph.resume.training.whole_models import saves_ahead


def tell_unsavable(fit: RunningFit) -> None:
    """Warn if the model's configuration cannot be saved. Writes no file and draws no random numbers of the script."""
    for finding in _found(fit):
        fit.fits.note(FindingMade(**as_data(finding)))
        fit.fits.say_once(in_words(finding))


def _found(fit: RunningFit) -> Iterator[Finding]:
    saves = list(saves_ahead(fit.model, fit.callbacks))
    if not saves:
        return
    random = training_state.random_state()
    for save in saves:
        trouble = cannot_be_saved(fit.model, save.path)
        if trouble is not None:
            where = f" ({save.site})" if save.site else ""
            when = "there, after the training" if save.site else "at the end of an epoch"
            yield Finding(
                fault="checkpoint-failure",
                subject=save.by,
                message=f"{save.path}{where} cannot be written, and the script would fail {when}: {trouble}",
                severity="critical",
                remedy=(
                    f"Give {trouble.culprit or 'the class that it names'} a get_config with every argument of "
                    "__init__, or save the weights only (save_weights_only=True, save_weights)"
                ),
                kind=save.path,
            )
    if training_state.random_state() != random:  # the user's own get_config has drawn some
        training_state.restore_random_state(random)
