"""Chooses the remedies of a diagnosis: first the message's own, then the wording's, the page's last. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, NamedTuple

from oomph.explain.catalogue.fault import USUAL_KIND, Fault, Remedy, Signature
from oomph.explain.facts.fact import LogFacts, PackageManager, RaisedError
from oomph.explain.matching.companion_advice import companion_remedies
from oomph.explain.matching.fallback import UNRECOGNISED, UNRELATED
from oomph.explain.matching.gone_names import (
    BROKEN,
    KEEP_KERAS_2,
    incomplete_installation,
    is_of_keras_itself,
    name_remedy,
    saved_remedy,
    unknown_names,
)
from oomph.explain.matching.instruction import Force, Instruction, instruction_in
from oomph.explain.matching.keras_calls import call_remedy
from oomph.explain.matching.pins import is_installable, pinned
from oomph.explain.matching.script_advice import script_remedy
from oomph.explain.matching.shape_advice import shape_remedy
from oomph.explain.matching.situations import situation_of
from oomph.explain.matching.wheel_advice import wheel_remedies

Fit = Literal["fits", "likely", "general"]
"""The degree to which a remedy fits: by a fact of this log, by a wording in it, or only by the name of the fault."""

MOST = 3
"""The maximum number of remedies to give, since nobody tries more."""
_ENOUGH = 2
"""The number of remedies up to which general ones are added to those for this very log."""
_WITHOUT_OOMPH_RUN = frozenset({"windows", "macos"})
_PIP = "python -m pip install "
_INSTALLERS: Mapping[PackageManager, str] = {
    "pipenv": "pipenv install ",
    "poetry": "poetry add ",
    "uv": "uv pip install ",
}
_NEW_ENVIRONMENT = re.compile(
    r"conda create -n tf python=(?P<python>[\d.]+) && conda activate tf && python -m pip install "
)
_ENVIRONMENTS: Mapping[PackageManager, str] = {
    "pipenv": "pipenv --python {python} && pipenv install ",
    "poetry": "poetry env use {python} && poetry add ",
    "uv": "uv venv --python {python} && uv pip install ",
}
_SIGNS_OF_KERAS_2 = ("tf_keras", "tf-keras", "LEGACY_KERAS")
_AGAIN = ("--force-reinstall tensorflow", "uninstall -y tensorflow")
_OF_FILES = frozenset({"keras-version-mismatch", "checkpoint-failure", "removed-api", UNRECOGNISED, UNRELATED})
"""The faults that a saved model of another release shows."""
_KERAS_CLASS = re.compile(r'custom_objects=\{"keras\.src\.')
_VARIABLE = re.compile(r"(?<!set )(?<!\S)(?P<variable>[A-Z][A-Z0-9_]+=\S+) python")
_QUOTED = re.compile(r"[`'\"]([^`'\"]+)[`'\"]")
_NAME = re.compile(r"[A-Za-z_][\w.]{2,}")


class AdvisedRemedy(NamedTuple):
    """A remedy, and how well it fits."""

    remedy: Remedy
    fit: Fit
    line: int | None = None
    """The line of the log that it fits."""


def advice_for(
    fault: Fault,
    signatures: Sequence[Signature],
    systems: Set[str],
    captured: Mapping[str, str],
    facts: LogFacts,
    error: RaisedError | None = None,
    line: int | None = None,
    texts: Collection[str] = (),
    lent: Iterable[Remedy] = (),
) -> tuple[AdvisedRemedy, ...]:
    """Return the remedies to show, best first, with the captured values filled in.

    Args:
        fault: the diagnosed fault.
        signatures: the fault's signatures that matched, surest first. A signature with confidence 0 does not show a
            fault, but if it has remedies, these are more specific and come first. If a signature `replaces` the other
            remedies, they are dropped.
        systems: the systems that the evidence comes from.
        captured: the values captured from the evidence.
        facts: the facts that the evidence states. A remedy that one of them contradicts is not shown.
        error: the exception by which the program showed this fault.
        line: the line that shows the fault.
        texts: the lines of evidence, which some of the fault's remedies answer.
        lent: answers of other pages to these texts.
    """
    replacing = [signature for signature in signatures if signature.replaces]
    special, usual = (
        [
            (remedy, captured)
            for each in replacing or signatures
            if each.only_prepares is is_special
            for remedy in each.remedies
        ]
        for is_special in (True, False)
    )
    answers = _answers((*fault.answers, *lent), captured, (*texts, *(error.message if error is not None else ())))
    specific = list(_filled([*answers, *special], systems, facts, "likely", line))
    situation = situation_of(fault.name, facts)
    is_setting = situation is not None and situation.remedy.kind == "environment"
    of_package = [] if is_setting else companion_remedies(fault.name, facts)
    of_wheels = wheel_remedies(fault.name, texts, systems, facts)
    if situation is not None:
        specific.insert(0, AdvisedRemedy(situation.remedy.filled(captured), "fits", line))
    if (of_script := script_remedy(fault.name, facts)) is not None:
        specific.insert(0, AdvisedRemedy(of_script, "fits", line))
    of_name = None if error is None else name_remedy(facts)
    if error is not None and of_name is not None:
        last = len(specific) if of_name.command == KEEP_KERAS_2 else 0  # a way out, if nothing better is known
        specific.insert(last, AdvisedRemedy(of_name, "fits", error.line))
    of_shapes = None if any(each.fit == "fits" for each in specific) else shape_remedy(fault.name, facts)
    if of_shapes is not None:
        specific.insert(0, AdvisedRemedy(of_shapes, "fits", facts.shapes[-1].line if facts.shapes else line))
    if error is not None and of_name is None and fault.name in _OF_FILES and (of_file := saved_remedy(facts)):
        specific.insert(0, AdvisedRemedy(of_file, "fits", error.line))
    if error is not None and (of_variable := _of_variable(error, facts)) is not None:
        specific.insert(0, AdvisedRemedy(of_variable, "fits", error.line))
        of_package = []
    if error is not None and (of_call := call_remedy(facts)) is not None:
        specific.insert(0, AdvisedRemedy(of_call, "fits", error.line))
    specific[:0] = [
        AdvisedRemedy(each, "fits", line)
        for each in (*of_package, *of_wheels)
        if _applies(each, systems, facts) and is_installable(each.command, facts)
    ]
    of_wording = list(_filled(usual, systems, facts, "likely", line))
    by_page = () if replacing or fault.name == UNRELATED else fault.remedies
    of_page = list(_filled(((each, captured) for each in by_page), systems, facts, "general", line))
    incomplete = incomplete_installation(facts) if fault.name == BROKEN and error is not None else None
    if incomplete is not None and error is not None:
        specific.insert(0, AdvisedRemedy(incomplete, "fits", error.line))
    if of_shapes is not None or incomplete is not None or (situation is not None and situation.error is not None):
        specific = [each for each in specific if each.fit == "fits"]  # the figures and frames leave nothing to guess
        of_wording, of_page = [], []
    if of_package or of_wheels or of_name is not None:
        of_page = []
    if of_package and facts.failing_package:
        specific, of_wording = _without_own_code(specific), _without_own_code(of_wording)
    of_message = _of_message(error, [*specific, *of_wording], facts)
    fitting = [*_in_order(specific, of_message), *of_wording, *(each for each in of_page if each.fit != "general")]
    of_system = (_on_windows(each) if "windows" in systems else each for each in (*fitting, *of_page))
    given = tuple(_different(_by_manager(_pinned(each, facts), facts) for each in of_system))
    return given[: max(_ENOUGH, min(len(fitting), MOST)) if fitting else MOST]


def _in_order(specific: Sequence[AdvisedRemedy], of_message: AdvisedRemedy | None) -> Iterator[AdvisedRemedy]:
    """Yield what was written or computed for this very message, and what it says itself: first if it is a command."""
    if of_message is not None and of_message.remedy.command:
        yield of_message
    yield from specific[:1]
    if of_message is not None and not of_message.remedy.command:
        yield of_message
    yield from specific[1:]


def _answers(
    remedies: Iterable[Remedy], captured: Mapping[str, str], texts: Collection[str]
) -> Iterator[tuple[Remedy, Mapping[str, str]]]:
    """Yield the remedies that answer these texts, each with the values in the words that it answers."""
    for remedy in remedies:
        if (found := remedy.answered(texts)) is not None:
            yield remedy, {**captured, **found}


def _filled(
    remedies: Iterable[tuple[Remedy, Mapping[str, str]]],
    systems: Set[str],
    facts: LogFacts,
    otherwise: Fit,
    line: int | None,
) -> Iterator[AdvisedRemedy]:
    """Yield the remedies that apply. One that states values of this log, or needs facts that it states, fits it."""
    for remedy, captured in remedies:
        filled = remedy.filled(captured)
        if _applies(filled, systems, facts) and is_installable(filled.command, facts):
            fits = bool(remedy.needs) or filled.text != remedy.text
            yield AdvisedRemedy(filled, "fits" if fits else otherwise, line)


def _of_message(error: RaisedError | None, others: Sequence[AdvisedRemedy], facts: LogFacts) -> AdvisedRemedy | None:
    """Return what the message says to do, unless the best other remedy says so already, in full."""
    instruction = None if error is None else instruction_in(error.message)
    if error is None or instruction is None or _is_contradicted(instruction, facts):
        return None
    if facts.failing_package and instruction.force < Force.COMMAND and others and others[0].fit == "fits":
        return None  # it addresses the code that raised the error, which is not the reader's
    if others and (instruction.force == Force.REQUIREMENT or _covers(others[0].remedy, instruction)):
        return None
    text = f"As the error itself says: {instruction.text.rstrip('.')}"
    return AdvisedRemedy(Remedy(text, instruction.command), "fits", error.line)


def _is_contradicted(instruction: Instruction, facts: LogFacts) -> bool:
    """True if the log shows that this has been tried, or names something that these versions do not have."""
    tried = {each.step for each in facts.failed}
    said = f"{instruction.text} {instruction.command}"
    again = any(step in said for step in tried & {"pip install", "modprobe"})
    return again or not is_installable(instruction.command, facts) or bool(unknown_names(instruction.text, facts))


def _of_variable(error: RaisedError, facts: LogFacts) -> Remedy | None:
    """Return the remedy for a variable that the error asks for and the program sets: it does so too late."""
    message = " ".join(error.message)
    name = next((each.name for each in facts.set_variables if re.search(rf"\b{each.name}\b", message)), "")
    if not name:
        return None
    return Remedy(
        f"The program sets {name}, but after the import that reads it: put that line above all other imports, or set "
        f"the variable before the start",
        f"{name}=1 python train.py",
        kind="environment",
    )


def _covers(remedy: Remedy, instruction: Instruction) -> bool:
    """True if the remedy is about the same names as the instruction, such as `keras.Input` or pydot, if it has any."""
    quoted = [instruction.command.partition(" install ")[2]] if " install " in instruction.command else []
    quoted = quoted or _QUOTED.findall(instruction.text)
    named = {word.strip(".") for each in quoted for word in _NAME.findall(each)}
    said = f"{remedy.text} {remedy.command}"
    return not named or any(word in said for word in named)


def _without_own_code(advised: Iterable[AdvisedRemedy]) -> list[AdvisedRemedy]:
    """Leave out what changes the script, since the failing code is in a package."""
    return [each for each in advised if each.remedy.kind not in ("", USUAL_KIND)]


def _applies(remedy: Remedy, systems: Set[str], facts: LogFacts) -> bool:
    """True if the remedy can be applied on these systems, and the facts allow it."""
    by_oomph = facts.uses != "Keras 2" and _WITHOUT_OOMPH_RUN.isdisjoint(systems)
    return remedy.fits(systems, facts) and (by_oomph or not remedy.action) and not _is_refuted(remedy, facts)


def _is_refuted(remedy: Remedy, facts: LogFacts) -> bool:
    """True if the remedy brings what the log shows to be there already, or to have been tried."""
    said = f"{remedy.text} {remedy.command}"
    if _has_keras_2(facts) and any(sign in said for sign in _SIGNS_OF_KERAS_2):
        return True
    if "custom_objects" in said and (is_of_keras_itself(facts) or _KERAS_CLASS.search(said)):
        return True
    absent = {each.name for each in facts.missing_modules}
    lacks_tensorflow = any(each == "tensorflow" or each.startswith("tensorflow.python") for each in absent)
    if absent and not lacks_tensorflow and any(sign in said for sign in _AGAIN):
        return facts.version_of("tensorflow").since is not None
    tried = {each.removeprefix("tensorflow.") for each in absent if each.startswith("tensorflow.keras.")}
    return "tensorflow.keras" in said and any(each in said for each in tried)


def _has_keras_2(facts: LogFacts) -> bool:
    """True if the log shows that the Keras of its TensorFlow is Keras 2 already."""
    is_newer = facts.version_of("keras").is_from((3,))
    return facts.uses == "Keras 2" or (facts.version_of("tensorflow").is_before((2, 16)) and not is_newer)


def _on_windows(advised: AdvisedRemedy) -> AdvisedRemedy:
    """Write the command as the Windows shell takes it, without CUDA's packages, which have no wheels there."""
    command = _VARIABLE.sub(r"set \g<variable>&& python", advised.remedy.command).replace("[and-cuda]", "")
    return advised._replace(remedy=advised.remedy._replace(command=command))


