"""A diagnosis's remedies: which ones apply, with which command, and what their values explain."""

from __future__ import annotations

import pytest

from oomph.explain.catalogue.catalogue import find
from oomph.explain.catalogue.fault import Fault, Remedy, Signature
from oomph.explain.diagnose import diagnose_log
from oomph.explain.facts.fact import LogFacts
from oomph.explain.matching.advice import MOST, advice_for
from oomph.explain.matching.named_fault import OwnCommand, derived

LINUX = frozenset({"linux"})


def page(*remedies: Remedy) -> Fault:
    fault = find("killed")
    assert fault is not None
    return fault._replace(remedies=remedies)


def texts(
    fault: Fault, *signatures: Signature, systems: frozenset[str] = LINUX, **captured: str
) -> list[tuple[str, str]]:
    given = advice_for(fault, signatures, systems, captured, LogFacts())
    return [(each.remedy.text, each.remedy.command) for each in given]


def test_surest_wording_remedies_come_first_and_page_remedies_last() -> None:
    sure = Signature("a", advice='[{"text": "first"}]')
    less = Signature("b", confidence=0.5, advice='[{"text": "second"}]')
    assert texts(page(Remedy("last")), sure, less) == [("first", ""), ("second", "")]
    assert texts(page(Remedy("last")), sure) == [("first", ""), ("last", "")]


def test_more_specific_wording_remedies_come_first() -> None:
    sure, narrow = Signature("a", advice='[{"text": "general"}]'), Signature("b", confidence=0, alone=False)
    assert texts(page(), sure, narrow._replace(advice='[{"text": "special"}]')) == [("special", ""), ("general", "")]


def test_remedy_for_another_system_is_hidden() -> None:
    fault = page(Remedy("for Windows", where=("windows",)), Remedy("for Linux", where=("linux", "wsl")), Remedy("all"))
    assert texts(fault) == [("for Linux", ""), ("all", "")]
    assert texts(fault, systems=frozenset({"windows"})) == [("for Windows", ""), ("all", "")]
    assert texts(fault, systems=frozenset({"slurm", "container"})) == [("all", "")]


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_oomph_run_remedies_are_shown_only_on_supported_systems(system: str) -> None:
    fault = page(Remedy("restart", "oomph run train.py", action="restart"), Remedy("look"))
    assert texts(fault, systems=frozenset({system})) == [("look", "")]
    assert texts(fault, systems=frozenset({system, "container"})) == [("look", "")]
    assert len(texts(fault, systems=frozenset({"wsl"}))) == 2


def test_mac_log_gets_no_oomph_run_remedy() -> None:
    log = b'  File "/Users/me/train.py", line 3, in <module>\nCUDA_ERROR_LAUNCH_FAILED: unspecified launch failure\n'
    first, *_ = diagnose_log(log)
    assert any(remedy.action for remedy in first.fault.remedies)
    assert first.remedies
    assert not any(remedy.action for remedy in first.remedies)


def test_remedy_texts_and_commands_are_not_repeated() -> None:
    fault = page(Remedy("look", "oomph doctor"), Remedy("ask", "oomph doctor"), Remedy("look"), Remedy("think"))
    assert texts(fault) == [("look", "oomph doctor"), ("think", "")]


def test_number_of_remedies_is_limited() -> None:
    assert len(texts(page(*(Remedy(str(number)) for number in range(20))))) == MOST


def test_remedy_without_captured_values_falls_back_to_its_plain_text() -> None:
    fault = page(Remedy("install it", "pip install numpy=={needed}", known="install NumPy {needed}"))
    assert texts(fault, needed="1.26.4") == [("install NumPy 1.26.4", "pip install numpy==1.26.4")]
    assert texts(fault) == [("install it", "")]


def test_shell_unsafe_value_never_enters_a_command() -> None:
    fault = page(Remedy("install it", "pip install {package}"))
    for value in ("x; rm -rf ~", "$(reboot)", "`reboot`", "a b", "-rf", "x\nreboot", "x'y"):
        assert texts(fault, package=value) == [("install it", "")]
    assert texts(fault, package="tensorflow_text") == [("install it", "pip install tensorflow_text")]


def test_trailing_full_stop_of_a_captured_value_is_dropped() -> None:
    fault = page(Remedy("change it", known="change it: {reason}"))
    assert texts(fault, reason="a shape was expected.") == [("change it: a shape was expected", "")]
    assert texts(fault, reason="and so on ...") == [("change it: and so on ...", "")]


SCRIPT = ("my script.py", "--epochs", "3")
PROGRAM = ("--", "env", "A=1", "python", "t.py")


@pytest.mark.parametrize(
    ("words", "command", "typed"),
    [
        (SCRIPT, "oomph run train.py", "oomph run 'my script.py' --epochs 3"),
        (SCRIPT, "A=1 oomph run train.py    # docker run", "A=1 oomph run 'my script.py' --epochs 3    # docker run"),
        (SCRIPT, "oomph run --resume train.py", "oomph run --resume 'my script.py' --epochs 3"),
        (SCRIPT, "A=1 python train.py", "A=1 python 'my script.py' --epochs 3"),
        (SCRIPT, "python -X faulthandler train.py", "python -X faulthandler 'my script.py' --epochs 3"),
        (SCRIPT, "tf_upgrade_v2 --infile train.py", "tf_upgrade_v2 --infile train.py"),
        (SCRIPT, "nvidia-smi", "nvidia-smi"),
        (("-m", "my.train"), "python train.py", "python -m my.train"),
        (PROGRAM, "oomph run train.py", "oomph run -- env A=1 python t.py"),
        (PROGRAM, "A=1 python train.py", "A=1 env A=1 python t.py"),
        (PROGRAM, "python -X faulthandler train.py", "python -X faulthandler train.py"),
        ((), "oomph run train.py", "oomph run train.py"),
    ],
)
def test_own_command_replaces_the_placeholder_train_py(words: tuple[str, ...], command: str, typed: str) -> None:
    assert OwnCommand((), words).put_into(command) == typed


def test_command_backslash_is_kept() -> None:
    assert OwnCommand((), (r"a\1.py",)).put_into("python train.py") == r"python 'a\1.py'"


def test_run_options_are_kept_in_the_command() -> None:
    own = OwnCommand(("--checkpoint-every", "5m"), ("t.py",))
    assert own.put_into("oomph run train.py") == "oomph run --checkpoint-every 5m t.py"
    assert own.put_into("python train.py") == "python t.py"


@pytest.mark.parametrize(
    ("found", "needed", "words"),
    [
        ("150528", "50176", "3 channels, but 1 is assumed"),
        ("3072", "768", "twice as high and wide"),
        ("76800", "768", "100 times as many: the reshape leaves out the batch"),
        ("50176", "150528", "1 channel, but 3 are assumed"),
        ("768", "3072", "half as high and wide"),
        ("320", "10240", "1/32: the reshape contains a fixed batch size"),
        ("1379040", "12675", "number of classes or anchors"),
        ("0", "768", "empty"),
        ("6220800", "0", "empty"),
    ],
)
def test_shape_mismatch_is_explained_by_the_ratio_of_two_sizes(found: str, needed: str, words: str) -> None:
    assert words in derived({"found": found, "needed": needed})["misfit"]


@pytest.mark.parametrize(
    "captured", [{}, {"found": "3"}, {"found": "x", "needed": "3"}, {"found": "9" * 40, "needed": "3"}]
)
def test_nothing_is_derived_without_two_sizes(captured: dict[str, str]) -> None:
    assert derived(captured) == {}
