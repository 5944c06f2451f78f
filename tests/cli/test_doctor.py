"""The `oomph doctor` command line: exit codes, JSON, running time, and no TensorFlow import."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from oomph.cli import main

NO_GPU = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "TF_", "XLA_", "LD_"))}


def doctor(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oomph", "doctor", *words]
    return subprocess.run(command, env={**NO_GPU, **environment}, capture_output=True, text=True, timeout=60)


def test_help_has_an_example_and_the_exit_codes(capsys):
    assert main(["doctor", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "example: oomph doctor" in printed
    assert "exit codes" in printed


def test_json_is_a_single_document_on_stdout():
    ended = doctor("--json")
    document = json.loads(ended.stdout)
    assert document["schema"] == 1
    assert ended.stderr == ""
    assert len(document["checks"]) > 30


def test_only_option_runs_only_the_named_checks():
    document = json.loads(doctor("--json", "--only", "gpu-growth,DOC403").stdout)
    assert [entry["name"] for entry in document["checks"]] == ["gpu-growth", "gpu-allocator"]


def test_doctor_exits_with_1_for_failures_but_not_for_warnings():
    assert doctor("--only", "gpu-growth", TF_FORCE_GPU_ALLOW_GROWTH="yes").returncode == 0
    assert doctor("--only", "xla-flags", XLA_FLAGS="nonsense --x").returncode == 0  # the name of a file
    assert doctor("--only", "xla-flags", XLA_FLAGS="--nonsense").returncode == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--only", "nosuch"], 2, "there is no check nosuch"),
        (["--python", "/no/such/python"], 2, "no such Python: /no/such/python"),
        (["--only", "nvml", "--skip", "nvml"], 2, "leave no checks to run"),
        (["--json", "--report"], 2, "not allowed with"),
        (["--python", "/bin/false"], 2, "--python /bin/false is a program, but not a Python"),
    ],
)
def test_invalid_command_line_is_rejected_without_a_traceback(words, code, said):
    ended = doctor(*words)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_fix_env_prints_lines_to_paste_into_a_shell():
    ended = doctor("--fix-env", TF_FORCE_GPU_ALLOW_GROWTH="yes")
    assert ended.stdout.splitlines()[-1] == "export TF_FORCE_GPU_ALLOW_GROWTH=true"
    assert doctor("--fix-env").stdout.startswith("# nothing that environment variables can repair")


def test_report_is_a_fenced_text_block():
    lines = doctor("--report").stdout.splitlines()
    assert (lines[0], lines[-1]) == ("```text", "```")


def test_tensorflow_is_not_imported():
    code = "import sys, oomph.cli; oomph.cli.main(['doctor', '--json']); sys.exit('tensorflow' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], env=NO_GPU, capture_output=True, timeout=60)
    assert ended.returncode == 0


def test_doctor_uses_at_most_half_a_second_of_cpu_time():
    """Only CPU time counts, since other work on the machine must not affect the result.

    The best of three runs is used.
    """
    spent = []
    for _ in range(3):
        before = os.times()
        doctor("--json")
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(spent) < 0.5


def test_report_ends_with_a_line_about_the_missing_gpu():
    ended = doctor()
    if "No NVIDIA GPU" not in ended.stdout:
        pytest.skip("this machine has a GPU, or a driver for one")
    before, _, last = ended.stdout.rpartition("\nNo NVIDIA GPU")
    assert before.splitlines()[-1].split(":")[0].endswith(" checks")
    assert " ".join(last.split()).startswith("here (no driver library, no device file, none on the PCI bus)")


def test_every_check_list_form_is_accepted_and_skips_are_counted():
    for words in (["--only", "platform", "disk-space"], ["--only=platform,disk-space"]):
        last = " ".join(doctor(*words).stdout.split())
        assert "2 checks: 2 passed, in " in last
        assert last.endswith(" 35 other checks were skipped.")
    assert "Nothing else is wrong" not in last


def test_deep_option_without_a_gpu_reports_that_nothing_was_tried():
    ended = doctor("--only", "gpu-present", "--deep")
    if "No NVIDIA GPU" not in ended.stdout:
        pytest.skip("this machine has a GPU, or a driver for one")
    assert "note  deep-list (DOC902): --deep did not run: no GPU to try\n" in ended.stdout


def test_single_check_is_reported_in_the_singular():
    assert "1 check: " in doctor("--only", "gpu-growth").stdout
