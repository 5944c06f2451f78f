"""Resumes of trainings with something changed since: arguments, environment, configuration, code, data, surroundings.

    python benchmarks/changed.py [--cases NAME ...] [--ends SIGKILL SIGTERM SIGINT] [--jobs 2] [--out build/changed]

Each training is stopped in three ways after some checkpoints: oomph and script killed, SIGTERM, Ctrl-C. A copy of it is
resumed for each case. The result has to be one of these:

- the changed training from the saved state: at least the saved steps are in the optimizer's count, what was asked for
  applies, and the label is `not-equal` with a reason that names the change;
- the saved state itself, where fewer epochs are asked for than were trained: labelled in the same way, and every
  checkpoint is still there;
- another training, said aloud and labelled `not-equal` or `started-over`, and every checkpoint is still there;
- a refusal: exit code 93, and every checkpoint is still there.

The model is never untrained, and a label that promises the same result is given only where nothing that matters has
changed, and then every bit is compared. Exits with 1 if a check fails. `table.md` has one line for each kind of change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oomph.journal.journal import read_journal
from oomph.protocol.progress import read_progress

SAME = ("exact", "verified", "unverified", "replayed")
OTHERWISE = ("not-equal", "started-over")
ENDS = ("SIGKILL", "SIGTERM", "SIGINT")
SECONDS = 120
STOP_AT = 20
"""Steps, of 12 in an epoch: two checkpoints, and one epoch is over."""
ABSENT = Path(__file__).resolve().parents[1] / "tests/end_to_end/absent"

HEAD = '''
import json, os, sys, time
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(5)
tf.config.experimental.enable_op_determinism()
given, config = dict(word.split("=") for word in sys.argv[1:]), json.load(open("config.json"))
DEFAULTS = dict(epochs=4, samples=1000, steps=0, batch=8, rate=0.001, weight=1, patience=50, units=16, first=1, fits=4,
                scale=1)
def asked(name):
    return float(given.get(name) or os.environ.get("T_" + name.upper()) or config.get(name) or DEFAULTS[name])
epochs, samples, steps, batch, patience, units = map(
    int, map(asked, ("epochs", "samples", "steps", "batch", "patience", "units")))
rate, weight = asked("rate"), asked("weight")
stored = np.load("data.npz")
x, y = stored["x"][:samples], stored["y"][:samples] * asked("scale")
class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)
def own(true, predicted):
    return weight * keras.ops.mean((true - predicted) ** 2, axis=-1)
def new_model():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(units, "relu"), keras.layers.Dense(1)])
    model.compile(getattr(keras.optimizers, given.get("optimizer", "Adam"))(rate), given.get("loss", own),
                  jit_compile=False)
    return model
def callbacks():
    more = [keras.callbacks.TerminateOnNaN()] if "callbacks" in given else []
    return [Pace(), keras.callbacks.EarlyStopping("loss", patience=patience), *more]
model = new_model()
initial = [np.asarray(w) for w in model.get_weights()]
'''  # fmt: skip
TAIL = '''
final = [np.asarray(w) for w in model.get_weights()]
np.savez("result.npz", trained=any((a != b).any() for a, b in zip(initial, final)),
         steps=int(model.optimizer.iterations),
         rate=float(model.optimizer.learning_rate), **{f"w{n}": w for n, w in enumerate(final)})
'''  # fmt: skip
SCRIPTS = {
    "one": '''
model.fit(x, y, epochs=epochs, batch_size=batch, steps_per_epoch=steps or None, verbose=0, callbacks=callbacks())
''',
    "two": '''
model.fit(x, y, epochs=int(asked("first")), batch_size=batch, verbose=0, callbacks=callbacks())
model.fit(x, y * 2, epochs=epochs, batch_size=batch, verbose=0, callbacks=callbacks())
''',
    "several": '''
for number in range(int(asked("fits"))):
    model.fit(x, y * number, epochs=1, batch_size=batch, verbose=0, callbacks=callbacks())
''',
    "unknown": '''
def batches():
    for start in range(0, len(x), batch):
        yield x[start : start + batch], y[start : start + batch]
data = tf.data.Dataset.from_generator(batches, output_signature=(tf.TensorSpec((None, 8)), tf.TensorSpec((None, 1))))
model.fit(data, epochs=epochs, verbose=0, callbacks=callbacks())
''',
    "loop": '''
import oomph
@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(own(b, model(a, training=True)))
    model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
model.optimizer.build(model.trainable_variables)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
for a, b in oomph.steps(data, epochs=epochs, state=[model, model.optimizer]):
    step(a, b)
    time.sleep(0.02)
''',
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One change between a stopped training and its resume."""

    kind: str
    """Its row of the table."""
    name: str
    script: str = "one"
    began: Mapping[str, str] = field(default_factory=dict)
    """Variables that the training was started with, and that are not there at its resume."""
    words: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    edit: tuple[str, str] | None = None
    data: str = ""
    flags: tuple[str, ...] = ()
    prefix: bool = False
    same: bool = False
    """True where nothing changes that matters: the result is that of the undisturbed training."""
    names: str = ""
    """What a reason of the label says."""
    asked: Mapping[str, float] = field(default_factory=dict)
    """Figures of the result, where the training goes on."""


