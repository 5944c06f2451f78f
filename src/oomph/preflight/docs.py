"""Writes the rules reference: `python -m oomph.preflight.docs docs/reference/check-rules.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from oomph.preflight.rule import Rule
from oomph.preflight.rules import RULES


def document() -> str:
    """Return the rules reference, generated from the rules."""
    return "\n".join(_lines())


def summary(rule: Rule) -> str:
    """Return one sentence describing the mistake that the rule finds."""
    return rule.find.__doc__ or ""


def _lines() -> Iterator[str]:
    yield "# What `oomph check` finds\n"
    yield "Generated from `src/oomph/preflight/rules` by `python -m oomph.preflight.docs`. Codes are never reused.\n"
    yield "| code | name | severity | needs | what it finds |"
    yield "| --- | --- | --- | --- | --- |"
    for rule in RULES:
        anchor = f"{rule.code.lower()}-{rule.name}"
        yield f"| [{rule.code}](#{anchor}) | {rule.name} | {rule.severity} | {rule.depth} | {summary(rule)} |"
    for rule in RULES:
        yield f"\n## {rule.code} {rule.name}\n"
        yield f"{summary(rule)} {rule.why}\n"
        yield f"- wrong: `{rule.wrong}`"
        yield f"- right: `{rule.right}`"
        if rule.fault:
            yield f"- fault: {rule.fault}"
        if rule.source:
            yield f"- source: {rule.source}"
    yield ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
