"""What a method says of itself, and how its learner is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from resel.config import Config
from resel.errors import ConfigError, UnsupportedSpaceError
from resel.methods.base import Learner
from resel.methods.limits import check_windows
from resel.methods.preset_files import file_settings, is_preset_file
from resel.networks import Dimensions
from resel.registry import METHODS
from resel.tasks import TaskSpec, get_task

Space = Literal["Box", "Discrete"]
Preset = Callable[[TaskSpec | None, str], Mapping[str, Any] | None]
"""From a task (None for one that is not ours) and the name of a preset to settings; None if there
is no preset of that name."""


def defaults(task: TaskSpec | None, name: str) -> Mapping[str, Any] | None:
    """The presets of a method that has none of its own."""
    return {} if name in ("paper", "small") else None


@dataclass(frozen=True)
class Method:
    """A method as people ask for it."""

    name: str
    title: str
    """What the paper's tables call it."""
    summary: str
    """One line."""
    source: str
    """Where it comes from: authors, year, code."""
    learner: type[Learner]
    settings: type[Any]
    """A frozen dataclass; its fields become flags."""
    network: type[Any]
    """The sizes of its networks, a frozen dataclass too."""
    encoder: str | None
    """The context encoder it has by default; None if it can have none."""
    own_memory: bool = False
    """Whether it has a memory of another kind in the place of a context encoder."""
    preset: Preset = defaults
    """Its settings by task."""
    spaces: tuple[Space, ...] = ("Box", "Discrete")
    """The actions it can learn."""
    figures: tuple[str, ...] = ()
    """Figures and tables of the paper in which it appears."""
    former: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings that it had once, with the values at which they changed nothing: what was saved
    then still names them."""

    @property
    def memory(self) -> bool:
        """Whether it can remember at all."""
        return self.encoder is not None or self.own_memory


METHODS.kind = Method


def register_method(method: Method) -> Method:
    """Make a method available to agents, commands and experiments."""
    METHODS.add(method)
    return method


def get_method(name: str) -> Method:
    """The method of that name."""
    method = METHODS.get(name)
    assert isinstance(method, Method)
    return method


def methods() -> tuple[list[Method], dict[str, str]]:
    """All methods, and why those that cannot be had cannot."""
    found, faults = METHODS.all()
    return [method for method in found if isinstance(method, Method)], faults


def own_methods() -> list[Method]:
    """The methods registered so far, without those that installed packages offer."""
    return [method for method in METHODS.registered() if isinstance(method, Method)]


def build_learner(
    config: Config,
    dims: Dimensions,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> Learner:
    """The learner of the method that a config names, refused where it cannot act."""
    method = get_method(config.method)
    space: Space = "Discrete" if dims.discrete else "Box"
    if space not in method.spaces:
        able = [other.name for other in methods()[0] if space in other.spaces]
        raise UnsupportedSpaceError(
            f"The method {method.name} acts in {' and '.join(method.spaces)} spaces only, but the "
            f"actions here are {space}: choose one of {', '.join(able)}."
        )
    check_windows(config)
    return method.learner(config, dims, device, dtype)


def default_method() -> str:
    """The method of whoever does not ask for one."""
    return METHODS.first


def preset_settings(method: Method, task: str, preset: str) -> dict[str, Any]:
    """What a preset sets for a method on a task: the task's own settings, then the method's.

    `size` may be among them; see `Config.sized`. A preset may be a file; see `preset_files`.
    """
    if is_preset_file(preset):
        return file_settings(preset, method.name, task)
    spec = get_task(task)
    found = method.preset(spec, preset)
    if found is None:
        known = [n for n in ("paper", "released", "small") if method.preset(spec, n) is not None]
        raise ConfigError(
            f"preset={preset!r} is not defined for {task!r} with {method.name}: choose from "
            f"{', '.join([*known, 'auto'])}, or give a file that ends in .json."
        )
    return {**(spec.settings if spec is not None else {}), **found}


def smallest_size(config: Config, *, policy_only: bool = False) -> int:
    """Numbers in the networks of a config for the smallest spaces, found without making them.

    Of all networks, or of the policy alone.
    """
    method = get_method(config.method)
    dims = Dimensions(1, 1, discrete="Box" not in method.spaces)
    with torch.device("meta"):  # shapes alone
        networks = method.learner.networks_of(config, dims)
    counted = [networks["policy"]] if policy_only else list(networks.values())
    return sum(t.numel() for network in counted for t in network.state_dict().values())


def reads_rewards(config: Config) -> bool:
    """Whether the policy is given the last reward beside what it sees."""
    # A network without that setting that remembers does so by whole steps.
    remembers = get_method(config.method).own_memory
    return bool(getattr(config.network, "reward_input", remembers))


def run_label(config: Config) -> str:
    """What tells runs apart: the encoder, and the method where it is not the default."""
    if config.method == default_method():
        return config.encoder or config.method
    usual = get_method(config.method).encoder
    return config.method if config.encoder == usual else f"{config.method}-{config.encoder}"
