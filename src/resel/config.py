"""All settings of a run, composed: a task, a method with its settings, a network, an encoder, a loop.

Methods and encoders bring a frozen dataclass each and declare it here under their name; nothing in
this file knows one of them. Field names are unique within a config, so a setting is named the same
everywhere: as a keyword of `Agent(...)`, as a flag of `resel train` (`lr_policy` is `--lr-policy`)
and in `config.json`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_type_hints

from tyro.constructors import PrimitiveConstructorSpec

from resel.errors import ConfigError
from resel.registry import ENCODERS, METHODS, MethodLike

SizeName = Literal["paper", "small", "tiny"]
OnDivergence = Literal["stop", "rollback"]

SIZES: dict[SizeName, float] = {"paper": 1.0, "small": 0.5, "tiny": 0.25}
"""Factors on the sizes that a network marks with `scaled`; its other numbers stay as they are."""


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


def scaled(default: int) -> Any:
    """A size of a network that `--size` makes smaller."""
    return field(default=default, metadata={"scaled": True})


@dataclass(frozen=True)
class TrainingConfig:
    """The loop around the method."""

    steps: Count = 1_000_000
    """Environment steps in all."""
    seed: Count = 1
    """Seed of every random stream of the run."""
    warmup_steps: Count = 5000
    """Steps with uniformly random actions before learning starts."""
    updates_per_step: float = 1.0
    """Updates for each environment step, a fraction or above 1."""
    buffer_steps: Count = 1_000_000
    """Capacity of the replay buffer; the oldest whole episodes leave first."""
    num_envs: Count = 1
    """Environments stepped together; updates are due for the steps of each."""
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
    """CPU threads; 0 takes one below the paper's width, all cores from there on."""
    disk_tries: Count = 6
    """Tries of a write that the disk refuses, as when it is full, before the run gives up."""
    disk_wait: float = 5.0
    """Seconds before the second of these tries; each further pause is twice as long."""

    def __post_init__(self) -> None:
        at_least(
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
        at_least(
            self,
            0,
            "seed",
            "warmup_steps",
            "env_restarts",
            "eval_every",
            "checkpoint_every",
            "threads",
        )
        positive(self, "env_timeout", "updates_per_step")
        between(self, 0.0, 3600.0, "disk_wait")
        one_of(self, "on_divergence", OnDivergence)
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
class NoEncoder:
    """What a network without a context encoder has to set in one: nothing."""


GROUPS = ("algorithm", "network", "encoder_settings", "training")
"""The dataclasses inside a config."""
NAMES = ("task", "method", "encoder")
"""What chooses them."""


@dataclass(frozen=True)
class Config:
    """Everything that defines a run. Build it with `Config.build` or change one with `replace`."""

    task: str
    """A task of ours or any Gymnasium id; empty for an environment made by the caller."""
    method: str
    """The method, by its name in the registry."""
    encoder: str | None
    """The context encoder, by name; None for a method without one."""
    algorithm: Any
    """The method's own settings."""
    network: Any
    """Sizes of its networks."""
    encoder_settings: Any
    """Settings of the context encoder."""
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @classmethod
    def build(cls, task: str = "", *layers: Mapping[str, Any]) -> Config:
        """The method's defaults with layers of settings on top, later ones winning.

        Layers may hold settings of other methods and encoders, which are passed over; `replace`
        refuses those.
        """
        merged: dict[str, Any] = {}
        for layer in layers:
            merged.update(layer)
        method = METHODS.get(merged.pop("method", None) or METHODS.first)
        encoder = _encoder_of(method, merged.pop("encoder", None))
        empty = cls(
            task,
            method.name,
            encoder,
            method.settings(),
            method.network(),
            _settings_of(encoder)(),
        )
        own = empty.flat()
        for name in [name for name in merged if name not in own]:
            if not owners(name):
                raise empty._no_such(name)
            del merged[name]
        return empty.replace(**merged)

    def replace(self, **settings: Any) -> Config:
        """A copy with these settings changed; names as in the groups, without their prefix."""
        top: dict[str, Any] = {name: settings.pop(name) for name in NAMES if name in settings}
        if top.get("method", self.method) != self.method:
            raise ConfigError(
                f"The method of a config cannot be replaced ({self.method} by {top['method']}): "
                "build another config."
            )
        before = self
        if "encoder" in top and top["encoder"] != self.encoder:
            encoder = _encoder_of(METHODS.get(self.method), top["encoder"])
            kind = _settings_of(encoder)
            kept = {
                f.name: getattr(self.encoder_settings, f.name)
                for f in dataclasses.fields(kind)
                if hasattr(self.encoder_settings, f.name)
            }
            top |= {"encoder": encoder, "encoder_settings": kind(**kept)}
            before = dataclasses.replace(self, **top)
        groups: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            group = before.group_of(name)
            if group is None:
                raise before._no_such(name)
            _check_type(type(getattr(before, group)), name, value)
            groups.setdefault(group, {})[name] = value
        for group, changes in groups.items():
            top[group] = dataclasses.replace(getattr(before, group), **changes)
        return dataclasses.replace(self, **top)

    def group_of(self, name: str) -> str | None:
        """The group a setting lives in; None if there is no such setting here."""
        return next((g for g in GROUPS if name in field_names(type(getattr(self, g)))), None)

    def flat(self) -> dict[str, Any]:
        """All settings by name, `encoder` among them."""
        found: dict[str, Any] = {"encoder": self.encoder}
        for group in GROUPS:
            part = getattr(self, group)
            found |= {name: getattr(part, name) for name in field_names(type(part))}
        return found

    def sized(self, size: SizeName) -> dict[str, int]:
        """The settings that `size` brings to this method and encoder."""
        if size not in SIZES:
            raise ConfigError(f"size={size!r} is not known: choose one of {', '.join(SIZES)}.")
        return {
            f.name: max(1, round(f.default * SIZES[size]))  # type: ignore[operator]
            for group in ("network", "encoder_settings")
            for f in dataclasses.fields(getattr(self, group))
            if f.metadata.get("scaled")
        }

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` turns back into an equal config."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        """Rebuild a config, refusing anything that is unknown or of the wrong type."""
        names = {key: data[key] for key in NAMES if key in data}
        for key, value in names.items():
            if not isinstance(value, str) and not (key == "encoder" and value is None):
                raise ConfigError(f"{key}={value!r} of a saved config is not a name.")
        config = cls.build(names.pop("task", ""), {k: v for k, v in names.items() if v is not None})
        unknown = [key for key in data if key not in NAMES and key not in GROUPS]
        settings: dict[str, Any] = {}
        for group in GROUPS:
            part = data.get(group, {})
            if not isinstance(part, Mapping):
                raise ConfigError(f"The group {group!r} of a saved config is not an object.")
            unknown += [f"{group}.{key}" for key in part if config.group_of(key) != group]
            settings.update(part)
        if unknown:
            raise ConfigError(
                f"A saved config has entries this version does not know: {', '.join(unknown)}."
            )
        return config.replace(**settings)

    def _no_such(self, name: str) -> ConfigError:
        """The error for a setting that this method and encoder do not have."""
        said = f"There is no setting named {name!r}."
        if found := owners(name):
            here = f"{self.method} with {self.encoder}" if self.encoder else self.method
            said = f"{here} has no setting {name!r}: it belongs to {', '.join(found)}."
        near = OTHER_NAMES.get(name) or difflib.get_close_matches(name, self.flat(), n=3)
        hint = f" Did you mean {', '.join(near)}?" if near and not found else ""
        return ConfigError(said + hint)


def _settings_of(encoder: str | None) -> type[Any]:
    return NoEncoder if encoder is None else ENCODERS.get(encoder).settings


def _encoder_of(method: MethodLike, asked: str | None) -> str | None:
    if asked is None:
        return method.encoder
    if method.encoder is None:
        able = [other.name for other in METHODS.all()[0] if other.encoder is not None]
        raise ConfigError(
            f"encoder={asked!r}: the method {method.name} has no context encoder. Leave it out, or "
            f"choose one of {', '.join(able)}."
        )
    return ENCODERS.get(asked).name


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """The settings of one dataclass."""
    return tuple(f.name for f in dataclasses.fields(kind))


def owners(name: str) -> list[str]:
    """Which methods and encoders have a setting of this name."""
    found = ["the loop"] if name in field_names(TrainingConfig) else []
    for method in METHODS.all()[0]:
        if name in (*field_names(method.settings), *field_names(method.network)):
            found.append(f"method {method.name}")
    for encoder in ENCODERS.all()[0]:
        if name in field_names(encoder.settings):
            found.append(f"encoder {encoder.name}")
    return found


_RATES = ["lr_context_encoder", "lr_policy", "lr_critic"]
OTHER_NAMES: dict[str, list[str]] = {
    "lr_ce": ["lr_context_encoder"],
    "lr_other": ["lr_policy", "lr_critic"],
    "lr": _RATES,
    "learning_rate": _RATES,
    "actor_lr": ["lr_policy"],
    "critic_lr": ["lr_critic"],
    "q_lr": ["lr_critic"],
    "policy_lr": ["lr_policy"],
    "ent_coef": ["alpha (the temperature itself)", "target_entropy_scale"],
    "entropy_coefficient": ["target_entropy_scale"],
    "target_entropy": ["target_entropy_scale"],
    "fixed_alpha": ["alpha"],
    "autotune": ["alpha (None tunes it)"],
    "target_keep": ["tau (1 - target_keep)"],
    "polyak": ["tau (1 - polyak)"],
    "soft_target_tau": ["tau"],
    "target_subset": ["subset_size"],
    "critics": ["n_critics"],
    "blocks": ["n_layers"],
    "num_layers": ["n_layers"],
    "hidden_size": ["width", "head_width"],
    "learning_starts": ["warmup_steps"],
    "start_steps": ["warmup_steps"],
    "buffer_size": ["buffer_steps"],
    "replay_size": ["buffer_steps"],
    "batch_size": ["batch_steps", "batch_windows", "batch_transitions"],
    "train_freq": ["updates_per_step"],
    "gradient_steps": ["updates_per_step"],
    "utd_ratio": ["updates_per_step"],
    "net_arch": ["head_width", "head_layers"],
    "policy_kwargs": ["head_width", "head_layers"],
    "n_envs": ["num_envs"],
    "total_timesteps": ["steps"],
    "discount": ["gamma"],
    "sequence_length": ["context_length"],
    "seq_len": ["context_length"],
    "normalize_obs": ["normalize_observations"],
    "policy_noise": ["target_noise"],
    "noise_clip": ["target_noise_clip"],
    "policy_frequency": ["policy_delay"],
    "policy_freq": ["policy_delay"],
    "action_noise": ["exploration_noise"],
}
"""What settings of other libraries, and older ones of ours, are called here."""


@functools.cache  # resolving them takes longer than all else
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=False)


def _check_type(kind: type[Any], name: str, value: Any) -> None:
    hint = _hints(kind)[name]  # type: ignore[arg-type]  # a class can be hashed
    allowed = get_args(hint) or (hint,)
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


def _values(config: object, names: Iterable[str]) -> list[tuple[str, Any]]:
    return [(n, getattr(config, n)) for n in names if getattr(config, n) is not None]


def at_least(config: object, lowest: int, *names: str) -> None:
    """Refuse settings below a number; None passes."""
    for name, value in _values(config, names):
        if value < lowest:
            raise ConfigError(f"{name}={value} is too small: it must be at least {lowest}.")


def positive(config: object, *names: str) -> None:
    """Refuse settings that are not finite and above 0; None passes."""
    for name, value in _values(config, names):
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{name}={value} cannot work: it must be a finite number above 0.")


def between(config: object, low: float, high: float, *names: str) -> None:
    """Refuse settings outside a range; None passes."""
    for name, value in _values(config, names):
        if not low <= value <= high or math.isinf(value):
            raise ConfigError(f"{name}={value} is out of range: it must lie in [{low}, {high}].")


def finite(config: object, *names: str) -> None:
    """Refuse settings that are not finite; None passes."""
    for name, value in _values(config, names):
        if not math.isfinite(value):
            raise ConfigError(f"{name}={value} must be a finite number.")


def one_of(config: object, name: str, choices: Any) -> None:
    """Refuse a setting that is not one of a Literal's words."""
    value = getattr(config, name)
    if value not in get_args(choices):
        known = ", ".join(get_args(choices))
        raise ConfigError(f"{name}={value!r} is not known: choose one of {known}.")
