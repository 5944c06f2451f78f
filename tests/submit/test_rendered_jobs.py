"""Files for Slurm and Kubernetes: what they start, when they start it again, and words that a shell would run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.cli import main
from oomph.errors import UsageError
from oomph.submit import kubernetes, slurm
from oomph.submit.job import MOST_RESTARTS, BatchJob, in_bash, in_yaml

HOSTILE = (
    "a b", "", "$(touch pwned)", "`touch pwned`", "; touch pwned", "'; touch pwned; '", '"', "\\", "\\'", "$HOME", "$$",
    "$(HOME)", "line\ntouch pwned", "#SBATCH --uid=0", "\x1b[31m", "\u202eexe.py", "é😀", "*", "~", "!!", "-n", "true",
    "\x85",
)  # fmt: skip
JOB = BatchJob("train", ("train.py", *HOSTILE), 4, gpus=1, image="image:1", claim="shared")
LIMIT = 60


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs that write down how they are called in front of all others. srun ends with the code in CODE."""
    for name in ("srun", "scontrol", "sbatch", "kubectl"):
        text = (
            f"#!{sys.executable}\nimport json, os, sys\nread = '' if sys.stdin.isatty() else sys.stdin.read()\n"
            f"json.dump([sys.argv[1:], read], open({str(tmp_path / name)!r} + '.json', 'w'))\n"
            "sys.exit(int(os.environ.get('CODE', 0)))\n"
        )
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _called(programs: Path, name: str) -> Any:
    path = programs / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _run(text: str, **environ: str) -> int:
    environ = {**os.environ, "SLURM_JOB_ID": "7", **environ}
    Path("job").write_text(text)
    return subprocess.run(["bash", "job"], stdin=subprocess.DEVNULL, env=environ, timeout=LIMIT, check=False).returncode


def test_slurm_starts_the_script_with_just_its_words(programs: Path) -> None:
    assert _run(slurm.render(JOB, "/opt/my python")) == 0
    words = ["--kill-on-bad-exit=1", "/opt/my python", "-m", "oomph", "run", "--engine=env", "--resume", *JOB.words]
    assert _called(programs, "srun")[0] == words
    assert not (programs / "pwned").exists()


@pytest.mark.parametrize(
    ("code", "restarts", "is_requeued"),
    [(75, None, True), (75, MOST_RESTARTS - 1, True), (75, MOST_RESTARTS, False), (93, 0, False), (1, 0, False)],
)
def test_slurm_requeues_for_75_alone_and_not_forever(
    programs: Path, code: int, restarts: int | None, is_requeued: bool
) -> None:
    counted = {} if restarts is None else {"SLURM_RESTART_COUNT": str(restarts)}
    assert _run(slurm.render(JOB, sys.executable), CODE=str(code), **counted) == code
    assert _called(programs, "scontrol") == ([["requeue", "7"], ""] if is_requeued else None)


def test_what_slurm_reads_stands_before_the_words_of_the_script() -> None:
    directives, _, rest = slurm.render(JOB, sys.executable).partition("\n\n")
    assert directives.splitlines()[1:] == [
        "#SBATCH --job-name=train", "#SBATCH --ntasks=4", "#SBATCH --gpus-per-task=1", "#SBATCH --signal=USR1@120",
        "#SBATCH --requeue", "#SBATCH --open-mode=append",
    ]  # fmt: skip
    assert not [line for line in rest.splitlines() if line.startswith("#SBATCH")]


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])))
def test_quoted_words_can_be_printed_and_hold_one_line(word: str) -> None:
    for quoted in (in_bash(word), in_yaml(word)):
        assert quoted.isprintable()


def test_word_that_is_not_utf8_reaches_slurm_and_is_refused_for_kubernetes(programs: Path) -> None:
    word = os.fsdecode(b"caf\xe9")
    assert _run(f"srun {in_bash(word)}") == 0
    assert _called(programs, "srun")[0] == [word]
    with pytest.raises(UsageError, match="is not UTF-8"):
        in_yaml(word)


def _manifest(job: BatchJob) -> Any:
    yaml = pytest.importorskip("yaml", reason="needs kubernetes-validate")
    return yaml.safe_load(kubernetes.render(job))


