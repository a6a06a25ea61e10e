"""Methods beside each other on any environment, as an experiment of its own."""

from __future__ import annotations

import difflib
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from resel.agent import configure, usual_preset
from resel.choices import Scale
from resel.config import Config
from resel.errors import ConfigError, ReselError
from resel.experiments._settings import Experiment, Setting, Study
from resel.methods import get_method, is_preset_file, read_preset
from resel.runs import updates_planned
from resel.tasks import full_name, get_task, short_name
from resel.training import task_trainer

COMPARISON: Scale = "cpu"
"""The one scale that a comparison has."""
_ALIKE = ("steps", "eval_every", "eval_episodes", "max_episode_steps")
"""What every method takes over from the first one: they are measured alike."""
_MOST_SEEDS = 1000
"""Runs of each method; planning many more takes minutes."""
_EARLY = ("steps", "env_kwargs", "encoder")
"""What decides which settings there are, and how a preset that looks at the world chooses."""


def comparison(
    task: str,
    methods: Sequence[str],
    seeds: int,
    preset: str | None = None,
    threshold: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Experiment:
    """Every method with every seed, at equal steps and equal evaluations.

    `settings` go to every method that has them. The threshold is the task's own if none is given;
    where there is none either, the outcome takes a share of the way to the best method.
    """
    task, given = full_name(task), dict(settings or {})
    if not methods:
        raise ConfigError("Nothing is compared: name methods, as in --methods resel,sac-mlp.")
    if seeds < 1:
        raise ConfigError(f"--seeds {seeds} is too small: it must be at least 1.")
    if seeds > _MOST_SEEDS:
        raise ConfigError(
            f"--seeds {seeds} is too large: it is how many runs each method has, at most "
            f"{_MOST_SEEDS:,}."
        )
    if threshold is not None and not math.isfinite(threshold):
        raise ConfigError(f"--threshold {threshold} is no return: give a finite number.")
    if twice := [name for name, times in Counter(methods).items() if times > 1]:
        raise ConfigError(
            f"{twice[0]} is named more than once among --methods: name it once; --seeds says how "
            "often each method is trained."
        )
    chosen = [get_method(name) for name in methods]
    presets = _presets([method.name for method in chosen], task, preset)
    first = _config(chosen[0].name, task, presets[chosen[0].name], given)
    measured = {name: getattr(first.training, name) for name in _ALIKE}
    alike = given | {name: value for name, value in measured.items() if value is not None}
    if not first.training.eval_every:
        raise ConfigError("Nothing is compared with eval_every=0: say how often to evaluate.")
    planned, known = [], set[str]()
    for method in chosen:
        preset = presets[method.name]
        config = _config(method.name, task, preset, alike)
        known |= {name for name in config.flat() if _has(config, name)}
        own = {name: value for name, value in alike.items() if _has(config, name)}
        planned.append(Setting(task, own, method.title, preset=preset, method=method.name))
    for name in given:
        if not any(name in setting.overrides for setting in planned):
            if name == "encoder":
                raise ConfigError(
                    "None of the methods compared has a context encoder: leave --encoder out."
                )
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "leave it out."
            raise ConfigError(f"None of the methods compared has a setting {name!r}: {hint}")
    spec = get_task(task)
    if threshold is None and spec is not None:
        threshold = spec.threshold
    study = Study(
        tuple(planned), tuple(range(1, seeds + 1)), numbers={"thresholds": {task: threshold}}
    )
    title = f"{', '.join(method.title for method in chosen)} on {short_name(task)}"
    return Experiment("comparison", title, "", "comparison", {COMPARISON: study})


def check_methods(experiment: Experiment) -> None:
    """Refuse a method that cannot learn in the environment it is compared in.

    Every method is set up as its first run would be, so that nobody waits for the runs of the
    others to be told.
    """
    study = experiment.studies[COMPARISON]
    for setting in study.settings:
        config = setting.config(study.seeds[0])
        try:
            with task_trainer(config) as trainer:
                trainer.check_settings(anew=True)
                updates_planned(config, trainer.learner.schedule)
        except ReselError as error:
            raise ConfigError(
                f"{setting.group} cannot be compared on {setting.task}, so nothing was run: {error}"
            ) from error


def _presets(methods: Sequence[str], task: str, preset: str | None) -> dict[str, str]:
    """What each method starts from; a file is for its own method, the others have the usual one."""
    usual = usual_preset(task)
    if preset is None or not is_preset_file(preset):
        return dict.fromkeys(methods, preset or usual)
    own = read_preset(preset).method
    if own not in methods:
        raise ConfigError(
            f"The preset file {preset} has settings of {own}, which is not compared: name it "
            "among --methods."
        )
    return {**dict.fromkeys(methods, usual), own: os.path.abspath(preset)}


def _config(method: str, task: str, preset: str, settings: Mapping[str, Any]) -> Config:
    """The settings of a method, with those of `settings` that it has."""
    early = ("steps", "env_kwargs") if get_method(method).encoder is None else _EARLY
    named = {name: settings[name] for name in early if name in settings}
    usual = configure(task, method=method, preset=preset, **named)
    own = {name: value for name, value in settings.items() if _has(usual, name)}
    return configure(task, method=method, preset=preset, **own)


def _has(config: Config, name: str) -> bool:
    if name == "encoder":
        return config.encoder is not None
    if name == "updates_per_step" and get_method(config.method).learner.on_policy:
        return False  # it learns from whole rollouts
    return name == "size" or name in config.flat()