def _pinned(advised: AdvisedRemedy, facts: LogFacts) -> AdvisedRemedy:
    return advised._replace(remedy=advised.remedy._replace(command=pinned(advised.remedy.command, facts)))


def _by_manager(advised: AdvisedRemedy, facts: LogFacts) -> AdvisedRemedy:
    """Put the command in the words of the package manager that the environment was made with."""
    command = advised.remedy.command
    if (made := _NEW_ENVIRONMENT.match(command)) is not None:
        new = next((_ENVIRONMENTS[each.manager] for each in facts.installed_by if each.manager in _ENVIRONMENTS), "")
        rest = command[made.end() :]
        written = new.format(python=made["python"]) + rest if new else command
        return advised._replace(remedy=advised.remedy._replace(command=written))
    tool = next((_INSTALLERS[each.manager] for each in facts.installed_by if each.manager in _INSTALLERS), "")
    if not tool or not command.startswith(_PIP) or "&&" in command or " -" in command.removeprefix(_PIP):
        return advised
    return advised._replace(remedy=advised.remedy._replace(command=tool + command.removeprefix(_PIP)))


def _different(given: Iterable[AdvisedRemedy]) -> Iterator[AdvisedRemedy]:
    """Yield the remedies, skipping those that repeat an earlier text or command."""
    said: set[str] = {""}
    for each in given:
        remedy = each.remedy
        command = remedy.command.replace("_", "-")  # pip takes both for the same name
        if remedy.text not in said and (not command or command not in said):
            said |= {remedy.text, command}
            yield each
