"""RESeL: SAC with a REDQ ensemble and a learning rate of its own for the context encoder.

Luo et al. 2024, Algorithm 1; the lines of `update` follow it: target, critic, soft target update,
policy, temperature. Three savings change no result: the policy runs once for target and policy
loss, the target evaluates only the heads that were drawn, and no gradient is formed inside the
critic when the policy learns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import tyro
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, between, finite, one_of, only_for, positive
from resel.data import Batch, Sampler, Trajectories, WindowsBySteps
from resel.errors import ConfigError
from resel.methods._critic_observations import CriticObservations
from resel.methods._encoder_rate import EncoderRate
from resel.methods._resel_presets import preset
from resel.methods.base import Learner, Metrics
from resel.methods.registry import Method
from resel.networks import (
    ContextCritic,
    ContextInputs,
    ContextNetwork,
    ContextPolicy,
    Dimensions,
    Network,
    StochasticPolicy,
    encoder_spec,
)
from resel.optim import TargetClamp, Temperature, target_entropy
from resel.randomness import torch_stream

PolicyKL = Literal["reverse", "forward"]


@dataclass(frozen=True)
class ReselSettings(CriticObservations, EncoderRate):
    """The paper's hyperparameters."""

    lr_context_encoder: Annotated[
        float | Literal["auto"] | None, tyro.conf.arg(aliases=["--lr-ce"])
    ] = 1e-5
    """Learning rate of the context encoders (LR_CE) of policy and critic; `auto` steers it until
    steps of the encoders alone move the outputs as much as steps of the other layers, None takes
    LR_other."""
    lr_policy: float = 3e-4
    """Learning rate of everything else in the policy (LR_other)."""
    lr_critic: float = 1e-3
    """Learning rate of everything else in the critic (LR_other)."""
    lr_alpha: float = 1e-4
    """Learning rate of log alpha."""
    batch_steps: Count = 1000
    """Whole trajectories are drawn until a batch holds at least this many steps."""
    context_length: Count | None = None
    """Train on random windows of this many steps instead of whole trajectories."""
    gamma: float = 0.99
    """Discount."""
    target_entropy_scale: float | None = None
    """Target entropy = -scale x action size (Box) or scale x log(actions) (Discrete); None means 1
    for Box and 0.2 for Discrete."""
    entropy_half_life: Count | None = only_for("Discrete", None)
    """Discrete: updates in which the target entropy falls to a half, again and again; None keeps
    it."""
    critic_entropy: bool = True
    """Whether the policy's entropy is part of the critic's target; it always is of the policy's
    loss."""
    policy_kl: PolicyKL = only_for("Discrete", "reverse")
    """Discrete: how the policy is drawn towards softmax(Q / alpha): SAC's own divergence, or the
    forward one, from which an action that the policy has given up can come back."""
    alpha: float | None = None
    """Keep the temperature at this value; None tunes it to the target entropy."""
    td_lambda: float = 0.0
    """How much of what came after an action its target heeds: 0 the next value alone, near 1 the
    whole rest of the trajectory. What is far away is then learned in fewer updates."""
    n_critics: Count = 8
    """Critic heads in the ensemble."""
    subset_size: Count = 2
    """Critic heads drawn for the minimum in the target."""
    tau: float = 0.005
    """Share of the critic that its target takes over at each soft update."""
    policy_delay: Count = 2
    """Critic updates per update of policy and temperature."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this in the targets; reported returns are not."""
    normalize_rewards: bool = False
    """Also divide them by the running deviation of discounted returns."""
    normalize_observations: bool = False
    """Scale observations by their running mean and deviation, saved with the agent."""
    clamp_target_values: bool = False
    """Keep the next value inside the slowly moving range of past targets (the released code's
    QValueGuard, which the paper does not mention but whose numbers were made with it)."""

    released_details: bool = False
    """Do as the released code where the paper is silent: decay and cap of log alpha, the rule by
    which a batch is full, the first bounds of the clamp, a random first state when exploring."""

    def __post_init__(self) -> None:
        CriticObservations.__post_init__(self)
        EncoderRate.__post_init__(self)
        one_of(self, "policy_kl", PolicyKL)
        positive(self, "lr_policy", "lr_critic", "lr_alpha", "reward_scale")
        at_least(
            self,
            1,
            "batch_steps",
            "context_length",
            "subset_size",
            "n_critics",
            "policy_delay",
            "entropy_half_life",
        )
        between(self, 0.0, 1.0, "gamma", "tau", "td_lambda")
        finite(self, "target_entropy_scale")
        between(self, 0.0, math.inf, "alpha")
        if self.subset_size > self.n_critics:
            raise ConfigError(
                f"subset_size={self.subset_size} heads cannot be drawn from "
                f"n_critics={self.n_critics}: lower subset_size or raise n_critics."
            )
        if self.entropy_half_life is not None and self.alpha is not None:
            raise ConfigError(
                f"entropy_half_life={self.entropy_half_life} is of the target entropy, which a "
                f"temperature kept at alpha={self.alpha} does not have: leave one of them out."
            )


