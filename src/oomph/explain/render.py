"""Formats diagnoses and pages as plain text for people, and as the JSON document for `oomph explain --json`."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from oomph.explain.catalogue.fault import Fault, Remedy, Signature, compiled, neighbours, sentence
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.facts.fact import LogFacts
from oomph.explain.matching.advice import AdvisedRemedy
from oomph.explain.matching.fallback import UNRELATED
from oomph.explain.matching.instruction import without_fillers
from oomph.explain.matching.keras_calls import is_raised_by_keras
from oomph.explain.matching.named_fault import SUSPICION, Diagnoses, Diagnosis
from oomph.explain.matching.own_account import RUN
from oomph.explain.matching.question import question_between
from oomph.files.patterns import lazy_pattern
from oomph.terminal.amounts import counted
from oomph.terminal.message import shown_line
from oomph.terminal.screen import BOLD, Heads
from oomph.terminal.wrapping import wrapped

SCHEMA = 1
_USUAL_WIDTH = 80
_CERTAIN = 0.93
"""The confidence from which nothing more needs to be known of the error."""
_WORTH_ROOM = 2
"""The number of remedies for which the quoted lines are shortened."""
_SETTLED = 0.65
_SURE = 0.9
"""The minimum confidence with which a plain Python error is called one without a doubt."""
_PAGE_FIELDS = ("code", "name", "title", "summary", "domain", "severity", "sticky", "since", "versions")
_NEXT = "Next: "
_SHOWN = 230  # characters to show of each line of evidence; --json has the whole line
_MOST_LINES, _ROOM_OF_OTHERS = 20, 9
"""The number of lines for one fault with everything around it, and for each further one."""
_SAME = 60
"""The number of characters at their ends in which two lines agree that say the same."""
_SHORT, _OF_VALUE = 50, 80
"""The number of characters up to which an effect stands behind its remedy, and to show of a captured value."""
_ENDS = ("", "", "Next")  # the lines around a diagnosis
# When and by which thread a line was logged: "W0000 00:00:1795237241.087012    1475 ", "2026-11-12 10:00:00.1: W ".
_PREFIX = lazy_pattern(
    r"\A(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: )?[IWEF](?:\d{4} [\d:.]{1,30} {1,9}\d{1,9})? (?=\S{1,200}\])"
)
_LACKING = {
    "error": "The log ends inside a traceback, at line {line}: the error itself is missing.",
    "traceback": "No traceback stands above line {line}: it would show which call failed.",
    "start of the traceback": "The traceback above line {line} lacks its start, which shows your own lines.",
}


def as_text(
    diagnoses: Sequence[Diagnosis],
    subject: str,
    state: str = "",
    following: str = "",
    width: int = _USUAL_WIDTH,
    section: str = "",
) -> str:
    """Format the faults found in `subject`: facts, causes, evidence, remedies, and the next command to run.

    One fault takes at most 20 lines of 80 columns.

    Args:
        state: text that follows the number of faults.
        following: lines to show instead of the next command.
        section: an additional section to show before the next command.
    """
    told = [d for place, d in enumerate(diagnoses) if place == 0 or d.confidence > SUSPICION]
    found = f"{counted(len(told), 'fault') if told else 'no fault'} found"
    closing = list(_closing(diagnoses, told, width))
    if [each.name for each in told] == [UNRELATED]:
        lines = [*_plain_answer(told[0], subject, state, width), *closing, *([section] if section else [])]
        return "\n".join([*lines, last_lines(following, width) if following else ""])
    lines = [wrapped(f"{subject}: {found}{state}", width, "  ", command=found)]
    most = _MOST_LINES * _USUAL_WIDTH // min(max(width, 1), _USUAL_WIDTH)
    room = most - len("\n".join(lines).split("\n")) - len(closing) - len(_ENDS)
    for rank, diagnosis in enumerate(told, 1):
        first = rank == 1 or diagnosis.role == told[0].role
        lines += ["", *_diagnosis(rank, diagnosis, width, room if rank == 1 else _ROOM_OF_OTHERS, with_advice=first)]
    lines += closing
    lines += ["", *section.split("\n")] if section else [""]
    return "\n".join([*lines, last_lines(following or _next(diagnoses), width)])


def _closing(diagnoses: Sequence[Diagnosis], told: Sequence[Diagnosis], width: int) -> Iterator[str]:
    """Yield what else it may be, what would decide, and what the log lacks."""
    texts, command = list[str](), ""
    if len(told) < len(diagnoses) and not _is_settled(told[0]):
        texts.append(_otherwise(told[0].fault, [d.fault for d in diagnoses if d not in told]))
    page = [each for each in told[0].fault.remedies if each.fits(told[0].systems, told[0].facts)] if told else []
    if told and (question := question_between(told[0].advice, told[0].facts, page)) is not None:
        command = question.command
        texts.append(f"To choose: {question.text} {command}")
    gaps = diagnoses.facts.gaps if isinstance(diagnoses, Diagnoses) else ()
    sure = bool(told) and told[0].confidence >= _CERTAIN
    texts += [_LACKING[gap.missing].format(line=gap.line) for gap in gaps if gap.missing == "error" or not sure]
    for text in texts:
        yield from ("", *wrapped(text, width, "  ", command=command).split("\n"))


def _is_settled(diagnosis: Diagnosis) -> bool:
    """True if no other name for the fault is worth the room: it is certain, or several remedies fit the log."""
    if diagnosis.name == UNRELATED:
        return diagnosis.confidence >= _SURE
    return diagnosis.confidence >= _SETTLED and [each.fit for each in diagnosis.advice[:2]] == ["fits", "fits"]


def _plain_answer(diagnosis: Diagnosis, subject: str, state: str, width: int) -> Iterator[str]:
    """Yield the error with its own frame, which is all that there is to say unless its message advises something."""
    yield wrapped(f"{subject}: {_plain_error(diagnosis)}{state}", width, "  ")
    for each in diagnosis.advice[:1]:
        yield from _advice(1, each.remedy, width)


def _plain_error(diagnosis: Diagnosis) -> str:
    sure = "" if diagnosis.confidence >= _SURE else "probably "
    where = f" at {_shortened(place)}" if (place := diagnosis.captured.get("where")) else ""
    error = diagnosis.evidence[-1]
    kind = "a call that Keras refuses" if is_raised_by_keras(diagnosis.facts) else "a plain Python error"
    return f"{sure}{kind}{where}, {_place(error)}: {_clean(_error_text(error, diagnosis))}"


def heads(names: Iterable[str]) -> Heads:
    """Return the line prefixes to print in bold: the numbered names of faults, and the headings below them."""
    numbered = {f"{number}. {name}": BOLD for number, name in enumerate(names, 1)}
    return {"   what to do": BOLD, _NEXT.rstrip(): BOLD, **numbered}


def headline(fault: Fault) -> str:
    """Return the name and code of a fault."""
    return f"{fault.name} ({fault.code})"


def last_lines(text: str, width: int) -> str:
    """Wrap closing lines, such as "Next: oomph run train.py  (why)", without splitting their commands."""
    return "".join(f"{_last(line, width)}\n" for line in text.split("\n"))


def as_document(diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    """Return the diagnoses as a JSON document. Its structure is part of the public interface."""
    facts = diagnoses.facts if isinstance(diagnoses, Diagnoses) else diagnoses[0].facts if diagnoses else LogFacts()
    return {"schema": SCHEMA, "facts": facts.as_document(), "diagnoses": [_entry(diagnosis) for diagnosis in diagnoses]}


def page_text(fault: Fault, width: int = _USUAL_WIDTH) -> str:
    """Format a page of the catalogue for the terminal."""
    from oomph.explain.markdown import plain  # diagnoses are not Markdown

    lines = [wrapped(f"{headline(fault)}: {fault.title}", width), wrapped(fault.summary, width), ""]
    facts = {"severity": fault.severity, "sticky": "yes" if fault.sticky else "no", "applies to": fault.versions}
    lines += [wrapped(f"{name:<10} {value}", width, " " * 11) for name, value in facts.items()]
    for heading, prose in fault.sections.items():
        title = wrapped(heading, width)
        lines += ["", title, "-" * min(len(heading), width), *plain(prose, width)]
        if heading == "What you can do":
            titled = (remedy._replace(text=remedy.titled) for remedy in fault.remedies)
            for number, remedy in enumerate(titled, 1):
                lines += _advice(number, remedy, width)
    return "\n".join(lines) + "\n"


def page_document(fault: Fault) -> dict[str, Any]:
    """Return a page of the catalogue as a JSON document."""
    fields: dict[str, Any] = {key: getattr(fault, key) for key in _PAGE_FIELDS}
    fields["remedies"] = [remedy.as_document() for remedy in fault.remedies]
    fields["sections"] = dict(fault.sections)
    return {"schema": SCHEMA, "fault": fields}


def _entry(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "code": diagnosis.code,
        "name": diagnosis.name,
        "role": diagnosis.role,
        "confidence": diagnosis.confidence,
        "evidence": [{"line": fact.line, "text": fact.text} for fact in diagnosis.evidence],
        "captured": dict(diagnosis.captured),
        "remedies": [{**each.remedy.as_document(), "fit": each.fit, "line": each.line} for each in diagnosis.advice],
    }


def _diagnosis(rank: int, diagnosis: Diagnosis, width: int, room: int, *, with_advice: bool) -> list[str]:
    """Format one fault in at most `room` lines if its first remedy allows it."""
    head = f"{headline(diagnosis.fault)}, {diagnosis.role}, {diagnosis.confidence:.0%} sure"
    if not with_advice:  # it ends with its cause
        fact = _decisive_facts(diagnosis)[-1]
        shown = [wrapped(head, width, "   ", f"{rank}. "), _fact(fact, diagnosis, width, _SHOWN // 2)]
        return "\n".join(shown).split("\n")
    advice = diagnosis.advice
    by_oomph = _IN_VAIN if diagnosis.outlasted_oomph else _BY_ITSELF
    remedies = [_advice(number, each.remedy, width, by_oomph) for number, each in enumerate(advice, 1)]
    lines = wrapped(head, width, "   ", f"{rank}. ").split("\n")
    lines += wrapped(diagnosis.fault.summary, width, "   ", "   ").split("\n")
    title = [f"   what to do ({_fit(advice[0])})"] if advice else []
    for most in (_WORTH_ROOM, 1):  # a second remedy is worth more than a longer quotation
        told = [*title, *itertools.chain.from_iterable(remedies[:most])]
        evidence = _evidence(diagnosis, width, room - len(lines) - len(told))
        if len(lines) + len(evidence) + len(told) <= room:
            break
    lines += [*evidence, *told]
    for remedy in remedies[most:]:
        lines += remedy if len(lines) + len(remedy) <= room else []
    return lines


def _evidence(diagnosis: Diagnosis, width: int, room: int) -> list[str]:
    """Return the lines that show the fault: as much of it as there is room for, but always the decisive line."""
    facts = _decisive_facts(diagnosis)
    values, at_hand = [*_values(diagnosis, facts, width)], [*_at_hand(diagnosis, width)]
    for shown, most in ((facts, _SHOWN), (facts, _SHOWN // 2), (facts[-1:], _SHOWN), (facts[-1:], _SHOWN // 2)):
        quoted = [_fact(fact, diagnosis, width, most) for fact in shown]
        for blocks in ([*values, *quoted, *at_hand], [*quoted, *at_hand]):
            lines = "\n".join(blocks).split("\n")
            if len(lines) <= room:
                return lines
    return lines


def _fit(advised: AdvisedRemedy) -> str:
    if advised.fit == "fits":
        return f"fits your log, line {advised.line}" if advised.line is not None else "fits what happened"
    return "likely" if advised.fit == "likely" else "general"


def _values(diagnosis: Diagnosis, facts: Sequence[Evidence], width: int) -> Iterator[str]:
    """Yield the captured values that the quoted facts do not show."""
    quoted = " ".join(fact.text for fact in facts)
    values = {name: _shortened(value, most=_OF_VALUE) for name, value in diagnosis.captured.items()}
    shown = [f"{name.replace('_', ' ')}: {value}" for name, value in values.items() if value not in quoted]
    if shown:
        yield _quoted("; ".join(shown), width, "  ")


def _at_hand(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield what was read besides the log, if it belongs to this fault's error."""
    seen = diagnosis.facts.at_hand
    if seen is None or diagnosis.error is None:
        return
    if seen.script is not None:
        yield _quoted(f"from {seen.script.file}:{seen.script.line}: {_shortened(seen.script.statement)}", width, "  ")
    elif seen.unread:
        yield _quoted(seen.unread, width, "  ")
    if seen.packages:
        yield _quoted(f"versions from {seen.packages}", width, "  ")


