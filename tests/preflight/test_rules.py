"""The rules as a whole: their names, their pages, and which rules hide others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oomph.preflight import rules
from oomph.preflight.docs import document, summary
from oomph.preflight.document import as_document, checked_of
from oomph.preflight.facts.data import ARRAYS, Data, DataSample, Part
from oomph.preflight.facts.model import Loss, Model, Output
from oomph.preflight.facts.training import FitFacts, Training
from oomph.preflight.rule import ERROR, SAMPLE, WARNING, CheckFinding, Rule, examine, in_order
from oomph.preflight.rules import RULES

NOTHING = Training(Model("Sequential", (), ()), Data(ARRAYS), FitFacts())


def test_each_code_and_each_name_is_used_only_once():
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES) >= 60


def test_every_rule_in_the_source_is_registered():
    sources = Path(rules.__file__).parent.glob("*.py")
    assert sum(source.read_text().count("\n@rule(\n") for source in sources) == len(RULES)


def test_rule_is_ordered_after_the_rule_it_refers_to():
    first, second, third = (replace(rule(name), code=name) for name in ("CHK101", "CHK102", "CHK103"))
    assert in_order({second, third, replace(first, after="CHK103")}) == (second, third, replace(first, after="CHK103"))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_has_a_complete_page_and_hides_only_existing_rules(rule):
    assert rule.severity in (ERROR, WARNING)
    assert summary(rule).endswith(".")
    assert rule.why.endswith(".") or rule.why.endswith('"')
    assert rule.wrong
    assert rule.right
    assert set(rule.hides) <= {each.name for each in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_find_nothing_in_unknown_facts(rule):
    assert list(rule.find(NOTHING)) == []


def test_rule_reference_matches_the_rules():
    index, *sections = document().split("\n## ")
    for rule, section in zip(RULES, sections, strict=True):
        assert f"| [{rule.code}](#{rule.code.lower()}-{rule.name}) | {rule.name} | {rule.severity} | " in index
        assert section.startswith(f"{rule.code} {rule.name}\n\n{summary(rule)} {rule.why}\n")
        assert f"\n- wrong: `{rule.wrong}`\n- right: `{rule.right}`\n" in section
        assert rule.source in section


def labels(low: float, high: float, units: int, **loss: object) -> Training:
    counts = {float(value): 10 for value in range(int(low), int(high) + 1)}
    sample = DataSample(rows=100, minimum=low, maximum=high, is_integral=True, counts=counts)
    given = Loss("sparse_categorical_crossentropy", settings=loss)
    output = Output("kind", (None, units), activation="softmax", loss=given)
    return Training(
        Model("Sequential", (), (output,)), Data(ARRAYS, (Part("y", "y", shape=(None,), sample=sample),)), FitFacts()
    )


@pytest.mark.parametrize(
    ("training", "named"),
    [
        (labels(0, 3, 4), False),
        (labels(1, 4, 4), True),
        (labels(0, 4, 4), True),
        (labels(-1, 3, 4), True),
        (labels(-1, 3, 4, ignore_class=-1), False),
        (labels(0, 9, 1000), False),
    ],
)
def test_labels_are_compared_with_the_number_of_output_units(training, named):
    found = {result.rule.name for result in examine(training, RULES).results}
    assert ("label-out-of-range" in found) == named


def rule(name: str, severity: str = ERROR, hides: tuple[str, ...] = (), breaks: bool = False) -> Rule:
    def find(training: Training):
        if breaks:
            raise KeyError(name)
        yield CheckFinding(f"{name} was seen", "Mend it")

    return Rule(f"CHK{name}", name, severity, SAMPLE, "It matters.", "wrong", "right", find, hides)


def test_errors_come_first_without_consequences_and_broken_rules_are_listed():
    rules = [rule("b", WARNING), rule("a", hides=("c",)), rule("c"), rule("d", breaks=True)]
    found = examine(NOTHING, rules)
    assert [result.rule.name for result in found.results] == ["a", "b"]
    assert found.broken == ("d",)


def test_findings_survive_json_and_garbage_is_rejected():
    found = examine(NOTHING, [rule("a"), rule("b", WARNING)])
    document = as_document(found, NOTHING)
    checked = checked_of(document)
    assert [(each.name, each.severity) for each in checked.found] == [("a", ERROR), ("b", WARNING)]
    assert checked.has_errors
    for damaged in ({}, {**document, "findings": [{}]}, {**document, "carried": [1]}, {**document, "findings": 3}):
        with pytest.raises(ValueError, match="findings"):
            checked_of(damaged)
