"""Builds the output of `oomph explain` for a name that isn't a file: a fault, a check, a rule or an exception."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oomph.cli.target import meaning
from oomph.explain import render
from oomph.explain.catalogue.catalogue import find, load
from oomph.explain.catalogue.fault import Fault
from oomph.explain.diagnose import diagnose_log
from oomph.terminal.screen import BOLD, Heads
from oomph.terminal.wrapping import wrapped

if TYPE_CHECKING:
    from oomph.doctor.check import Check
    from oomph.preflight.rule import Rule

_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.){0,20}(?P<name>[A-Z]\w{2,60}(?:Error|Exception|Interrupt))\Z")
_CTRL_C, _CODE_OF_CTRL_C = "KeyboardInterrupt", 130
_MOST_FAULTS = 6
_SURE = 0.5


def page_of(word: str, width: int) -> tuple[str, dict[str, Any]] | None:
    """Return the page for this word, as text and as a JSON document, or None for an unknown word."""
    fault = find(word)
    if fault is not None:
        return render.page_text(fault, width), render.page_document(fault)
    check = _check(word)
    if check is not None:
        return _text_of_check(check, width), _document_of_check(check)
    rule = _rule(word)
    if rule is not None:
        return _text_of_rule(rule, width), _document_of_rule(rule)
    exception = _EXCEPTION.match(word)
    return None if exception is None else _page_of_exception(exception["name"], width)


def heads_of(word: str, width: int) -> Heads:
    """Return the line prefixes to print in bold on the page for this word."""
    fault = find(word)
    if fault is not None:
        titles = (line for title in fault.sections for line in wrapped(title, width).split("\n"))
        return dict.fromkeys([render.headline(fault), *titles], BOLD)
    found = _check(word) or _rule(word)
    own = {} if found is None else {f"{found.name} ({found.code})": BOLD}
    return {**render.heads(()), **own}


def faults_of(exception: str) -> tuple[Fault, ...]:
    """Return the faults diagnosed from this exception alone, then those whose pages mention it most often."""
    name = re.compile(rf"(?<!\w){re.escape(exception)}(?!\w)")
    alone = diagnose_log(f"Traceback (most recent call last):\n{exception}: \n".encode())
    sure = [each.fault for each in alone[:1] if each.confidence >= _SURE and each.fault.code != "PYT002"]
    times = {fault: len(name.findall(fault.text)) for fault in load() if not fault.code.startswith("PYT")}
    known_by = {fault for fault in times if any(each.literal == exception for each in fault.signatures)}
    named = sorted(filter(times.get, times), key=lambda fault: (fault not in known_by, -times[fault]))
    return tuple(dict.fromkeys([*sure, *named]))[:_MOST_FAULTS] if named or hasattr(builtins, exception) else ()


def _page_of_exception(name: str, width: int) -> tuple[str, dict[str, Any]] | None:
    if name == _CTRL_C:
        told = f"{name} is not a fault. {meaning(_CODE_OF_CTRL_C)}"
        return f"{wrapped(told, width)}\n", _document_of_exception(name, ())
    found = faults_of(name)
    return (_text_of_exception(name, found, width), _document_of_exception(name, found)) if found else None


def _text_of_exception(name: str, found: Sequence[Fault], width: int) -> str:
    told = f"{name} is an exception class: only the message shows which fault it is. It may be one of these:"
    lines = [wrapped(told, width)]
    for fault in found:
        told = f"  {fault.name} ({fault.code}): {fault.summary}"
        lines.append(wrapped(told, width, "    "))
    return "\n".join([*lines, render.last_lines("Next: oomph explain LOG  (names the right one)", width)])


def _document_of_exception(name: str, found: Sequence[Fault]) -> dict[str, Any]:
    faults = [{"code": fault.code, "name": fault.name, "summary": fault.summary} for fault in found]
    return {"schema": render.SCHEMA, "exception": name, "faults": faults}


def _check(word: str) -> Check | None:
    from oomph.doctor.checks import CHECKS  # only for a word that isn't a fault

    return next((check for check in CHECKS if word.casefold() in (check.code.casefold(), check.name)), None)


def _text_of_check(check: Check, width: int) -> str:
    lines = [
        wrapped(f"{check.name} ({check.code}): a check of oomph doctor", width, "  "),
        wrapped(check.why, width, "          ", "  why     "),
        *[f"  fault   oomph explain {fault}" for fault in check.faults],
    ]
    following = f"Next: oomph doctor --only {check.code}  (what it finds on this machine, and what to do)"
    return "\n".join([*lines, render.last_lines(following, width)])


def _document_of_check(check: Check) -> dict[str, Any]:
    return {
        "schema": render.SCHEMA,
        "check": {"code": check.code, "name": check.name, "why": check.why, "faults": list(check.faults)},
    }


def _rule(word: str) -> Rule | None:
    from oomph.preflight.rules import RULES  # only for a word that isn't a fault

    return next((rule for rule in RULES if word.casefold() in (rule.code.casefold(), rule.name)), None)


def _text_of_rule(rule: Rule, width: int) -> str:
    from oomph.preflight.docs import summary

    lines = [
        wrapped(f"{rule.name} ({rule.code}): {rule.severity} of oomph check", width, "  "),
        wrapped(summary(rule), width, "          ", "  what    "),
        wrapped(rule.why, width, "          ", "  why     "),
        f"  wrong   {rule.wrong}",
        f"  right   {rule.right}",
        *([f"  source  {rule.source}"] if rule.source else []),
    ]
    return "\n".join([*lines, render.last_lines("Next: oomph check train.py", width)])


def _document_of_rule(rule: Rule) -> dict[str, Any]:
    texts = {name: getattr(rule, name) for name in ("code", "name", "severity", "why", "wrong", "right", "source")}
    return {"schema": render.SCHEMA, "rule": texts}
