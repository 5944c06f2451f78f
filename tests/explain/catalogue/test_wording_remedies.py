"""Every remedy on every page can be parsed, and its commands can be typed."""

from __future__ import annotations

import re
import shutil
import string
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from oomph.explain.catalogue import catalogue
from oomph.explain.catalogue.catalogue import PAGES, PageError, find, load, parse_page
from oomph.explain.catalogue.docs import documents
from oomph.explain.catalogue.fault import SYSTEMS, Fault, Remedy, split
from oomph.explain.facts.fact import LogFacts
from oomph.explain.matching.advice import advice_for
from oomph.explain.matching.fallback import UNRELATED
from oomph.explain.render import page_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

by_code = pytest.mark.parametrize("fault", load(), ids=lambda fault: fault.code)

DERIVED = frozenset(
    {"first_dimension", "free", "limit", "largest_free", "xid_name", "xid_action", "where", "misfit"}
    | {"array_advice", "feature_advice", "layer_advice", "inside"}
)
"""Values that are derived from others, not captured by a signature on the page."""
PAGE = PAGES / "memory/OOM101-device-oom.md"


def remedies(fault: Fault) -> Iterator[Remedy]:
    yield from fault.remedies
    yield from (remedy for signature in fault.signatures for remedy in signature.remedies)
    yield from fault.answers


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def groups(fault: Fault) -> set[str]:
    patterns = [*(signature.pattern for signature in fault.signatures), *(answer.says for answer in fault.answers)]
    return {name for pattern in patterns for name in re.compile(pattern).groupindex}


@by_code
def test_remedy_has_known_systems_and_no_final_full_stop(fault: Fault) -> None:
    for remedy in remedies(fault):
        assert set(remedy.where) <= SYSTEMS.keys()
        for text in (remedy.text.strip("{}"), remedy.known.replace("{", "").replace("}", "")):
            assert not re.search(r"(?<!\.)\.\Z", text), text
        assert remedy.text[0].isupper() or remedy.says, remedy.text


@by_code
def test_remedy_fills_all_braces_with_captured_values(fault: Fault) -> None:
    known = groups(fault) | DERIVED
    for remedy in remedies(fault):
        wanted = fields(remedy.known) | fields(remedy.command) | (named(remedy.text) if remedy.says else set())
        assert wanted <= known, remedy
        filled = remedy.filled(dict.fromkeys(wanted, "value"))
        assert not re.search(r"[{}]", filled.command), filled.command
        assert "{" not in filled.text.replace('{"value": value}', "").replace('{"value": ...}', "").replace("{...}", "")
        if remedy.says:
            continue  # its text is filled with values that its own words contain
        bare = remedy.filled({})
        assert bare.text == (remedy.known if remedy.known and not fields(remedy.known) else remedy.text)


@by_code
def test_answer_uses_only_the_place_and_values_of_the_words_that_it_answers(fault: Fault) -> None:
    for answer in fault.answers:
        own = set(re.compile(answer.says).groupindex)
        assert fields(answer.command) <= own, answer
        assert answer.known or named(answer.text) <= own | {"where"}, answer


def named(text: str) -> set[str]:
    """Return the values that a text takes, or nothing if its braces are Python's own."""
    try:
        return {name for name in fields(text) if re.fullmatch(r"[a-z_]+", name)}
    except ValueError:
        return set()


@by_code
def test_remedy_command_uses_only_values_of_its_own_wording(fault: Fault) -> None:
    for signature in fault.signatures:
        own = set(re.compile(signature.pattern).groupindex) | ({"inside"} if signature.inside else set())
        assert all(fields(remedy.command) <= own for remedy in signature.remedies), signature.literal


@by_code
def test_wording_remedies_are_distinct(fault: Fault) -> None:
    for signature in fault.signatures:
        said = [(remedy.text, remedy.where) for remedy in signature.remedies]
        assert len(said) == len(set(said)), signature.literal


