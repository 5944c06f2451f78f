"""Finds what became of a name or an argument that Keras or TensorFlow does not know, in the table of names. Pure.

The error proves that the name is not there; the table says which releases have it, where it is now, and by which
argument another was replaced. No wording and no version is written down here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from oomph.explain.catalogue.fault import Remedy
from oomph.explain.facts.fact import LogFacts
from oomph.explain.facts.version_range import Version, VersionRange
from oomph.explain.public_names.table import (
    NameLifetime,
    PublicNames,
    keras_names,
    names_of_tensorflow_1,
    pythons_of,
    tensorflow_names,
)
from oomph.files.patterns import lazy_pattern

_MODULE = r"(?P<module>(?:tensorflow|tf|keras)(?:\.\w{1,40}){0,6})"
_MISSING = (
    lazy_pattern(rf"module '{_MODULE}' has no attribute '(?P<name>\w{{1,60}})'"),
    lazy_pattern(rf"cannot import name '(?P<name>\w{{1,60}})' from '{_MODULE}'"),
    lazy_pattern(rf"No module named '{_MODULE}\.(?P<name>\w{{1,60}})'"),
)
_UNEXPECTED = (
    lazy_pattern(
        r"(?:(?P<owner>\w{1,60})\.)?(?P<function>\w{1,60})\(\) got an unexpected keyword argument "
        r"'(?P<argument>\w{1,60})'"
    ),
    lazy_pattern(
        r"deserializing class '(?P<owner>\w{1,60})'.{0,1500}?"
        r"Unrecognized keyword arguments(?: passed to \w{1,60})?: [\[{]['\"](?P<argument>\w{1,60})['\"](?P<function>)"
    ),
    lazy_pattern(r"passed to (?P<owner>\w{1,60}): \{['\"](?P<argument>\w{1,60})['\"](?P<function>)"),
    lazy_pattern(r"Argument\(s\) not recognized: \{['\"](?P<argument>\w{1,60})['\"](?P<owner>)(?P<function>)"),
)
_SAVED_ARGUMENT = lazy_pattern(
    r"(?:(?P<owner>[A-Z]\w{1,60})\.)?__init__\(\) got an (?:un)?expected keyword argument '(?P<argument>\w{1,60})'"
    r"|'Keyword argument not understood:', '(?P<argument_>\w{1,60})'"
)
_SAVED_LAYER = lazy_pattern(r"Unknown layer: '?(?P<layer>\w{1,60})")
_NOT_PUBLIC: dict[str, Version] = {
    "Functional": (2, 4),
    "DTypePolicy": (3, 0),
    "module": (2, 13),
    "registered_name": (2, 13),
}
"""The other names that files hold, and the first release that writes each."""
# How Keras and TensorFlow spell their public modules in messages.
_INNER = lazy_pattern(r"\A(?:tensorflow\._api\.v2\.|keras\.(?:api\._v2\.|api\.|_tf_keras\.|src\.)(?:keras\.)?)")
_NAMES = lazy_pattern(r"(?<![\w.])(?:tf|tensorflow|keras)(?:\.[A-Za-z]\w{0,60}){1,6}")
_ARGUMENTS = lazy_pattern(r"(?<![\w.])(\w{1,60}) ?=(?!=)(?=[^()]{0,300}\))")
_OF_TENSORFLOW = lazy_pattern(r"\b(?:tf|tensorflow)\.(?P<name>[\w.]{1,60})\(")
_NEW_NAMES = {
    "alpha": "negative_slope",
    "input_shape": "shape",
    "batch_input_shape": "batch_shape",
    "period": "save_freq",
}
"""Arguments whose new names have nothing in common with the old ones."""
BROKEN = "broken-installation"
"""The fault of an installation that lacks what its release has."""
KEEP_KERAS_2 = "python -m pip install tf_keras && TF_USE_LEGACY_KERAS=1 python train.py"
_EAGER_SWITCHES = frozenset({"tf.enable_eager_execution", "tf.enable_v2_behavior"})
_KERAS_3: Version = (3, 0)
_TENSORFLOW_2: Version = (2,)
_OLD_BACKEND = "keras.backend."
_LAST_OF_KERAS_2: Version = (2, 15)
_NEARLY = 0.97
"""The similarity, in difflib's measure, from which a dotted name is another one with a letter too many or too few."""


