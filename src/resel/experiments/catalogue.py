"""Every figure and table of the paper that is measured, as data."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from resel.choices import Scale
from resel.errors import ConfigError
from resel.experiments._auto_lr_study import auto_lr_study
from resel.experiments._memory_studies import (
    novel_study,
    popgym_study,
    privileged_study,
    tmaze_study,
)
from resel.experiments._methods_study import methods_study, others_rates_study
from resel.experiments._paper_scale import STUDIES
from resel.experiments._settings import (
    SCALES,
    Experiment,
    Kind,
    Measure,
    Setting,
    Study,
)
from resel.experiments._small_scale import CPU, SMOKE
from resel.methods import read_preset


def _experiment(
    name: str,
    title: str,
    shows: str,
    kind: Kind,
    measures: tuple[Measure, ...] = ("return",),
    table: str | None = None,
) -> Experiment:
    studies: dict[Scale, Study] = {"smoke": SMOKE[name], "cpu": CPU[name], "paper": STUDIES[name]}
    return Experiment(name, title, shows, kind, studies, measures, table)


_ALL = (
    _experiment(
        "fig-amplification",
        "Output variation along an episode after one update",
        "fig.policy-difference-after-step",
        "amplification",
    ),
    _experiment(
        "fig-lr-ablation",
        "A specific against a uniform learning rate",
        "fig.ablation-lr-curve",
        "curves",
    ),
    _experiment(
        "fig-pomdp", "Learning in classic POMDP tasks", "fig.pomdp-rl-learning-curve", "curves"
    ),
    _experiment(
        "table-pomdp",
        "Final returns in classic POMDP tasks",
        "table.pomdp_final",
        "table",
        table="table.pomdp_final",
    ),
    _experiment(
        "fig-gravity",
        "Learning under changing gravity",
        "fig.dynamic-randomization-comparison",
        "curves",
    ),
    _experiment(
        "table-gravity",
        "Final returns under changing gravity",
        "table.meta_gravity_final",
        "table",
        table="table.meta_gravity_final",
    ),
    _experiment("fig-meta", "Learning in meta-RL tasks", "fig.meta-rl-learning-curve", "curves"),
    _experiment(
        "fig-key-to-door",
        "Success against the length of credit assignment",
        "fig.credit-assignment-success",
        "finals",
        ("success",),
    ),
    _experiment(
        "table-mdp",
        "Returns in fully observed tasks",
        "table.classic_result_full",
        "table",
        table="table.classic_result_full",
    ),
    _experiment(
        "fig-sensitivity",
        "Final return against the learning rates",
        "fig.sensitivity_study, fig.sensitive_study_5e-6",
        "finals",
    ),
    _experiment(
        "fig-encoders",
        "Mamba against GRU",
        "fig.ablation_gru_performance_deterministic, fig.ablation_gru_performance_stochastics",
        "curves",
        ("return", "exploration"),
    ),
    _experiment(
        "fig-context-length",
        "Whole trajectories against windows",
        "fig.ablation-seq-len-curve",
        "curves",
    ),
    _experiment(
        "fig-tsne",
        "What the context encoder knows of gravity",
        "fig.halfcheetah-tsne",
        "embedding",
    ),
    _experiment(
        "table-timing",
        "Time of one update by encoder and depth",
        "tab:full_timeoverhead_table, fig.one_step_update_time",
        "timing",
        table="tab:full_timeoverhead_table",
    ),
    _experiment(
        "fig-length-timing",
        "Time of the recurrent blocks against trajectory length",
        "fig.running-time-comparison",
        "timing",
    ),
)


def _beyond(
    name: str,
    title: str,
    kind: Kind,
    study: Callable[[Scale], Study],
    measures: tuple[Measure, ...] = ("return",),
) -> Experiment:
    """An experiment that is not in the paper."""
    studies = {scale: study(scale) for scale in SCALES}
    return Experiment(name, title, "no figure of the paper", kind, studies, measures)


_BEYOND = (
    _beyond("methods", "Every method where it can show itself", "comparison", methods_study),
    _beyond(
        "fig-lr-others",
        "A learning rate of its own for other methods' encoders",
        "curves",
        others_rates_study,
    ),
    _beyond(
        "tmaze",
        "The T-maze, also at lengths it was not learned at",
        "lengths",
        tmaze_study,
        ("success",),
    ),
    _beyond("table-novel", "Tasks without velocities beside RecurrentPPO", "anchors", novel_study),
    _beyond("table-popgym", "POPGym beside its published numbers", "mmer", popgym_study),
    _beyond("fig-auto-lr", "An automatic LR_CE against fixed ones", "rates", auto_lr_study),
    _beyond("privileged", "A critic that is told what is unseen", "comparison", privileged_study),
)
CATALOGUE: dict[str, Experiment] = {found.name: found for found in (*_ALL, *_BEYOND)}
"""By name, in the order of the paper; last what is not in it."""


def choose(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, each once; `all` stands for every one of the paper."""
    wanted = [found.name for found in _ALL] if "all" in names else list(dict.fromkeys(names))
    for name in wanted:
        if name not in CATALOGUE:
            near = difflib.get_close_matches(name, CATALOGUE, n=3)
            hint = f"Did you mean {' or '.join(near)}? " if near else ""
            raise ConfigError(
                f"There is no experiment {name!r}. {hint}There are: {', '.join(CATALOGUE)}, all."
            )
    return [CATALOGUE[name] for name in wanted]


