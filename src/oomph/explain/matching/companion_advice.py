"""Chooses what to do about a package between the program and Keras, whose code nobody would rewrite. Pure.

The package is the one whose code fails, or the only one that the log names. What it needs stands in the table of
companions; a package that is not in it can only be updated, or be given the Keras that it was written for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from oomph.explain.catalogue.fault import Remedy
from oomph.explain.facts.companions import companion, mentioned_in
from oomph.explain.facts.fact import InvolvedPackage, LogFacts
from oomph.explain.facts.version_range import Version, VersionRange
from oomph.explain.matching.gone_names import KEEP_KERAS_2
from oomph.explain.matching.pins import keras_of
from oomph.explain.public_names.table import keras_names
from oomph.files.patterns import lazy_pattern

KERAS_MISMATCH, REMOVED_API = "keras-version-mismatch", "removed-api"
OF_GENERATIONS = frozenset({KERAS_MISMATCH, REMOVED_API, "unrecognised"})
"""The faults that a package shows when it was written for another generation of TensorFlow or Keras."""
_UPDATE = "python -m pip install --upgrade"
_MISSING_IN = lazy_pattern(
    r"module '(?P<module>\w{1,60})[\w.]{0,80}' has no attribute '(?P<name>\w{1,60})'"
    r"|cannot import name '(?P<wanted>\w{1,60})' from '(?P<source>\w{1,60})"
)
_PRIVATE = lazy_pattern(r"\btensorflow\.python\b|\btensorflow_core\b")
_NEEDS = lazy_pattern(r"(?i)requires tensorflow(?: version)? ?(?P<sign>>=|==|<=|<|~=) ?(?P<version>\d[\d.]*)")
_FIRST_OF_KERAS_3: Version = (2, 16)
_LACKS = lazy_pattern(r"'(?P<class>[A-Z]\w{1,60})' object has no attribute '(?P<name>\w{1,60})'")
_LAST_OF_KERAS_2: Version = (2, 15)
_KERAS_OF_OTHERS = lazy_pattern(r"eras|ensor|[Ll]ayer|[Mm]odel\b|'NoneType' object|[Oo]ptimizer|[Mm]etric")


class _Clash(NamedTuple):
    package: InvolvedPackage
    is_inside: bool
    """True if the error was raised in its code, or from there."""


def companion_remedies(fault: str, facts: LogFacts) -> list[Remedy]:
    """Return what to do about the package that does not fit this TensorFlow or Keras, best first; empty if none."""
    if fault not in OF_GENERATIONS:
        return []
    if fault == KERAS_MISMATCH and (of_pair := list(_of_pair(facts))):
        return of_pair
    clash = _clash(facts)
    if clash is None:
        return []
    if (needed := _of_requirement(clash.package, facts)) is not None:
        return [needed]
    if clash.is_inside and facts.uses is None and _PRIVATE.search(" ".join(facts.error.message) if facts.error else ""):
        text = f"{clash.package.package} uses what another release of TensorFlow has inside: update it"
        return [Remedy(text, f"{_UPDATE} {clash.package.package} && python -m pip check", kind="pin")]
    return list(_of_missing_name(clash.package, facts) or _of_generation(clash.package, fault, facts))


def named_by_package(facts: LogFacts, *, is_doubtful: bool) -> str:
    """Return the name of the fault if a package does not fit this TensorFlow or Keras, whatever the error says.

    `is_doubtful` is True if the error itself hardly tells its name.
    """
    clash = _clash(facts)
    if clash is None:
        return ""
    if _of_missing_name(clash.package, facts):
        return REMOVED_API
    return KERAS_MISMATCH if _is_of_generations(clash, facts, is_doubtful=is_doubtful) else ""


def _is_of_generations(clash: _Clash, facts: LogFacts, *, is_doubtful: bool) -> bool:
    row = clash.package.companion
    if facts.uses != "Keras 3":
        only_keras_2 = row is not None and row.keras_3_since is None
        return only_keras_2 and is_doubtful and facts.uses != "Keras 2" and _lacks_a_name(facts)
    if row is None:
        place = facts.library_place
        in_keras = place is not None and re.search(r"[/\\]keras[/\\]", place.file) is not None
        return clash.is_inside and in_keras and _speaks_of_keras(facts)
    return row.keras_3_since is None or clash.package.versions.is_before(row.keras_3_since)


def _lacks_a_name(facts: LogFacts) -> bool:
    return facts.error is not None and "object has no attribute" in " ".join(facts.error.message)


def _speaks_of_keras(facts: LogFacts) -> bool:
    return facts.error is not None and _KERAS_OF_OTHERS.search(" ".join(facts.error.message)) is not None


def _clash(facts: LogFacts) -> _Clash | None:
    inside = facts.failing_package
    if inside:
        row = companion(inside)
        known = next((each for each in facts.packages if row is not None and each.companion is row), None)
        return _Clash(known or InvolvedPackage(row.package if row else inside, row, VersionRange(), None), True)
    named = [each.package for each in mentioned_in(" ".join(facts.error.message) if facts.error else "")]
    involved = [each for each in facts.packages if each.package in named] if named else facts.packages
    return _Clash(involved[0], False) if len(involved) == 1 and (named or facts.own_place is None) else None


def _of_pair(facts: LogFacts) -> Iterator[Remedy]:
    """Yield the remedies for a Keras that does not belong to the TensorFlow beside it."""
    tensorflow, keras = facts.version_of("tensorflow"), facts.version_of("keras")
    if not (tensorflow.is_before(_FIRST_OF_KERAS_3) and keras.is_from((3,))) or tensorflow.since is None:
        return
    known = _written(tensorflow.since)
    text = f"TensorFlow {known} needs its own Keras 2, and Keras 3 is installed beside it: install that"
    yield Remedy(text, f'python -m pip install "{keras_of(tensorflow.since)}"', kind="pin")
    yield Remedy("Or install a TensorFlow for Keras 3", f'{_UPDATE} "tensorflow>=2.16"', kind="pin")


def _of_requirement(package: InvolvedPackage, facts: LogFacts) -> Remedy | None:
    """Return the remedy for a package that says itself which TensorFlow it needs."""
    found = _NEEDS.search(" ".join(facts.error.message)) if facts.error else None
    if found is None:
        return None
    needed = f"tensorflow{found['sign'].replace(' ', '')}{found['version'].rstrip('.')}"
    name = package.package
    return Remedy(
        f"This {name} needs {needed}: install that, or the {name} that belongs to the installed TensorFlow",
        f'{_UPDATE} "{needed}"',
        kind="pin",
    )


def _of_missing_name(package: InvolvedPackage, facts: LogFacts) -> list[Remedy]:
    """Return the remedy for a name that the package itself lacks: it is older than the program."""
    message = " ".join(facts.error.message) if facts.error else ""
    found = _MISSING_IN.search(message)
    row = companion((found["module"] or found["source"]) if found else "")
    if found is None or row is None or row.package != package.package:
        return []
    wanted = found["name"] or found["wanted"]
    was = "" if package.versions.since is None else f" {_written(package.versions.since)}"
    if facts.version_of("tensorflow").is_before((2,)):
        text = f"{row.package}{was} has no {wanted}: install a newer one, with TensorFlow 2, which that needs"
        return [Remedy(text, f'{_UPDATE} "tensorflow>=2" {row.package}', kind="pin")]
    text = f"{row.package}{was} has no {wanted}: install a newer one, or the one that the program was written for"
    return [Remedy(text, f"{_UPDATE} {row.package}", kind="pin")]


def _of_generation(package: InvolvedPackage, fault: str, facts: LogFacts) -> Iterator[Remedy]:
    row, name = package.companion, package.package
    old = facts.uses == "Keras 2"
    if (
        row is not None
        and row.keras_2_until is not None
        and row.keras_2_until > (0,)
        and (old or _is_of_keras_3(facts))
    ):
        first, last = _written(row.keras_3_since or (0,)), _written(row.keras_2_until)
        yield Remedy(
            f"{name} {first} and later need Keras 3, and this is Keras 2: install TensorFlow 2.16 or later",
            f'{_UPDATE} "tensorflow>=2.16"',
            kind="pin",
        )
        yield Remedy(
            f"Or stay with Keras 2, and take {name} {last}", f'python -m pip install "{name}=={last}.*"', kind="pin"
        )
        return
    only_keras_2 = row is not None and row.keras_3_since is None
    if row is None:
        text = (
            f"{name}, whose code fails, was written for a different version of what it calls: update it, or take the "
            f"release that its requirements name"
        )
        yield Remedy(text, f"{_UPDATE} {name} && python -m pip check", kind="pin")
    elif row.successor:
        yield Remedy(f"{name} is no longer maintained: use {row.successor} in its place", kind="pin")
    elif row.keras_3_since is not None:
        since = _written(row.keras_3_since)
        text = f"{name} works with Keras 3 from {since} on: update it"
        command = f'"{name}>={since}"' if row.keras_3_since > (0,) else name
        yield Remedy(text, f"{_UPDATE} {command}", kind="pin")
    if old or not (only_keras_2 or fault == KERAS_MISMATCH):
        if row is not None and only_keras_2:
            text = f"Take the release of {name} that belongs to this TensorFlow, as its release notes name it"
            yield Remedy(text, kind="pin")
        return
    if row is not None and only_keras_2:
        also = f"; {row.also}" if row.also else ""
        text = f"{name} is written for Keras 2: give it the Keras 2 of this TensorFlow{also}"
    else:
        text = f"Or give {name} the Keras 2 of this TensorFlow, if its newest release does not work with Keras 3 either"
    yield Remedy(text, KEEP_KERAS_2, changes="the version of Keras", kind="pin")
    if only_keras_2:
        yield Remedy(
            "Or keep TensorFlow 2.15, the last one with Keras 2",
            'python -m pip install "tensorflow==2.15.*"',
            changes="the version of TensorFlow",
            kind="pin",
        )


def _is_of_keras_3(facts: LogFacts) -> bool:
    """True if an object of Keras lacks what no Keras 2 has, so that the code that asks for it expects Keras 3."""
    found = _LACKS.search(" ".join(facts.error.message)) if facts.error else None
    if found is None or facts.uses == "Keras 3":
        return False
    lives = [keras_names().lifetime(f"keras.{owner}.{found['name']}") for owner in (found["class"], "Model")]
    return all(life is None or life.since > _LAST_OF_KERAS_2 for life in lives)


def _written(release: Version) -> str:
    return ".".join(map(str, release))
