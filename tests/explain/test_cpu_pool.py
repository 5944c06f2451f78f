"""TensorFlow's CPU memory pool: one fault, consistent numbers, and no CUDA remedies."""

from __future__ import annotations

import itertools
from pathlib import Path

from oomph.explain.diagnose import diagnose_log
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.memory import limit_in_words
from oomph.explain.matching.named_fault import SUSPICION, Diagnosis

LOG = (Path(__file__).parents[1] / "logs/crash/cpu_pool.log").read_text()
"""6.12 MiB were requested; 6.74 MiB are free, in two pieces."""
OF_CUDA = ("cuda", "gpu", "nvidia")


def advice(diagnosis: Diagnosis) -> str:
    return "\n".join(f"{remedy.text} {remedy.command}" for remedy in diagnosis.remedies)


def test_full_cpu_memory_pool_gives_a_single_diagnosis() -> None:
    (found,) = diagnose_log(LOG.encode())
    assert found.name == "device-oom"
    assert "TF_CPU_BFC_MEM_LIMIT_IN_MB" in advice(found)
    assert "limited to 60.00MiB" in advice(found)
    assert found.remedies[0].action == "shrink-micro-batch"
    assert not any(word in advice(found).lower() for word in OF_CUDA)


def test_crash_after_a_full_cpu_pool_mentions_the_pool_limit() -> None:
    said = itertools.takewhile(lambda line: "OOM when allocating" not in line, LOG.splitlines(keepends=True))
    found = diagnose_log("".join(said).encode(), [Evidence.of_exit(-11, oom_kills=0)])
    assert [each.name for each in found if each.confidence > SUSPICION] == ["host-oom", "segmentation-fault"]
    assert "TensorFlow's memory pool on the CPU" in found[0].fault.summary
    first = found[0].remedies[0].text
    assert "limited to 60.00MiB" in first
    assert "TF_CPU_BFC_MEM_LIMIT_IN_MB" in first
    assert not any(word in advice(found[0]).lower() for word in OF_CUDA)


def test_unsupported_system_also_gets_a_remedy() -> None:
    (found,) = diagnose_log(LOG.replace("/home/user/", "/Users/me/").encode())
    assert "macos" in found.systems
    assert found.remedies[0].text.startswith("Use a smaller batch")


def test_fragmentation_advice_does_not_contradict_the_free_memory() -> None:
    on_gpu = LOG.replace("bfc_cpu_allocator_for_gpu", "GPU_0_bfc").replace("device:CPU", "device:GPU")
    found = {each.name: each for each in diagnose_log(on_gpu.encode())}
    assert found["device-oom-fragmentation"].captured["free"] == "6.74MiB"
    assert "not even 6.12MiB" not in advice(found["device-oom"])


def test_silent_crash_in_a_tiny_cpu_pool_is_diagnosed() -> None:
    """With TF_CPP_MIN_LOG_LEVEL=2, TensorFlow prints nothing, and oomph used to blame the installation."""
    environ = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "0"}
    crashed = Evidence.of_exit(-11, oom_kills=0)
    first, *_ = diagnose_log(limit_in_words(environ).encode(), [crashed])
    assert first.name == "host-oom"
    assert "more room than 0 MB: raise TF_CPU_BFC_MEM_LIMIT_IN_MB" in first.remedies[0].text
    for others in ({"TF_CPU_BFC_MEM_LIMIT_IN_MB": "4096"}, {"TF_CPU_ALLOCATOR_USE_BFC": "0"}):
        assert diagnose_log(limit_in_words(environ | others).encode(), [crashed])[0].name == "segmentation-fault"