def _decisive_facts(diagnosis: Diagnosis) -> list[Evidence]:
    """Return the facts to quote: that of the surest wording, and the error that ended the program or else the first."""
    facts = diagnosis.evidence
    literals = [signature.literal for signature in diagnosis.signatures[:1] if signature.literal]
    surest = next((fact for fact in facts if any(each in fact.text for each in literals)), facts[0])
    other = facts[-1] if diagnosis.error is not None and facts[-1].line == diagnosis.error.line else facts[0]
    message = "".join(diagnosis.error.message[:1]) if diagnosis.error is not None else ""
    if message and (surest.text.strip() in message or message[:_SAME] in surest.text):
        return [other]  # it is quoted with the whole message
    repeats = surest.text[-_SAME:] == other.text[-_SAME:] and surest.source == other.source
    return [surest] if repeats else [fact for fact in facts if fact in (surest, other)]


def _fact(fact: Evidence, diagnosis: Diagnosis, width: int, most: int) -> str:
    return _quoted(f"{_place(fact)}: {_error_text(fact, diagnosis, most)}", width, "  ")


def _error_text(fact: Evidence, diagnosis: Diagnosis, most: int = _SHOWN) -> str:
    """Return the text of a fact, with the whole message of the error if it is the error."""
    text, error = fact.text, diagnosis.error
    if error is not None and fact.line == error.line and fact.text.lstrip().startswith(error.type_name):
        text = " ".join((f"{error.type_name}:", *error.message))
    text = _PREFIX.sub("", text)
    if len(text) > most:
        text = without_fillers(text)
    return _shortened(text, diagnosis.signatures, most)


