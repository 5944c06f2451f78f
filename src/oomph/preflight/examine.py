"""Applies the rules to a training. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, CheckFinding, Rule


@dataclass(frozen=True)
class Result:
    """A finding, and the rule that found it."""

    rule: Rule
    finding: CheckFinding

    @property
    def severity(self) -> str:
        """The severity of the finding: "error" or "warning"."""
        return self.finding.severity or self.rule.severity


@dataclass(frozen=True)
class Examined:
    """Findings of the rules, errors first."""

    results: tuple[Result, ...]
    broken: tuple[str, ...] = ()
    """The names of the rules that raised an error."""


def examine(training: Training, rules: Sequence[Rule]) -> Examined:
    """Apply the rules, leaving out findings that follow from another."""
    found, broken = [], []
    for rule in rules:
        try:
            found += [Result(rule, finding) for finding in rule.find(training)]
        except Exception:  # a broken rule must not hide the findings of the others
            broken.append(rule.name)
    hidden = set(_hidden(found))
    shown = [result for result in found if result.rule.name not in hidden]
    return Examined(tuple(sorted(shown, key=lambda result: result.severity != ERROR)), tuple(broken))


def _hidden(found: Sequence[Result]) -> Iterator[str]:
    for result in found:
        yield from result.rule.hides