class _Library(NamedTuple):
    title: str
    names: PublicNames
    versions: VersionRange


def name_remedy(facts: LogFacts) -> Remedy | None:
    """Return what to write in place of the name or argument that an error calls unknown, or None."""
    message = " ".join(facts.error.message)[:2000] if facts.error else ""
    for missing in _MISSING:
        if (found := missing.search(message)) is not None:
            return _of_name(found["module"], found["name"], facts, is_module=found[0].startswith("No module"))
    reads_model = "deserializing class" in message or (facts.phase is not None and facts.phase.phase == "load")
    for unexpected in _UNEXPECTED:
        if (found := unexpected.search(message)) is not None:
            if reads_model:  # the argument stands in the file, not in the program
                return _of_file(found["owner"] or "", found["argument"], facts)
            return _of_argument(found["owner"] or "", found["function"], found["argument"], facts)
    return _of_function(facts) if "KerasTensor cannot be used as input" in message else None


def incomplete_installation(facts: LogFacts) -> Remedy | None:
    """Return the remedy for a name that the installed release has, although the error calls it unknown, or None."""
    message = " ".join(facts.error.message)[:2000] if facts.error else ""
    found = next((match for missing in _MISSING if (match := missing.search(message)) is not None), None)
    wanted = _canonical(f"{found['module']}.{found['name']}") if found else ""
    library = _library(wanted, facts)
    life = library.names.lifetime(wanted)
    if life is None or not life.goes_on or not library.versions.is_from(life.since) or wanted.startswith(_OLD_BACKEND):
        return None
    return Remedy(
        f"{wanted} belongs to this {library.title}: the installation is incomplete, a nightly build that lacks it, or "
        "hidden by a file of that name. Install the newest stable one again",
        f"python -m pip install --upgrade --force-reinstall {library.title.lower()}",
        kind="pin",
    )


def saved_remedy(facts: LogFacts) -> Remedy | None:
    """Return how to load a file that holds an argument or class which the reading Keras does not know, or None.

    Keras up to 2.15 refuses an argument by Python's own words. Keras 3 has words of its own for that.
    """
    message = " ".join(facts.error.message)[:2000] if facts.error else ""
    if facts.phase is None or facts.phase.phase != "load" or facts.uses == "Keras 3":
        return None
    found = _SAVED_ARGUMENT.search(message) or _SAVED_LAYER.search(message)
    if found is None:
        return None
    groups = found.groupdict()
    written = groups.get("argument") or groups.get("argument_") or groups.get("layer") or ""
    since = _first_to_write(written, groups.get("owner") or "", is_class="layer" in groups)
    if since is None:
        return None
    if since >= _KERAS_3:
        text = f"The file was saved by Keras 3, which writes {written}: load it with TensorFlow 2.16 or later"
        return Remedy(text, 'python -m pip install --upgrade "tensorflow>=2.16"', kind="pin")
    text = (
        f"The file was saved by a newer Keras than this one, which does not know {written}: load it with the release "
        f"that saved it, or a later one"
    )
    return Remedy(text, "python -m pip install --upgrade tensorflow", kind="pin")


def is_of_keras_itself(facts: LogFacts) -> bool:
    """True if the class that a saved model needs is one of Keras' own, so that nobody can register it."""
    found = _SAVED_LAYER.search(" ".join(facts.error.message)) if facts.error else None
    return found is not None and _first_to_write(found["layer"], "", is_class=True) is not None


