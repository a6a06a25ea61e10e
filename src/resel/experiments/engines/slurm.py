"""The engine that only writes: the jobs as an array for Slurm, which may stop and requeue each."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import ceil

from resel._process import LAUNCHER
from resel.experiments.plan import Job

_NOTICE = 120
"""Seconds between Slurm's SIGTERM and its SIGKILL: time to save."""
_STOPPED = 143
"""Exit code of a run that was asked to stop by SIGTERM."""


def slurm_script(jobs: Sequence[Job], name: str) -> str:
    """A script for `sbatch`, one array task per job.

    Submitting it again repeats nothing that is complete, but a run that diverged goes back to its
    last checkpoint: a script that is written anew leaves it out.
    """
    lines = [_words(job) for job in jobs]
    threads = max((job.threads for job in jobs), default=1)
    megabytes = ceil(max((job.memory for job in jobs), default=0) * 1.25 / 1e6)
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --job-name={name}",
            f"#SBATCH --array=0-{max(0, len(jobs) - 1)}",
            f"#SBATCH --cpus-per-task={threads}",
            f"#SBATCH --mem={megabytes}M",
            "#SBATCH --requeue",
            f"#SBATCH --signal=TERM@{_NOTICE}",
            "#SBATCH --open-mode=append",
            "# Add what your cluster asks for: --partition, --account, --time, --gres=gpu:1.",
            "",
            "# The environment of resel: activate it before sbatch, or here.",
            "command -v resel > /dev/null || { echo 'resel is not on the PATH' >&2; exit 1; }",
            "commands=(",
            *(f"  {shlex.quote(line)}" for line in lines),
            ")",
            # A step does not take over how many processors the job asked for.
            'export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
            # As a step: Slurm sends its signal to steps, not to the shell.
            'eval "srun ${commands[$SLURM_ARRAY_TASK_ID]}"',
            "code=$?",
            "# Stopped by the time limit, and saved: it goes on in the queue.",
            f"if [ $code -eq {_STOPPED} ]; then",
            '  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"',
            "fi",
            "exit $code",
            "",
        ]
    )


def _words(job: Job) -> str:
    """The command as typed, which finds `resel` on whatever machine it is run."""
    words = job.command
    if words[: len(LAUNCHER)] == LAUNCHER:
        words = ("resel", *words[len(LAUNCHER) :])
    return shlex.join(words)
