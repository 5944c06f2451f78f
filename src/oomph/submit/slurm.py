"""Renders a job as a file for Slurm's sbatch. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.run.policy.decide import REQUEUE_EXIT_CODE
from oomph.submit.job import MOST_RESTARTS, SAVE_SECONDS, BatchJob, in_bash


def render(job: BatchJob, python: str) -> str:
    """Return the text of the file.

    Args:
        job: the job.
        python: the Python that has oomph, on every machine.
    """
    command = " ".join(map(in_bash, ["srun", "--kill-on-bad-exit=1", python, "-m", "oomph", *job.command()]))
    directives = "".join(f"#SBATCH --{line}\n" for line in _directives(job))
    return f"""#!/bin/bash
{directives}
# Each task is one worker. The signal lets all save {SAVE_SECONDS} s before the time limit.
{command}
code=$?

# {REQUEUE_EXIT_CODE}: another start may help, and goes on from the newest checkpoint that all workers have.
if [ "$code" -eq {REQUEUE_EXIT_CODE} ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {MOST_RESTARTS} ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


def _directives(job: BatchJob) -> Iterator[str]:
    yield f"job-name={job.name}"
    yield f"ntasks={job.workers}"
    if job.gpus:
        yield f"gpus-per-task={job.gpus}"
    if job.time:
        yield f"time={job.time}"
    yield f"signal=USR1@{SAVE_SECONDS}"
    yield "requeue"
    yield "open-mode=append"