def _otherwise(first: Fault, others: Sequence[Fault]) -> str:
    """Describe the other faults that fit the same evidence, and how to tell them apart."""
    apart = neighbours(first)
    told = (f"{headline(fault)}{_by(apart.get(fault.code))}" for fault in others)
    return f"If that does not fit: {'; '.join(told)}."


def _by(sign: str | None) -> str:
    return f": {sign.rstrip('.')}" if sign else ""


def _quoted(text: str, width: int, hang: str) -> str:
    """Clean and wrap text that oomph did not write, such as a log."""
    return wrapped(_clean(text), width, f"     {hang}", "     ")


_BY_ITSELF = "[oomph run does this for you]"
_IN_VAIN = "[oomph run does this for you, but gave up in this run]"


def _advice(number: int, remedy: Remedy, width: int, by_oomph: str = _BY_ITSELF) -> list[str]:
    """Return the lines of a remedy."""
    mark = by_oomph if remedy.action else ""
    changes = _clean(remedy.changes)
    is_short = 0 < len(changes) <= _SHORT
    said = sentence(f"{_clean(remedy.told)} (changes: {changes})" if is_short else _clean(remedy.told))
    text = wrapped(f"{said} {mark}".rstrip(), width, "        ", f"     {number}. ", mark)
    command = [f"          {_clean(remedy.command)}"] if remedy.command else []
    effect = [wrapped(f"changes: {changes}", width, "        ", "        ")] if changes and not is_short else []
    return "\n".join([text, *command, *effect]).split("\n")


