"""Training that oomph does not guard is noticed at its first step, with stand-ins for training packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.journal.journal import read_journal

_MODULE = """
class {owner}:
    def {method}(self, *args, **kwargs):
        return "theirs"
"""
_OLD_KERAS = """
import sys, types
sys.modules["oomph.hooks.keras2"] = types.SimpleNamespace(install=lambda training, session: False)
"""
"""The first lines of a Keras 2 that oomph does not support. Its trainer imports its optimizers, as in all versions."""
_SCRIPT = """
import json, sys
from {module} import {owner} as trainer
before = trainer.__dict__["{method}"]
print([trainer().{method}() for _ in range(3)], trainer.__dict__["{method}"] is before)
"""


def stand_in(folder: Path, module: str, owner: str, method: str) -> str:
    """Install a package with that name; return the script that trains with it twice."""
    path = folder / "site-packages" / Path(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    for parent in path.relative_to(folder / "site-packages").parents:
        (folder / "site-packages" / parent / "__init__.py").touch()
    path.write_text(_MODULE.format(owner=owner, method=method))
    root, is_optimizer, _ = module.partition(".optimizers.")
    if is_optimizer:
        trainer = (folder / "site-packages").joinpath(*root.split("."), "engine", "training.py")
        trainer.parent.mkdir(exist_ok=True)
        trainer.write_text(f"import {module}\n")
    package = folder / "site-packages" / module.partition(".")[0] / "__init__.py"
    if "keras" in package.parent.name:
        package.write_text(_OLD_KERAS + (f"import {root}.engine.training\n" if is_optimizer else ""))
    return _SCRIPT.format(module=module, owner=owner, method=method)


@pytest.mark.parametrize(
    ("kind", "module", "owner", "method"),
    [
        ("keras-2", "tf_keras.src.engine.training", "Model", "make_train_function"),
        ("keras-2", "keras.src.engine.training", "Model", "make_train_function"),
        ("keras-2", "keras.engine.training_v1", "Model", "_make_train_function"),
        ("keras-2", "tf_keras.src.optimizers.optimizer", "_BaseOptimizer", "apply_gradients"),
        ("keras-2", "tf_keras.src.optimizers.legacy.optimizer_v2", "OptimizerV2", "apply_gradients"),
        ("keras-2", "keras.optimizers.optimizer", "_BaseOptimizer", "apply_gradients"),
        (
            "estimator", "tensorflow_estimator.python.estimator.estimator", "Estimator",
            "_convert_train_steps_to_hooks",
        ),
        ("tensorflow-1", "tensorflow.python.training.optimizer", "Optimizer", "apply_gradients"),
        ("jax", "keras.src.backend.jax.trainer", "JAXTrainer", "make_train_function"),
        ("torch", "keras.src.backend.torch.trainer", "TorchTrainer", "make_train_function"),
    ],
)  # fmt: skip
def test_unguarded_training_is_reported_once_at_its_first_step(start, tmp_path, run_dir, kind, module, owner, method):
    script = stand_in(tmp_path, module, owner, method)
    result = start(script, PYTHONPATH=str(tmp_path / "site-packages"))
    assert result.stdout == "['theirs', 'theirs', 'theirs'] False\n"
    (said,) = result.stderr.splitlines()
    assert said.startswith("oomph: unguarded: script0.py:5 trains with ")
    (event,) = [event for event in read_journal(run_dir) if event.name == "unguarded"]
    assert (event.data["kind"], event.data["site"]) == (kind, "script0.py:5")


def test_first_call_error_matches_plain_python(start, tmp_path):
    script = stand_in(tmp_path, "tf_keras.src.optimizers.optimizer", "_BaseOptimizer", "apply_gradients")
    package = tmp_path / "site-packages" / "tf_keras" / "src" / "optimizers" / "optimizer.py"
    package.write_text(package.read_text().replace('return "theirs"', 'raise ValueError("no gradients")'))
    watched, plain = (start(script, PYTHONPATH=str(tmp_path / "site-packages"), guard=guard) for guard in (True, False))
    said, traceback = watched.stderr.split("\n", 1)
    assert said.startswith("oomph: unguarded: script0.py:5 trains with ")
    assert traceback.replace("script0.py", "script1.py") == plain.stderr
    assert "no gradients" in traceback


def test_autograph_does_not_convert_the_reporting_wrapper(start, tmp_path):
    script = stand_in(tmp_path, "tensorflow.python.training.optimizer", "Optimizer", "apply_gradients")
    script += "print(hasattr(before, 'autograph_info__'), hasattr(trainer.apply_gradients, 'autograph_info__'))\n"
    assert start(script, PYTHONPATH=str(tmp_path / "site-packages")).stdout.splitlines()[1] == "True False"


def test_autograph_file_is_not_reported_as_the_training_script(start, tmp_path):
    script = stand_in(tmp_path, "tf_keras.src.optimizers.optimizer", "_BaseOptimizer", "apply_gradients")
    generated = tmp_path / "__autograph_generated_filexyz.py"
    generated.write_text("def converted(trainer):\n    return trainer.apply_gradients()\n")
    script += f"sys.path.insert(0, {str(tmp_path)!r})\nfrom {generated.stem} import converted\n"
    script = script.replace("print(", "#") + "converted(trainer())\n"
    result = start(script, PYTHONPATH=str(tmp_path / "site-packages"))
    assert result.stderr.startswith("oomph: unguarded: script0.py:8 trains with ")


def test_guard_of_keras_2_that_fails_prints_one_line_before_the_training_is_reported(start, tmp_path):
    script = stand_in(tmp_path, "tf_keras.src.engine.training", "Model", "make_train_function")
    package = tmp_path / "site-packages" / "tf_keras" / "__init__.py"
    package.write_text(_OLD_KERAS.replace("install=lambda training, session: False", ""))
    failed, said = start(script, PYTHONPATH=str(tmp_path / "site-packages")).stderr.splitlines()
    assert failed.startswith("oomph: AttributeError: ")
    assert failed.endswith("; the script runs unguarded")
    assert said.startswith("oomph: unguarded: script0.py:5 trains with Keras 2")


def test_importing_a_training_package_alone_is_not_reported(start, tmp_path):
    script = stand_in(tmp_path, "tf_keras.src.engine.training", "Model", "make_train_function")
    result = start(script.partition("before")[0], PYTHONPATH=str(tmp_path / "site-packages"))
    assert (result.stdout, result.stderr) == ("", "")


def test_keras_3_modules_with_the_same_names_do_not_count_as_unguarded(start, tmp_path):
    script = stand_in(tmp_path, "keras.src.optimizers.optimizer", "Optimizer", "apply_gradients")
    result = start(script, PYTHONPATH=str(tmp_path / "site-packages"))
    assert (result.stdout, result.stderr) == ("['theirs', 'theirs', 'theirs'] True\n", "")


def test_unguarded_training_is_not_reported_with_the_no_guard_option(start, tmp_path):
    script = stand_in(tmp_path, "tf_keras.src.engine.training", "Model", "make_train_function")
    result = start(script, PYTHONPATH=str(tmp_path / "site-packages"), guard=False)
    assert (result.stdout, result.stderr) == ("['theirs', 'theirs', 'theirs'] True\n", "")


def test_single_finder_waits_for_all_training_packages(start):
    result = start("import sys, json; print(json.dumps([type(f).__name__ for f in sys.meta_path]))")
    assert json.loads(result.stdout).count("AwaitingFinder") == 1


@pytest.mark.parametrize(
    ("kind", "module", "owner"),
    [
        ("parameter-servers", "tensorflow.python.distribute.parameter_server_strategy_v2", "ParameterServerStrategyV2"),
        ("tpu", "tensorflow.python.distribute.tpu_strategy", "TPUStrategyV2"),
    ],
)
def test_strategy_that_is_only_supervised_is_reported_once(start, tmp_path, run_dir, kind, module, owner):
    stand_in(tmp_path, module, owner, "__init__")
    path = (tmp_path / "site-packages").joinpath(*module.split(".")).with_suffix(".py")
    path.write_text(f"class {owner}:\n    def __init__(self, cluster): self.cluster = cluster\n")
    script = f"from {module} import {owner} as Strategy\nprint([Strategy(each).cluster for each in 'ab'])\n"
    result = start(script, PYTHONPATH=str(tmp_path / "site-packages"))
    assert result.stdout == "['a', 'b']\n"
    (said,) = result.stderr.splitlines()
    assert said.startswith("oomph: unguarded: script0.py:2 trains with ")
    (event,) = [event for event in read_journal(run_dir) if event.name == "unguarded"]
    assert (event.data["kind"], event.data["site"]) == (kind, "script0.py:2")