@pytest.mark.parametrize("fault", [each for each in load() if each.name != UNRELATED], ids=lambda each: each.code)
def test_every_system_gets_a_remedy(fault: Fault) -> None:
    for system in SYSTEMS:
        assert advice_for(fault, (), {system}, {}, LogFacts()), system


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_linux_commands_have_valid_shell_syntax() -> None:
    """`bash -n` parses the commands without running them."""
    typed = {
        remedy.filled(dict.fromkeys(fields(remedy.command), "value")).command
        for fault in load()
        for remedy in remedies(fault)
        if remedy.command and (not remedy.where or set(remedy.where) - {"windows"})
    }
    script = "\n".join(sorted(typed - {command for command in typed if "set_start_method" in command}))
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, timeout=30, check=False)
    assert checked.stderr == ""


def test_reference_shows_remedies_for_single_wordings_and_systems() -> None:
    text = documents(load())["CKP401-checkpoint-failure.md"]
    assert "First, if the log says `unable to lock file` or `Unable to lock file`:" in text
    assert "HDF5_USE_FILE_LOCKING=FALSE" in text
    missing = find("driver-missing")
    assert missing is not None
    assert "Slurm: Ask for a GPU" in page_text(missing)


def with_row(monkeypatch: pytest.MonkeyPatch, name: str, row: dict[str, object]) -> None:
    rows = catalogue.remedy_rows()
    monkeypatch.setattr(catalogue, "remedy_rows", lambda: {**rows, name: row})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"text": "Wait."}, "without a full stop"),
        ({"where": ["beos"]}, "where must be in"),
        ({"kind": "luck"}, "kind must be in"),
        ({"needs": ["keras ~ 3"]}, "a condition cannot be read"),
        ({"when": "now"}, "when"),
    ],
)
def test_invalid_remedy_is_rejected_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object], complaint: str
) -> None:
    with_row(monkeypatch, "wait", {"text": "Wait", **change})
    with pytest.raises(PageError, match=complaint):
        parse_page(page_with('remedies = [\n  "wait",'), PAGE)


def test_unknown_remedy_is_rejected_by_its_id() -> None:
    with pytest.raises(PageError, match="there is no remedy called rest-a-while"):
        parse_page(page_with('remedies = [\n  "rest-a-while",'), PAGE)


def test_page_needs_a_remedy_for_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    with_row(monkeypatch, "wait", {"text": "Wait", "where": ["linux"]})
    with pytest.raises(PageError, match="at least one remedy on the page"):
        parse_page(page_with('remedies = ["wait"]\nothers = ['), PAGE)


def test_remedy_with_several_commands_is_one_for_each_system(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [{"where": ["windows"], "command": "timeout 9"}, {"command": "sleep 9"}]
    with_row(monkeypatch, "wait", {"text": "Wait", "commands": commands})
    page = parse_page(page_with('remedies = [\n  "wait",'), PAGE)
    assert [(each.where, each.command) for each in page.remedies[:2]] == [(("windows",), "timeout 9"), ((), "sleep 9")]


def page_with(remedies: str) -> bytes:
    return PAGE.read_bytes().replace(b"remedies = [", remedies.encode(), 1)


def test_every_remedy_of_the_table_is_used() -> None:
    tables = [tomllib.loads(split(page.read_text(encoding="utf-8"))[0]) for page in PAGES.glob("*/*.md")]
    used = {
        name for table in tables for row in (table, *table.get("signatures", ())) for name in row.get("remedies", ())
    }
    used |= {name for table in tables for name in table.get("answers", ())}
    assert used == catalogue.remedy_rows().keys()


def test_no_two_remedies_are_alike() -> None:
    """If there were several copies, a correction to one would be forgotten in the others."""
    written = Counter(repr(sorted(row.items())) for row in catalogue.remedy_rows().values())
    assert [row for row, times in written.items() if times > 1] == []


def test_remedies_are_in_alphabetical_order() -> None:
    assert list(catalogue.remedy_rows()) == sorted(catalogue.remedy_rows())
