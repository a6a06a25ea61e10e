"""The experiments as the paper ran them: its tasks, networks, steps and six seeds.

The figures themselves are pictures, so what the text does not say is chosen here: which four tasks
the ablations of LR_CE and of the context length used (the four -V tasks), and the points of the
sensitivity grids between the values the text names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from resel.experiments._settings import Setting, Study
from resel.methods import Method, default_method, own_methods
from resel.tasks import all_tasks

SEEDS = (1, 2, 3, 4, 5, 6)
PAIRS = ((3e-4, 0.0), (0.0, 3e-4), (0.0, 6e-3), (1e-5, 0.0), (1e-5, 3e-4))
"""(LR_CE, LR_other) of the single updates whose effect is measured."""
GRAVITIES = 40

_CRITIC = 1e-3 / 3e-4
"""The critic's rate over the policy's, in the table of hyperparameters."""
_VELOCITY_TASKS = tuple(f"{robot}BLT-V-v0" for robot in ("Ant", "HalfCheetah", "Hopper", "Walker"))
_ENCODER_TASKS = tuple(f"{r}BLT-{s}-v0" for r in ("HalfCheetah", "Walker") for s in "PV")
_ON_DIRECTIONS, _OFF_DIRECTIONS = ("sac-gru", "varibad"), ("mf-rnn", "varibad-off")
_META_LINES = {"sac-gru": "MF-RNN", "varibad-off": "VariBad"}
"""Lines of meta-RL that go by the name of another method."""
_WALKER = "WalkerBLT-V-v0"
_RATES_ENCODER = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 3e-4)
_RATES_OTHER = (5e-6, 1e-5, 5e-5, 1e-4, 3e-4, 6e-4, 1.2e-3)
_RATES_BOTH = (5e-6, 1e-5, 5e-5, 1e-4, 3e-4)


def sensitivity(
    task: str,
    rates: tuple[Iterable[float], Iterable[float], Iterable[float]],
    fixed: tuple[float, float, float],
    **overrides: object,
) -> tuple[Setting, ...]:
    """Four panels: LR_CE varied, LR_other varied at two values of LR_CE, and both varied alike.

    `rates` are those of LR_CE, LR_other and both; `fixed` are LR_other of the first panel and
    LR_CE of the next two. The critic's rate keeps the table's ratio to the policy's.
    """
    encoder, other, both = rates
    fixed_other, fixed_encoder, smaller = fixed
    points = [(f"LR_other = {fixed_other:g}", rate, rate, fixed_other) for rate in encoder]
    for kept in (fixed_encoder, smaller):
        points += [(f"LR_CE = {kept:g}", rate, kept, rate) for rate in other]
    points += [("LR_CE = LR_other", rate, rate, rate) for rate in both]
    return tuple(
        Setting(
            task,
            {
                **overrides,
                "lr_context_encoder": lr_encoder,
                "lr_policy": lr_other,
                "lr_critic": float(f"{lr_other * _CRITIC:.6g}"),
            },
            panel=panel,
            x=x,
        )
        for panel, x, lr_encoder, lr_other in points
    )


def of_figure(figure: str) -> list[Method]:
    """The methods that a figure or table compares, the default one first."""
    found = [method for method in own_methods() if figure in method.figures]
    return sorted(found, key=lambda method: method.name != default_method())


def _family(name: str, figure: str) -> tuple[Setting, ...]:
    """Every method of a figure on every task of a family."""
    return tuple(
        Setting(task.id, group=method.title, method=_named(method))
        for task in all_tasks()
        if task.family == name
        for method in of_figure(figure)
    )


def _named(method: Method) -> str | None:
    return None if method.name == default_method() else method.name


def _compared(tasks: Iterable[str], **groups: Mapping[str, object]) -> tuple[Setting, ...]:
    return tuple(Setting(t, values, group) for t in tasks for group, values in groups.items())


def _meta() -> Iterator[Setting]:
    """What the source of the paper's curves ran on each task.

    On the two tasks with directions its MF-RNN is SAC with a GRU, and VariBAD is on-policy.
    """
    for setting in _family("meta-RL", "fig-meta"):
        directions = setting.task in ("AntDir-v0", "CheetahDir-v0")
        if setting.method not in (_OFF_DIRECTIONS if directions else _ON_DIRECTIONS):
            yield replace(setting, group=_META_LINES.get(setting.method or "", setting.group))


def _key_to_door() -> Iterator[Setting]:
    for length in (60, 120, 250, 500):
        for method in of_figure("fig-key-to-door"):
            task = f"KeyToDoor-{length}-v0"
            yield Setting(task, {}, method.title, "Key-to-Door", length, method=_named(method))


def _encoders() -> Iterator[Setting]:
    base = {"steps": 750_000}
    for task in _ENCODER_TASKS:
        for encoder, group in (("mamba", "RESeL-Mamba"), ("gru", "RESeL-GRU")):
            yield Setting(task, {**base, "encoder": encoder}, group)
        for method in of_figure("fig-encoders")[1:]:
            yield Setting(task, base, method.title, method=_named(method))


_POMDP = Study(_family("classic POMDP", "fig-pomdp"), SEEDS)
_GRAVITY = Study(_family("gravity", "fig-gravity"), SEEDS)

STUDIES: dict[str, Study] = {
    "fig-amplification": Study(
        (Setting(_WALKER),), SEEDS[:1], numbers={"pairs": PAIRS, "episodes": 20}
    ),
    "fig-lr-ablation": Study(
        _compared(
            _VELOCITY_TASKS,
            **{"LR_CE = 1e-05": {}, "LR_CE = 3e-04": {"lr_context_encoder": 3e-4}},
        ),
        SEEDS,
    ),
    "fig-pomdp": _POMDP,
    "table-pomdp": _POMDP,
    "fig-gravity": _GRAVITY,
    "table-gravity": _GRAVITY,
    "fig-meta": Study(tuple(_meta()), SEEDS),
    "fig-key-to-door": Study(tuple(_key_to_door()), SEEDS),
    "table-mdp": Study(_family("MDP", "table-mdp"), SEEDS, marks=(300_000, 1_000_000, 5_000_000)),
    "fig-sensitivity": Study(
        sensitivity(_WALKER, (_RATES_ENCODER, _RATES_OTHER, _RATES_BOTH), (3e-4, 1e-5, 5e-6)),
        SEEDS,
    ),
    "fig-encoders": Study(tuple(_encoders()), SEEDS),
    "fig-context-length": Study(
        _compared(
            _VELOCITY_TASKS, **{"whole trajectories": {}, "64 steps": {"context_length": 64}}
        ),
        SEEDS,
    ),
    "fig-tsne": Study(
        (Setting("HalfCheetah-gravity-v0"),), SEEDS[:1], numbers={"gravities": GRAVITIES}
    ),
    "table-timing": Study(numbers={"size": "paper", "quick": False}),
    "fig-length-timing": Study(numbers={"size": "paper", "quick": False}),
}