def _clean(text: str) -> str:
    """Put text from a log on one line. It is cleaned before wrapping, which could separate a key from its name."""
    return shown_line(text.replace("\n", " "))


def _place(fact: Evidence) -> str:
    places = [fact.origin, f"line {fact.line}" if fact.line is not None else ""]
    return ", ".join(place for place in places if place) or fact.source


def _shortened(text: str, signatures: Sequence[Signature] = (), most: int = _SHOWN) -> str:
    text = text.strip().replace("\n", " / ")
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return excerpt(text, signatures, most)


def _last(line: str, width: int) -> str:
    """Wrap a closing line without splitting its command."""
    command = line.removeprefix(_NEXT).partition("  (")[0] if line.startswith(_NEXT) else ""
    return wrapped(line, width, "  ", command=command)


def _next(diagnoses: Sequence[Diagnosis]) -> str:
    if not diagnoses:
        return "Next: oomph run SCRIPT  (keeps the script alive, and keeps the evidence of a failure)"
    if run := next((run for diagnosis in diagnoses if (run := diagnosis.captured.get(RUN))), ""):
        return _clean(f"Next: oomph explain {shlex.quote(run)}  (everything that oomph kept from that run)")
    return f"Next: oomph explain {diagnoses[0].code}  (why it happens, how to tell it from its neighbours)"