class ReselLearner(Learner):
    """One update of Algorithm 1."""

    settings: ReselSettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        settings, dims = self.settings, self.dims
        for name, usual in (("policy_kl", "reverse"), ("entropy_half_life", None)):
            if getattr(settings, name) != usual and not dims.discrete:
                raise ConfigError(
                    f"{name}={getattr(settings, name)} is for Discrete actions, and the actions "
                    "here are Box: leave it out."
                )
        encoder = self.config.encoder
        assert encoder is not None
        if settings.released_details and not encoder_spec(encoder).hidden_units:
            raise ConfigError(
                "released_details begins episodes with a random memory, which the encoder "
                f"{encoder} cannot have, as it keeps or counts steps: choose another of them."
            )
        self.temperature: Temperature = Temperature(
            settings.alpha,
            settings.lr_alpha,
            target_entropy(settings.target_entropy_scale, dims.action, dims.discrete),
            self.device,
            self.dtype,
            weight_decay=0.01 if settings.released_details else 0.0,
            largest_log=1.0 if settings.released_details else None,
        )
        self.generators["subset"] = torch_stream(self.seed, "target-heads")
        self.clamp = TargetClamp(
            self.device, shrinks=not dims.discrete, holds_zero=not settings.released_details
        )
        self.random_first_state = settings.released_details

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        return {
            "policy": ContextPolicy(dims, config),
            "critic": ContextCritic(dims, config, config.algorithm.n_critics),
        }

    @property
    def sampler(self) -> Sampler:
        settings = self.settings
        if settings.context_length is None:
            return Trajectories(settings.batch_steps, by_count=settings.released_details)
        return WindowsBySteps(settings.context_length, settings.batch_steps)

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        settings, n = self.settings, batch.steps
        batch = batch.to(self.device)
        inputs, action = self.inputs(batch)
        alpha = self.temperature.value
        learns_policy = self.updates % settings.policy_delay == 0
        metrics: Metrics = {}
        clamp_before = self.clamp.bounds

        with torch.set_grad_enabled(learns_policy):
            policy = self.policy(inputs, batch.is_first)

        with torch.no_grad():
            y = self._target(batch, inputs, policy.detach(), alpha, action)
        q = self.critic.values_of(self._embedded(self.critic, batch, inputs), action)
        critic_loss = losses.critic_loss(q, y, batch.mask, n)
        skipped = self.step("critic", [critic_loss], metrics if want_metrics else None)
        if settings.clamp_target_values:
            self.clamp.undo(clamp_before, skipped)
        self.follow(settings.tau)

        if learns_policy:
            policy_loss, entropy = self._policy_values(batch, inputs, policy, alpha)
            # The temperature learns from the entropy alone, so it is finite if the policy's are.
            skipped = self.step("policy", [policy_loss, entropy], metrics if want_metrics else None)
            self.temperature.step(entropy, skipped, self._entropy_left)
            if want_metrics:
                metrics |= {"policy_loss": policy_loss.detach(), "entropy": entropy.detach()}
                metrics |= self._context_statistics(batch, inputs)
        if want_metrics:
            metrics |= {
                "critic_loss": critic_loss.detach(),
                "q_mean": losses.masked_mean(q.detach().mean(0), batch.mask, n),
                "target_mean": losses.masked_mean(y, batch.mask, n),
                "alpha": alpha,
            }
        self.updates += 1
        return metrics

    @property
    def _entropy_left(self) -> float:
        """The share of the target entropy that is asked for by now."""
        half_life = self.settings.entropy_half_life
        return 1.0 if half_life is None else 0.5 ** (self.updates / half_life)

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        policy = self.policy(inputs, batch.is_first)
        return list(self._policy_values(batch, inputs, policy, self.temperature.value))

    def _target(
        self,
        batch: Batch,
        inputs: ContextInputs,
        policy: StochasticPolicy,
        alpha: Tensor,
        action: Tensor,
    ) -> Tensor:
        """y at every step that counts, from the target critic one step further."""
        settings = self.settings
        drawn = torch.randperm(settings.n_critics, generator=self.generators["subset"])
        heads = drawn[: settings.subset_size].to(self.device, non_blocking=True)
        embedded = self._embedded(self.target_critic, batch, inputs)
        draw = policy.draw(self.generators["noise"])
        q = self.target_critic.values(embedded, draw.action, heads)
        value = losses.soft_value(q, draw.log_prob, alpha, settings.critic_entropy)
        next_value = losses.next_step(draw.expect(value))
        if settings.clamp_target_values:
            next_value = self.clamp(next_value, batch.mask)
        reward, ends = self.rewards(batch), batch.terminated
        if settings.td_lambda:
            if draw.action is None:
                taken = q.min(0).values.gather(-1, action[..., None]).squeeze(-1)
            else:
                taken = self.target_critic.values(embedded, action, heads).min(0).values
            goes_on = losses.continues(batch.mask, batch.is_first).to(taken.dtype)
            next_q = losses.next_step(taken)
            trace = settings.td_lambda * goes_on
            y = losses.lambda_target(reward, ends, next_value, next_q, trace, settings.gamma)
        else:
            y = losses.td_target(reward, ends, next_value, settings.gamma)
        if settings.clamp_target_values:
            self.clamp.move(y, batch.mask)
        return y

    def _policy_values(
        self, batch: Batch, inputs: ContextInputs, policy: StochasticPolicy, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss and the policy's entropy (for Box actions, estimated from the sample)."""
        with torch.no_grad():
            embedded = self._embedded(self.critic, batch, inputs)
        draw = policy.draw(self.generators["noise"])
        q = self.critic.values(embedded, draw.action, frozen=True).mean(0)
        if self.settings.policy_kl == "forward":
            term = losses.forward_policy_term(q, draw.log_prob, alpha)
        else:
            term = draw.expect(losses.soft_policy_term(q, draw.log_prob, alpha))
        entropy = -losses.masked_mean(draw.expect(draw.log_prob), batch.mask, batch.steps)
        return losses.masked_mean(term, batch.mask, batch.steps), entropy

    @torch.no_grad()
    def _context_statistics(self, batch: Batch, inputs: ContextInputs) -> Metrics:
        """How long the policy's contexts are, and how far they lie around their mean."""
        n, mask = batch.steps, batch.mask
        context = self.policy.context(inputs, batch.is_first)  # (rows, length, embedding)
        assert context is not None
        counted = torch.where(mask[..., None], context, torch.zeros_like(context))
        off = (context - counted.sum((0, 1)) / n).square().mean(-1)
        return {
            "context_norm": losses.masked_mean(context.norm(dim=-1), mask, n),
            "context_std": losses.masked_mean(off, mask, n).sqrt(),
        }

    def extra_state(self) -> dict[str, Tensor]:
        return {"clamp_bounds": self.clamp.bounds}

    def restore_extra(self, tensors: Mapping[str, Tensor]) -> None:
        self.clamp.bounds = tensors["clamp_bounds"]


METHOD = Method(
    name="resel",
    title="RESeL",
    summary="SAC with 8 critics on whole trajectories; a learning rate of its own for the memory",
    source="Luo et al. 2024, Efficient Recurrent Off-Policy RL Requires a "
    "Context-Encoder-Specific Learning Rate",
    learner=ReselLearner,
    settings=ReselSettings,
    former={"alpha_start": 1.0, "alpha_min": 0.0, "policy_from_target": False},
    network=ContextNetwork,
    encoder="mamba",
    preset=preset,
    figures=(
        "table-pomdp",
        "table-gravity",
        "table-mdp",
        "fig-pomdp",
        "fig-gravity",
        "fig-meta",
        "fig-key-to-door",
        "fig-encoders",
        "fig-lr-ablation",
    ),
)
