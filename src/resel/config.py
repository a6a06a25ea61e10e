"""All settings of a run: one frozen dataclass per concern, checked when it is built.

Field names are unique across the groups, so a setting is named the same everywhere: as a keyword
of `RESeL(...)`, as a flag of `resel train` (`lr_policy` is `--lr-policy`) and in `config.json`.
The defaults are the paper's; tasks bring their own on top of them.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_type_hints

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from resel.errors import ConfigError

EncoderName = Literal["mamba", "gru", "lstm", "mlp"]
SizeName = Literal["paper", "small", "tiny"]
LrScope = Literal["encoder", "rnn"]
OnDivergence = Literal["stop", "rollback"]


def parse_count(text: str) -> int:
    """Whole numbers as people write them: `20000`, `20_000`, `1.5e6`."""
    try:
        return int(text)
    except ValueError:
        pass  # not plain digits: perhaps 1.5e6
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        raise ValueError(f"{text!r} is not a number; write 20000, 20_000 or 2e4") from None
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{text!r} is not a whole number; write 20000, 20_000 or 2e4")
    return int(value)


Count = Annotated[
    int,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda args: parse_count(args[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""An integer that the command line also takes as `1.5e6`."""

SIZES: dict[SizeName, dict[str, int]] = {
    "paper": {"width": 256, "embedding": 128, "head_width": 256, "state_size": 64},
    "small": {"width": 128, "embedding": 64, "head_width": 128, "state_size": 32},
    "tiny": {"width": 64, "embedding": 32, "head_width": 64, "state_size": 16},
}
"""The network sizes `--size` chooses from; every other number of the network stays as it is."""


@dataclass(frozen=True)
class NetworkConfig:
    """Policy and critic, as in the paper's appendix."""

    encoder: EncoderName = "mamba"
    """Recurrent block of the context encoder; `mlp` has no memory."""
    embedding: Count = 128
    """Outputs of each pre-encoder and of the context encoder."""
    width: Count = 256
    """Width of the context encoder."""
    input_layers: Count = 1
    """Linear + ELU layers in front of the recurrent block."""
    blocks: Count = 1
    """Recurrent blocks (mamba) or layers (gru, lstm, mlp)."""
    state_size: Count = 64
    """Mamba: states per channel."""
    conv_kernel: Count = 8
    """Mamba: taps of the causal convolution; 0 leaves it out."""
    expansion: Count = 2
    """Mamba: channels of the scan per unit of width."""
    feed_forward: bool = True
    """Mamba: position-wise feed-forward part after each block."""
    head_width: Count = 256
    """Width of the hidden layers of the policy and critic MLPs."""
    head_layers: Count = 2
    """Hidden layers of the policy and critic MLPs."""
    critics: Count = 8
    """Critic heads in the ensemble."""
    reward_input: bool = False
    """Feed the last reward to the context encoder, as meta-RL tasks need it."""
    probability_floor: float = 0.0
    """Discrete: added to the probability of each action, so that none is given up for good (the
    released code adds 0.01)."""

    def __post_init__(self) -> None:
        _one_of(self, "encoder", EncoderName)
        _at_least(
            self,
            1,
            "embedding",
            "width",
            "input_layers",
            "blocks",
            "state_size",
            "expansion",
            "head_width",
            "head_layers",
            "critics",
        )
        _at_least(self, 0, "conv_kernel")
        _between(self, 0.0, 1.0, "probability_floor")


@dataclass(frozen=True)
class AlgorithmConfig:
    """SAC with a REDQ ensemble and a learning rate of its own for the context encoder."""

    lr_context_encoder: Annotated[float, tyro.conf.arg(aliases=["--lr-ce"])] = 1e-5
    """Learning rate of the context encoders (LR_CE) of policy and critic."""
    lr_policy: float = 3e-4
    """Learning rate of everything else in the policy (LR_other)."""
    lr_critic: float = 1e-3
    """Learning rate of everything else in the critic (LR_other)."""
    lr_alpha: float = 1e-4
    """Learning rate of log alpha."""
    lr_scope: LrScope = "encoder"
    """What the small rate covers: the whole context encoder, or its recurrent layers alone."""
    batch_steps: Count = 1000
    """Whole trajectories are drawn until a batch holds at least this many steps."""
    context_length: Count | None = None
    """Train on random windows of this many steps instead of whole trajectories."""
    gamma: float = 0.99
    """Discount."""
    entropy_coefficient: float | None = None
    """Target entropy = -coefficient x action size (Box) or coefficient x log(actions) (Discrete);
    None means 1 for Box and 0.2 for Discrete."""
    fixed_alpha: float | None = None
    """Keep the temperature at this value instead of tuning it."""
    target_subset: Count = 2
    """Critic heads drawn for the minimum in the target."""
    target_keep: float = 0.995
    """Share of the old target network kept at each soft update."""
    policy_delay: Count = 2
    """Critic updates per update of policy and temperature."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this in the targets; reported returns are not."""
    normalize_observations: bool = False
    """Scale observations by their running mean and deviation, saved with the agent."""
    clamp_target_values: bool = False
    """Keep the next value inside the slowly moving range of past targets (the released code's
    QValueGuard, which the paper does not mention but whose numbers were made with it)."""

    def __post_init__(self) -> None:
        _one_of(self, "lr_scope", LrScope)
        _positive(self, "lr_context_encoder", "lr_policy", "lr_critic", "lr_alpha", "reward_scale")
        _at_least(self, 1, "batch_steps", "context_length", "target_subset", "policy_delay")
        _between(self, 0.0, 1.0, "gamma", "target_keep")
        _finite(self, "entropy_coefficient")
        if self.fixed_alpha is not None:
            _between(self, 0.0, math.inf, "fixed_alpha")


