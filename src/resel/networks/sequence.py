"""Policy and critic as in Ni et al. 2022: embeddings, context encoder, a shortcut around it, heads.

    o_t, a_{t-1}, (r_{t-1}) --a layer for each kind--> context encoder --> context_t
    policy:  [context_t, shortcut of o_t] --> distribution of a_t
    critic:  [context_t, shortcut of [o_t, a_t]] --> one value per head

Embeddings and shortcuts are linear layers with the activation of the heads. The critic's heads
stand on one encoder, or each on its own. For Discrete actions the critic gives one value per action
and its shortcut reads o_t alone. What the critic alone is told stands beside o_t in the shortcut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import Config, Count, at_least, between, one_of, only_for, scaled
from resel.networks.base import CriticNetwork, LrScope, PolicyNetwork
from resel.networks.distributions import Deterministic, PolicyDistribution, distribution
from resel.networks.encoders import State, build_encoder, encoder_spec
from resel.networks.heads import (
    ACTIVATIONS,
    CRITIC_BOUND,
    POLICY_BOUND,
    ActivatedHeads,
    Activation,
    Initialisation,
    activated_mlp,
)
from resel.networks.images import ImageSizes
from resel.networks.inputs import ContextInputs, Dimensions


class TrunkSizes:
    """What the sizes of embeddings tell of the inputs of a context encoder."""

    observation_embedding: Count
    action_embedding: Count
    reward_embedding: Count

    @property
    def reward_input(self) -> bool:
        """Whether the last reward is read."""
        return self.reward_embedding > 0

    def kinds(self, dims: Dimensions) -> list[tuple[int, int]]:
        """What the context encoder reads: of each kind its size, and that of its embedding."""
        kinds = [
            (dims.observation, self.observation_embedding),
            (dims.action, self.action_embedding),
        ]
        return [*kinds, (1, self.reward_embedding)] if self.reward_input else kinds


@dataclass(frozen=True)
class SequenceNetwork(TrunkSizes, ImageSizes):
    """Sizes of policy and critic."""

    observation_embedding: Count = scaled(32)
    """Outputs of the layer that embeds o_t for the context encoder."""
    action_embedding: Count = scaled(16)
    """Outputs of the layer that embeds the last action."""
    reward_embedding: Count = scaled(16)
    """Outputs of the layer that embeds the last reward; 0 leaves the reward out."""
    joint_embedding: bool = False
    """One layer for all inputs, as wide as these together, and part of the context encoder."""
    width: Count = scaled(128)
    """Width of the context encoder."""
    context_size: Count = 0
    """Outputs of a linear layer with tanh behind the encoder; 0 leaves it out."""
    policy_shortcut: Count = scaled(32)
    """Outputs of the layer that embeds o_t for the policy's head; 0 hands over o_t itself."""
    critic_shortcut: Count = scaled(64)
    """Outputs of the layer that embeds [o_t, a_t] for the critic's heads; 0 hands over both."""
    head_width: Count = scaled(256)
    """Width of the hidden layers of policy and critic."""
    head_layers: Count = 2
    """Hidden layers of policy and critic."""
    last_width: Count | None = scaled(None)
    """Width of the last hidden layer; None makes it as wide as the others."""
    encoder_per_critic: bool = True
    """Give every critic head embeddings, a context encoder and a shortcut of its own."""
    activation: Activation = "relu"
    """What follows embeddings, shortcuts and hidden layers: relu, leaky_relu or elu."""
    head_initialisation: Initialisation = "fan_out"
    """First weights of the heads: torch's own, or fan_out: within 1/sqrt(outputs), near zero in the
    last layer."""
    log_std_min: float = only_for("Box", -20.0)
    """Box, stochastic: the log of the standard deviation is kept above this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "observation_embedding", "action_embedding", "width")
        at_least(self, 1, "head_width", "head_layers", "last_width")
        at_least(self, 0, "reward_embedding", "context_size", "policy_shortcut", "critic_shortcut")
        between(self, -100.0, 2.0, "log_std_min")
        one_of(self, "activation", Activation)
        one_of(self, "head_initialisation", Initialisation)

    @property
    def head_widths(self) -> list[int]:
        """Hidden layers of a head."""
        return [self.head_width] * (self.head_layers - 1) + [self.last_width or self.head_width]

    @property
    def embedding_activation(self) -> Activation | None:
        """What follows the embeddings in front of the context encoder."""
        return self.activation

    def trunk(self, config: Config, dims: Dimensions) -> SequenceTrunk:
        """What leads from the inputs to a context."""
        return SequenceTrunk(dims, config)

    def policy(self, config: Config, dims: Dimensions, *, deterministic: bool) -> PolicyNetwork:
        """The policy: a distribution, or one action with the config's `exploration_noise`."""
        noise = config.algorithm.exploration_noise if deterministic else None
        return SequencePolicy(dims, config, noise)

    def critic(
        self, config: Config, dims: Dimensions, n_critics: int, outputs: int = 1
    ) -> CriticNetwork:
        """The critics, each with so many values for a Box action, or one for every Discrete one."""
        return SequenceCritic(dims, config, n_critics, outputs)