def _case(kind: str, name: str, **given: Any) -> Case:
    return Case(kind, name, **given)


def _in_each_form(kind: str, what: str, value: str, names: str, **given: Any) -> list[Case]:
    """The same change as an argument, in the environment, in the configuration, and in the code."""
    number = float(value) if "." in value else int(value)
    default = {"epochs": "epochs=4", "samples": "samples=1000", "batch": "batch=8", "rate": "rate=0.001",
               "weight": "weight=1", "patience": "patience=50", "scale": "scale=1"}[what]  # fmt: skip
    return [
        _case(kind, f"argument-{kind}", words=(f"{what}={value}",), names=names, **given),
        _case(kind, f"environment-{kind}", environ={f"T_{what.upper()}": value}, names=names, **given),
        _case(kind, f"config-{kind}", config={what: number}, names=names, **given),
        _case(kind, f"edit-{kind}", edit=(default, f"{what}={value}"), names=names, **given),
    ]


CASES = [
    _case("nothing", "nothing", same=True),
    _case("nothing", "comment", edit=("# nothing", "# a comment"), same=True),
    *_in_each_form("fewer-epochs", "epochs", "1", "epochs: 4 → 1"),
    *_in_each_form("more-epochs", "epochs", "5", "epochs: 4 → 5", asked={"steps": 60}),
    *_in_each_form("fewer-samples", "samples", "48", ""),
    *_in_each_form("other-values", "scale", "2.0", ""),
    *_in_each_form("batch", "batch", "16", "batch_size: 8 → 16"),
    *_in_each_form("rate", "rate", "0.01", "learning rate: 0.001 → 0.01", asked={"rate": 0.01}),
    *_in_each_form("patience", "patience", "2", "patience"),
    *_in_each_form("loss-weight", "weight", "3", "")[:2],
    _case("fewer-epochs", "unset-epochs", began={"T_EPOCHS": "9"}, edit=("epochs=4", "epochs=1"), names="T_EPOCHS"),
    _case("fewer-epochs", "unset-epochs-alone", began={"T_EPOCHS": "9"}, names="T_EPOCHS", asked={"steps": 48}),
    _case("fewer-steps", "fewer-steps", words=("steps=5",), names="steps"),
    _case("model", "units", words=("units=24",)),
    _case("model", "layer", edit=('keras.layers.Dense(1)]', 'keras.layers.Dense(4), keras.layers.Dense(1)]')),
    _case("model", "activation", edit=('"relu"', '"tanh"'), names="activation"),
    _case("optimizer", "optimizer", words=("optimizer=SGD",)),
    _case("optimizer", "beta", edit=("(rate)", "(rate, 0.8)" ), names="optimizer"),
    _case("loss", "loss", words=("loss=mae",), names="loss"),
    _case("callbacks", "callbacks", words=("callbacks=1",), names="callbacks"),
    _case("data", "data-longer", data="longer"),
    _case("data", "data-shorter", data="shorter"),
    _case("data", "data-other", data="other"),
    _case("call", "rewritten-call", edit=("batch_size=batch, steps", "batch_size=batch * 1, steps")),
    _case("fewer-epochs", "fewer-epochs-second", script="two", words=("epochs=1", ), names=""),
    _case("finished-fit", "first-epochs", script="two", words=("first=2",), names="first"),
    _case("finished-fit", "first-epochs-environment", script="two", environ={"T_FIRST": "2"}, names="T_FIRST"),
    _case("fewer-fits", "fewer-fits", script="several", words=("fits=1",), names="fits"),
    _case("fewer-fits", "fewer-fits-environment", script="several", environ={"T_FITS": "1"}, names="T_FITS"),
    _case("fewer-samples", "generator-shorter", script="unknown", words=("samples=40",), names="samples"),
    _case("fewer-samples", "generator-shorter-config", script="unknown", config={"samples": 40}),
    _case("fewer-epochs", "generator-fewer-epochs", script="unknown", config={"epochs": 1}, names="epochs"),
    _case("fewer-epochs", "loop-fewer-epochs", script="loop", words=("epochs=1",), names="epochs"),
    _case("fewer-epochs", "loop-fewer-epochs-config", script="loop", config={"epochs": 1}, names="epochs"),
    _case("more-epochs", "loop-more-epochs", script="loop", config={"epochs": 5}, names="epochs", asked={"steps": 60}),
    _case("fewer-samples", "loop-fewer-samples", script="loop", environ={"T_SAMPLES": "48"}, names="T_SAMPLES"),
    _case("rate", "loop-rate", script="loop", words=("rate=0.01",), names="rate", asked={"rate": 0.01}),
    _case("nothing", "loop-nothing", script="loop", same=True),
    _case("python", "optimised", flags=("-O",), names=""),
    _case("python", "other-prefix", prefix=True),
]  # fmt: skip


