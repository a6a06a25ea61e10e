"""The catalogue holds what the paper did, and nothing that could not be run."""

from __future__ import annotations

import csv

import pytest

from resel.analysis.paper import paper_folder, paper_table, same_task
from resel.choices import Scale
from resel.cli.train import train_arguments
from resel.config import Config
from resel.errors import ConfigError
from resel.experiments import CATALOGUE, SCALES, choose
from resel.experiments.plan import run_name
from resel.tasks import get_task

NAMES = [
    "fig-amplification",
    "fig-lr-ablation",
    "fig-pomdp",
    "table-pomdp",
    "fig-gravity",
    "table-gravity",
    "fig-meta",
    "fig-key-to-door",
    "table-mdp",
    "fig-sensitivity",
    "fig-encoders",
    "fig-context-length",
    "fig-tsne",
    "table-timing",
    "fig-length-timing",
]

BEYOND = [
    *("methods", "fig-lr-others", "tmaze", "table-novel", "table-popgym", "fig-auto-lr"),
    "privileged",
]
"""Not in the paper, and not meant by `all`."""


def paper_configs(name: str) -> list[Config]:
    """Those of the paper's own method."""
    study = CATALOGUE[name].studies["paper"]
    own = [setting for setting in study.settings if setting.method is None]
    return [setting.config(seed) for setting in own for seed in study.seeds]


def test_lines_of_meta_rl_are_the_methods_of_their_sources() -> None:
    found: dict[str, dict[str, str]] = {}
    for setting in CATALOGUE["fig-meta"].studies["paper"].settings:
        config = setting.config(1)
        assert config.training.steps == 5_000_000
        found.setdefault(setting.group, {})[setting.task] = config.method
    tasks = ("AntDir-v0", "CheetahDir-v0", "HalfCheetahVel-v0", "Wind-v0")
    lines = {group: [methods.get(task) for task in tasks] for group, methods in found.items()}
    assert lines == {
        "RESeL": ["resel"] * 4,
        "MF-RNN": ["sac-gru", "sac-gru", "mf-rnn", "mf-rnn"],
        "VariBad": ["varibad", "varibad", "varibad-off", "varibad-off"],
        "RL2": ["rl2"] * 4,
    }


def test_every_figure_and_table_is_there() -> None:
    assert list(CATALOGUE) == [*NAMES, *BEYOND]
    assert choose(["all"]) == [CATALOGUE[name] for name in NAMES]  # those of the paper
    assert choose(["methods"]) == [CATALOGUE["methods"]]
    assert [e.name for e in choose(["fig-meta", "fig-pomdp", "fig-meta"])] == [
        "fig-meta",
        "fig-pomdp",
    ]


def test_unknown_names_are_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean fig-pomdp.*There are: fig-amp.*, all"):
        choose(["fig-pomdpp"])
    with pytest.raises(ConfigError, match=r"no experiment 'xyz'\. There are"):
        choose(["xyz"])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_scale_can_be_run(name: str, scale: Scale) -> None:
    experiment = CATALOGUE[name]
    study = experiment.studies[scale]
    assert (experiment.kind == "timing") == (study.count == 0)
    for setting in study.settings:
        config = setting.config(study.seeds[0])
        known = get_task(config.task) is not None
        of_the_paper = name in NAMES and scale == "paper"
        assert known or (not of_the_paper and config.task == "Pendulum-v1")
        assert all(mark <= config.training.steps for mark in study.marks)
        assert experiment.kind != "finals" or setting.x is not None
    places = [(s.place, s.group, s.x) for s in study.settings]
    assert len(set(places)) == len(places), "two settings in one place of a figure"


@pytest.mark.parametrize("scale", SCALES)
def test_flags_of_the_command_give_the_same_settings(scale: Scale) -> None:
    seen = set()
    for experiment in CATALOGUE.values():
        for setting in experiment.studies[scale].settings:
            config, kind = setting.config(5), tuple(setting.overrides)
            if kind in seen:  # parsing takes its time, and the same flags parse alike
                continue
            seen.add(kind)
            parsed = train_arguments(setting.flags(5))
            assert (parsed.network, parsed.algorithm, parsed.training) == (
                config.network,
                config.algorithm,
                config.training,
            )


