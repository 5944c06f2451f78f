"""A script has the same forms in every verb that takes one, and its own options are known from its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph import cli
from oomph.cli.script_options import declared_options, script_among

VERBS = ("run", "check", "plan", "rehearse")
FROM_STDIN = "a script from standard input cannot be started a second time: save it to a file"
SCRIPT = """
import argparse
open("it-ran", "w").close()
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int)
parser.add_argument("--json", action="store_true")
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "package").mkdir()
    (tmp_path / "package/train.py").write_text(SCRIPT)


def fails(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what an invalid command line prints on stderr, as one line."""
    assert cli.main(list(words)) == 2
    return " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize("verb", VERBS)
def test_help_lists_every_form_of_a_script(capfd, verb):
    assert cli.main([verb, "--help"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    for form in ("SCRIPT.py [arguments of the script ...]", "NOTEBOOK.ipynb", "-m MODULE", "-- COMMAND"):
        assert f"oomph {verb} [options] {form}" in shown


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "specify the script to VERB: oomph VERB train.py"),
        (["-m"], "specify the module to VERB: oomph VERB -m package.train"),
        (["--"], "specify the script to VERB: oomph VERB train.py"),
        (["-"], FROM_STDIN),
        (["--", "python3", "-"], FROM_STDIN),
        (["missing.py"], "no such script: missing.py"),
        (["missing.ipynb"], "no such script: missing.ipynb"),
        (["--", "missing"], "no such command: missing"),
        (["python3", "train.py"], "to run the program python3: oomph VERB -- python3 train.py"),
        (["--python=", "train.py"], "--python= has no value: give it one, or leave it out (is a variable unset?)"),
        (["--python", "", "train.py"], "--python has no value"),
        (["--bad", "missing.py"], "unrecognized arguments: --bad; the script's own options belong after the script"),
    ],
)
def test_bad_forms_are_rejected_alike_by_every_verb(capfd, verb, words, said):
    assert said.replace("VERB", verb) in fails(capfd, verb, *words)


@pytest.mark.parametrize("verb", ["check", "plan"])
@pytest.mark.parametrize("number", ["0", "-1", "two", "10001", "9" * 5000])
def test_number_of_the_fit_is_checked_alike(capfd, verb, number):
    assert "--fit expects a whole number from 1 to 10000, not " in fails(capfd, verb, f"--fit={number}", "train.py")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("script", [("train.py",), ("-m", "package.train"), ("--", "python", "train.py")])
def test_option_of_the_script_is_recognised_before_the_script(capfd, verb, script):
    shown = "-m package.train" if script[0] == "-m" else "train.py"
    said = fails(capfd, verb, "--batchsize", "64", *script)
    assert said.endswith(
        f"unrecognized arguments: --batchsize: did you mean --batch-size of {shown}? "
        f"It belongs after the script: oomph {verb} {shown} --batch-size ..."
    )
    assert f"--batch-size=64: that is an option of {shown}? " in fails(capfd, verb, "--batch-size=64", *script)
    assert not Path("it-ran").exists()


def test_a_closer_option_of_oomph_wins(capfd):
    assert fails(capfd, "run", "--rechek=5", "train.py").endswith("--rechek=5: did you mean --recheck?")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("p.add_argument('-l', '--lr', '--learning-rate')", ("--lr", "--learning-rate")),
        ("@click.option('--shuffle/--no-shuffle', default=True)\ndef main(): ...", ("--shuffle", "--no-shuffle")),
        ("flags.DEFINE_integer('batch_size', 3, 'help')", ("--batch_size",)),
        ("p.add_argument(NAME); p.add_argument('data'); print('--verbose')", ()),
        ("def broken(:", ()),
        ("x = '\\d'\nadd_argument('--depth')", ("--depth",)),
        ("\0", ()),
        ("(" * 100_000, ()),
    ],
)
def test_options_are_read_from_the_text_of_the_script(tmp_path, text, options):
    (tmp_path / "s.py").write_text(text)
    assert declared_options(tmp_path / "s.py") == options


@pytest.mark.parametrize("words", [["-m", ""], ["-m"], ["-m", ".."], ["missing.py"], ["a\0.py"], ["data"], []])
def test_words_without_the_file_of_a_script_are_no_script(words):
    assert script_among(words) is None


def test_oomphs_option_after_the_script_is_reported_unless_the_script_has_it(capfd):
    Path("own.py").write_text("import argparse\np = argparse.ArgumentParser()\np.add_argument('--verify')\n")
    Path("unknown.py").write_text("import settings_of_the_project\n")
    for words, late in (
        (["own.py", "--verify", "3"], ""),
        (["own.py", "--recheck=3"], "--recheck"),
        (["train.py", "--json"], ""),
        (["own.py", "--json"], "--json"),
        (["unknown.py", "--json"], "--json"),
        (["unknown.py", "--resume"], ""),
    ):
        cli.main(["run", "--python=/no/python", *words])
        told = capfd.readouterr().err
        said = f"oomph: {late} comes after the script, so the script gets it; put oomph run's options first\n"
        assert told.startswith(said if late else "oomph: no such Python"), words
