"""The variational recurrent model: foretells what is seen next, and remembers by it.

    x_t = (o_t, r_{t-1}), after the action a_{t-1}
    prior      p(z_t | h_{t-1}, a_{t-1})
    posterior  q(z_t | h_{t-1}, a_{t-1}, phi(x_t))
    memory     h_t = LSTM([phi(x_t), z_t], h_{t-1}), z_t of the posterior
    decoder    p(x_t | h_{t-1}, z_t), z_t of the prior

Chung et al. 2015, A Recurrent Latent Variable Model for Sequential Data, with actions, as in Han et
al. 2020, Variational Recurrent Models for Solving Partially Observable Control Tasks. All are
Gaussians. Whoever reads the memory gets that of the posterior's mean; learning draws z_t.

Glossary
    H memory, Z latents, X what is seen, A action, W width of hidden layers
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.networks.base import Network
from resel.networks.encoders import State
from resel.networks.heads import activated_mlp
from resel.networks.inputs import ContextInputs, Dimensions

_LOWEST_STD = 1e-3


class Gaussians(NamedTuple):
    """Means and standard deviations."""

    mean: Tensor
    std: Tensor

    def draw(self, noise: Tensor) -> Tensor:
        """What this standard normal noise leads to."""
        return self.mean + self.std * noise


class Foretold(NamedTuple):
    """What the model says at every step (rows, length, ...), before it has seen it and after."""

    prior: Gaussians
    posterior: Gaussians
    seen: Tensor
    """x_t."""
    expected: Gaussians
    """Of x_t, from the prior."""


class _GaussianNet(nn.Module):
    """Mean and standard deviation, each by a net of its own."""

    def __init__(self, inputs: int, widths: list[int], outputs: int, lowest: float = 0.0) -> None:
        super().__init__()
        self.mean, self.std = (_tanh_mlp(inputs, widths, outputs) for _ in range(2))
        self._lowest = lowest

    def forward(self, x: Tensor) -> Gaussians:
        return Gaussians(self.mean(x), F.softplus(self.std(x)) + self._lowest)


def _tanh_mlp(inputs: int, widths: list[int], outputs: int) -> nn.Sequential:
    return activated_mlp(inputs, widths, outputs, "tanh", "torch", 1.0)


class SequenceModel(Network):
    """One such model."""

    def __init__(
        self, dims: Dimensions, memory: int, latents: int, width: int, reward_scale: float
    ) -> None:
        super().__init__()
        self.memory_size, self.latents, self._reward_scale = memory, latents, reward_scale
        seen = dims.observation + 1
        self.phi = _tanh_mlp(seen, [width], width)
        self.prior = _GaussianNet(memory + dims.action, [width], latents)
        self.posterior = _GaussianNet(memory + dims.action + width, [width], latents)
        self.cell = nn.LSTMCell(width + latents, memory)
        self.decoder = _GaussianNet(memory + latents, [width, width], seen, _LOWEST_STD)

    def seen(self, inputs: ContextInputs) -> Tensor:
        """x_t (..., X)."""
        return torch.cat([inputs.observation, self._reward_scale * inputs.last_reward], -1)

    def initial_state(self, rows: int) -> State:
        """The memory at the start of `rows` trajectories."""
        new = self.cell.weight_hh.new_zeros
        return new(rows, self.memory_size), new(rows, self.memory_size)

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        """The memory (rows, H) at one moment."""
        state = self._remember(self.phi(self.seen(inputs)), inputs.last_action, state)
        return state[0], state

    def _remember(self, phi: Tensor, action: Tensor, state: State) -> State:
        mean = self.posterior.mean(torch.cat([state[0], action, phi], -1))
        return self.cell(torch.cat([phi, mean], -1), state)  # type: ignore[no-any-return]

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """The memory (rows, length, H) over a packed sequence."""
        state, found = self.initial_state(len(is_first)), []
        phi, action = self.phi(self.seen(inputs)), inputs.last_action
        for t in range(is_first.shape[1]):
            state = _from_nothing(state, is_first[:, t, None])
            state = self._remember(phi[:, t], action[:, t], state)
            found.append(state[0])
        return torch.stack(found, 1)

    def foretell(
        self, inputs: ContextInputs, is_first: Tensor, mask: Tensor, generator: torch.Generator
    ) -> Foretold:
        """What is to be learned from, with gradients that end where steps begin to count."""
        shape = (2, *is_first.shape, self.latents)
        dtype, device = inputs.observation.dtype, inputs.observation.device
        drawn = torch.randn(shape, generator=generator, dtype=dtype, device=device)
        noise, noise_ahead = drawn.unbind()
        begins = mask & ~is_first
        begins[:, 1:] &= ~mask[:, :-1]  # behind steps that were only read
        action, seen = inputs.last_action, self.seen(inputs)
        phi = self.phi(seen)
        state, before, posterior = self.initial_state(len(is_first)), [], []
        for t in range(is_first.shape[1]):
            state = _from_nothing(state, is_first[:, t, None])
            state = tuple(torch.where(begins[:, t, None], x.detach(), x) for x in state)
            before.append(state[0])
            posterior.append(self.posterior(torch.cat([state[0], action[:, t], phi[:, t]], -1)))
            z = posterior[-1].draw(noise[:, t])
            state = self.cell(torch.cat([phi[:, t], z], -1), state)
        h = torch.stack(before, 1)  # (rows, length, H)
        prior = self.prior(torch.cat([h, action], -1))
        expected = self.decoder(torch.cat([h, prior.draw(noise_ahead)], -1))
        after = Gaussians(*(torch.stack(parts, 1) for parts in zip(*posterior, strict=True)))
        return Foretold(prior, after, seen, expected)


def _from_nothing(state: State, first: Tensor) -> State:
    """The state, nothing where a trajectory begins."""
    return tuple(part.masked_fill(first, 0) for part in state)
