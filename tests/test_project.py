"""A newcomer's first steps: the Makefile, the example, and the demo, whose checks must be able to fail."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oomph import cli
from oomph.cli import COMMANDS
from oomph.cli import demo as demo_verb
from oomph.demo import scenario, show
from oomph.demo.children import DemoError, compare, run_plain
from oomph.demo.claims import ChildEnding, Claim, Compared, DemoTrial, Measured, Survived, judge, rows
from oomph.errors import UsageError
from oomph.run.directory.run_directory import work_folder
from oomph.terminal.wrapping import table

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 120


def make(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *words, *(f"{name}={value}" for name, value in variables.items())]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)


# -- Makefile ---------------------------------------------------------------------------------------------------------


def test_help_lists_every_target_and_is_the_default():
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    listed = re.findall(r"^ +make ([a-z0-9-]+) +\S", make("help").stdout, re.MULTILINE)
    assert sorted(listed) == sorted(phony[1].split())
    assert make().stdout == make("help").stdout


def test_an_old_python_is_rejected_with_the_reason(tmp_path):
    old = tmp_path / "python2.7"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = make("install", VENV=str(tmp_path / "venv"), PYTHON=str(old))
    assert result.returncode != 0
    assert f"oomph needs Python 3.10 or newer, and {old} is older or missing" in result.stderr
    assert not (tmp_path / "venv").exists()


# -- the map ----------------------------------------------------------------------------------------------------------

PACKAGE = ROOT / "src/oomph"
MAP = (ROOT / "docs/explanation/architecture.md").read_text()
FOLDERS = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
ON_THE_MAP = {
    word.rstrip("/") for word in re.findall(r"`([a-z_]+(?:/[a-z_]+)?/?)`", MAP) if word.partition("/")[0] in FOLDERS
}
WITH_TENSORFLOW = {"api", "exact_step", "hooks", "keras_bridge", "resume", "live", "objects"}


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_every_source_folder_is_listed_on_the_map(folder):
    assert folder in {named.partition("/")[0] for named in ON_THE_MAP}


@pytest.mark.parametrize("named", sorted(ON_THE_MAP))
def test_every_folder_on_the_map_exists(named):
    assert (PACKAGE / named).is_dir()


def imported(module: Path) -> set[str]:
    """Yield the modules that a module imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(module.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def may_use_tensorflow(dotted: str) -> bool:
    first, *rooms = dotted.split(".")
    return first == "oomph" and not WITH_TENSORFLOW.isdisjoint(rooms)


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_only_mapped_packages_import_tensorflow(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        dotted = ".".join(("oomph", *path.relative_to(PACKAGE).with_suffix("").parts))
        if may_use_tensorflow(dotted):
            continue
        found = imported(path)
        assert not [name for name in found if name.partition(".")[0] in ("tensorflow", "keras", "numpy")], path
        assert folder == "inject" or not [name for name in found if may_use_tensorflow(name)], path


# -- mistakes inserted on purpose -------------------------------------------------------------------------------------


def test_public_class_names_are_unique():
    modules = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    names = [node.name for tree in modules.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    assert {name for name in names if names.count(name) > 1 and not name.startswith("_")} == set()


def test_every_listed_mutation_matches_its_source_and_tests():
    words = "import json, mutations as m; print(json.dumps([[x.file, x.right, x.tests] for x in m.MUTATIONS]))"
    listed = subprocess.run(
        [sys.executable, "-c", words], cwd=ROOT / "benchmarks", capture_output=True, check=True, timeout=LIMIT
    )
    mutations = json.loads(listed.stdout)
    assert len(mutations) > 50
    for file, right, tests in mutations:
        assert (ROOT / "src/oomph" / file).read_text().count(right) == 1, (file, right)
        assert (ROOT / "tests" / tests.split()[0]).exists(), tests


# -- the example ------------------------------------------------------------------------------------------------------

_VARIABLES = """
import sys
sys.path.insert(0, sys.argv[1])
import digits, keras
fitted = []
fit = keras.Model.fit
keras.Model.fit = lambda model, *words, **named: (fitted.append(model), fit(model, *words, **named))[1]
sys.argv = ["digits.py", "--epochs", "1", *sys.argv[2:]]
digits.main()
[model] = fitted
kinds = {v.path: str(v.numpy().dtype) for v in [*model.variables, *model.optimizer.variables]}
print("\\n", len(kinds), sorted({kind for kind in kinds.values() if "float" in kind}))
"""


def train(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _VARIABLES, str(ROOT / "examples"), *options],
        env=scenario.environment(os.environ, None),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("options", "kind"), [pytest.param([], "float32", marks=pytest.mark.slow), (["--float64"], "float64")]
)
def test_every_variable_of_the_example_has_the_requested_precision(options, kind):
    count, kinds = train(*options).split(" ", 1)
    assert int(count) > 20  # weights, and two slots of Adam for each
    assert kinds == f"['{kind}']"


def test_the_example_does_not_import_oomph():
    code = (ROOT / "examples" / "digits.py").read_text()
    assert "import oomph" not in code
    assert "from oomph" not in code


def test_demo_uses_the_script_in_the_examples_folder():
    assert scenario.script_path() == ROOT / "examples" / "digits.py"


# -- the demonstration: what it claims --------------------------------------------------------------------------------

SURVIVED = Survived(ChildEnding(0, 30.0), True, ooms=1, restarts=1, steps=90, steps_repeated=5, micro_batch=128)
SURVIVED = replace(SURVIVED, exactness="verified")
SINGLE = DemoTrial("float32", SURVIVED, Compared((0.95, 0.95), ("float32",), 6e-7))
DOUBLE = DemoTrial("float64", SURVIVED, Compared((0.95, 0.95), ("float64",), 1e-15))
GOOD = Measured(ChildEnding(1, 14.0, "ResourceExhaustedError: OOM when allocating tensor"), SINGLE, DOUBLE, noise=7e-7)


def failed(measured: Measured) -> list[str]:
    return [claim.text for claim in judge(measured) if not claim.held]


def with_run(**changes: Any) -> Measured:
    return replace(GOOD, single=replace(SINGLE, survived=replace(SURVIVED, **changes)))


def with_result(**changes: Any) -> Measured:
    assert SINGLE.compared is not None
    return replace(GOOD, single=replace(SINGLE, compared=replace(SINGLE.compared, **changes)))


def test_all_claims_hold_for_the_expected_results():
    assert failed(GOOD) == []
    assert len(judge(GOOD)) == 14


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (replace(GOOD, plain=ChildEnding(0, 9.0)), "plain python dies"),
        (replace(GOOD, plain=ChildEnding(1, 9.0, "ImportError: no module")), "plain python dies"),
        (with_run(ended=ChildEnding(93, 9.0, "gave up")), "to completion"),
        (with_run(ooms=0), "out-of-memory"),
        (with_run(micro_batch=None), "out-of-memory"),
        (with_run(micro_batch=256), "out-of-memory"),
        (with_run(killed=False), "SIGKILL"),
        (with_run(restarts=0), "SIGKILL"),
        (with_run(restarts=2), "SIGKILL"),
        (with_run(steps_repeated=11), "steps repeated"),
        (with_run(steps=89), "steps repeated"),
        (with_run(exactness="replayed"), "steps repeated"),
        (with_run(exactness="unverified"), "steps repeated"),
        (with_result(accuracies=(0.95, 0.9472)), "accuracy"),
        (with_result(accuracies=(0.1, 0.1)), "accuracy"),
        (with_result(difference=7.1e-6), "a different summation order"),
        (with_result(dtypes=("float16",)), "a different summation order"),
        (replace(GOOD, noise=2e-3), "order of summation alone"),
        (replace(GOOD, noise=0.0), "a different summation order"),
        (replace(GOOD, double=replace(DOUBLE, compared=Compared((0.95, 0.95), ("float64",), 2e-12))), "float64"),
        (replace(GOOD, double=replace(DOUBLE, compared=Compared((0.95, 0.95), ("float32",), 0.0))), "float64"),
    ],
)
def test_bad_measurement_fails_only_its_claim(measured, words):
    [text] = failed(measured)
    assert words in text


