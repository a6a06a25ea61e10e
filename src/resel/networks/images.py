"""Images: two convolutions and a linear layer that make features of each.

    image --convolution, ReLU, convolution, ReLU, linear--> features, in the place of o_t

Where an observation holds other numbers or several images, what the networks read are the other
numbers and then the features of one image after the other, each with convolutions of its own.
Policy and critic have convolutions of their own, and all else in them reads features as it would
read a vector. Where both stand on one encoder, it has the convolutions. Pixels are in [0, 1] by
then: see `ObservationNormalizer`.

Glossary
    N images, C channels, H height, W width
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

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
_SMALLEST = 3
"""Pixels that two convolutions need."""


class Convolutions(NamedTuple):
    """Channels of the first of two, height and width of each, pixels from one place to the next."""

    channels: int
    kernel: int
    stride: int


_FITTING: tuple[tuple[float, Convolutions], ...] = (
    (12, Convolutions(8, 2, 1)),
    (40, Convolutions(8, 4, 2)),
    (math.inf, Convolutions(16, 4, 4)),
)
"""For images up to so many pixels high or wide."""


def fitting_convolutions(image: ImageShape) -> Convolutions | None:
    """Those that suit the size of an image; None if it is too small for any."""
    side = min(image.height, image.width)
    if side < _SMALLEST:
        return None
    return next(sizes for most, sizes in _FITTING if side <= most)


@dataclass(frozen=True)
class ImageSizes:
    """How observations that are or hold images are read."""

    shares_images: ClassVar[bool] = False
    """Whether one encoder reads them for all networks, and has the convolutions."""
    reads_last_observation: ClassVar[bool] = False
    """Whether o_{t-1} is an input besides o_t."""

    image_channels: Count = 0
    """Observations that are images: channels of the first of two convolutions, of which the second
    has twice as many; 0 reads an image as a vector."""
    image_kernel: Count = 2
    """Observations that are images: height and width of a convolution; 0, with image_stride=0,
    suits the size of each image."""
    image_stride: Count = 1
    """Observations that are images: pixels from one place of a convolution to the next."""
    image_features: Count = 100
    """Observations that are images: what is made of one, in the place of a vector."""

    def __post_init__(self) -> None:
        at_least(self, 0, "image_channels", "image_kernel", "image_stride")
        at_least(self, 1, "image_features")
        if (self.image_kernel == 0) != (self.image_stride == 0):
            raise ConfigError(
                f"image_kernel={self.image_kernel} and image_stride={self.image_stride} do not go "
                "together: both are 0, to suit the size of each image, or none is."
            )


def _seen(sizes: Any, dims: Dimensions) -> list[ImageShape]:
    """The images that are read by convolutions."""
    if not getattr(sizes, "image_channels", 0):
        return []
    return [i for i in dims.images if sizes.image_kernel or fitting_convolutions(i) is not None]


def seen_size(sizes: Any, dims: Dimensions) -> int:
    """What networks read in the place of an observation."""
    images = _seen(sizes, dims)
    others = dims.observation - sum(image.size for image in images)
    return others + len(images) * int(getattr(sizes, "image_features", 0))


def sees_images(sizes: Any, dims: Dimensions) -> bool:
    """Whether images are read by convolutions."""
    return bool(_seen(sizes, dims))


class ImageReader(nn.Module):
    """Features of images that lie flat."""

    def __init__(self, shape: ImageShape, sizes: ImageSizes) -> None:
        super().__init__()
        self._shape = shape
        kernel, stride = sizes.image_kernel, sizes.image_stride
        if not kernel:
            fitting = fitting_convolutions(shape)
            assert fitting is not None, "others are not read by convolutions"
            kernel, stride = fitting.kernel, fitting.stride
        height, width = (_left(side, kernel, stride, shape) for side in shape[:2])
        first, second = sizes.image_channels, 2 * sizes.image_channels
        self.first = nn.Conv2d(shape.channels, first, kernel, stride)
        self.second = nn.Conv2d(first, second, kernel, stride)
        self.linear = nn.Linear(second * height * width, sizes.image_features)

    def forward(self, flat: Tensor) -> Tensor:
        """(..., pixels) -> (..., features)"""
        shape = self._shape
        if shape.channels_first:
            image = flat.reshape(-1, shape.channels, shape.height, shape.width)
        else:
            image = flat.reshape(-1, shape.height, shape.width, shape.channels).permute(0, 3, 1, 2)
        seen = torch.relu(self.second(torch.relu(self.first(image))))  # (N, C, H, W)
        features: Tensor = self.linear(seen.flatten(1))
        return features.view(*flat.shape[:-1], -1)


class PartsReader(nn.Module):
    """The other numbers of observations that hold images, and the features of these."""

    others: Tensor

    def __init__(self, images: Sequence[ImageShape], size: int, sizes: ImageSizes) -> None:
        super().__init__()
        self._images = tuple(images)
        self.readers = nn.ModuleList(ImageReader(image, sizes) for image in images)
        pixels = {i for image in images for i in range(image.begin, image.begin + image.size)}
        others = torch.tensor([i for i in range(size) if i not in pixels], dtype=torch.long)
        self.register_buffer("others", others, persistent=False)

    def forward(self, flat: Tensor) -> Tensor:
        """(..., O) -> (..., other numbers and features)"""
        seen = [
            reader(flat[..., image.begin : image.begin + image.size])
            for reader, image in zip(self.readers, self._images, strict=True)
        ]
        return torch.cat([flat[..., self.others], *seen], -1)


def _left(side: int, kernel: int, stride: int, shape: ImageShape) -> int:
    """Height or width behind the convolutions."""
    for _ in range(_LAYERS):
        side = (side - kernel) // stride + 1
    if side < 1:
        raise ConfigError(
            f"Two convolutions with image_kernel={kernel} and image_stride={stride} leave nothing "
            f"of an image of {shape.height} x {shape.width}: lower them, set both to 0 to suit the "
            "size of each image, or set image_channels=0 to read it as a vector."
        )
    return side


def image_reader(config: Config, dims: Dimensions) -> ImageReader | PartsReader | None:
    """What reads observations; None where they are read as they are."""
    images = _seen(config.network, dims)
    if not images:
        return None
    if images[0].size == dims.observation:
        return ImageReader(images[0], config.network)
    return PartsReader(images, dims.observation, config.network)


def behind_images(
    networks_of: Callable[[Config, Dimensions], dict[str, Network]],
    config: Config,
    dims: Dimensions,
) -> dict[str, Network]:
    """The networks of a method, each with convolutions in front where observations are images."""
    if image_reader(config, dims) is None or config.network.shares_images:
        return networks_of(config, dims)
    features = dims._replace(observation=seen_size(config.network, dims), images=(), runs=())
    return {
        name: _behind(image_reader(config, dims), network, config.network.reads_last_observation)
        for name, network in networks_of(config, features).items()
    }


def _behind(reader: ImageReader | PartsReader | None, network: Network, both: bool) -> Network:
    assert reader is not None
    if isinstance(network, PolicyNetwork):
        return ImagePolicy(reader, network, both)
    assert isinstance(network, CriticNetwork), "other networks foretell what they would read"
    return ImageCritic(reader, network, both)


class _Seeing:
    """What policy and critic have in common."""

    image: ImageReader | PartsReader
    _both: bool

    def _seen(self, inputs: ContextInputs, is_first: Tensor | None = None) -> ContextInputs:
        """The inputs of a sequence, or without `is_first` of a moment, with features in them."""
        features = self.image(inputs.observation)
        if not self._both:
            return inputs._replace(observation=features)
        if is_first is None:
            return ContextInputs(features, self.image(inputs.last_observation), *inputs[2:])
        # Along a sequence all but the zeros before an episode are read as o_t already.
        nothing = self.image(torch.zeros_like(inputs.observation[:1, :1])).expand_as(features)
        shifted = torch.cat([nothing[:, :1], features[:, :-1]], 1)
        last = torch.where(is_first[..., None], nothing, shifted)
        return ContextInputs(features, last, *inputs[2:])


class ImagePolicy(_Seeing, PolicyNetwork):
    """A policy that reads features of images."""

    def __init__(self, image: ImageReader | PartsReader, inside: PolicyNetwork, both: bool) -> None:
        super().__init__()
        self.image, self.inside, self._both = image, inside, both

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        policy: PolicyDistribution = self.inside(self._seen(inputs, is_first), is_first)
        return policy

    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        return self.inside.step(self._seen(inputs), state)

    def initial_state(self, rows: int) -> State:
        return self.inside.initial_state(rows)

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor | None:
        return self.inside.context(self._seen(inputs, is_first), is_first)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return self.inside.suitable_rows(lengths)

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        return self.inside.context_parameters(scope)


class ImageCritic(_Seeing, CriticNetwork):
    """A critic that reads features of images."""

    def __init__(self, image: ImageReader | PartsReader, inside: CriticNetwork, both: bool) -> None:
        super().__init__()
        self.image, self.inside, self._both = image, inside, both

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Any:
        return self.inside.embed(self._seen(inputs, is_first), is_first)

    def embed_counted(self, inputs: ContextInputs, is_first: Tensor) -> Any:
        return self.inside.embed_counted(self._seen(inputs, is_first), is_first)

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