def _first_to_write(written: str, owner: str, *, is_class: bool) -> Version | None:
    """Return the first release that writes this argument or class into a file; None if none is known to."""
    names = keras_names()
    if is_class:
        lives = [names.lifetime(f"keras.layers.{written}"), names.lifetime(f"keras.{written}")]
    else:
        owners = names.ending_in(owner) if owner else names.within("keras.layers")
        lives = [names.lifetime(each, written) for each in owners]
    since = [life.since for life in lives if life is not None and life.goes_on]
    if not since and written in _NOT_PUBLIC:
        return _NOT_PUBLIC[written]
    return min(since, default=None)


def unknown_names(text: str, facts: LogFacts) -> list[str]:
    """Return the public names in a text that none of the versions known from the log has."""
    return [name for name in _NAMES.findall(text) if _is_gone(name, facts)]


def public_names_in(text: str) -> Iterator[tuple[str, NameLifetime | None]]:
    """Yield the dotted names of Keras and TensorFlow in a text, each with the releases that have it."""
    for name in _NAMES.findall(text):
        canonical = _canonical(name)
        yield name, _library(canonical, LogFacts()).names.lifetime(canonical)


def _is_gone(name: str, facts: LogFacts) -> bool:
    canonical = _canonical(name)
    library = _library(canonical, facts)
    life = library.names.lifetime(canonical)
    return life is not None and life.excludes(library.versions)


def _canonical(name: str) -> str:
    """Return a name as the table has it: "keras.layers.Dense" for tensorflow.keras.layers.Dense."""
    inner = _INNER.sub(lambda found: "tf." if found[0].startswith("tensorflow") else "keras.", name)
    short = re.sub(r"\Atensorflow\b", "tf", inner)
    return short.removeprefix("tf.") if short.startswith("tf.keras.") or short == "tf.keras" else short


def _library(canonical: str, facts: LogFacts) -> _Library:
    if canonical.startswith("keras"):
        return _Library("Keras", keras_names(), facts.keras_versions)
    return _Library("TensorFlow", tensorflow_names(), facts.version_of("tensorflow"))


def _of_name(module: str, name: str, facts: LogFacts, *, is_module: bool) -> Remedy | None:
    wanted = _canonical(f"{module}.{name}")
    library = _library(wanted, facts)
    life = library.names.lifetime(wanted)
    if wanted in _EAGER_SWITCHES:
        return Remedy(f"Leave {wanted} out: TensorFlow 2 is eager from the start")
    if life is None and wanted in names_of_tensorflow_1() and not library.versions.is_before(_TENSORFLOW_2):
        of_1 = f"tf.compat.v1.{wanted.removeprefix('tf.')}"
        return Remedy(
            f"Write {of_1}: {wanted} is one of TensorFlow 1, whose programs run unchanged with import "
            "tensorflow.compat.v1 as tf; tf.disable_v2_behavior()"
        )
    if wanted.startswith("tf.compat.") or (life is None and is_module):
        return None  # the table says nothing about these
    if wanted.startswith(_OLD_BACKEND) and keras_names().lifetime(in_ops := f"keras.ops.{name}") is not None:
        return Remedy(f"Write {in_ops}: the keras.backend of Keras 3 has no {name}")
    if life is not None and life.goes_on and not life.excludes(library.versions):
        if library.versions != VersionRange() or life.since == library.names.releases[0]:
            return None  # it should be there; see `incomplete_installation`
        return Remedy(f"{wanted} is there from {library.title} {_written(life.since)} on: install that or a later one")
    if life is not None and library.versions.is_before(life.since):
        release = f"{library.title if life.since >= _KERAS_3 else 'TensorFlow'} {_written(life.since)}"
        return Remedy(f"{release} has {wanted}, and this one is older: install that or a later one")
    was = f"{wanted} was last in {library.title} {_written(life.until)}" if life else f"there is no {wanted}"
    if (above := _emptied_into(wanted, library)) is not None:
        return Remedy(f"Write {above} in place of {wanted}, whose names are there now: {was}")
    if (place := _moved_to(wanted, name, library)) is not None:
        spelled = f"tf.{place}" if module.startswith(("tensorflow", "tf")) and place.startswith("keras") else place
        return Remedy(f"Write {spelled}: {was}")
    if life is None:
        return _respelt(wanted, library)
    if library.title == "Keras":
        return Remedy(f"Keep Keras 2 for this program: {was}, and nothing replaces it", KEEP_KERAS_2)
    return _earlier_tensorflow(was, life, facts)


