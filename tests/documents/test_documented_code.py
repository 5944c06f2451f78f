"""The code in the documents is current: commands parse, Python compiles, configuration can be read."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from documented import Block, blocks, commands, documents, lines_of

from oomph.cli import COMMANDS, _parsed
from oomph.cli.parser import parser_of
from oomph.explain.catalogue.catalogue import PAGES, parse_page, remedy_rows
from oomph.explain.catalogue.fault import split
from oomph.watch import docs as metrics

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGES = {"sh", "text", "python", "ipython", "toml", "yaml"}
WITHOUT_VERB = {"VERB", "demo", "--help", "--version"}


def why_refused(words: list[str], capsys) -> str:
    """Return what `oomph` prints when it refuses a command line, or an empty string."""
    verb, *rest = words
    module = importlib.import_module(COMMANDS[verb][0])
    try:
        _parsed(verb, module, parser_of(verb, module), rest)
    except SystemExit as ended:
        return capsys.readouterr().err if ended.code else ""
    return ""


COMMAND_LINES = sorted({(name, *words) for name, words in commands() if words[1:] and words[0] not in WITHOUT_VERB})


def test_there_are_commands_to_look_at():
    assert len(COMMAND_LINES) > 100


@pytest.mark.parametrize("line", COMMAND_LINES, ids=" ".join)
def test_every_documented_command_is_accepted(line, capsys):
    _, *words = line
    why = why_refused(words, capsys)
    assert not why or (words[-1].startswith("--") and why.rstrip().endswith("expected one argument"))


def test_a_command_with_an_outdated_option_is_refused(capsys):
    assert "did you mean --micro-batch?" in why_refused(["run", "--micro-batches", "8", "train.py"], capsys)


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.name)
def test_every_block_states_its_language(block: Block):
    assert block.language in LANGUAGES


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.name)
def test_documented_python_compiles(block: Block):
    compile(block.text, str(block.document), "exec")


@pytest.mark.parametrize("block", blocks("toml"), ids=lambda block: block.name)
def test_documented_toml_can_be_read(block: Block):
    assert tomllib.loads(block.text)


def test_documented_signatures_are_read_as_part_of_a_page():
    path = PAGES / "process/CRS204-fatal-signal.md"
    front, body = split(path.read_text())
    rows, row = [block.text for block in blocks("toml") if block.document.stem == "add-a-fault"]
    kept, _, _ = front.partition("signatures = [")
    signature, *_ = parse_page(f"+++\n{kept}{rows}\n+++\n{body}".encode(), path).signatures
    assert signature.literal == "unable to lock file"
    ((name, documented),) = tomllib.loads(row).items()
    assert remedy_rows()[name] == documented
    assert signature.remedies[-1].text == documented["text"]


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.name)
def test_documented_yaml_can_be_read(block: Block):
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(block.text)


@pytest.mark.parametrize("block", blocks("ipython"), ids=lambda block: block.name)
def test_documented_cells_compile(block: Block):
    """tests/notebook runs the first of them; the other needs Colab's drive."""
    shell = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager()
    compile(shell.transform_cell(block.text), str(block.document), "exec")


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.name)
def test_shell_blocks_contain_commands(block: Block):
    assert lines_of(block)


def test_documented_metrics_exist():
    named = {name for page in documents() for name in re.findall(r"\boomph_[a-z_]+\b(?!\.)", page.read_text())}
    assert len(named) >= 1
    assert {name for name in named if f"`{name}" not in metrics.document()} == set()


def test_examples_of_docstrings_are_found():
    examples = "".join(block.text for block in blocks("python") if block.document.name == "python.md")
    called = set(re.findall(r"oomph\.\w+\(", examples))
    assert {"oomph.check(", "oomph.isolate(", "oomph.plan(", "oomph.steps("} <= called
