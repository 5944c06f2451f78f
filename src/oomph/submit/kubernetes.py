"""Renders a job as a JobSet for Kubernetes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oomph.run.policy.decide import REQUEUE_EXIT_CODE
from oomph.submit.job import MOST_RESTARTS, SAVE_SECONDS, BatchJob, in_yaml

_MOUNTED = "/oomph"
_KILLED = (137, 143)
"""The exit codes of a container that was killed, by SIGKILL or SIGTERM."""
_HEAD = f"""\
# A pod that ends with {REQUEUE_EXIT_CODE}, or is killed or evicted, fails its Job, and the JobSet starts all pods
# again, up to maxRestarts times. Any other exit code fails the JobSet: another start would only repeat it.
"""


def render(job: BatchJob) -> str:
    """Return the text of the manifest."""
    return _HEAD + "\n".join(_lines(_job_set(job))) + "\n"


def _job_set(job: BatchJob) -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": job.name},
        "spec": {
            "network": {"enableDNSHostnames": True},
            "failurePolicy": {
                "maxRestarts": MOST_RESTARTS,
                "rules": [{"name": "giveUp", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}],
            },
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": _job(job)}}],
        },
    }


def _job(job: BatchJob) -> dict[str, Any]:
    codes = {"containerName": "worker", "operator": "NotIn", "values": [REQUEUE_EXIT_CODE, *_KILLED]}
    return {
        "completionMode": "Indexed",
        "completions": job.workers,
        "parallelism": job.workers,
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [
                {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailJob", "onExitCodes": codes},
            ]
        },
        "template": {"spec": _pod(job)},
    }


def _pod(job: BatchJob) -> dict[str, Any]:
    words = job.command(f"--workers={job.workers}", f"--run-dir={_MOUNTED}/{job.name}")
    worker = {
        "name": "worker",
        "image": job.image,
        "command": ["oomph", *(word.replace("$", "$$") for word in words)],  # Kubernetes expands $(NAME)
        "resources": {"limits": {"nvidia.com/gpu": job.gpus}} if job.gpus else None,
        "volumeMounts": [{"name": "runs", "mountPath": _MOUNTED}],
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": SAVE_SECONDS,
        "containers": [{name: value for name, value in worker.items() if value is not None}],
        "volumes": [{"name": "runs", "persistentVolumeClaim": {"claimName": job.claim}}],
    }


def _lines(value: Mapping[str, Any] | Sequence[Any]) -> Iterator[str]:
    """Yield the lines of a YAML document. Texts are always quoted, so that none is read as something else."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, (Mapping, list)):
                yield f"{name}:"
                yield from (f"  {line}" for line in _lines(inner))
            else:
                yield f"{name}: {_scalar(inner)}"
        return
    for inner in value:
        first, *rest = _lines(inner) if isinstance(inner, (Mapping, list)) else [_scalar(inner)]
        yield f"- {first}"
        yield from (f"  {line}" for line in rest)


def _scalar(value: str | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else in_yaml(value)
