"""A saved model that Keras cannot load again."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SETTINGS, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for each in training.fit.saves:
        if not each.load_trouble:
            continue
        line = f"{each.is_loaded_at} fails" if each.is_own_load else "no load_model can read it"
        yield Finding(
            f"{each.by} writes {each.path}, and {line} ({each.load_trouble})",
            "Put @keras.saving.register_keras_serializable() above each class and function of your own, "
            "return every argument of __init__ in get_config, and pass **kwargs on in __init__",
            where=each.is_loaded_at if each.is_own_load else each.place,
            severity=ERROR if each.is_own_load else WARNING,
        )
        return


RULE = Rule(
    code="CHK323",
    name="saved-model-not-loadable",
    severity=WARNING,
    depth=SETTINGS,
    why=(
        "load_model makes each object from its saved configuration: it looks a class of your own up by its registered "
        "name or in custom_objects, and calls it with what get_config returned."
    ),
    wrong='load_model("best.keras")  # with a layer of your own',
    right="@keras.saving.register_keras_serializable() above the class",
    find=_find,
    fault="keras-version-mismatch",
    source="keras/src/saving/serialization_lib.py, deserialize_keras_object",
)