_HEAD = 4
"""One in this many characters of the excerpt is reserved for the start of the line, which identifies the speaker."""
_CONTEXT = 24
_GAP = " ... "
# Compilers start with the file, the line and the command. The actual error follows one of the words in `_VERDICT`.
_COMPILERS = ("ptxas", "nvlink", "xla", "Xla", "XLA", "HLO", "hlo", "MLIR", "mlir", "LLVM", "compil")
_VERDICT = lazy_pattern(r"\b(?:fatal|error) {0,8}: |\b[Ff]ailed\b")


def excerpt(text: str, signatures: Sequence[Signature], most: int) -> str:
    """Shorten the text to `most` characters, marking each omission.

    Args:
        text: one line.
        signatures: the signatures whose words are kept if there is room, most important first.
        most: the maximum number of characters to show.
    """
    if len(text) <= most:
        return text
    start, end = next(_decisive(text, signatures), (0, 0))
    head, begin = text[: most // _HEAD], start - _CONTEXT
    if end <= most or begin <= len(head):
        return text[:most] + _GAP.rstrip()
    shown = text[begin : begin + most - len(head) - len(_GAP)]
    return head + _GAP + shown + (_GAP.rstrip() if begin + len(shown) < len(text) else "")


def _decisive(text: str, signatures: Sequence[Signature]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the decisive words, the most likely first."""
    places = [place for signature in signatures if (place := _span(text, signature)) is not None]
    if places and any(name in text for name in _COMPILERS):
        verdict = _VERDICT.search(text, places[0][0])
        if verdict is not None:
            yield verdict.start(), min(verdict.end() + 4 * _CONTEXT, len(text))
    yield from places


def _span(text: str, signature: Signature) -> tuple[int, int] | None:
    """Return the span of the signature's match, or of its literal if the match is long, or None without a literal."""
    start = text.find(signature.literal)
    if start < 0:
        return None
    found = compiled(signature.pattern).search(text) if signature.pattern else None
    if found is not None:
        start = text.find(signature.literal, *found.span())
        if start < 0 or found.end() - found.start() <= 8 * _CONTEXT:
            return found.span()
    return start, start + len(signature.literal)