def test_runs_are_shared_and_named_by_their_settings() -> None:
    figure, table = (set(map(run_name, paper_configs(n))) for n in ("fig-pomdp", "table-pomdp"))
    assert figure == table and len(figure) == 48
    assert set(map(run_name, paper_configs("fig-amplification"))) < figure
    assert len(figure & set(map(run_name, paper_configs("fig-lr-ablation")))) == 24
    config = paper_configs("fig-pomdp")[0]
    assert run_name(config) == run_name(config.replace(threads=7))
    assert run_name(config) != run_name(config.replace(gamma=0.98))


# The paper's table of hyperparameters, as the file in the package states it.
GROUPS = {
    "classic MuJoCo and classic meta-RL tasks": ("MDP", "meta-RL"),
    "classic meta-RL tasks": ("meta-RL",),
    "classic POMDP tasks": ("classic POMDP",),
    "Key-to-Door": ("credit assignment",),
}
ATTRIBUTES = {
    "context encoder LR (LR_CE)": "lr_context_encoder",
    "other learning rate LR_other for policy": "lr_policy",
    "other learning rate LR_other for value": "lr_critic",
    "gamma": "gamma",
    "last reward as input": "reward_input",
    "batch size (transitions; sum of sampled full trajectory lengths >= BS)": "batch_steps",
    "learning rate of alpha": "lr_alpha",
    "soft-update factor for target value network": "tau",
    "number of randomly sampled data (warm-up steps)": "warmup_steps",
    "critic ensemble size": "n_critics",
    "REDQ subset size |M| for target min": "subset_size",
}
COMPARISONS = ("fig-pomdp", "fig-gravity", "fig-meta", "fig-key-to-door", "table-mdp")


def hyperparameters() -> list[dict[str, str]]:
    file = paper_folder() / "hyperparameters.csv"
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_paper_scale_has_the_papers_hyperparameters(attribute: str) -> None:
    rows = [row for row in hyperparameters() if row["attribute"] == attribute]
    special = {family: row["value"] for row in rows for family in GROUPS.get(row["task"], ())}
    rest = next((row["value"] for row in rows if row["task"] in ("other tasks", "all tasks")), None)
    checked = 0
    for name in COMPARISONS:
        for config in paper_configs(name):
            task = get_task(config.task)
            assert task is not None
            expected = special.get(task.family, rest)
            assert expected is not None
            found = config.flat()[ATTRIBUTES[attribute]]
            if ATTRIBUTES[attribute] == "tau":  # the paper names the share that is kept
                found = 1 - found
            if isinstance(found, bool):
                assert str(found) == expected
            else:
                assert found == pytest.approx(float(expected))
            checked += 1
    assert checked == 26 * 6


def test_paper_scale_has_the_papers_steps_seeds_and_networks() -> None:
    steps = {
        "fig-pomdp": 1_500_000,
        "fig-gravity": 2_000_000,
        "fig-meta": 5_000_000,
        "table-mdp": 5_000_000,
        "fig-encoders": 750_000,
    }
    for name, expected in steps.items():
        assert {config.training.steps for config in paper_configs(name)} == {expected}
        assert CATALOGUE[name].studies["paper"].seeds == (1, 2, 3, 4, 5, 6)
    assert CATALOGUE["table-mdp"].studies["paper"].marks == (300_000, 1_000_000, 5_000_000)
    for name in COMPARISONS:
        for config in paper_configs(name):
            network = config.network
            assert (config.encoder, network.width, network.embedding) == ("mamba", 256, 128)
            assert (
                config.encoder_settings.state_size,
                network.head_width,
                network.head_layers,
            ) == (64, 256, 2)
    entropies = {c.task: c.algorithm.target_entropy_scale for c in paper_configs("table-mdp")}
    assert entropies.pop("Hopper-v2") == 0.0 and set(entropies.values()) == {None}
    lengths = {s.x for s in CATALOGUE["fig-key-to-door"].studies["paper"].settings}
    assert lengths == {60, 120, 250, 500}


