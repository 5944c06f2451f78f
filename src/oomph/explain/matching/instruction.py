"""The instruction in an exception's message: what Keras, TensorFlow and Python themselves say to do. Pure.

It is recognised by how an instruction is worded (a verb in the imperative, "should be passed as", "did you mean",
"pip install"), never by what it is about, so that the messages of later versions are understood too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from oomph.files.patterns import lazy_pattern


class Force(IntEnum):
    """The degrees of plainness with which a sentence says what to do."""

    REQUIREMENT = 1
    """It says what an argument must be."""
    REPLACEMENT = 2
    """It names what to use instead."""
    REQUEST = 3
    """It tells its reader to do something."""
    COMMAND = 4
    """It contains a command to type."""


class Instruction(NamedTuple):
    """A sentence of a message that says what to do."""

    text: str
    force: Force
    command: str = ""
    """The command in it, as it would be typed; empty if there is none."""


_LONGEST = 300
_SENTENCE = lazy_pattern(r"(?<=[.!?;])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`'\"(\[-])")
_GOES_ON = lazy_pattern(r"[a-z(`'\"\d]")
# What a person can be told to do about a program, at the beginning of a sentence or of its main clause.
_VERBS = (
    "add|adjust|allow|assign|build|call|cast|change|check|choose|compile|configure|consider|convert|copy|create|decrease"
    r"|define|delete|disable|downgrade|do not|don't|enable|ensure|export|fix|give|implement|import|increase"
    r"|initiali[sz]e"
    "|install|instantiate|keep|load|lower|make sure|make|move|override|pass|pin|prefer|provide|rebuild|recompile|reduce"
    "|reinstall|remove|rename|replace|reshape|resize|restart|rewrite|run|save|set|specify|subclass|supply|switch|try|turn"
    "|uninstall|unset|update|upgrade|use|verify|wrap|write"
)
_LEAD = (
    r"(?:[-*•\d.)]{1,3} )?(?:hint: ?)?"
    r"(?:instead,? |alternatively,? |otherwise,? |either |so |then |also |just |simply )?"
)
_REQUEST = lazy_pattern(
    rf"\A[\W_]{{0,3}}{_LEAD}(?:{_VERBS})\b(?!\s*[=(.:]|\s+(?:\w+s|failed|error|op|of)\b)"
    rf"|\A(?:to|if|for|when|in order) [^.]{{3,160}}, {_LEAD}(?:you (?:can|must|should|need to|may) "
    rf"|please )?(?:{_VERBS})\b"
    r"|\b(?:please|make sure|be sure to|did you (?:mean|forget)|have you forgotten|you may have forgotten)\b"
    r"|\byou (?:must|should|need to|have to|will need to|can|may want to|might want to)\b(?! not\b| see| find| only)"
    r"|\b(?:consider|try) (?:\w+ing|to)\b",
    re.IGNORECASE,
)
_REPLACEMENT = lazy_pattern(
    r"\buse [`'\"]?[\w.(]{2,120}[^.]{0,80}\binstead\b|\b(?:is|was|has been|have been) (?:renamed|moved|replaced)\b"
    r"|\bin favou?r of\b|\binstead of\b|\breplaced (?:by|with)\b|\bshould be passed as\b|\bshould use\b",
    re.IGNORECASE,
)
# The subject must look like a name in the program: "`loss` must be", "learning_rate should be", "argument x must be".
_REQUIREMENT = lazy_pattern(
    r"(?:[`'\"]\w[\w.()=*]{0,60}[`'\"]|\b\w{1,40}_\w{1,40}"
    r"|\b(?:argument|parameter|option|filename|path)s?\b[^.,]{0,60})[^.,;]{0,60}?(?:, it)?"
    r" (?:should|must|needs? to|has to|have to|can only|may only)(?: not| only| either)? (?:be|have|end|start"
    r"|contain|take|match)\b"
    r"|\bmust be one of\b|\bis only supported (?:for|with|in|by)\b|\b(?:supported|valid|allowed|expected"
    r"|available) (?:values|options|names|arguments|keys) (?:are|is)\b",
    re.IGNORECASE,
)
# Sentences that ask for a report, point to a text, or show how to see more: they change nothing.
_NO_CHANGE = lazy_pattern(
    r"github\.com|\b(?:file|open|submit|report)\b[^.]{0,30}\b(?:issue|bug|report)\b|\breport (?:this|it)\b|\bcontact\b"
    r"|\b(?:see|refer to|consult|read|visit|look at)\b[^.]{0,60}(?:https?:|docs?\b|documentation|guide|log|above"
    r"|below|full|traceback|details)"
    r"|\bmore (?:information|details|context)\b|report_tensor_allocations|\bto see\b|\bwant to see\b"
    r"|\bfor debugging\b|\bstack ?trace"
    r"|run_eagerly|run_functions_eagerly|traceback_filtering|TF_CPP_|CUDA_LAUNCH_BLOCKING"
    r"|\brebuild TensorFlow with\b|\bset verbos"
    r"|\bplease wait\b|\bcheck (?:the )?(?:logs?|output|stderr|above)\b|\bignore this\b",
    re.IGNORECASE,
)
# What Python itself adds to an error about a name: the name that is spelled most alike.
_GUESS = lazy_pattern(r"\ADid you mean: '\w{1,60}'\?\Z")
_PACKAGE = r"(?:\"|')?[A-Za-z][\w.-]{1,60}(?:\[[\w,-]{1,60}\])?(?:[=<>~!]=?[\w.*,<>=]{1,30})?(?:\"|')?"
_INSTALL = lazy_pattern(
    rf"\b(?P<tool>pip3?|conda|mamba) (?P<verb>install|uninstall)(?P<words>(?: (?:-U|--upgrade|-y|--user)"
    rf"| {_PACKAGE}){{1,6}}?)(?=[`'\")]|[.,;:](?:\s|\Z)|\s*\Z| [a-z]+ )"
)
_PLAIN_WORDS = frozenset(
    {"and", "or", "to", "the", "it", "a", "if", "with", "for", "then", "in", "from", "first", "command"}
)
_VARIABLE = lazy_pattern(
    r"\b(?P<name>(?:TF|CUDA|XLA|KERAS|HDF5|PROTOCOL|NCCL|OMP)_[A-Z_]{3,60})=(?P<value>[\w./:-]{1,60})"
)


def instruction_in(message: Sequence[str]) -> Instruction | None:
    """Return what a message says to do, in its own words, or None if it says nothing of the kind."""
    sentences = list(_sentences(message))
    found = [(place, each) for place, text in enumerate(sentences) if (each := _read(text)) is not None]
    if not found:
        return None
    place, best = max(found, key=lambda each: (each[1].force, -each[0]))
    following = next((each for after, each in found if after == place + 1 and each.force >= Force.REPLACEMENT), None)
    if following is not None and len(best.text) + len(following.text) < _LONGEST:
        best = best._replace(text=f"{best.text} {following.text}", command=best.command or following.command)
    return best


def without_fillers(text: str) -> str:
    """Return the text without the sentences that ask for a report, or say how to see more."""
    return " ".join(each for each in _SENTENCE.split(text) if not _NO_CHANGE.search(each))


def _sentences(message: Iterable[str]) -> Iterable[str]:
    paragraphs = list[str]()
    for line in message:
        if paragraphs and _GOES_ON.match(line) and not paragraphs[-1].endswith((".", ":", "!", "?")):
            paragraphs[-1] = f"{paragraphs[-1]} {line}"
        else:
            paragraphs.append(line)
    for paragraph in paragraphs:
        yield from (each.strip() for each in _SENTENCE.split(paragraph) if each.strip())


def _read(sentence: str) -> Instruction | None:
    """Return the sentence as an instruction, or None if it is none, is only announced, or changes nothing."""
    if len(sentence) > 2 * _LONGEST or sentence.endswith(":") or _NO_CHANGE.search(sentence):
        return None
    command = _command_in(sentence)
    kinds = ((Force.REQUEST, _REQUEST), (Force.REPLACEMENT, _REPLACEMENT), (Force.REQUIREMENT, _REQUIREMENT))
    if _GUESS.search(sentence):
        return Instruction(sentence, Force.REQUIREMENT)
    force = Force.COMMAND if command else next((kind for kind, pattern in kinds if pattern.search(sentence)), None)
    return None if force is None else Instruction(sentence, force, command)


def _command_in(sentence: str) -> str:
    """Return the command that the sentence contains; empty if there is none, or one with unsafe words."""
    if (found := _INSTALL.search(sentence)) is not None:
        words = [each.strip("`'\"") for each in found["words"].split()]
        kept = [each for each in words if each.lower() not in _PLAIN_WORDS]
        quoted = [f'"{each}"' if re.search(r"[<>\[!*~]", each) else each for each in kept]
        tool = "python -m pip" if found["tool"].startswith("pip") else found["tool"]
        return f"{tool} {found['verb']} {' '.join(quoted)}" if kept == words else ""
    if (variable := _VARIABLE.search(sentence)) is not None:
        return f"{variable['name']}={variable['value']} python train.py"
    return ""