def test_run_without_a_result_fails_every_claim_about_it():
    lost = replace(GOOD, double=DemoTrial("float64", Survived(ChildEnding(1, 1.0, "boom"), False), None))
    assert len(failed(lost)) == 6
    assert "boom" not in "\n".join(table(rows(lost), 100))  # the table has room for an exit code
    assert "exit code 1" in "\n".join(table(rows(lost), 100))


def test_demo_table_shows_each_difference_and_its_limit():
    text = "\n".join(table(rows(GOOD), 80))
    assert re.search(r"largest weight difference +0 +- +6\.0e-07 +1\.0e-15", text)
    assert re.search(r"may be at most +7\.0e-06 +1e-12", text)


def test_missing_summary_gives_zero_counts():
    empty = Survived.of(ChildEnding(0, 1.0), True, {})
    assert (empty.ooms, empty.restarts, empty.steps, empty.micro_batch) == (0, 0, 0, None)


# -- the demonstration: comparing two results -------------------------------------------------------------------------

_WRITE = """
import sys, json, numpy as np
for path, arrays in json.loads(sys.argv[1]).items():
    np.savez(path, **{name: np.array(value, dtype) for name, (value, dtype) in arrays.items()})
"""
WEIGHTS = {"accuracy": (0.95, "float64"), "w": ([1.0, 2.0], "float32"), "b": ([0.5], "float32")}