def _earlier_tensorflow(was: str, life: NameLifetime, facts: LogFacts) -> Remedy:
    python = facts.version_of("python").since
    fits = python is None or len(python) < 2 or python[1] in pythons_of(life.until)
    release = _written(life.until)
    if fits:
        return Remedy(
            f"Keep TensorFlow {release} for this program: {was}", f'python -m pip install "tensorflow=={release}.*"'
        )
    pythons = ", ".join(f"3.{minor}" for minor in pythons_of(life.until))
    return Remedy(f"Keep TensorFlow {release} for this program, with Python {pythons}: {was}")


def _respelt(wanted: str, library: _Library) -> Remedy | None:
    """Return the remedy for a name that is spelled almost like another one of its module, or None."""
    module = wanted.rpartition(".")[0]
    near = difflib.get_close_matches(wanted, list(library.names.within(module)), 1, _NEARLY)
    return Remedy(f"Write {near[0]}: {wanted} is a misspelling of it") if near else None


def _emptied_into(wanted: str, library: _Library) -> str | None:
    """Return the module above that has taken the names of one that is gone, such as `experimental`, or None."""
    above = wanted.rpartition(".")[0]
    inside = [name.rpartition(".")[2] for name in library.names.within(wanted)]
    there = (library.names.lifetime(f"{above}.{each}") for each in inside)
    return above if any(life is not None and life.goes_on for life in there) else None


def _moved_to(wanted: str, name: str, library: _Library) -> str | None:
    """Return the name that these versions have instead: the same last part in another module."""
    there = (
        each
        for each in library.names.ending_in(name)
        if each != wanted
        and (life := library.names.lifetime(each)) is not None
        and (life.goes_on if library.versions == VersionRange() else not life.excludes(library.versions))
        and each.count(".") <= wanted.count(".") + 1
        and not each.rpartition(".")[0].rpartition(".")[2][:1].isupper()  # a method is no successor
    )
    return min(there, key=lambda each: (-_alike(each, wanted), len(each), each), default=None)


def _alike(one: str, other: str) -> int:
    """Return how many parts of their modules two names share."""
    return len(set(one.split(".")[:-1]) & set(other.split(".")[:-1]))


def _of_argument(owner: str, function: str, argument: str, facts: LogFacts) -> Remedy | None:
    name = _callable(owner, function, argument, facts)
    if name is None:
        return None
    versions, names = facts.keras_versions, keras_names()
    life, parameters = names.lifetime(name, argument), names.parameters(name, versions)
    if life is not None and not life.excludes(versions) and versions != VersionRange():
        return None
    if function not in ("", "__init__") and names.lifetime(name, "**") is not None:
        return None  # a release that takes any argument does not raise this
    short = name.removeprefix("keras.")
    until = f", which {short} had up to Keras {_written(life.until)}" if life and not life.goes_on else ""
    successor = _successor(name, argument, parameters, life)
    if successor is not None:
        gone = _also_refused(name, parameters, {argument, successor}, facts)
        also = f"; {short} does not take {' and '.join(gone)} either" if gone else ""
        return Remedy(f"Write {successor} in place of {argument}{until}{also}")
    if life is not None and life.goes_on:
        return Remedy(f"Leave {argument} out: {short} has it from Keras {_written(life.since)} on")
    return Remedy(f"Leave {argument} out{until}") if until else None