def test_ablations_change_what_they_say() -> None:
    rates = {
        (c.algorithm.lr_context_encoder, c.algorithm.lr_policy)
        for c in paper_configs("fig-lr-ablation")
    }
    assert rates == {(1e-5, 3e-4), (3e-4, 3e-4)}
    windows = {c.algorithm.context_length for c in paper_configs("fig-context-length")}
    assert windows == {None, 64}
    small = CATALOGUE["fig-context-length"].studies["smoke"].settings
    for setting in small:  # the cart's own preset learns from windows
        window = setting.config(1).algorithm.context_length
        assert window == (None if setting.group == "whole trajectories" else 64)
    encoders = {c.encoder for c in paper_configs("fig-encoders")}
    assert encoders == {"mamba", "gru"}
    for config in paper_configs("fig-sensitivity"):
        assert config.task == "WalkerBLT-V-v0"
        algorithm = config.algorithm
        assert algorithm.lr_critic / algorithm.lr_policy == pytest.approx(1e-3 / 3e-4, rel=1e-5)
    study = CATALOGUE["fig-sensitivity"].studies["paper"]
    assert {s.place for s in study.settings} == {
        "LR_other = 0.0003",
        "LR_CE = 1e-05",
        "LR_CE = 5e-06",
        "LR_CE = LR_other",
    }
    assert CATALOGUE["fig-tsne"].studies["paper"].numbers["gravities"] == 40


def test_the_ablation_at_cpu_scale() -> None:
    study = CATALOGUE["fig-lr-ablation"].studies["cpu"]
    configs = [setting.config(1) for setting in study.settings]
    assert len(study.seeds) == 6 and len({c.task for c in configs}) == 2
    assert {c.training.steps for c in configs} == {20_000}
    rates = [(c.algorithm.lr_context_encoder, c.algorithm.lr_policy) for c in configs]
    assert rates == [(3e-4, 1e-3), (1e-3, 1e-3), (3e-4, 1e-3), (1e-3, 1e-3)]


@pytest.mark.parametrize(
    ("experiment", "cells"), [("table-pomdp", 72), ("table-gravity", 40), ("table-mdp", 90)]
)
def test_the_papers_numbers_stand_beside_ours(experiment: str, cells: int) -> None:
    table = CATALOGUE[experiment].table
    assert table is not None
    printed = paper_table(table)
    assert len(printed) == cells
    beside = []
    study = CATALOGUE[experiment].studies["paper"]
    for setting in study.settings:
        for step in study.marks or (setting.config(1).training.steps,):
            found = [
                cell
                for cell in printed
                if same_task(setting.task, cell.task)
                and cell.step == step
                and cell.method == setting.group
            ]
            assert len(found) == 1, (setting.task, step, setting.group)
            beside += found
    assert set(beside) == set(printed) and len(beside) == cells
    assert all(cell.error is not None for cell in beside if cell.method == "RESeL")


ONE_SEED = {
    "fig-sensitivity": "a grid of rates, whose points stand beside each other",
    "fig-amplification": "what single updates do to one trained policy, over 20 episodes",
    "fig-tsne": "a map of the contexts of one trained policy",
}
"""Where RESeL has a single seed at smoke scale, and what is seen there all the same."""


@pytest.mark.parametrize("name", [n for n in NAMES if CATALOGUE[n].studies["smoke"].settings])
def test_smoke_runs_are_small(name: str) -> None:
    """RESeL has two seeds, others one; all are tiny, and draw at most 16 windows a batch."""
    study = CATALOGUE[name].studies["smoke"]
    ours = (1,) if name in ONE_SEED else (1, 2)
    assert study.seeds == ours
    for setting in study.settings:
        is_ours = setting.method is None and setting.config(1).encoder != "mlp"
        assert (setting.seeds or study.seeds) == (ours if is_ours else (1,)), setting
        config = setting.config(1)
        assert config == config.replace(**config.sized("tiny")), setting
        assert config.flat().get("batch_windows", 0) <= 16, setting
