"""What all methods share: networks with parameter groups, checked steps, targets, saved state.

A method is a `Learner` with three things of its own: which networks it has (`networks_of`), which
of them are followed by a slow copy (`follows`), and what one update does with a batch (`update`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from resel.config import Config, TrainingConfig
from resel.data import (
    Batch,
    PerRollout,
    PerStep,
    ReplayBuffer,
    Sampler,
    Schedule,
    Taken,
    Trajectory,
)
from resel.envs import COLUMNS, CRITIC, OF_FUNCTION, Told
from resel.errors import ConfigError, DamagedFileError
from resel.methods.adaptation import Adaptation
from resel.networks import (
    ContextInputs,
    CriticNetwork,
    Dimensions,
    LrScope,
    Network,
    ObservationNormalizer,
    PolicyNetwork,
    RewardScale,
    State,
    batch_norms,
    behind_images,
    dropouts,
    encoder_spec,
    sees_images,
    sequence_inputs,
)
from resel.optim import (
    MEASURE_EVERY,
    AutoRate,
    PackedInputs,
    ParameterGroup,
    Steered,
    StepRecord,
    Temperature,
    build_optimizer,
    clip_gradients,
    critic_outputs,
    gradients,
    optimizer_tensors,
    parameter_groups,
    policy_outputs,
    restore_optimizer,
)
from resel.randomness import torch_stream

Metrics = dict[str, Tensor]


class Learner(ABC):
    """Owns the weights, the optimisers and everything else the next update depends on."""

    follows: ClassVar[tuple[str, ...]] = ("critic",)
    """Networks of which a slowly moving copy, the target, is kept."""
    on_policy: ClassVar[bool] = False
    """Whether it learns from the last steps alone, which it then takes down by `note`."""
    learns_from: ClassVar[tuple[str, ...]] = ()
    """What environments must tell at a reset for it to learn. No policy reads it."""
    acts_with: ClassVar[tuple[str, ...]] = ("policy",)
    """Of the parts of `weights`, those that suffice to act, besides the normaliser."""
    encoder_learns_apart: ClassVar[bool] = False
    """Whether the context encoder learns by a loss of its own, not by that of policy or critic."""
    max_gradient_norm: float | None = None
    """Longer gradients are shortened to this length."""

    def __init__(
        self,
        config: Config,
        dims: Dimensions,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config, self.dims, self.device, self.dtype = config, dims, device, dtype
        self.settings: Any = config.algorithm
        self.seed = config.training.seed
        with torch.random.fork_rng(devices=[]):  # modules draw their weights from the global stream
            torch.manual_seed(torch_stream(self.seed, "weights").initial_seed())
            built = behind_images(self.networks_of, config, dims)
            self.networks = {name: network.to(device, dtype) for name, network in built.items()}
        self.targets = {
            name: copy.deepcopy(self.networks[name]).requires_grad_(False) for name in self.follows
        }
        self.normalizer = ObservationNormalizer(
            dims.observation,
            getattr(self.settings, "normalize_observations", False),
            dims,
            sees=sees_images(config.network, dims),
        ).to(device)
        self.signal_normalizer = ObservationNormalizer(
            dims.privileged, self.normalizer.enabled and dims.privileged > 0
        ).to(device)
        """Of what critics alone are told."""
        self.reward_scale = RewardScale(
            getattr(self.settings, "gamma", 1.0),
            getattr(self.settings, "normalize_rewards", False),
        ).to(device)
        self.groups: dict[str, list[ParameterGroup]] = {
            name: self._groups_of(name, network) for name, network in self.networks.items()
        }
        self._norms = {name: batch_norms(network) for name, network in self.networks.items()}
        self.optimizers = {name: self.optimizer_of(groups) for name, groups in self.groups.items()}
        self._blocks = {
            name: (
                [group.block for group in self._groups_of(name, self.targets[name])],
                [group.block for group in self.groups[name]],
            )
            for name in self.follows
        }
        self.auto_rate = self._auto_rate()
        """What steers the context encoders' rate, where it is automatic."""
        self.temperature: Temperature | None = None
        self.generators = {"noise": torch_stream(self.seed, "learner-noise", device)}
        found = [module for network in self.networks.values() for module in dropouts(network)]
        if found:
            self.generators["dropout"] = torch_stream(self.seed, "dropout", device)
        for module in found:
            module.generator = self.generators["dropout"]
        self.random_first_state = False
        """Whether exploring episodes begin with a random memory instead of zeros."""
        self.steps = StepRecord()
        self._skipped: dict[str, Tensor] = {}
        self.updates = 0

    @staticmethod
    @abstractmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        """The networks by name: `policy`, and mostly `critic`. `lr_NAME` is the rate of each."""

    def optimizer_of(self, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
        """What learns the parameters of a network."""
        return build_optimizer(groups)

    @property
    @abstractmethod
    def sampler(self) -> Sampler:
        """How a batch is drawn."""

    @property
    def schedule(self) -> Schedule:
        """When updates are due."""
        return PerStep(self.config.training.updates_per_step)

    def draw(self, buffer: ReplayBuffer, rng: np.random.Generator) -> Batch:
        """A batch to learn from, laid out as the policy likes it."""
        return self.sampler.draw(buffer, rng, self.policy.suitable_rows)

    @property
    def adaptation(self) -> Adaptation | None:
        """How episodes of one task follow each other, for a method that adapts to a task."""
        return None

    def start(self, played: Sequence[Trajectory], generator: torch.Generator) -> State:
        """The memory, one row, that an episode begins with; asked of those with `adaptation`.

        `played` are the episodes of the earlier phases of its trial.
        """
        return self.policy.initial_state(1)

    def cannot_learn(self) -> str | None:
        """Why it could act with its settings but not learn, in a sentence; None if it can."""
        return None

    def unheeded(self) -> str | None:
        """A setting that was given and would change nothing, in a sentence; None if none was."""
        given, usual = self.config.training.updates_per_step, TrainingConfig.updates_per_step
        if given == usual or not isinstance(self.schedule, PerRollout):
            return None
        instead = ""
        if (epochs := getattr(self.settings, "epochs", None)) is not None:
            instead = f"; epochs={epochs} says how often each rollout is learned from"
        return (
            f"{self.config.method} learns from whole rollouts, so updates_per_step={given:g} would "
            f"change nothing: leave it out{instead}."
        )

    def note(self, taken: Taken) -> None:
        """Take down a step of all environments; asked of on-policy methods alone."""
        assert not self.on_policy, "an on-policy method takes down its steps"

    def drop(self, rows: NDArray[np.bool_]) -> None:  # noqa: B027
        """Hear that the unfinished episodes of these environments are not gone on with."""

    def check_told(self, told: Told) -> None:
        """Refuse to learn where a reset does not tell what it takes; to act, nothing is needed."""
        for name in self.learns_from:
            if name not in told:
                raise ConfigError(
                    f"The method {self.config.method} learns from info[{name!r}] of a reset "
                    f"({COLUMNS[name].meaning}), which this environment does not tell: let it tell "
                    "that, take a task that does, such as Pendulum-gravity-v0, or another method."
                )
        reads, given = self.dims.privileged, len(told.get(CRITIC, ()))
        if reads != given:
            asked = getattr(self.settings, "critic_observations", None)
            function = "give the function again, as critic_observations=..., or "
            raise ConfigError(
                f"The critic reads {reads} numbers of its own (critic_observations={asked}), and "
                f"this environment gives {given or 'none'}: "
                f"{function if asked == OF_FUNCTION else ''}learn where they are given. To act, "
                "none are needed."
            )

    @abstractmethod
    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        """Learn once from a batch. Metrics stay on the device; read them only when needed.

        A step whose loss or gradient is not finite is left out: see `steps`.
        """

    @abstractmethod
    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        """The loss of the policy, first, and what else must be finite for its step to be taken."""

    @property
    def policy(self) -> PolicyNetwork:
        """What acts while learning."""
        policy = self.networks["policy"]
        assert isinstance(policy, PolicyNetwork)
        return policy

    @property
    def evaluation_policy(self) -> PolicyNetwork:
        """What acts when it counts: in evaluations, and when an agent is asked for an action."""
        return self.policy

    @property
    def critic(self) -> CriticNetwork:
        """What judges."""
        critic = self.networks["critic"]
        assert isinstance(critic, CriticNetwork)
        return critic

    @property
    def target_critic(self) -> CriticNetwork:
        """What judges the next step."""
        critic = self.targets["critic"]
        assert isinstance(critic, CriticNetwork)
        return critic

    @property
    def batch_statistics(self) -> bool:
        """Whether its networks look at several steps of a batch together, as batch normalisation
        does: then what else is in a batch makes a difference."""
        return any(network.batch_statistics for network in self.networks.values())

    @property
    def updates_to_log(self) -> int:
        """Consecutive updates that bring every metric once."""
        return int(getattr(self.settings, "policy_delay", 1))

    def _groups_of(self, name: str, network: nn.Module) -> list[ParameterGroup]:
        assert isinstance(network, Network)
        lr = getattr(self.settings, f"lr_{name}")
        own = getattr(self.settings, "lr_context_encoder", None)
        scope: LrScope = getattr(self.settings, "lr_scope", "encoder")
        return parameter_groups(network, lr if own in (None, "auto") else own, lr, scope)

    def _auto_rate(self) -> AutoRate | None:
        if getattr(self.settings, "lr_context_encoder", None) != "auto":
            return None
        encoder = self.config.encoder
        if encoder is None or not encoder_spec(encoder).memory:
            raise ConfigError(
                f"lr_context_encoder=auto needs a memory, and the encoder {encoder} has none: give "
                "a number, or choose another encoder."
            )
        if self.encoder_learns_apart:
            raise ConfigError(
                "lr_context_encoder=auto measures what a step of the encoder does to the policy's "
                f"output, and {self.config.method} teaches its encoder by another loss: give a "
                "number, or leave it out for that of its network."
            )
        networks = {
            name: Steered(groups[0], groups[1], self.optimizers[name])
            for name, groups in self.groups.items()
            if name in ("policy", "critic") and len(groups) == 2  # of which outputs are known
        }
        return AutoRate(networks, self.settings.auto_lr_start) if networks else None

    def steers(self, network: str, group: str) -> bool:
        """Whether the rate of this group is automatic."""
        rate = self.auto_rate
        return rate is not None and network in rate and group == "context_encoder"

    def scale_rates(self, scale: float) -> None:
        """Let networks learn at this share of their rates; a steered one follows by itself."""
        for name, optimizer in self.optimizers.items():
            for own, group in zip(self.groups[name], optimizer.param_groups, strict=True):
                if not self.steers(name, own.name):
                    group["lr"] = scale * own.lr

    def steer_rate(self, batch: Batch) -> dict[str, float]:
        """Let an automatic rate measure itself on a batch, now and then; its metrics."""
        if self.auto_rate is None:
            return {}
        if self.updates % MEASURE_EVERY == 0:
            self.measure_rate(batch)
        return self.auto_rate.metrics()

    def measure_rate(self, batch: Batch) -> None:
        """Let the automatic rate follow what policy and critic say along the trajectories."""
        assert self.auto_rate is not None
        batch = batch.to(self.device)
        inputs, action = self.inputs(batch)
        packed = PackedInputs(inputs, batch.is_first, batch.mask)
        outputs: dict[str, Callable[[], Tensor]] = {
            "policy": lambda: policy_outputs(self.policy, [packed])[0],
            "critic": lambda: critic_outputs(
                self.critic,
                lambda: self._embedded(self.critic, batch, inputs),
                batch.mask,
                action,
            ),
        }
        self.auto_rate.steer(outputs)

    def inputs(self, batch: Batch) -> tuple[ContextInputs, Tensor]:
        """What the networks read, and the taken action (Box values, or an index)."""
        observation = self.normalizer(batch.observation)
        fed_back = self.dims.fed_back(batch.action)
        inputs = sequence_inputs(observation, fed_back, batch.reward, batch.is_first)
        return inputs, self.dims.taken(batch.action)

    def _embedded(
        self, critic: CriticNetwork, batch: Batch, inputs: ContextInputs, *, counted: bool = False
    ) -> Any:
        """What a critic reads besides the action; `counted`: but for the last step of each row."""
        embedded = (critic.embed_counted if counted else critic.embed)(inputs, batch.is_first)
        if not self.dims.privileged:
            return embedded
        signal = batch.extras[CRITIC]
        return self.informed(critic, embedded, signal[:, :-1] if counted else signal)

    def informed(self, critic: CriticNetwork, embedded: Any, signal: Tensor) -> Any:
        """What was embedded, together with what critics alone are told, if they are."""
        if not self.dims.privileged:
            return embedded
        return critic.informed(embedded, self.signal_normalizer(signal.to(self.dtype)))

    def observe(self, trajectory: Trajectory) -> None:
        """Take an episode into the running scales."""
        self.normalizer.update(trajectory.observations)
        if self.dims.privileged:
            self.signal_normalizer.update(trajectory.extras[CRITIC])
        self.reward_scale.add_episode(trajectory.rewards)

    def rewards(self, batch: Batch) -> Tensor:
        """The rewards as they enter the targets."""
        scaled: Tensor = self.settings.reward_scale * self.reward_scale(batch.reward)
        return scaled

    def step(self, name: str, values: Sequence[Tensor], metrics: Metrics | None = None) -> Tensor:
        """Descend on the first of the values, unless one of them or a gradient is not finite.

        Returns 1 if the step was left out, else 0.
        """
        return self.joint_step([name], values, metrics)

    def joint_step(
        self, names: Sequence[str], values: Sequence[Tensor], metrics: Metrics | None = None
    ) -> Tensor:
        """The same for several networks that one loss is for: all of them step, or none does."""
        for name in names:  # backward adds to the rows of the groups
            self.optimizers[name].zero_grad(set_to_none=False)
        values[0].backward()  # type: ignore[no-untyped-call]
        known = [value.detach() for value in values]
        each = [self.steps.add(self.updates + 1, name, known, self.groups[name]) for name in names]
        skipped = each[0] if len(each) == 1 else torch.stack(each).amax(0)
        for name in names:
            self._descend(name, skipped, metrics)
        return skipped

    def _descend(self, name: str, skipped: Tensor, metrics: Metrics | None) -> None:
        """A step along the gradients that are there, unless it is to be left out."""
        optimizer, groups = self.optimizers[name], self.groups[name]
        if metrics is not None:
            metrics |= {
                f"gradient_norm/{name}/{group.name}": row.norm()
                for group, row in zip(groups, gradients(groups), strict=True)
            }
        self.shorten(name)
        optimizer.found_inf = skipped  # type: ignore[attr-defined]  # as torch's GradScaler does
        optimizer.step()
        self._skipped[name] = skipped
        for norm in self._norms[name]:
            norm.keep(skipped)

    def shorten(self, name: str) -> None:
        """Shorten the gradients of a network that are too long."""
        if self.max_gradient_norm is not None:
            clip_gradients(self.groups[name], self.max_gradient_norm)

    @torch.no_grad()
    def follow(self, tau: float, *names: str) -> None:
        """Move the targets of these networks (all, if none is named) by a share of tau.

        The target of a network whose last step was left out stays where it is.
        """
        for name in names or self.follows:
            share = tau * (1 - self._skipped[name].to(self.dtype)) if name in self._skipped else tau
            for target, source in zip(*self._blocks[name], strict=True):
                target.lerp_(source, share)

    def update_policy(self, batch: Batch, lr_context_encoder: float, lr_other: float) -> None:
        """One step of the policy alone, at rates that need not be those of the config.

        The other networks and the count of updates stay; the moments and the noise move on.
        """
        batch = batch.to(self.device)
        values = self.policy_values(batch, self.inputs(batch)[0])
        rates = {"context_encoder": lr_context_encoder, "other": lr_other}
        groups = self.optimizers["policy"].param_groups
        usual = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = rates[group["name"]]
        self.step("policy", values)
        for group, lr in zip(groups, usual, strict=True):
            group["lr"] = lr

    def weights(self) -> dict[str, Tensor]:
        """What a policy needs to act, by name, and what goes on learning: a saved agent."""
        modules: dict[str, nn.Module] = {**self.networks, "normalizer": self.normalizer}
        if self.dims.privileged:
            modules["signal_normalizer"] = self.signal_normalizer
        if self.reward_scale.enabled:
            modules["reward_scale"] = self.reward_scale
        modules |= {f"target_{name}": target for name, target in self.targets.items()}
        found = {
            f"{m}.{k}": v for m, module in modules.items() for k, v in module.state_dict().items()
        }
        if self.temperature is not None:
            found["log_alpha"] = self.temperature.log_alpha.detach()
        return found

    def acting_weights(self) -> dict[str, Tensor]:
        """Of `weights`, what it takes to act, but not to learn on."""
        parts = {*self.acts_with, "normalizer"}
        return {name: w for name, w in self.weights().items() if name.partition(".")[0] in parts}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take over what `weights` gave; names and shapes are the caller's to check."""
        with torch.no_grad():
            for name, tensor in self.weights().items():
                tensor.copy_(weights[name])

    def extra_state(self) -> dict[str, Tensor]:
        """Tensors of a method's own that the next update depends on; names have no dot."""
        return {}

    def restore_extra(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `extra_state` gave: same names, shapes and types."""
        assert not tensors, "a method with a state of its own restores it"

    def _all_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        found: dict[str, torch.optim.Optimizer] = dict(self.optimizers)
        if self.temperature is not None and self.temperature.optimizer is not None:
            found["alpha"] = self.temperature.optimizer
        return found

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything beyond the weights that the next update depends on."""
        tensors = self.extra_state()
        tensors |= {f"stream.{name}": g.get_state() for name, g in self.generators.items()}
        moments = {
            f"optimizer.{name}.{key}": value
            for name, optimizer in self._all_optimizers().items()
            for key, value in optimizer_tensors(optimizer).items()
        }
        document: dict[str, Any] = {"updates": self.updates, "moments": sorted(moments)}
        if self.auto_rate is not None:
            document["auto_rate"] = self.auto_rate.state()
        return tensors | moments, document

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        try:
            extra = self.extra_state()
            streams = {f"stream.{name}" for name in self.generators}
            if odd := sorted({*extra, *streams, *document["moments"]} ^ set(tensors)):
                raise KeyError(odd[0])
            for name, now in extra.items():
                given = tensors[name]
                if given.shape != now.shape or given.dtype != now.dtype:
                    raise ValueError(f"{name} is {given.dtype} of shape {tuple(given.shape)}")
            self.restore_extra({name: tensors[name].to(self.device) for name in extra})
            for name, generator in self.generators.items():
                generator.set_state(tensors[f"stream.{name}"])
            self.updates = int(document["updates"])
            self.steps.clear()
            for name, optimizer in self._all_optimizers().items():
                prefix = f"optimizer.{name}."
                saved = {
                    key.removeprefix(prefix): tensor
                    for key, tensor in tensors.items()
                    if key.startswith(prefix)
                }
                restore_optimizer(optimizer, saved)
            if self.auto_rate is not None:
                saved = document["auto_rate" if "auto_rate" in document else "auto_rates"]
                self.auto_rate.restore(saved)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            raise DamagedFileError(f"The learner's saved state cannot be used: {error}.") from error
