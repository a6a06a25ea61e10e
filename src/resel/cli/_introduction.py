"""What a run says before its first step."""

from __future__ import annotations

from rich.table import Table

from resel.cli.console import OUT, escape, warn
from resel.config import Config, TrainingConfig
from resel.data import PerRollout, Schedule
from resel.methods import Learner, get_method
from resel.runs import Run, format_bytes
from resel.training import compiling_note, describe_groups
from resel.training.threads import suitable_threads, usable_cores, width_of


def introduce(run: Run, threads: int) -> None:
    """What is about to happen, before the first step."""
    settings, learner = run.config.training, run.trainer.learner
    OUT.print(
        f"[bold]{run.config.task}[/bold] with {who_learns(run.config)}, seed {settings.seed}, "
        f"{settings.steps:,} steps on {learner.device} (threads: {threads})"
    )
    table = Table("network", "group", "parameters", "learning rate", box=None)
    for group in describe_groups(learner):
        steers = learner.steers(str(group["network"]), str(group["group"]))
        table.add_row(
            str(group["network"]),
            str(group["group"]),
            f"{group['parameters']:,}",
            f"{group['learning_rate']:.3g}{' (auto)' if steers else ''}",
        )
    OUT.print(table)
    OUT.print(_plan(run))
    OUT.print(f"Replay buffer: up to {format_bytes(run.buffer_bytes)} of memory.")
    if learner.device.type == "cpu" and suitable_threads(0, width_of(run.config)) is None:
        OUT.print("This is the paper's network, made for a GPU; --size tiny suits small tasks.")
    if (note := compiling_note(run.trainer)) is not None:
        OUT.print(note, soft_wrap=True)
    if threads > (cores := usable_cores()) and run.resumed_at is not None:
        warn(
            f"The run goes on with its {threads} threads, more than the cores here ({cores}): that "
            f"is exact but slow. --threads {cores} --force takes fewer, and is not exact."
        )
    for note in run.notes:
        warn(note)
    if run.warm_start is not None:
        OUT.print(escape(str(run.warm_start)), soft_wrap=True)
    if run.begins_again:
        kept = f" What it had left is in {run.set_aside}." if run.set_aside else ""
        OUT.print(
            "This run was stopped before its first checkpoint: it begins again at step 0." + kept,
            soft_wrap=True,
        )
    if run.going_on is not None:
        OUT.print(run.going_on, soft_wrap=True)


def _plan(run: Run) -> Table:
    """What decides how long a run takes and when it says something."""
    settings, learner = run.config.training, run.trainer.learner
    gamma, longest = getattr(learner.settings, "gamma", None), run.horizon
    ends = (
        "no end of an episode is declared" if longest is None else f"episodes of up to {longest:,}"
    )
    ahead = "" if gamma in (None, 1.0) else f"{1 / (1 - gamma):,.0f} steps (gamma {gamma:g}), "
    table = Table(box=None, show_header=False)
    for name, text in (
        *_of_environments(settings),
        *_of_warmup(settings),
        ("batch", f"{learner.sampler}; {_updates(learner.schedule, settings.updates_per_step)}"),
        ("horizon", f"{ahead}{ends}"),
        *_of_critic(learner),
        ("evaluation", _evaluates(settings)),
        ("checkpoint", _saves(settings.checkpoint_every, settings.checkpoint_minutes)),
    ):
        table.add_row(name, text)
    return table


def _of_warmup(settings: TrainingConfig) -> list[tuple[str, str]]:
    steps = settings.warmup_steps
    return [("warm-up", f"{steps:,} steps with random actions")] if steps else []


def _updates(schedule: Schedule, per_step: float) -> str:
    """How often, for methods that learn along the way and for those that wait for a rollout."""
    if not isinstance(schedule, PerRollout):
        return f"updates per step: {per_step:g}"
    made = schedule.updates + schedule.further
    return f"{made:,} {'update' if made == 1 else 'updates'} every {schedule.steps:,} steps"


def _of_environments(settings: TrainingConfig) -> list[tuple[str, str]]:
    """How several are stepped; nothing of one in this process."""
    if settings.env_vector:
        how = "in the task's vectorised version, whose unfinished episodes are lost on a resume"
    elif settings.env_workers:
        how = "each in a process of its own"
    else:
        how = "one after another"
    several = settings.num_envs > 1 or settings.env_workers
    return [("environments", f"{settings.num_envs}, {how}")] if several else []


def _of_critic(learner: Learner) -> list[tuple[str, str]]:
    """What the critic reads and the policy does not, if there is such."""
    count, named = learner.dims.privileged, getattr(learner.settings, "critic_observations", None)
    numbers = "1 number" if count == 1 else f"{count} numbers"
    return [("critic", f"also reads {named} ({numbers} a step)")] if count else []


def _evaluates(settings: TrainingConfig) -> str:
    beside = ", while learning goes on" if settings.eval_parallel and settings.eval_every else ""
    return _every(settings.eval_every, f"{settings.eval_episodes} episodes ") + beside


def _every(steps: int, what: str) -> str:
    return f"{what}every {steps:,} steps" if steps else f"{what}at the end"


def _saves(steps: int, minutes: float) -> str:
    by_clock = f", every {minutes:g} minutes and after the first updates" if minutes else ""
    return f"{_every(steps, '')}{by_clock}"


def who_learns(config: Config) -> str:
    """The method by its title, and by its name where that says more, with its encoder."""
    method = get_method(config.method)
    name = None if method.title.lower() == method.name else method.name
    more = [word for word in (name, config.encoder) if word]
    return f"{method.title} ({', '.join(more)})" if more else method.title