class Embedding(nn.Module):
    """A linear layer, mostly with an activation; of size 0 the input itself."""

    def __init__(self, inputs: int, size: int, activation: Activation | None) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, size) if size else None
        self._activation = ACTIVATIONS[activation] if activation else None
        self.size = size or inputs

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        if self.linear is None:
            return x
        weight, bias = self.linear.weight, self.linear.bias
        if frozen:
            weight, bias = weight.detach(), bias.detach()  # type: ignore[assignment]
        y = F.linear(x, weight, bias)
        return y if self._activation is None else self._activation(y)


class SequenceEncoder(nn.Module):
    """The context encoder: the recurrent block and, where the sizes ask for them, layers around it.

    A block that cannot read inputs of another width has a linear layer in front.
    """

    def __init__(self, inputs: int, joint: int, config: Config) -> None:
        super().__init__()
        sizes: SequenceNetwork = config.network
        before = Embedding(inputs, joint, sizes.activation)
        assert config.encoder is not None
        if encoder_spec(config.encoder).build_from is not None:
            self.before: nn.Module = before
            self.rnn = build_encoder(config, sizes.width, before.size)
        else:
            self.before = nn.Sequential(before, nn.Linear(before.size, sizes.width))
            self.rnn = build_encoder(config, sizes.width)
        self.after: nn.Module = nn.Identity()
        if sizes.context_size:
            self.after = nn.Sequential(nn.Linear(sizes.width, sizes.context_size), nn.Tanh())
        self.size = sizes.context_size or sizes.width

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        return self.after(self.rnn(self.before(x), is_first))  # type: ignore[no-any-return]

    def forward_from(self, x: Tensor, is_first: Tensor, state: State) -> Tensor:
        """As `forward`, over rows that go on from a state; none stands for zeros."""
        return self.after(self.rnn.forward_from(self.before(x), is_first, state))  # type: ignore[no-any-return]

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, state = self.rnn.step(self.before(x), state)
        return self.after(y), state


class SequenceTrunk(nn.Module):
    """Embeddings, one for each kind of input or one for all, and the context encoder."""

    def __init__(self, dims: Dimensions, config: Config) -> None:
        super().__init__()
        sizes: SequenceNetwork = config.network
        self._reads_reward = sizes.reward_input
        kinds = sizes.kinds(dims)
        joint = sizes.joint_embedding
        embeddings = [
            Embedding(inputs, 0 if joint else size, sizes.embedding_activation)
            for inputs, size in kinds
        ]
        self.embeddings = nn.ModuleList(embeddings)
        self.context_encoder = SequenceEncoder(
            sum(embedding.size for embedding in embeddings),
            sum(size for _, size in kinds) if joint else 0,
            config,
        )

    def _embed(self, inputs: ContextInputs) -> Tensor:
        parts = [inputs.observation, inputs.last_action]
        parts += [inputs.last_reward] if self._reads_reward else []
        return self._joined(parts)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        """The embedding of every kind of input, side by side."""
        pairs = zip(self.embeddings, parts, strict=True)
        return torch.cat([embedding(part) for embedding, part in pairs], -1)

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """Context (rows, length, size) over a packed sequence."""
        return self.context_encoder(self._embed(inputs), is_first)  # type: ignore[no-any-return]

    def forward_from(self, inputs: ContextInputs, is_first: Tensor, state: State) -> Tensor:
        """The same over rows that go on with an episode from a state; none stands for zeros."""
        return self.context_encoder.forward_from(self._embed(inputs), is_first, state)

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        """Context (rows, size) at one moment."""
        return self.context_encoder.step(self._embed(inputs), state)

    def initial_state(self, rows: int) -> State:
        """The state at the start of `rows` trajectories."""
        return self.context_encoder.rnn.initial_state(rows)

    def parameters_of(self, scope: LrScope) -> Iterable[Tensor]:
        """The context encoder, or its recurrent layers alone."""
        encoder = self.context_encoder
        return (encoder.rnn if scope == "rnn" else encoder).parameters()


