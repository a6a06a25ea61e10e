"""One update of RESeL: target, critic, soft target update, policy, temperature.

The lines of `update` follow Algorithm 1 of the paper. Three savings change no result: the policy
runs once for target and policy loss, the target evaluates only the heads that were drawn, and no
gradient is formed inside the critic when the policy learns.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.config import Config
from resel.data import Batch
from resel.errors import DamagedFileError
from resel.losses import sac as losses
from resel.networks import (
    Categorical,
    ContextInputs,
    Critic,
    Dimensions,
    ObservationNormalizer,
    Policy,
    SquashedGaussian,
)
from resel.optim.checks import StepRecord
from resel.optim.groups import ParameterGroup, build_optimizer, gradients, parameter_groups
from resel.randomness import torch_stream

_CLAMP_DECAY = 0.999
Metrics = dict[str, Tensor]


class Learner:
    """Owns the weights, the optimisers and the temperature."""

    def __init__(
        self,
        config: Config,
        dims: Dimensions,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config, self.dims, self.device = config, dims, device
        settings, seed = config.algorithm, config.training.seed
        with torch.random.fork_rng(devices=[]):  # modules draw their weights from the global stream
            torch.manual_seed(torch_stream(seed, "weights").initial_seed())
            self.policy = Policy(dims, config.network).to(device, dtype)
            self.critic = Critic(dims, config.network).to(device, dtype)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        self.normalizer = ObservationNormalizer(
            dims.observation, settings.normalize_observations
        ).to(device)
        self.log_alpha = torch.zeros((), dtype=dtype, device=device, requires_grad=True)
        if settings.fixed_alpha is not None:
            self.log_alpha = torch.tensor(math.log(max(settings.fixed_alpha, 1e-38)), device=device)
        self.groups: dict[str, list[ParameterGroup]] = {
            "policy": parameter_groups(
                self.policy, settings.lr_context_encoder, settings.lr_policy, settings.lr_scope
            ),
            "critic": parameter_groups(
                self.critic, settings.lr_context_encoder, settings.lr_critic, settings.lr_scope
            ),
        }
        self._optimizers = {name: build_optimizer(groups) for name, groups in self.groups.items()}
        if settings.fixed_alpha is None:
            alone = ParameterGroup("alpha", {"log_alpha": self.log_alpha}, settings.lr_alpha)
            self._optimizers["alpha"] = build_optimizer([alone])
        self.steps = StepRecord()
        followers = parameter_groups(self.target_critic, 0.0, 0.0, settings.lr_scope)
        self._target_weights = [group.block for group in followers]
        self._critic_weights = [group.block for group in self.groups["critic"]]
        self._clamp_bounds = torch.tensor([math.nan, math.nan], device=device)
        self._noise = torch_stream(seed, "learner-noise", device)
        self._subset = torch_stream(seed, "target-heads")
        self.updates = 0

    @property
    def target_entropy(self) -> float:
        """Entropy that the temperature steers to."""
        coefficient = self.config.algorithm.entropy_coefficient
        if self.dims.discrete:
            return (0.2 if coefficient is None else coefficient) * math.log(self.dims.action)
        return -(1.0 if coefficient is None else coefficient) * self.dims.action

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        """Learn once from a batch. Metrics stay on the device; read them only when needed.

        A step whose loss or gradient is not finite is left out: see `steps`.
        """
        settings = self.config.algorithm
        batch = batch.to(self.device)
        inputs, action = self.inputs(batch)
        alpha = self.log_alpha.detach().exp()
        learns_policy = self.updates % settings.policy_delay == 0
        metrics: Metrics = {}
        clamp_before = self._clamp_bounds

        with torch.set_grad_enabled(learns_policy):
            policy = self.policy(inputs, batch.is_first)

        with torch.no_grad():
            y = self._target(batch, inputs, policy.detach(), alpha)
        q = self._values_of_taken(self.critic.embed(inputs, batch.is_first), action)
        critic_loss = losses.critic_loss(q, y, batch.mask, batch.steps)
        skipped = self._step("critic", [critic_loss], metrics if want_metrics else None)
        if settings.clamp_target_values:
            self._clamp_bounds = torch.where(skipped > 0, clamp_before, self._clamp_bounds)
        with torch.no_grad():
            torch._foreach_lerp_(
                self._target_weights, self._critic_weights, 1 - settings.target_keep
            )

        if learns_policy:
            with torch.no_grad():
                embedded = self.critic.embed(inputs, batch.is_first)
            policy_loss, entropy = self._policy_loss(batch, embedded, policy, alpha)
            # The temperature learns from the entropy alone, so it is finite if the policy's are.
            skipped = self._step(
                "policy", [policy_loss, entropy], metrics if want_metrics else None
            )
            if settings.fixed_alpha is None:
                self._step_alpha(entropy, skipped)
            if want_metrics:
                metrics |= {"policy_loss": policy_loss.detach(), "entropy": entropy.detach()}
                metrics |= self._context_statistics(batch, inputs)
        if want_metrics:
            metrics |= {
                "critic_loss": critic_loss.detach(),
                "q_mean": losses.masked_mean(q.detach().mean(0), batch.mask, batch.steps),
                "target_mean": losses.masked_mean(y, batch.mask, batch.steps),
                "alpha": alpha,
            }
        self.updates += 1
        return metrics

    def update_policy(self, batch: Batch, lr_context_encoder: float, lr_other: float) -> None:
        """One step of the policy alone, at rates that need not be those of the config.

        Critic, temperature and the count of updates stay; the moments and the noise move on.
        """
        batch = batch.to(self.device)
        inputs, _ = self.inputs(batch)
        with torch.no_grad():
            embedded = self.critic.embed(inputs, batch.is_first)
        policy = self.policy(inputs, batch.is_first)
        loss, entropy = self._policy_loss(batch, embedded, policy, self.log_alpha.detach().exp())
        rates = {"context_encoder": lr_context_encoder, "other": lr_other}
        groups = self._optimizers["policy"].param_groups
        usual = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = rates[group["name"]]
        self._step("policy", [loss, entropy], None)
        for group, lr in zip(groups, usual, strict=True):
            group["lr"] = lr

    def inputs(self, batch: Batch) -> tuple[ContextInputs, Tensor]:
        """What the networks read, and the taken action (Box values, or an index)."""
        observation = self.normalizer(batch.observation)
        if self.dims.discrete:
            action = batch.action[..., 0].long()  # (rows, length)
            fed_back = F.one_hot(action, self.dims.action).to(observation.dtype)
        else:
            action = fed_back = batch.action
        return (
            ContextInputs(
                observation,
                _previous(observation, batch.is_first),
                _previous(fed_back, batch.is_first),
                _previous(batch.reward[..., None], batch.is_first),
            ),
            action,
        )

    def _target(
        self,
        batch: Batch,
        inputs: ContextInputs,
        policy: SquashedGaussian | Categorical,
        alpha: Tensor,
    ) -> Tensor:
        """y at every valid place, from the target critic one place further."""
        settings = self.config.algorithm
        drawn = torch.randperm(self.config.network.critics, generator=self._subset)
        heads = drawn[: settings.target_subset].to(self.device, non_blocking=True)
        embedded = self.target_critic.embed(inputs, batch.is_first)
        if isinstance(policy, Categorical):
            q = self.target_critic.values(embedded, heads=heads)
            value = losses.soft_value_discrete(q, policy.log_probs, alpha)
        else:
            action, log_prob = policy.sample(self._noise)
            q = self.target_critic.values(embedded, action, heads)
            value = losses.soft_value(q, log_prob, alpha)
        next_value = losses.next_step(value)
        if settings.clamp_target_values:
            next_value = self._clamp(next_value, batch.mask)
        y = losses.td_target(
            settings.reward_scale * batch.reward, batch.terminated, next_value, settings.gamma
        )
        if settings.clamp_target_values:
            self._move_clamp(y, batch.mask)
        return y

    def _values_of_taken(self, embedded: tuple[Tensor, Tensor], action: Tensor) -> Tensor:
        """Q of the actions in the batch, for every head. (E, rows, length)"""
        if not self.dims.discrete:
            return self.critic.values(embedded, action)
        q = self.critic.values(embedded)  # (E, rows, length, A)
        index = action.expand(q.shape[:-1])[..., None]
        return q.gather(-1, index).squeeze(-1)

    def _policy_loss(
        self,
        batch: Batch,
        embedded: tuple[Tensor, Tensor],
        policy: SquashedGaussian | Categorical,
        alpha: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The loss and the policy's entropy (for Box actions, estimated from the sample)."""
        n, mask = batch.steps, batch.mask
        if isinstance(policy, Categorical):
            log_probs = policy.log_probs
            q = self.critic.values(embedded, frozen=True).detach()
            loss = losses.policy_loss_discrete(q, log_probs, alpha, mask, n)
            entropy = -losses.masked_mean((log_probs.exp() * log_probs).sum(-1), mask, n)
            return loss, entropy
        action, log_prob = policy.sample(self._noise)
        q = self.critic.values(embedded, action, frozen=True)
        loss = losses.policy_loss(q, log_prob, alpha, mask, n)
        return loss, -losses.masked_mean(log_prob, mask, n)

    @torch.no_grad()
    def _context_statistics(self, batch: Batch, inputs: ContextInputs) -> Metrics:
        """How long the policy's contexts are, and how far they lie around their mean."""
        n, mask = batch.steps, batch.mask
        context = self.policy.trunk(inputs, batch.is_first)  # (rows, length, embedding)
        counted = torch.where(mask[..., None], context, torch.zeros_like(context))
        off = (context - counted.sum((0, 1)) / n).square().mean(-1)
        return {
            "context_norm": losses.masked_mean(context.norm(dim=-1), mask, n),
            "context_deviation": losses.masked_mean(off, mask, n).sqrt(),
        }

    def _clamp(self, value: Tensor, mask: Tensor) -> Tensor:
        """Keep next values inside the range of past targets; the first batch sets the range."""
        counted = torch.where(mask, value, torch.zeros_like(value))
        now = torch.stack(torch.aminmax(counted))
        self._clamp_bounds = torch.where(self._clamp_bounds.isnan(), now, self._clamp_bounds)
        return value.clamp(self._clamp_bounds[0], self._clamp_bounds[1])

    def _move_clamp(self, y: Tensor, mask: Tensor) -> None:
        """Widen the range to the new targets and let it shrink slowly towards them."""
        low, high = torch.aminmax(torch.where(mask, y, torch.zeros_like(y)))
        wide = torch.stack(
            [torch.minimum(self._clamp_bounds[0], low), torch.maximum(self._clamp_bounds[1], high)]
        )
        if not self.dims.discrete:
            wide = wide.lerp(torch.stack([low, high]), 1 - _CLAMP_DECAY)
        self._clamp_bounds = wide

    def _step(self, name: str, values: Sequence[Tensor], metrics: Metrics | None) -> Tensor:
        """Descend on the first of the values, unless one of them or a gradient is not finite.

        Returns 1 if the step was left out, else 0.
        """
        optimizer, groups = self._optimizers[name], self.groups[name]
        optimizer.zero_grad(set_to_none=False)  # backward adds to the rows of the groups
        values[0].backward()  # type: ignore[no-untyped-call]
        skipped = self.steps.add(
            self.updates + 1, name, [value.detach() for value in values], groups
        )
        if metrics is not None:
            metrics |= {
                f"gradient_norm/{name}/{group.name}": row.norm()
                for group, row in zip(groups, gradients(groups), strict=True)
            }
        optimizer.found_inf = skipped  # type: ignore[attr-defined]  # as torch's GradScaler does
        optimizer.step()
        return skipped

    def _step_alpha(self, entropy: Tensor, skipped: Tensor) -> None:
        optimizer = self._optimizers["alpha"]
        optimizer.zero_grad(set_to_none=False)
        loss = losses.temperature_loss(self.log_alpha, entropy, self.target_entropy)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.found_inf = skipped  # type: ignore[attr-defined]
        optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        """What a policy needs to act, by name: the content of a saved agent."""
        return {
            **{f"policy.{k}": v for k, v in self.policy.state_dict().items()},
            **{f"normalizer.{k}": v for k, v in self.normalizer.state_dict().items()},
            **{f"critic.{k}": v for k, v in self.critic.state_dict().items()},
            **{f"target_critic.{k}": v for k, v in self.target_critic.state_dict().items()},
            "log_alpha": self.log_alpha.detach(),
        }

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take over what `weights` gave; names and shapes are the caller's to check."""
        with torch.no_grad():
            for name, tensor in self.weights().items():
                tensor.copy_(weights[name])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything beyond the weights that the next update depends on."""
        tensors = {
            "clamp_bounds": self._clamp_bounds,
            "noise": self._noise.get_state(),
            "subset": self._subset.get_state(),
        }
        for name, optimizer in self._optimizers.items():
            for index, entry in optimizer.state_dict()["state"].items():
                for key, value in entry.items():
                    tensors[f"optimizer.{name}.{index}.{key}"] = value.clone()
        moments = sorted(name for name in tensors if name.startswith("optimizer."))
        return tensors, {"updates": self.updates, "moments": moments}

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        try:
            wanted = {"clamp_bounds", "noise", "subset", *document["moments"]}
            if odd := sorted(wanted ^ set(tensors)):
                raise KeyError(odd[0])
            bounds = tensors["clamp_bounds"]
            if bounds.shape != self._clamp_bounds.shape or bounds.dtype != torch.float32:
                raise ValueError(f"clamp_bounds is {bounds.dtype} of shape {tuple(bounds.shape)}")
            self._clamp_bounds = bounds.to(self.device)
            self._noise.set_state(tensors["noise"])
            self._subset.set_state(tensors["subset"])
            self.updates = int(document["updates"])
            self.steps.clear()
            for name, optimizer in self._optimizers.items():
                saved = optimizer.state_dict()
                saved["state"] = _optimizer_state(tensors, f"optimizer.{name}.")
                _check_moments(optimizer, saved["state"])
                optimizer.load_state_dict(saved)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            raise DamagedFileError(f"The learner's saved state cannot be used: {error}.") from error


def _previous(x: Tensor, is_first: Tensor) -> Tensor:
    """x_{t-1} at place t, zero at the start of a trajectory."""
    shifted = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
    return torch.where(is_first[..., None], torch.zeros_like(x), shifted)


def _check_moments(
    optimizer: torch.optim.Optimizer, state: Mapping[int, Mapping[str, Tensor]]
) -> None:
    """Refuse moments that torch would take now and stumble over in the next update."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for index, entry in state.items():
        for key, value in entry.items():
            if value.dim() and value.shape != parameters[index].shape:
                raise ValueError(f"{key} of parameter {index} has shape {tuple(value.shape)}")
            if not bool(torch.isfinite(value).all()):
                raise ValueError(f"{key} of parameter {index} is not finite")


def _optimizer_state(tensors: Mapping[str, Tensor], prefix: str) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            index, key = name.removeprefix(prefix).split(".", 1)
            # A copy: the optimiser would go on writing into what it was given.
            state.setdefault(int(index), {})[key] = tensor.clone()
    return state
