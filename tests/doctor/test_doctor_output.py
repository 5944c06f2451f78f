"""Selecting checks, the verdict, the report and fault pages: what is printed about the findings."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from oomph.doctor import render
from oomph.doctor.check import FAIL, SKIP, Check, passed
from oomph.doctor.checks import CHECKS
from oomph.doctor.deep import _FAULTS
from oomph.doctor.examine import choose, examine, verdict
from oomph.doctor.report import as_report, redact
from oomph.errors import UsageError
from oomph.explain.catalogue.catalogue import load


def test_broken_check_is_reported_as_not_run(healthy):
    def broken(snapshot):
        raise ZeroDivisionError("oh")

    (result,) = examine(healthy, [Check("DOC999", "broken", "why", broken)])
    assert (result.finding.status, result.finding.blind) == (SKIP, True)
    assert "ZeroDivisionError: oh" in result.finding.message


def test_unreadable_part_disables_only_dependent_checks(healthy):
    results = examine(replace(healthy, unread={"host": "PermissionError: closed"}))
    unable = {result.check.name for result in results if result.finding.blind}
    assert unable == {check.name for check in CHECKS if "host" in check.needs}
    assert verdict(healthy, results).endswith(f"{len(unable)} checks could not run.")


def test_only_and_skip_options_accept_codes_and_names():
    assert [check.name for check in choose(["doc301,GPU-MEMORY"])] == ["cuda-libraries", "gpu-memory"]
    assert [check.name for check in choose(["GPU-MEMORY", "doc301, nvml"])] == ["nvml", "cuda-libraries", "gpu-memory"]
    assert len(choose(skip=["nvml"])) == len(CHECKS) - 1
    with pytest.raises(UsageError, match="leave no checks to run"):
        choose(["nvml"], ["nvml"])


@pytest.mark.parametrize(
    ("words", "hint"),
    [("cuda-librarys", "did you mean cuda-libraries"), ("zzz", "the checks are platform"), (" , ", "specify a check")],
)
def test_unknown_check_is_a_usage_error(words, hint):
    with pytest.raises(UsageError, match=hint):
        choose([words])


def test_ready_machine_gets_a_ready_verdict(healthy):
    assert verdict(healthy, examine(healthy)) == "Ready: TensorFlow 2.21.0 on 1× NVIDIA A10 (24 GiB)."


def test_verdict_states_the_first_thing_to_do(healthy):
    broken = replace(healthy, driver=replace(healthy.driver, init=803, devices=()))
    said = verdict(broken, examine(broken))
    assert said.startswith("Not ready: 1 problem stops training on the GPU. First: reboot")
    assert said.endswith("sudo reboot")


def test_healthy_machine_report_has_only_counts_and_verdict(healthy):
    lines = render.as_text(healthy, examine(healthy)).splitlines()
    assert lines == [
        "37 checks: 33 passed, 4 not applicable, in 0.10 s, of which cuInit 0.21 s",
        "Ready: TensorFlow 2.21.0 on 1× NVIDIA A10 (24 GiB).",
    ]


def test_check_result_counts_add_up(healthy):
    broken = replace(healthy, driver=replace(healthy.driver, init=803, devices=()), unread={"host": "gone"})
    (took,) = [line for line in render.as_text(broken, examine(broken)).splitlines() if " passed, " in line]
    total, *parts = [int(word) for word in took.partition(", in ")[0].replace(":", "").split() if word.isdigit()]
    assert total == len(CHECKS) == sum(parts)
    assert " failed" in took
    assert " could not run" in took


def test_json_has_a_documented_entry_for_every_check(healthy):
    document = json.loads(json.dumps(render.as_document(healthy, examine(healthy))))
    assert document["schema"] == 1
    assert [entry["code"] for entry in document["checks"]] == [check.code for check in CHECKS]
    assert {entry["status"] for entry in document["checks"]} <= {"pass", "warn", "fail", "skip"}
    assert all({"code", "name", "status", "message", "remedies"} <= entry.keys() for entry in document["checks"])


def test_remedies_applied_by_oomph_run_are_marked(healthy):
    wrong = replace(healthy, environment={"TF_FORCE_GPU_ALLOW_GROWTH": "yes"})
    document = render.as_document(wrong, examine(wrong))
    (entry,) = [entry for entry in document["checks"] if entry["status"] == "warn"]
    assert entry["remedies"][0]["action"] == "repair-environment"
    assert document["repairs"][0]["value"] == "true"


def test_report_contains_no_personal_names_folders_or_gpu_ids(healthy, monkeypatch):
    monkeypatch.setenv("HOME", "/home/alexandra")
    monkeypatch.setattr("getpass.getuser", lambda: "alexandra")
    monkeypatch.setattr("socket.gethostname", lambda: "node17")
    private = replace(
        healthy,
        environment={
            "LD_LIBRARY_PATH": "/home/alexandra/lib:/home/bob/x",
            "CUDA_VISIBLE_DEVICES": "GPU-8f6d0e4a-1b2c-4d5e-8f90-a1b2c3d4e5f6",
            "TF_CONFIG": "node17 192.168.3.4",
        },
    )
    text = as_report(private, examine(private))
    for word in ("alexandra", "bob", "node17", "8f6d0e4a", "192.168.3.4"):
        assert word not in text
    assert "~/lib" in text
    assert "9.3.0.75" in text, "a version was taken for an address"
    assert text.startswith("```text\n")
    assert text.endswith("```\n")


def test_version_numbers_are_not_redacted():
    assert redact("cuDNN 9.3.0.75 and 12.5.3.2") == "cuDNN 9.3.0.75 and 12.5.3.2"


FIRST_PAGES = {
    "device-oom", "device-oom-other-process", "host-oom", "checkpoint-failure", "killed", "segmentation-fault", "abort",
    "fatal-signal", "unrelated", "unrecognised",
}  # fmt: skip
"""The catalogue before every fault had a page."""


TO_COME = {
    "binary-incompatibility", "cpu-only-build", "cublas-init-failed", "cuda-library-missing", "cuda-toolchain-missing",
    "cudnn-execution-failed", "cudnn-version-mismatch", "device-oom-fragmentation", "driver-library-mismatch",
    "driver-missing", "driver-too-old", "hardware-fault", "kernel-launch-failure", "nccl-failure", "no-kernel-image",
    "thermal-throttle", "xla-compile-failure",
}  # fmt: skip
"""The faults that checks refer to but that had no page then: once one of them has a page, all of them must."""


def test_every_fault_named_by_a_check_has_a_page():
    named = {fault for check in CHECKS for fault in check.faults} | set(_FAULTS.values())
    pages = {fault.name for fault in load()}
    missing = named - pages
    if pages <= FIRST_PAGES:
        missing -= TO_COME
    assert missing == set(), f"no page for {', '.join(sorted(missing))}"


def test_only_catalogue_faults_have_a_page(healthy):
    assert render.has_page("device-oom")
    assert not render.has_page("no-such-fault")


def test_failing_check_result_counts_as_wrong(healthy):
    failing = Check("DOC998", "bad", "why", lambda snapshot: replace(passed("x"), status=FAIL))
    assert examine(healthy, [failing])[0].wrong