def test_kubernetes_starts_the_script_with_just_its_words() -> None:
    job = _manifest(JOB)["spec"]["replicatedJobs"][0]["template"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    expanded = [word.replace("$$", "$") for word in container["command"]]  # as Kubernetes does
    options = ["--engine=env", "--resume", "--workers=4", "--run-dir=/oomph/train"]
    assert expanded == ["oomph", "run", *options, *JOB.words]
    assert not [word for word in container["command"] if "$(" in word.replace("$$", "")]
    assert (job["completions"], job["parallelism"], job["backoffLimit"]) == (4, 4, 0)


def test_job_in_the_manifest_is_what_kubernetes_accepts() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate").validate
    for job in (JOB, BatchJob("train", ("-m", "train"), 1, image="image", claim="shared")):
        manifest = _manifest(job)
        (replicated,) = manifest["spec"]["replicatedJobs"]
        document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": manifest["metadata"], **replicated["template"]}
        for version in ("1.31", "1.34"):
            validate(document, version, strict=True)


# The fields of config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml in github.com/kubernetes-sigs/jobset, v0.9.1.
_RULE = {"name", "action", "onJobFailureReasons"}
_REASONS = {"BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"}
_FIELDS = {"network", "failurePolicy", "replicatedJobs"}


def test_jobset_has_the_fields_of_its_definition_and_fails_for_good_where_another_start_is_no_use() -> None:
    manifest = _manifest(JOB)
    assert (manifest["apiVersion"], manifest["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    spec = manifest["spec"]
    assert spec.keys() == _FIELDS
    assert spec["network"] == {"enableDNSHostnames": True}
    assert spec["replicatedJobs"][0].keys() == {"name", "replicas", "template"}
    policy = spec["failurePolicy"]
    assert policy.keys() == {"maxRestarts", "rules"}
    assert policy["maxRestarts"] == MOST_RESTARTS
    (rule,) = policy["rules"]
    assert rule.keys() == _RULE
    assert re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", rule["name"])
    assert rule["action"] == "FailJobSet"
    assert set(rule["onJobFailureReasons"]) <= _REASONS


@pytest.mark.parametrize(
    ("code", "action"), [(75, None), (137, None), (143, None), (93, "FailJob"), (1, "FailJob"), (2, "FailJob")]
)
def test_exit_code_decides_what_becomes_of_the_job(code: int, action: str | None) -> None:
    """Without an action, the Job fails since no pod may be tried again, which starts the JobSet again."""
    rules = _manifest(JOB)["spec"]["replicatedJobs"][0]["template"]["spec"]["podFailurePolicy"]["rules"]
    taken = [rule["action"] for rule in rules if "onExitCodes" in rule and code not in rule["onExitCodes"]["values"]]
    assert (taken or [None])[0] == action
    assert all(rule["onExitCodes"]["operator"] == "NotIn" for rule in rules if "onExitCodes" in rule)
    assert rules[0] == {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["--slurm", "--workers", "2", "train.py"], []),
        (["--kubernetes", "--workers", "2", "--image", "i", "--claim", "c", "train.py"], ["apply", "-f", "-"]),
    ],
)
def test_job_is_handed_over_or_only_printed(
    programs: Path, capfd: pytest.CaptureFixture[str], words: list[str], argv: list[str]
) -> None:
    (programs / "train.py").touch()
    name = "sbatch" if "--slurm" in words else "kubectl"
    assert main(["submit", "--dry-run", *words]) == 0
    assert _called(programs, name) is None
    printed = capfd.readouterr().out
    assert main(["submit", *words]) == 0
    assert _called(programs, name) == [argv, printed]


def test_scheduler_that_refuses_or_is_not_there_is_named(
    programs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "train.py").touch()
    monkeypatch.setenv("CODE", "3")
    assert main(["submit", "--slurm", "--workers", "2", "train.py"]) == 3
    assert "sbatch ended with exit code 3: nothing was submitted" in capfd.readouterr().err
    monkeypatch.setenv("PATH", str(programs))
    assert main(["submit", "--slurm", "--workers", "2", "train.py"]) == 2
    assert "sbatch is not on this machine" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "2", "train.py"], "oomph submit needs --slurm or --kubernetes"),
        (["train.py"], "oomph submit needs --slurm or --kubernetes and --workers"),
        (["--kubernetes", "train.py"], "oomph submit needs --workers, --image and --claim"),
        (["--slurm", "train.py"], "oomph submit needs --workers"),
        (["--slurm", "--workers", "2"], "script"),
        (["--slurm", "--workers", "2", "nothing.py"], "nothing.py"),
        (["--slurm", "--workers", "2", "notes.ipynb"], "only one process"),
        (["--slurm", "--workers", "2", "--image", "x", "train.py"], "--image is for --kubernetes"),
        (["--slurm", "--workers", "2", "--time", "1;reboot", "train.py"], "--time expects minutes"),
        (["--slurm", "--workers", "2", "--name", "a\n#SBATCH --uid=0", "train.py"], "--name expects"),
        (["--kubernetes", "--workers", "2", "--claim", "c", "train.py"], "oomph submit needs --image"),
        (
            ["--kubernetes", "--workers", "2", "--image", "i", "--claim", "c", "--time", "5", "train.py"],
            "--time is for",
        ),
        (["--slurm", "--workers", "2", "train.py", "--password=hunter2hunter2"], "contain a secret"),
    ],
)
def test_bad_job_is_refused_in_one_sentence(
    programs: Path, capfd: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (programs / "train.py").touch()
    (programs / "notes.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    assert main(["submit", "--dry-run", *words]) == 2
    text = capfd.readouterr().err
    assert said in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("script", "name"),
    [("Train_Big.py", "train-big"), ("9.py", "train-9"), ("é.py", "train"), ("x" * 99 + ".py", "x" * 40)],
)
def test_name_of_the_job_is_one_that_both_schedulers_allow(
    programs: Path, capfd: pytest.CaptureFixture[str], script: str, name: str
) -> None:
    (programs / script).touch()
    assert main(["submit", "--slurm", "--dry-run", "--workers", "2", script]) == 0
    assert f"#SBATCH --job-name={name}\n" in capfd.readouterr().out
