"""Observations that are images: read by convolutions, with every method that has the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from image_worlds import Cameras, Sides
from method_cases import every_method, small_config
from torch import Tensor, nn

from resel import Agent, RESeL
from resel.agent import configure
from resel.config import Config
from resel.envs import ActionSpec, CheckedEnv, FlatImage, ObservationSpec
from resel.errors import ConfigError
from resel.methods import Method, World, auto_choices, build_learner, get_method, methods
from resel.networks import (
    ContextInputs,
    Dimensions,
    ImageReader,
    ObservationNormalizer,
    image_reader,
    sequence_inputs,
)
from resel.networks.images import ImagePolicy, PartsReader
from resel.tasks import make_env

IMAGE = {"image_channels": 4, "image_features": 5}
ABLE = [m.name for m in methods()[0] if hasattr(m.network, "image_channels")]


class Pixels(gymnasium.Env[Any, Any]):
    """A bright pixel in one corner or the other, in the first picture only; say which it was."""

    def __init__(self, space: str = "Discrete", whole: bool = True, length: int = 4) -> None:
        self._length, self._whole = length, whole
        high, dtype = (255, np.uint8) if whole else (1.0, np.float32)
        self.observation_space = spaces.Box(0, high, (4, 3, 2), dtype)  # type: ignore[arg-type]
        self.action_space: spaces.Space[Any] = (
            spaces.Discrete(2) if space == "Discrete" else spaces.Box(-1, 1, (1,), np.float32)
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._corner, self._time = int(self.np_random.integers(2)), 0
        return self._picture(), {}

    def _picture(self) -> Any:
        picture = np.zeros((4, 3, 2), np.uint8 if self._whole else np.float32)
        if self._time == 0:
            picture[(0, 0, 1) if self._corner else (3, 2, 0)] = 255 if self._whole else 1
        return picture

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        said = int(action) if isinstance(self.action_space, spaces.Discrete) else int(action[0] > 0)
        return self._picture(), float(said == self._corner), self._time == self._length, False, {}


def dims_of(space: spaces.Space[Any], discrete: bool = True) -> Dimensions:
    action: spaces.Space[Any] = spaces.Discrete(2) if discrete else spaces.Box(-1, 1, (2,))
    return Dimensions.of(ObservationSpec.of(space), ActionSpec.of(action))


@pytest.mark.parametrize("layout", ["height, width, channels", "channels first", "whole numbers"])
def test_the_convolutions_are_those_written_out(layout: str) -> None:
    space: spaces.Box = spaces.Box(0, 1, (6, 5, 3), np.float32)
    if layout == "channels first":
        space = FlatImage(3, 6, 5)
    elif layout == "whole numbers":
        space = spaces.Box(0, 255, (6, 5, 3), np.uint8)
    config = Config.build("", {"method": "sac", **IMAGE, "image_stride": 2})
    torch.manual_seed(0)
    reader = image_reader(config, dims_of(space))
    assert isinstance(reader, ImageReader)
    picture = np.random.default_rng(0).random((6, 5, 3), np.float32)
    if layout == "whole numbers":
        picture = np.rint(255 * picture)
    shown = picture.transpose(2, 0, 1).reshape(-1) if layout == "channels first" else picture
    stored = torch.from_numpy(ObservationSpec.of(space).encode(shown.astype(space.dtype)))
    assert stored.dtype == (torch.uint8 if layout == "whole numbers" else torch.float32)
    flat = ObservationNormalizer(90, False, dims_of(space))(stored)
    x = torch.from_numpy(picture / (255 if layout == "whole numbers" else 1)).permute(2, 0, 1)
    for layer in (reader.first, reader.second):
        out, (height, width) = layer.out_channels, x.shape[1:]
        y = torch.zeros(out, (height - 2) // 2 + 1, (width - 2) // 2 + 1)
        for c in range(out):
            for row in range(y.shape[1]):
                for column in range(y.shape[2]):
                    part = x[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
                    y[c, row, column] = (layer.weight[c] * part).sum() + layer.bias[c]
        x = torch.where(y > 0, y, 0 * y)
    expected = reader.linear.weight @ x.flatten() + reader.linear.bias
    torch.testing.assert_close(reader(flat), expected, rtol=1e-5, atol=1e-6)
    many = flat.expand(2, 3, -1)
    torch.testing.assert_close(reader(many), expected.expand(2, 3, -1), rtol=1e-5, atol=1e-6)


@every_method
def test_an_agent_learns_from_images_is_saved_and_acts(method: Method, tmp_path: Path) -> None:
    if method.name not in ABLE:
        pytest.skip("it reads images as vectors")
    space, whole = method.spaces[-1], "mlp" not in method.name  # floats for some
    loop = {"warmup_steps": 8, "buffer_steps": 200, "eval_every": 0, "checkpoint_every": 0}
    config = small_config(method, **loop, **IMAGE, max_episode_steps=4)
    if method.learner.on_policy:
        config = config.replace(rollout_steps=4, warmup_steps=0)
    agent = Agent(lambda: Pixels(space, whole), config=config)
    readers = [m for n in agent.learner.networks.values() for m in n.modules()]
    readers = [m for m in readers if isinstance(m, ImageReader)]
    assert readers and all(r.first.weight.shape == (4, 2, 2, 2) for r in readers)
    before = [r.first.weight.detach().clone() for r in readers]
    agent.learn(40)
    assert all(not torch.equal(b, r.first.weight) for b, r in zip(before, readers, strict=True))
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent", env=lambda: Pixels(space, whole), device="cpu")
    picture = Pixels(space, whole).reset(seed=1)[0]
    states: list[Any] = [None, None]
    for _ in range(3):
        actions = []
        for i, one in enumerate((agent, again)):
            action, states[i] = one.predict(picture, states[i], reward=0.0)
            actions.append(action)
        np.testing.assert_array_equal(*actions)
    both, _ = agent.predict(np.stack([picture, picture]), None, reward=np.zeros(2))
    assert len(both) == 2
    for one in (agent, again):
        one.close()


def test_what_foretells_observations_reads_images_as_vectors() -> None:
    for method in methods()[0]:
        if method.name not in ABLE:
            learner = build_learner(
                small_config(method),
                dims_of(Pixels().observation_space, False),
                torch.device("cpu"),
            )
            found = [m for n in learner.networks.values() for m in n.modules()]
            assert not any(isinstance(m, ImageReader) for m in found)
    with pytest.raises(ConfigError, match="td7 has no setting 'image_channels': it belongs to"):
        configure("", method="td7", image_channels=8)


def test_images_are_vectors_unless_asked_for() -> None:
    """Agents that were saved before there were convolutions load as they are."""
    learner = Agent(Pixels, preset="paper", size="tiny").learner
    assert not any("image" in name for name in learner.weights())
    assert learner.dims.observation == 24


def test_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"image_kernel=3 .* leave nothing of an image of 4 x 3"):
        Agent(Pixels, image_channels=2, image_kernel=3)


def test_auto_reads_images_by_their_size() -> None:
    def chosen(space: spaces.Box, method: str = "resel") -> dict[str, Any]:
        world = World(True, False, 10, ObservationSpec.of(space).images, only_images=True)
        return {c.name: c.value for c in auto_choices(get_method(method), world, 1000)}

    for side, expected in ((5, (8, 2, 1)), (32, (8, 4, 2)), (84, (16, 4, 4))):
        found = chosen(spaces.Box(0, 255, (side, side, 3), np.uint8))
        names = ("image_channels", "image_kernel", "image_stride")
        assert tuple(found[name] for name in names) == expected
        assert not found["normalize_observations"]
    for side, method in ((2, "resel"), (84, "td7")):
        found = chosen(spaces.Box(0, 255, (side, side, 3), np.uint8), method)
        assert found["normalize_observations"] and not found.get("image_channels")
    env = CheckedEnv(Pixels())
    assert World.of(env).images == env.observation.images and World.of(env).only_images


@pytest.mark.parametrize("method", ["mf-gpt", "mf-lstm"])
def test_key_to_door_is_read_as_an_image(method: str) -> None:
    agent = Agent("KeyToDoor-60-v0", method, device="cpu", size="tiny")
    trunk: Any = agent.learner.policy.trunk  # type: ignore[attr-defined]
    image = trunk.image
    assert (image.first.out_channels, image.second.out_channels) == (8, 16)
    assert image.linear.weight.shape == (100, 16 * 3 * 3)
    assert image.first.weight.shape == (8, 3, 2, 2)
    agent.close()
    env = make_env("KeyToDoor-60-v0")
    seen, _ = env.reset(seed=1)
    assert seen.shape == env.observation_space.shape == (75,)
    env.close()


class SeenTwice(nn.Module):
    """A network that hands over what it is given to read."""

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> ContextInputs:
        return inputs


def test_the_last_image_is_read_once_along_a_sequence() -> None:
    space = spaces.Box(0, 255, (6, 5, 3), np.uint8)
    dims, chance = dims_of(space), torch.Generator().manual_seed(1)
    config = Config.build("", {"method": "resel", **IMAGE})
    reader = image_reader(config, dims)
    assert reader is not None
    policy = ImagePolicy(reader, SeenTwice(), both=True)  # type: ignore[arg-type]
    observation = torch.rand(2, 7, 90, generator=chance)
    is_first = torch.rand(2, 7, generator=chance) < 0.4
    action, reward = torch.zeros(2, 7, 2), torch.zeros(2, 7)
    inputs = sequence_inputs(observation, action, reward, is_first)
    found: Any = policy(inputs, is_first)
    torch.testing.assert_close(found.observation, reader(inputs.observation))
    torch.testing.assert_close(found.last_observation, reader(inputs.last_observation))


def test_bytes_become_numbers_where_networks_read_them() -> None:
    spec, world = ObservationSpec.of(Cameras.LAYOUT), Cameras()
    dims = Dimensions.of(spec, ActionSpec.of(world.action_space))
    stored = np.stack([spec.encode(world.reset(seed=seed)[0]) for seed in range(4)])
    assert dims.stored == (stored.shape[1], torch.uint8)
    numbers = spec.numbers(stored)
    for shape in ((4,), (2, 2)):
        given = torch.from_numpy(stored).view(*shape, -1)
        np.testing.assert_array_equal(dims.numbers(given), numbers.reshape(*shape, -1))
    np.testing.assert_array_equal(dims.numbers(torch.from_numpy(stored[:1])), numbers[:1])


@pytest.mark.parametrize("enabled", [False, True])
def test_images_are_brought_to_one_and_not_normalised(enabled: bool) -> None:
    spec, world = ObservationSpec.of(Cameras.LAYOUT), Cameras()
    dims = Dimensions.of(spec, ActionSpec.of(world.action_space))
    stored = np.stack([spec.encode(world.reset(seed=seed)[0]) for seed in range(50)])
    numbers = spec.numbers(stored)
    far, near = (slice(image.begin, image.begin + image.size) for image in spec.images)
    for sees in (True, False):
        normalizer = ObservationNormalizer(spec.size, enabled, dims, sees=sees)
        normalizer.update(stored)
        found = normalizer(torch.from_numpy(stored)).numpy()
        plain = ObservationNormalizer(spec.size, enabled)
        plain.update(numbers)
        others = plain(torch.from_numpy(numbers)).numpy()
        np.testing.assert_array_equal(found[:, :3], others[:, :3])
        low, high = normalizer.limits()
        assert np.isinf([low[far], high[far]]).all() == (sees and enabled)
        if sees or not enabled:
            np.testing.assert_allclose(found[:, far], numbers[:, far] / 255, rtol=1e-6)
            np.testing.assert_allclose(found[:, near], numbers[:, near] / 10, rtol=1e-6)
        else:
            np.testing.assert_array_equal(found, others)


def test_several_images_and_other_numbers_are_read_side_by_side() -> None:
    spec, world = ObservationSpec.of(Cameras.LAYOUT), Cameras()
    dims = Dimensions.of(spec, ActionSpec.of(world.action_space))
    fitting = {**IMAGE, "image_kernel": 0, "image_stride": 0}
    reader = image_reader(Config.build("", {"method": "resel", **fitting}), dims)
    assert isinstance(reader, PartsReader)
    far, near = reader.readers
    assert isinstance(far, ImageReader) and isinstance(near, ImageReader)
    assert far.first.weight.shape == (4, 3, 4, 4) and near.first.weight.shape == (4, 1, 2, 2)
    flat = torch.rand(2, 3, spec.size, generator=torch.Generator().manual_seed(1))
    found = reader(flat)
    start = spec.images[1].begin
    expected = (flat[..., :3], flat[..., start - 3 : start])
    features = (far(flat[..., 3 : start - 3]), near(flat[..., start:]))
    torch.testing.assert_close(found, torch.cat([*expected, *features], -1))
    assert found.shape[-1] == 6 + 2 * 5
    with pytest.raises(ConfigError, match=r"image_kernel=0 and image_stride=1 do not go together"):
        Config.build("", {"method": "resel", "image_channels": 4, "image_kernel": 0})
    wide = {**IMAGE, "image_kernel": 4, "image_stride": 2}
    with pytest.raises(ConfigError, match=r"leave nothing of an image of 5 x 6: .* both to 0"):
        image_reader(Config.build("", {"method": "resel", **wide}), dims)


def test_auto_says_how_images_are_read() -> None:
    def chosen(space: spaces.Space[Any], method: str = "resel") -> dict[str, Any]:
        env = Cameras()
        env.observation_space = space  # type: ignore[assignment]
        found = auto_choices(get_method(method), World.of(CheckedEnv(env)), 1000)
        return {c.name: (c.value, c.reason) for c in found}

    grey = spaces.Box(0, 255, (84, 84), np.uint8)
    found = chosen(grey)
    assert found["image_channels"] == (16, "images: convolutions, for 84 x 84 x 1")
    assert found["normalize_observations"] == (False, "images, divided by 255")
    unit = spaces.Box(-1, 1, (2,), np.float32)
    for other, normalised in ((unit, False), (spaces.Box(-9, 9, (2,), np.float32), True)):
        found = chosen(spaces.Tuple((grey, other)))
        assert found["normalize_observations"][0] is normalised
        assert found["normalize_observations"][1].endswith("; images are left alone")
    small = spaces.Box(0, 255, (2, 9), np.uint8)
    words = "images: 2 x 9 x 1 is too small for convolutions"
    assert chosen(small)["image_channels"] == (0, words)
    found = chosen(spaces.Tuple((grey, small, spaces.Box(0, 1, (9, 9, 3), np.float32))))
    assert [found[f"image_{name}"][0] for name in ("channels", "kernel", "stride")] == [16, 0, 0]
    found = chosen(grey, "td7")
    assert "image_channels" not in found
    words = "observations on scales of their own; images are read as vectors"
    assert found["normalize_observations"] == (True, words)


def test_it_learns_from_pictures_within_some_hundred_steps() -> None:
    """Pixels that were not brought to [0, 1] leave it at chance, 25, after as many."""
    small: dict[str, Any] = {"n_critics": 2, "batch_steps": 200, "eval_every": 0}
    agent = RESeL(Sides, encoder="gru", seed=101, steps=400, max_episode_steps=50, **small)
    agent.learn(400)
    assert agent.evaluate(4)[0] > 45
    agent.close()
