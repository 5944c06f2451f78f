"""The answer: short, with what decides, one question where something is open, and what a cut log lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.explain.catalogue.catalogue import find
from oomph.explain.catalogue.fault import Remedy
from oomph.explain.diagnose import diagnose_log
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.facts.fact import LibraryVersion, LogFacts
from oomph.explain.facts.version_range import VersionRange
from oomph.explain.matching.named_fault import CAUSE, Diagnoses, Diagnosis
from oomph.explain.render import as_document, as_text

LOGS = Path(__file__).parents[1] / "logs"
HEAD = 'Traceback (most recent call last):\n  File "train.py", line 7, in main\n    d["a"]\n'


def _text(log: str) -> str:
    return as_text(diagnose_log(log.encode()), "train.log")


def _lines(log: bytes) -> int:
    return len(as_text(diagnose_log(log), "train.log").rstrip().split("\n"))


@pytest.mark.parametrize("name", ["oomgraph.log", "launch_209.log", "no_libcublas.so.12.log", "xla_oom.log"])
def test_one_fault_takes_at_most_20_lines(name: str) -> None:
    assert _lines((LOGS / name).read_bytes()) <= 20


def test_most_logs_take_at_most_20_lines() -> None:
    counts = sorted(_lines(path.read_bytes()) for path in LOGS.rglob("*.log"))
    assert counts[len(counts) // 2] <= 20


def test_consequence_gets_no_remedy_and_no_diagnosis_more_than_three() -> None:
    for path in LOGS.rglob("*.log"):
        found = diagnose_log(path.read_bytes())
        assert all(len(each.remedies) <= 3 for each in found)
        text = as_text(found, "train.log")
        assert text.count("what to do (") <= max(sum(each.role == CAUSE for each in found), 1)


def test_plain_python_error_is_one_sentence_with_its_frame() -> None:
    text = _text(f"{HEAD}RuntimeError: the author forgot the flux\n")
    said = " ".join(text.split())
    assert said == (
        "train.log: a plain Python error at train.py:7 in main, line 4: RuntimeError: the author forgot the flux"
    )
    assert not diagnose_log(f"{HEAD}RuntimeError: the author forgot the flux\n".encode())[0].remedies


def test_all_lines_of_the_message_are_quoted() -> None:
    text = _text(f"{HEAD}ValueError: The widget is unset.\nIt was set before.\nSet it with `widget.set()`.\n")
    said = " ".join(text.split())
    assert "ValueError: The widget is unset. It was set before. Set it with `widget.set()`." in said


def test_the_message_comes_first_with_its_command_and_line() -> None:
    error = "ImportError: Needs the frobnicator.\nInstall it: `pip install frob-nic>=2`.\n"
    found = diagnose_log(f"{HEAD}{error}".encode())
    (advised, *_) = found[0].advice
    assert advised.remedy.command == 'python -m pip install "frob-nic>=2"'
    assert (advised.fit, advised.line) == ("fits", 4)
    entry = as_document(found)["diagnoses"][0]["remedies"][0]
    assert (entry["fit"], entry["line"]) == ("fits", 4)
    assert "1. As the error itself says: Install it: `pip install frob-nic>=2`." in as_text(found, "train.log")


def test_what_failed_already_is_not_advised_by_the_message() -> None:
    tried = "ERROR: No matching distribution found for frob\n"
    found = diagnose_log(f"{tried}{HEAD}ImportError: Install it: `pip install frob`.\n".encode())
    assert not any("frob" in remedy.command for each in found for remedy in each.remedies)


@pytest.mark.parametrize(
    ("log", "lacking"),
    [
        (HEAD, "The log ends inside a traceback, at line 3"),
        ("ValueError: Shapes (None, 1) and (None, 10) are incompatible\n", "No traceback stands above line 1"),
        (
            '  File "/e/lib/python3.11/site-packages/keras/src/losses/loss.py", line 7, in f\n    g()\n'
            "ValueError: Shapes (None, 1) and (None, 10) are incompatible\n",
            "The traceback above line 3 lacks its start",
        ),
    ],
)
def test_what_a_cut_log_lacks_is_named(log: str, lacking: str) -> None:
    assert lacking in " ".join(_text(log).split())


def _diagnosed(facts: LogFacts, *remedies: Remedy) -> Diagnoses:
    fault = find("killed")
    assert fault is not None
    page = fault._replace(remedies=remedies)
    return Diagnoses([Diagnosis(page, CAUSE, 0.95, (Evidence("log", "x", 1),), facts=facts)])


def test_one_question_where_the_log_leaves_a_remedy_open() -> None:
    remedies = (Remedy("Take the old one", unless=("keras >= 3",)), Remedy("Take the new one"))
    said = " ".join(as_text(_diagnosed(LogFacts(), *remedies), "log").split())
    assert "To choose: remedy 1 does not help with keras 3 or later. Yours: python -m pip show keras" in said
    known = LogFacts(versions=[LibraryVersion("keras", VersionRange((2, 9), (2, 9)), 1)])
    assert "To choose" not in as_text(_diagnosed(known, *remedies), "log")


def test_a_remedy_says_when_it_is_the_one() -> None:
    remedies = (Remedy("Do A"), Remedy("Do B", applies="the card is old"))
    assert "2. If the card is old: do B." in as_text(_diagnosed(LogFacts(), *remedies), "log")


def test_error_line_without_a_traceback_is_always_a_fault() -> None:
    for after in ("", "job 7 done\n", "srun: error: node7: task 0: Exited with exit code 1\n" * 3):
        assert "no fault found" not in _text(f"RuntimeError: the flux is out\n{after}"), after