class Bench:
    """The folder of all trainings, and what is shared by them.

    Args:
        out: replaced if it exists.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH_", "PYTHON", "T_"))}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
        self.environ = {**clean, **quiet, "PYTHONPATH": str(ABSENT)}

    def begin(self, script: str, began: Mapping[str, str], end: str) -> Path:
        """A training that was stopped in this way; its folder."""
        folder = self._folder(f"{script}{'-'.join(began)}-{end}", script)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "oomph", "run", "--run-dir=run", "--checkpoint-every=7", "train.py"],
                cwd=folder, env={**self.environ, **began}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
            _stop(process, folder / "run", end)
        return folder

    def plain(self, script: str) -> Path:
        """The result of the undisturbed training."""
        folder = self._folder(f"{script}-plain", script)
        subprocess.run([sys.executable, "train.py"], cwd=folder, env=self.environ, check=True, timeout=SECONDS)
        return folder / "result.npz"

    def resume(self, begun: Path, case: Case, plain: Path | None) -> Verdict:
        """Resume a copy of a stopped training with something changed, and judge the result."""
        folder = self.out / f"{begun.name}-{case.name}"
        shutil.copytree(begun, folder, ignore=shutil.ignore_patterns("lock"))
        before, saved = _checkpoints(folder), _saved(folder)
        _change(folder, case)
        python = [f"--python={self._other_python()}"] if case.prefix else []
        argv = [sys.executable, "-m", "oomph", "run", "--resume=run", "--checkpoint-every=7", *python]
        words = ["--", sys.executable, *case.flags, "train.py"] if case.flags else ["train.py"]
        ended = subprocess.run(
            [*argv, *words, *case.words], cwd=folder, env={**self.environ, **case.environ},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS,
        )  # fmt: skip
        (folder / "said").write_bytes(ended.stdout + ended.stderr)
        return judge(folder, case, ended.returncode, before, saved, plain)

    def _other_python(self) -> Path:
        """The Python of another prefix, with the same packages."""
        venv = self.out / "venv"
        if not venv.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=SECONDS)
            (found,) = venv.glob("lib/python*/site-packages")
            paths = [path for path in sys.path if path.endswith("site-packages")]
            source = str(Path(__file__).resolve().parents[1] / "src")
            (found / "others.pth").write_text("\n".join([*paths, source]) + "\n")
        return venv / "bin/python"

    def _folder(self, name: str, script: str) -> Path:
        folder = self.out / name
        folder.mkdir()
        (folder / "train.py").write_text(f"# nothing{HEAD}{SCRIPTS[script]}{TAIL}")
        (folder / "config.json").write_text("{}")
        _write_data(folder, 96, 0)
        return folder


def _write_data(folder: Path, samples: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    x = dice.normal(size=(samples, 8)).astype("float32")
    np.savez(folder / "data.npz", x=x, y=x.sum(1, keepdims=True))


def _stop(process: subprocess.Popen[bytes], run: Path, end: str) -> None:
    until = time.monotonic() + SECONDS
    while True:
        at = read_progress(run)
        if at is not None and at.steps >= STOP_AT and any(run.glob("checkpoints/[sf]*-*")):
            break
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"{run.parent}: the training ended too early, or never began: see its log")
        time.sleep(0.005)
    if end == "SIGKILL":
        os.kill(process.pid, signal.SIGSTOP)  # it must not start the script again in between
        os.kill(int((run / "owner-1").read_text()), signal.SIGKILL)
        process.kill()
    else:
        os.kill(process.pid, getattr(signal, end))
    process.wait(SECONDS)


def _change(folder: Path, case: Case) -> None:
    (folder / "config.json").write_text(json.dumps(dict(case.config)))
    if case.edit is not None:
        text = (folder / "train.py").read_text()
        assert case.edit[0] in text, case
        (folder / "train.py").write_text(text.replace(*case.edit))
    if case.data:
        _write_data(folder, {"longer": 160, "shorter": 48, "other": 96}[case.data], 1 if case.data == "other" else 0)


def _checkpoints(folder: Path) -> dict[str, str]:
    """By name, a digest of each checkpoint."""
    found = {}
    for path in (folder / "run/checkpoints").glob("[sf]*-*"):
        content = b"".join(each.read_bytes() for each in sorted(path.iterdir()))
        found[path.name] = hashlib.sha256(content).hexdigest()
    return found


def _saved(folder: Path) -> int:
    """The steps of the newest checkpoint."""
    manifests = (folder / "run/checkpoints").glob("*/manifest.json")
    return max(json.loads(path.read_text())["position"]["steps"] for path in manifests)


@dataclass(frozen=True)
class Verdict:
    """What a resume has come to."""

    outcome: str
    label: str
    reasons: tuple[str, ...]
    problems: tuple[str, ...]


def judge(
    folder: Path, case: Case, code: int, before: Mapping[str, str], saved: int, plain: Path | None
) -> Verdict:  # fmt: skip
    """What the resume has come to, and what is wrong with it."""
    summary = json.loads((folder / "run/summary.json").read_text())
    label, reasons = summary["exactness"], tuple(summary["exactness_reasons"])
    after = _checkpoints(folder)
    lost = [name for name, digest in before.items() if after.get(name) != digest]
    if code == 93:
        return Verdict("refused", label, reasons, tuple(f"{name} is gone" for name in lost))
    if code != 0:
        return Verdict("failed", label, reasons, (f"exit code {code}",))
    problems = []
    with np.load(folder / "result.npz") as result:
        steps, trained = int(result["steps"]), bool(result["trained"])
        resumed = [event.data["kind"] for event in read_journal(folder / "run") if event.name == "resumed"]
        is_end = "over" in resumed or set(resumed) == {"finished"}
        outcome = "saved state" if is_end else "goes on" if resumed else "trains again"
        least = saved if "over" in resumed or outcome == "goes on" else 1
        if not trained or steps < least:
            problems.append(f"untrained: {steps} steps of {saved}")
        if outcome != "goes on" and not case.same:
            problems += [f"{name} is gone" for name in lost]
        if outcome == "goes on":
            problems += [
                f"{name} is {float(result[name]):g}, not {value:g}"
                for name, value in case.asked.items()
                if not np.isclose(float(result[name]), value, rtol=1e-5)
            ]
        if case.same and plain is not None:
            with np.load(plain) as theirs:
                problems += [f"other bits in {n}" for n in theirs.files if theirs[n].tobytes() != result[n].tobytes()]
    if case.same and label not in SAME:
        problems.append(f"labelled {label}: {'; '.join(reasons)}")
    if not case.same and case.kind != "python" and label not in OTHERWISE:
        problems.append(f"labelled {label}")
    if not case.same and case.names and not any(case.names in reason for reason in reasons):
        problems.append(f"no reason names {case.names!r}: {'; '.join(reasons)}")
    return Verdict(outcome, label, reasons, tuple(problems))


def table(verdicts: list[tuple[Case, Verdict]]) -> str:
    """One line for each kind of change: what happened, and the label."""
    lines = ["| changed | resumes | what happens | label |", "| --- | --- | --- | --- |"]
    for kind in dict.fromkeys(case.kind for case, _ in verdicts):
        own = [verdict for case, verdict in verdicts if case.kind == kind]
        outcomes = ", ".join(sorted({verdict.outcome for verdict in own}))
        labels = ", ".join(sorted({verdict.label for verdict in own if verdict.outcome != "refused"})) or "–"
        lines.append(f"| {kind} | {len(own)} | {outcomes} | {labels} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", help="names, or parts of names; all without it")
    parser.add_argument("--ends", nargs="*", choices=ENDS, default=list(ENDS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/changed"))
    args = parser.parse_args()
    chosen = [case for case in CASES if not args.cases or any(part in case.name for part in args.cases)]
    bench, verdicts, began = Bench(args.out.resolve()), [], time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        plain = {name: pool.submit(bench.plain, name) for name in {case.script for case in chosen if case.same}}
        keys = {(case.script, tuple(case.began.items()), end) for case in chosen for end in args.ends}
        begun = {key: pool.submit(bench.begin, key[0], dict(key[1]), key[2]) for key in sorted(keys)}

        def go(case: Case, end: str) -> None:
            folder = begun[case.script, tuple(case.began.items()), end].result()
            verdict = bench.resume(folder, case, plain[case.script].result() if case.same else None)
            verdicts.append((case, verdict))
            told = "; ".join(verdict.problems) or "right"
            print(f"{case.name} after {end}: {verdict.outcome}, {verdict.label}: {told}", flush=True)

        for each in [pool.submit(go, case, end) for case in chosen for end in args.ends]:
            each.result()
    (bench.out / "table.md").write_text(table(verdicts))
    wrong = sum(bool(verdict.problems) for _, verdict in verdicts)
    print(f"{len(verdicts)} resumes of {len(chosen)} cases, {time.monotonic() - began:.0f} s; {wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