@pytest.fixture
def results(tmp_path):
    """Write two results that differ in this way, and compare them."""

    def compared(**changes: Any) -> Compared:
        other = {name: value for name, value in (WEIGHTS | changes).items() if value is not None}
        files = {str(tmp_path / "a.npz"): WEIGHTS, str(tmp_path / "b.npz"): other}
        subprocess.run([sys.executable, "-c", _WRITE, json.dumps(files)], check=True, timeout=LIMIT)
        return compare(tmp_path / "a.npz", tmp_path / "b.npz")

    return compared


def test_comparison_reports_the_largest_weight_difference(results):
    assert results() == Compared((0.95, 0.95), ("float32",), 0.0)
    assert results(w=([1.0, 1.75], "float32"), accuracy=(0.5, "float64")) == Compared((0.95, 0.5), ("float32",), 0.25)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"w": None}, "the same weights"),
        ({"w": ([1.0], "float32")}, r"float32\[1\]"),
        ({"w": ([1.0, 2.0], "float64")}, "float64"),
        ({"w": ([1.0, float("nan")], "float32")}, "not finite"),
    ],
)
def test_incomparable_results_raise_an_error(results, changes, words):
    with pytest.raises(DemoError, match=words):
        results(**changes)


# -- the demonstration: the verb --------------------------------------------------------------------------------------


def test_demo_summary_matches_the_help():
    assert COMMANDS["demo"][1] == demo_verb.SUMMARY


def test_missing_package_is_reported_with_its_install_command(monkeypatch, capsys):
    monkeypatch.setattr(show, "_NEEDED", ("no_such_module", "json"))
    assert cli.main(["demo"]) == 2
    assert capsys.readouterr().err.strip().endswith("pip install no_such_module")


def test_file_is_rejected_as_a_work_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file is a file, not a folder"), work_folder(str(tmp_path / "file"), "x-"):
        pass


def test_non_empty_work_folder_is_rejected(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(UsageError, match="not empty"), work_folder(str(tmp_path), "x-"):
        pass


def test_demo_exits_with_1_if_a_claim_fails(monkeypatch, capsys):
    good, bad = Claim("a", "1", True), Claim("b", "2", False)
    monkeypatch.setattr(show, "show", lambda keep, say, width: show.Shown((good,), 1.0, Path()))
    assert cli.main(["demo"]) == 0
    monkeypatch.setattr(show, "show", lambda keep, say, width: show.Shown((good, bad), 1.0, Path()))
    assert cli.main(["demo", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert [claim["held"] for claim in document["claims"]] == [True, False]


def test_failed_child_is_reported_with_its_last_output_line(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("raise SystemExit('no digits today')\n")
    ended = run_plain([str(script)], dict(os.environ), tmp_path / "log")
    assert (ended.returncode, ended.error) == (1, "no digits today")


def test_interfering_variables_are_removed_from_the_demo_runs_environment():
    inherited = {"TF_CPU_BFC_MEM_LIMIT_IN_MB": "1", "TF_DETERMINISTIC_OPS": "0", "OOMPH_HANDOVER": "{}", "HOME": "/h"}
    inherited["OOMPH_NOTIFY"] = "mail me"
    free = scenario.environment(inherited, None)
    assert free["HOME"] == "/h"
    assert not {"TF_CPU_BFC_MEM_LIMIT_IN_MB", "TF_DETERMINISTIC_OPS", "OOMPH_HANDOVER", "OOMPH_NOTIFY"} & free.keys()
    assert scenario.environment(inherited, 28)["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "28"