def narrowed(
    experiments: Sequence[Experiment], scale: Scale, methods: Sequence[str]
) -> tuple[list[Experiment], list[str]]:
    """The experiments with these of their methods only, and what does not apply, in sentences.

    An experiment that runs none of them is left out; a method that none of them runs is refused.
    """
    runs = {e.name: [s.method_name for s in e.studies[scale].settings] for e in experiments}
    having = list(dict.fromkeys(name for own in runs.values() for name in own))
    one = experiments[0].name if len(experiments) == 1 else None
    for name in methods:
        if name not in having:
            none = f"{one} does not run" if one else "None of these figures runs"
            has, trains = ("it has", "it trains") if one else ("they have", "they train")
            there = f"{has} {', '.join(having)}." if having else f"{trains} nothing."
            raise ConfigError(f"{none} {name!r} at scale {scale}: {there}")
    kept = [e for e in experiments if set(runs[e.name]) & set(methods)]
    notes = []
    if without := [e.name for e in experiments if e not in kept]:
        notes.append(f"Left out, as they run none of these methods: {', '.join(without)}.")
    for name in methods:
        where = [e.name for e in kept if name in runs[e.name]]
        if len(where) < len(kept):
            notes.append(f"{name} is in {', '.join(where)} alone.")
    return [_with_methods(experiment, scale, methods) for experiment in kept], notes


def _with_methods(experiment: Experiment, scale: Scale, methods: Sequence[str]) -> Experiment:
    study = experiment.studies[scale]
    kept = tuple(setting for setting in study.settings if setting.method_name in methods)
    return replace(experiment, studies={**experiment.studies, scale: replace(study, settings=kept)})


def with_seeds(experiment: Experiment, scale: Scale, count: int) -> Experiment:
    """The experiment with the first `count` of its seeds, and no setting that has others.

    One that has fewer keeps them all.
    """
    study = experiment.studies[scale]
    if count < 1:
        raise ConfigError(f"--seeds {count} is too few: it must be at least 1.")
    seeds = study.seeds[:count]
    settings = tuple(
        setting if setting.seeds is None else replace(setting, seeds=own)
        for setting in study.settings
        if (own := tuple(s for s in setting.seeds or seeds if s in seeds))
    )
    kept = replace(study, seeds=seeds, settings=settings)
    return replace(experiment, studies={**experiment.studies, scale: kept})


def with_preset(experiment: Experiment, scale: Scale, path: str) -> Experiment:
    """The experiment with the settings of a preset file wherever its task and method are run."""
    found, study = read_preset(path), experiment.studies[scale]

    def is_its(setting: Setting) -> bool:
        return (setting.task, setting.method_name) == (found.task, found.method)

    if not any(map(is_its, study.settings)):
        raise ConfigError(
            f"{experiment.name} does not run {found.method} on {found.task} at scale {scale}, for "
            f"which the settings of {path} are: leave --preset out, or choose another figure."
        )
    place = os.path.abspath(path)
    changed = tuple(replace(s, preset=place) if is_its(s) else s for s in study.settings)
    studies = {**experiment.studies, scale: replace(study, settings=changed)}
    return replace(experiment, studies=studies)