@dataclass(frozen=True)
class TrainingConfig:
    """The loop around the algorithm."""

    steps: Count = 1_000_000
    """Environment steps in all."""
    seed: Count = 1
    """Seed of every random stream of the run."""
    warmup_steps: Count = 5000
    """Steps with uniformly random actions before learning starts."""
    buffer_steps: Count = 1_000_000
    """Capacity of the replay buffer; the oldest whole episodes leave first."""
    num_envs: Count = 1
    """Environments stepped together; each of their steps is followed by one update."""
    max_episode_steps: Count | None = None
    """Cut episodes (as truncation) after this many steps; None keeps the environment's own limit,
    or cuts after 10,000 where it has none, and never lets one outgrow the buffer."""
    env_workers: bool = False
    """Run every environment in a process of its own, all of them stepping at the same time; one
    that crashes or hangs is then noticed. The results are the same."""
    env_timeout: float = 60.0
    """With env_workers: seconds that a reset or step may take."""
    env_restarts: Count = 0
    """How many times in a run an environment that failed is made anew, dropping its unfinished
    episode, before the run stops."""
    eval_every: Count = 5000
    """Environment steps between evaluations; 0 evaluates only at the end."""
    eval_episodes: Count = 5
    """Episodes per evaluation, with the deterministic policy and fixed seeds."""
    checkpoint_every: Count = 50_000
    """Environment steps between checkpoints; 0 saves only at the end."""
    log_every: Count = 500
    """Environment steps between `train` lines in metrics.jsonl."""
    on_divergence: OnDivergence = "stop"
    """What a run does that has diverged: stop, which is a result as in the paper, or go back to its
    last good checkpoint and draw other batches from there, twice at most."""
    device: str = "auto"
    """auto, cpu or cuda (cuda:1 and so on)."""
    threads: Count = 0
    """CPU threads of the command; 0 takes one below the paper's width, all cores from there on."""
    disk_tries: Count = 6
    """Tries of a write that the disk refuses, as when it is full, before the run gives up."""
    disk_wait: float = 5.0
    """Seconds before the second of these tries; each further pause is twice as long."""

    def __post_init__(self) -> None:
        _at_least(
            self,
            1,
            "steps",
            "buffer_steps",
            "num_envs",
            "max_episode_steps",
            "eval_episodes",
            "log_every",
            "disk_tries",
        )
        _at_least(
            self,
            0,
            "seed",
            "warmup_steps",
            "env_restarts",
            "eval_every",
            "checkpoint_every",
            "threads",
        )
        _positive(self, "env_timeout")
        _between(self, 0.0, 3600.0, "disk_wait")
        _one_of(self, "on_divergence", OnDivergence)
        if self.max_episode_steps is not None and self.max_episode_steps > self.buffer_steps:
            raise ConfigError(
                f"max_episode_steps={self.max_episode_steps} does not fit into "
                f"buffer_steps={self.buffer_steps}: whole episodes are stored, so raise "
                "buffer_steps or lower max_episode_steps."
            )
        if self.device not in ("auto", "cpu") and not self.device.startswith("cuda"):
            raise ConfigError(
                f"device={self.device!r} is not known: use 'auto', 'cpu', 'cuda' or 'cuda:1'."
            )


