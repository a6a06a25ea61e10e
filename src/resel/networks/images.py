"""Images: two convolutions and a linear layer that make features of an observation.

    image --convolution, ReLU, convolution, ReLU, linear--> features, in the place of o_t

Policy and critic have convolutions of their own, and all else in them reads features as it would
read a vector. Where both stand on one encoder, it has the convolutions.

Glossary
    N images, C channels, H height, W width
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from resel.config import Config, Count, at_least
from resel.envs import ImageShape
from resel.errors import ConfigError
from resel.networks.base import CriticNetwork, LrScope, Network, PolicyNetwork
from resel.networks.distributions import PolicyDistribution
from resel.networks.encoders import State
from resel.networks.inputs import ContextInputs, Dimensions

_LAYERS = 2


@dataclass(frozen=True)
class ImageSizes:
    """How observations that are images are read."""

    shares_images: ClassVar[bool] = False
    """Whether one encoder reads them for all networks, and has the convolutions."""
    reads_last_observation: ClassVar[bool] = False
    """Whether o_{t-1} is an input besides o_t."""

    image_channels: Count = 0
    """Observations that are images: channels of the first of two convolutions, of which the second
    has twice as many; 0 reads an image as a vector."""
    image_kernel: Count = 2
    """Observations that are images: height and width of a convolution."""
    image_stride: Count = 1
    """Observations that are images: pixels from one place of a convolution to the next."""
    image_features: Count = 100
    """Observations that are images: what is made of one, in the place of a vector."""

    def __post_init__(self) -> None:
        at_least(self, 0, "image_channels")
        at_least(self, 1, "image_kernel", "image_stride", "image_features")


class ImageReader(nn.Module):
    """Features of images that lie flat."""

    def __init__(self, shape: ImageShape, sizes: ImageSizes, scale: float) -> None:
        super().__init__()
        self._shape, self._scale = shape, scale
        kernel, stride = sizes.image_kernel, sizes.image_stride
        height, width = (_left(side, sizes, shape) for side in (shape.height, shape.width))
        first, second = sizes.image_channels, 2 * sizes.image_channels
        self.first = nn.Conv2d(shape.channels, first, kernel, stride)
        self.second = nn.Conv2d(first, second, kernel, stride)
        self.linear = nn.Linear(second * height * width, sizes.image_features)

    def forward(self, flat: Tensor) -> Tensor:
        """(..., pixels) -> (..., features)"""
        shape = self._shape
        image = flat.reshape(-1, flat.shape[-1]) / self._scale
        if shape.channels_first:
            image = image.view(-1, shape.channels, shape.height, shape.width)
        else:
            image = image.view(-1, shape.height, shape.width, shape.channels).permute(0, 3, 1, 2)
        seen = torch.relu(self.second(torch.relu(self.first(image))))  # (N, C, H, W)
        features: Tensor = self.linear(seen.flatten(1))
        return features.view(*flat.shape[:-1], -1)


def _left(side: int, sizes: ImageSizes, shape: ImageShape) -> int:
    """Height or width behind the convolutions."""
    for _ in range(_LAYERS):
        side = (side - sizes.image_kernel) // sizes.image_stride + 1
    if side < 1:
        raise ConfigError(
            f"Two convolutions with image_kernel={sizes.image_kernel} and "
            f"image_stride={sizes.image_stride} leave nothing of an image of {shape.height} x "
            f"{shape.width}: lower them, or set image_channels=0 to read it as a vector."
        )
    return side


def image_reader(config: Config, dims: Dimensions) -> ImageReader | None:
    """What reads observations; None where they are read as they are."""
    sizes = config.network
    if dims.image is None or not getattr(sizes, "image_channels", 0):
        return None
    scaled = getattr(config.algorithm, "normalize_observations", False)
    return ImageReader(dims.image, sizes, 1.0 if scaled else dims.image.scale)


def behind_images(
    networks_of: Callable[[Config, Dimensions], dict[str, Network]],
    config: Config,
    dims: Dimensions,
) -> dict[str, Network]:
    """The networks of a method, each with convolutions in front where observations are images."""
    if image_reader(config, dims) is None or config.network.shares_images:
        return networks_of(config, dims)
    features = dims._replace(observation=config.network.image_features, image=None)
    return {
        name: _behind(image_reader(config, dims), network, config.network.reads_last_observation)
        for name, network in networks_of(config, features).items()
    }


def _behind(reader: ImageReader | None, network: Network, both: bool) -> Network:
    assert reader is not None
    if isinstance(network, PolicyNetwork):
        return ImagePolicy(reader, network, both)
    assert isinstance(network, CriticNetwork), "other networks foretell what they would read"
    return ImageCritic(reader, network, both)


class _Seeing:
    """What policy and critic have in common."""

    image: ImageReader
    _both: bool

    def _seen(self, inputs: ContextInputs) -> ContextInputs:
        inputs = inputs._replace(observation=self.image(inputs.observation))
        if not self._both:
            return inputs
        return inputs._replace(last_observation=self.image(inputs.last_observation))


class ImagePolicy(_Seeing, PolicyNetwork):
    """A policy that reads features of images."""

    def __init__(self, image: ImageReader, inside: PolicyNetwork, both: bool) -> None:
        super().__init__()
        self.image, self.inside, self._both = image, inside, both

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        policy: PolicyDistribution = self.inside(self._seen(inputs), is_first)
        return policy

    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        return self.inside.step(self._seen(inputs), state)

    def initial_state(self, rows: int) -> State:
        return self.inside.initial_state(rows)

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor | None:
        return self.inside.context(self._seen(inputs), is_first)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return self.inside.suitable_rows(lengths)

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        return self.inside.context_parameters(scope)


class ImageCritic(_Seeing, CriticNetwork):
    """A critic that reads features of images."""

    def __init__(self, image: ImageReader, inside: CriticNetwork, both: bool) -> None:
        super().__init__()
        self.image, self.inside, self._both = image, inside, both

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Any:
        return self.inside.embed(self._seen(inputs), is_first)

    def embed_counted(self, inputs: ContextInputs, is_first: Tensor) -> Any:
        return self.inside.embed_counted(self._seen(inputs), is_first)

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Any, State]:
        return self.inside.embed_step(self._seen(inputs), state)

    def informed(self, embedded: Any, signal: Tensor) -> Any:
        return self.inside.informed(embedded, signal)

    def initial_state(self, rows: int) -> State:
        return self.inside.initial_state(rows)

    def values(
        self,
        embedded: Any,
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        return self.inside.values(embedded, action, heads, frozen=frozen)

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        return self.inside.context_parameters(scope)
