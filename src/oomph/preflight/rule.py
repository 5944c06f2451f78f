"""A rule, which detects one mistake in a training run, its findings, and `examine`, which applies rules. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from oomph.preflight.facts.training import Training

ERROR, WARNING = "error", "warning"
"""ERROR: training fails, or the model cannot learn what it should. WARNING: something is probably not as intended."""
SPEC, MODEL, SETTINGS, SAMPLE, STEP = "spec", "model", "settings", "sample", "step"
"""The facts that a rule needs: shapes and types; the compiled model; the fit call; sample values; a trial step."""
PIPELINE = "pipeline"
"""Another fact that a rule may need: the measured time spent waiting for data."""
_DEPTHS = {"1": SPEC, "2": MODEL, "3": SETTINGS, "4": SAMPLE, "5": STEP, "6": PIPELINE}
"""The depth of a rule, keyed by the first digit of its code."""


@dataclass(frozen=True)
class CheckFinding:
    """One mistake in one training run."""

    message: str
    """One or two factual sentences with the observed values: "labels 1..4, valid is 0..3"."""
    remedy: str
    """The fix, in one sentence without a final full stop, with the values of this training run."""
    code: str = ""
    """The suggested replacement for the line; empty if there is none."""
    where: str = ""
    """The file and line, if different from those of the fit call."""
    severity: str = ""
    """The severity, if different from the rule's."""


Find = Callable[[Training], Iterator[CheckFinding]]


@dataclass(frozen=True)
class Rule:
    """One mistake that a training run can contain, and its documentation."""

    code: str
    """CHK followed by three digits, never reused; the first digit determines the depth."""
    name: str
    """The name of the mistake, in kebab case."""
    severity: str
    depth: str
    why: str
    """The current behavior of TensorFlow and Keras, and its effect on training, in one to three sentences."""
    wrong: str
    """The line of code as people tend to write it."""
    right: str
    """The corrected line of code."""
    find: Find
    hides: tuple[str, ...] = ()
    """The names of rules whose findings are consequences of this one."""
    fault: str = ""
    """The fault that the mistake leads to, if oomph explain knows one."""
    source: str = ""
    """The reference: an issue, a Keras or TensorFlow file, or a paper."""
    after: str = ""
    """The code of the rule to sort after; empty to sort by this rule's own code."""


def rule(
    code: str,
    severity: str,
    *,
    why: str,
    wrong: str,
    right: str,
    hides: tuple[str, ...] = (),
    fault: str = "",
    source: str = "",
    after: str = "",
) -> Callable[[Find], Rule]:
    """Turn the decorated function into a rule, named after the function and described by its docstring."""

    def registered(find: Find) -> Rule:
        name, depth = find.__name__.replace("_", "-"), _DEPTHS[code[len("CHK")]]
        return Rule(code, name, severity, depth, why, wrong, right, find, hides, fault, source, after)

    return registered


def in_order(rules: Collection[Rule]) -> tuple[Rule, ...]:
    """Sort rules by code, but place each rule with `after` directly after the rule that it refers to."""
    by_code = {rule.code: rule for rule in rules}
    return tuple(sorted(rules, key=lambda rule: _place(rule, by_code)))


def _place(rule: Rule, by_code: Mapping[str, Rule]) -> tuple[str, ...]:
    before = _place(by_code[rule.after], by_code) if rule.after else ()
    return (*before, rule.code)


@dataclass(frozen=True)
class Result:
    """A finding and the rule that produced it."""

    rule: Rule
    finding: CheckFinding

    @property
    def severity(self) -> str:
        """The severity of the finding: "error" or "warning"."""
        return self.finding.severity or self.rule.severity


@dataclass(frozen=True)
class Examined:
    """The findings of all rules, errors first."""

    results: tuple[Result, ...]
    broken: tuple[str, ...] = ()
    """The names of the rules that raised an error."""


def examine(training: Training, rules: Sequence[Rule]) -> Examined:
    """Apply the rules and drop findings that follow from others."""
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