def _of_file(owner: str, argument: str, facts: LogFacts) -> Remedy | None:
    """Return which Keras reads a saved layer whose configuration has an argument that the installed one refuses."""
    found = min(keras_names().ending_in(owner) if owner else (), key=len, default="")
    life = keras_names().lifetime(found, argument)
    if life is None or (life.goes_on and life.since < _KERAS_3):
        return None
    if life.goes_on:
        since = _written(life.since)
        newer = "tensorflow>=2.16" if life.since == _KERAS_3 else f"keras>={since}"
        what = f"Update Keras: {since} or later has written the file, whose {owner} has {argument}"
        return Remedy(what, f'python -m pip install --upgrade "{newer}"')
    if not life.excludes(facts.keras_versions):
        return None
    what = f"Keras {_written(life.until)} or earlier has written the file: load it with from tf_keras.models import"
    return Remedy(f"{what} load_model", "python -m pip install tf_keras")


def _callable(owner: str, function: str, argument: str, facts: LogFacts) -> str | None:
    """Return the public name of what was called: by the message, or else by the line that called it."""
    code = _calling_code(facts)
    called = re.search(rf"(\w{{1,60}})\((?=[^()]{{0,300}}\b{re.escape(argument)} ?=)", code)
    last = owner or (called[1] if called else "")
    if function and function != "__init__":
        last = f"{owner or 'Model'}.{function}"
    found = list(keras_names().ending_in(last)) if last else []
    return min(found, key=lambda each: (-len(_lives_on(each)), len(each), each), default=None)


def _also_refused(name: str, parameters: Sequence[str], known: Set[str], facts: LogFacts) -> list[str]:
    """Return the other arguments of the same call that this release does not have, as far as its line shows them."""
    code = _calling_code(facts)
    if not parameters or f"{name.rpartition('.')[2]}(" not in code:
        return []
    return [each for each in dict.fromkeys(_ARGUMENTS.findall(code)) if each not in parameters and each not in known]


def _calling_code(facts: LogFacts) -> str:
    place = facts.own_place
    return facts.at_hand.script.statement if facts.at_hand and facts.at_hand.script else place.code if place else ""


def _of_function(facts: LogFacts) -> Remedy | None:
    """Return which function of Keras to call with a KerasTensor in place of one of TensorFlow, or None."""
    names = keras_names()
    for called in _OF_TENSORFLOW.finditer(_calling_code(facts)):
        last = called["name"].rpartition(".")[2]
        found = (f"keras.ops.{each}" for each in (last, last.removeprefix("reduce_")))
        if (instead := next((each for each in found if names.lifetime(each) is not None), None)) is not None:
            return Remedy(f"Write {instead} in place of {called[0].rstrip('(')}: a KerasTensor has no values yet")
    return None


def _lives_on(name: str) -> str:
    life = keras_names().lifetime(name)
    return "x" if life is not None and life.goes_on else ""


def _successor(name: str, argument: str, parameters: list[str], life: NameLifetime | None) -> str | None:
    """Return the argument that replaces another: by its initials, a like name, or as the only one that came then."""
    import difflib  # few errors need it

    by_initials = [each for each in parameters if "".join(part[:1] for part in each.split("_")) == argument]
    close = difflib.get_close_matches(argument, parameters, 1, 0.75)
    after = [each for each in parameters if life is not None and _came_after(name, each, life)]
    likely = [each for each in after if len(after) == 1 and _share_a_word(each, argument)]
    renamed = [each for each in parameters if each == _NEW_NAMES.get(argument)]
    candidates = [*renamed, *by_initials, *close, *likely]
    return next((each for each in candidates if each != argument), None)


def _share_a_word(one: str, other: str) -> bool:
    return not set(one.split("_")).isdisjoint(other.split("_"))


def _came_after(name: str, parameter: str, life: NameLifetime) -> bool:
    releases, other = keras_names().releases, keras_names().lifetime(name, parameter)
    following = releases.index(life.until) + 1
    return other is not None and following < len(releases) and other.since == releases[following]


def _written(release: Version) -> str:
    return ".".join(map(str, release))