@dataclass(frozen=True)
class Config:
    """Everything that defines a run. Build it with `Config.build` or change one with `replace`."""

    task: str = ""
    """A task of ours or any Gymnasium id; empty for an environment made by the caller."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        if self.algorithm.target_subset > self.network.critics:
            raise ConfigError(
                f"target_subset={self.algorithm.target_subset} heads cannot be drawn from "
                f"critics={self.network.critics}: lower target_subset or raise critics."
            )

    @classmethod
    def build(cls, task: str, *layers: Mapping[str, Any]) -> Config:
        """The defaults with layers of settings on top, later ones winning.

        >>> Config.build("Pendulum-V-v0", {"gamma": 0.9}, {"gamma": 0.95}).algorithm.gamma
        0.95
        """
        merged: dict[str, Any] = {}
        for layer in layers:
            merged.update(layer)
        return cls(task=task).replace(**merged)

    def replace(self, **settings: Any) -> Config:
        """A copy with these settings changed; names as in the groups, without their prefix."""
        groups: dict[str, dict[str, Any]] = {}
        top: dict[str, Any] = {}
        for name, value in settings.items():
            if name == "task":
                top[name] = value
                continue
            group = GROUP_OF.get(name)
            if group is None:
                near = _MEANT.get(name) or difflib.get_close_matches(name, GROUP_OF, n=3)
                hint = f" Did you mean {', '.join(near)}?" if near else ""
                raise ConfigError(f"There is no setting named {name!r}.{hint}")
            _check_type(name, value)
            groups.setdefault(group, {})[name] = value
        for group, changes in groups.items():
            top[group] = dataclasses.replace(getattr(self, group), **changes)
        return dataclasses.replace(self, **top)

    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {name: getattr(getattr(self, group), name) for name, group in GROUP_OF.items()}

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` turns back into an equal config."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        """Rebuild a config, refusing anything that is unknown or of the wrong type."""
        settings: dict[str, Any] = {}
        unknown = [key for key in data if key != "task" and key not in _GROUPS]
        for group in _GROUPS:
            part = data.get(group, {})
            if not isinstance(part, Mapping):
                raise ConfigError(f"The group {group!r} of a saved config is not an object.")
            unknown += [f"{group}.{key}" for key in part if GROUP_OF.get(key) != group]
            settings.update(part)
        if unknown:
            raise ConfigError(
                f"A saved config has entries this version does not know: {', '.join(unknown)}."
            )
        return cls.build(str(data.get("task", "")), settings)


_GROUPS: dict[str, type[Any]] = {
    "network": NetworkConfig,
    "algorithm": AlgorithmConfig,
    "training": TrainingConfig,
}
GROUP_OF: dict[str, str] = {
    f.name: group for group, cls in _GROUPS.items() for f in dataclasses.fields(cls)
}
"""Which group each setting lives in."""

_RATES = ["lr_context_encoder", "lr_policy", "lr_critic"]
_MEANT: dict[str, list[str]] = {
    "lr_ce": ["lr_context_encoder"],
    "lr_other": ["lr_policy", "lr_critic"],
    "lr": _RATES,
    "learning_rate": _RATES,
}
"""What people mean by names that are spelled too differently to be found."""

_HINTS: dict[str, Any] = {
    name: hint for cls in _GROUPS.values() for name, hint in get_type_hints(cls).items()
}


def _check_type(name: str, value: Any) -> None:
    allowed = get_args(_HINTS[name]) or (_HINTS[name],)
    if value is None and type(None) in allowed:
        return
    plain = [kind for kind in allowed if isinstance(kind, type)]
    if not plain:  # a Literal: checked by the dataclass itself
        return
    if bool in plain:
        good = isinstance(value, bool)
    elif float in plain:
        good = isinstance(value, int | float) and not isinstance(value, bool)
    elif int in plain:
        good = isinstance(value, int) and not isinstance(value, bool)
    else:
        good = isinstance(value, str)
    if not good:
        expected = next(kind for kind in plain if kind is not type(None)).__name__
        raise ConfigError(
            f"{name}={value!r} has the wrong type: {type(value).__name__}, expected {expected}."
        )


def _values(config: object, names: tuple[str, ...]) -> list[tuple[str, Any]]:
    return [(n, getattr(config, n)) for n in names if getattr(config, n) is not None]


def _at_least(config: object, lowest: int, *names: str) -> None:
    for name, value in _values(config, names):
        if value < lowest:
            raise ConfigError(f"{name}={value} is too small: it must be at least {lowest}.")


def _positive(config: object, *names: str) -> None:
    for name, value in _values(config, names):
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{name}={value} cannot work: it must be a finite number above 0.")


def _between(config: object, low: float, high: float, *names: str) -> None:
    for name, value in _values(config, names):
        if not low <= value <= high or math.isinf(value):
            raise ConfigError(f"{name}={value} is out of range: it must lie in [{low}, {high}].")


def _finite(config: object, *names: str) -> None:
    for name, value in _values(config, names):
        if not math.isfinite(value):
            raise ConfigError(f"{name}={value} must be a finite number.")


def _one_of(config: object, name: str, choices: Any) -> None:
    value = getattr(config, name)
    if value not in get_args(choices):
        known = ", ".join(get_args(choices))
        raise ConfigError(f"{name}={value!r} is not known: choose one of {known}.")