class SequencePolicy(PolicyNetwork):
    """pi(a | history)."""

    def __init__(self, dims: Dimensions, config: Config, noise: float | None) -> None:
        super().__init__()
        sizes: SequenceNetwork = config.network
        self._discrete, self._noise, self._log_std_min = dims.discrete, noise, sizes.log_std_min
        self.trunk = sizes.trunk(config, dims)
        self.shortcut = Embedding(dims.observation, sizes.policy_shortcut, sizes.activation)
        self.head = activated_mlp(
            self.trunk.context_encoder.size + self.shortcut.size,
            sizes.head_widths,
            dims.action if dims.discrete or noise is not None else 2 * dims.action,
            sizes.activation,
            sizes.head_initialisation,
            POLICY_BOUND,
        )

    def _distribution(self, observation: Tensor, context: Tensor) -> PolicyDistribution:
        output = self.head(torch.cat([context, self.shortcut(observation)], -1))
        if self._noise is not None:
            return Deterministic.from_output(output, self._noise)
        return distribution(output, self._discrete, log_std_min=self._log_std_min)

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """What the policy remembers at every step. (rows, length, size)"""
        return self.trunk(inputs, is_first)  # type: ignore[no-any-return]

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        return self._distribution(inputs.observation, self.trunk(inputs, is_first))

    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        context, state = self.trunk.step(inputs, state)
        return self._distribution(inputs.observation, context), state

    def initial_state(self, rows: int) -> State:
        return self.trunk.initial_state(rows)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return self.trunk.context_encoder.rnn.suitable_rows(lengths)

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        return self.trunk.parameters_of(scope)


class SequenceCritic(CriticNetwork):
    """Q(history, a) of E heads, on one trunk and shortcut or each on its own."""

    def __init__(self, dims: Dimensions, config: Config, n_critics: int, outputs: int) -> None:
        super().__init__()
        sizes: SequenceNetwork = config.network
        self._single = not dims.discrete and outputs == 1
        branches = n_critics if sizes.encoder_per_critic else 1
        current = dims.observation + dims.privileged + (0 if dims.discrete else dims.action)
        self.trunks = nn.ModuleList(sizes.trunk(config, dims) for _ in range(branches))
        self.shortcuts = nn.ModuleList(
            Embedding(current, sizes.critic_shortcut, sizes.activation) for _ in range(branches)
        )
        self.heads = ActivatedHeads(
            n_critics,
            (sizes.context_size or sizes.width) + (sizes.critic_shortcut or current),
            sizes.head_widths,
            dims.action if dims.discrete else outputs,
            sizes.activation,
            sizes.head_initialisation,
            CRITIC_BOUND,
        )
        self._counts_all = self.batch_statistics

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> tuple[Tensor, list[Tensor]]:
        """o_t and the context of every trunk."""
        return inputs.observation, [trunk(inputs, is_first) for trunk in self.trunks]

    def embed_counted(self, inputs: ContextInputs, is_first: Tensor) -> tuple[Tensor, list[Tensor]]:
        if not self._counts_all:
            return super().embed_counted(inputs, is_first)  # type: ignore[no-any-return]
        # Which step is the last of a row depends on the layout, and all of them are in the means.
        observation, contexts = self.embed(inputs, is_first)
        return observation[:, :-1], [context[:, :-1] for context in contexts]

    def embed_step(
        self, inputs: ContextInputs, state: State
    ) -> tuple[tuple[Tensor, list[Tensor]], State]:
        each = len(state) // len(self.trunks)
        contexts: list[Tensor] = []
        new: list[Tensor] = []
        for i, trunk in enumerate(self.trunks):
            assert isinstance(trunk, SequenceTrunk)
            context, part = trunk.step(inputs, state[i * each : (i + 1) * each])
            contexts.append(context[:, None])
            new.extend(part)
        return (inputs.observation[:, None], contexts), tuple(new)

    def initial_state(self, rows: int) -> State:
        found: list[Tensor] = []
        for trunk in self.trunks:
            assert isinstance(trunk, SequenceTrunk)
            found.extend(trunk.initial_state(rows))
        return tuple(found)

    def informed(
        self, embedded: tuple[Tensor, list[Tensor]], signal: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        observation, contexts = embedded
        return torch.cat([observation, signal], -1), contexts

    def values(
        self,
        embedded: tuple[Tensor, list[Tensor]],
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        """As every critic's; with more than one output these are a last dimension of Box values."""
        observation, contexts = embedded
        current = observation if action is None else torch.cat([observation, action], -1)
        parts = [
            torch.cat([context, shortcut(current, frozen=frozen)], -1).flatten(0, -2)
            for context, shortcut in zip(contexts, self.shortcuts, strict=True)
        ]
        if len(parts) == 1:
            x = parts[0]  # (N, I)
        else:
            x = torch.stack(parts)  # (E, N, I)
            x = x if heads is None else x.index_select(0, heads)
        q: Tensor = self.heads(x, heads, frozen=frozen)  # (E, N, outputs)
        q = q.view(q.shape[0], *observation.shape[:-1], -1)
        return q.squeeze(-1) if self._single else q

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        for trunk in self.trunks:
            assert isinstance(trunk, SequenceTrunk)
            yield from trunk.parameters_of(scope)
