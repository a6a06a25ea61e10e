"""Toy worlds whose every number is known beforehand, and the smallest networks that learn."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from resel.config import Config
from resel.envs import CheckedEnv
from resel.training import Trainer

pytest_plugins = ["ray_environment", "reliability_report"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script, which would hand this down to the processes of tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Set by pytest-xdist for its own output: what the command prints is piped here, and not broken.
os.environ.pop("COLUMNS", None)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is read from, or left in, the user's cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESEL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty folder to work in, and torch's threads as they were afterwards."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns."""
    monkeypatch.setenv("COLUMNS", "80")


_TINY: dict[str, Any] = {
    "encoder": "gru",
    "width": 8,
    "embedding": 4,
    "head_width": 8,
    "n_critics": 2,
    "subset_size": 2,
    "batch_steps": 30,
    "warmup_steps": 30,
    "buffer_steps": 1000,
    "lr_context_encoder": 1e-3,
    "eval_every": 0,
    "eval_episodes": 2,
    "checkpoint_every": 0,
    "checkpoint_minutes": 0.0,
    "log_every": 10,
    "device": "cpu",
}


class Toy(gymnasium.Env[Any, Any]):
    """Observation: [a number drawn by reset, the time, the last action]; it drifts with actions.

    Episodes last `length` steps and up to `spread` more, as drawn by reset. One that `tells` has
    the latter as its task and hidden parameter.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        length: int = 4,
        spread: int = 3,
        discrete: bool = False,
        terminates: bool = True,
        tells: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.tells = tells
        self.length, self.spread, self.terminates = length, spread, terminates
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space: spaces.Space[Any] = (
            spaces.Discrete(3, start=1)
            if discrete
            else spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
        )
        self.seeds: list[int | None] = []
        self.taken: list[Any] = []
        self.closed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.value = float(self.np_random.uniform(-1, 1))
        self.ends_at = self.length + int(self.np_random.integers(self.spread + 1))
        self.time = 0
        task = self.ends_at - self.length
        return self._observation(0.0), {"task": task, "hidden": task / 4} if self.tells else {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.time < self.ends_at, "stepped after the end of the episode"
        assert action in self.action_space
        self.taken.append(action)
        moved = float(np.sum(action))
        self.time += 1
        self.value += 0.1 * moved
        ended = self.time == self.ends_at
        reward = self.value + 0.5 * moved
        return (
            self._observation(moved),
            reward,
            ended and self.terminates,
            ended and not self.terminates,
            {"success": self.value > 0},
        )

    def _observation(self, moved: float) -> Any:
        return np.array([self.value, self.time, moved], np.float32)

    def render(self) -> Any:
        return np.full((8, 8, 3), 20 * self.time, np.uint8)

    def close(self) -> None:
        self.closed = True


gymnasium.register("toy/Box-v0", Toy, max_episode_steps=100)
gymnasium.register("toy/Discrete-v0", Toy, max_episode_steps=100, kwargs={"discrete": True})


@pytest.fixture(scope="session")
def toy() -> type[Toy]:
    """The class of the toy worlds; registered as toy/Box-v0 and toy/Discrete-v0."""
    return Toy


@pytest.fixture(scope="session")
def tiny() -> dict[str, Any]:
    """Settings of a network that learns within milliseconds."""
    return dict(_TINY)


@pytest.fixture(scope="session")
def tiny_flags() -> list[str]:
    """The same as flags of `resel train`."""
    own = Config.build("", _TINY).flat()  # flags of other encoders are refused
    given = [(name, value) for name, value in _TINY.items() if name in own]
    return [word for name, value in given for word in (_flag(name), str(value))]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@pytest.fixture(scope="session")
def make_trainer() -> Callable[..., Trainer]:
    """A trainer on fresh toy worlds."""

    def make(world: dict[str, Any] | None = None, **settings: Any) -> Trainer:
        config = Config.build("", _TINY, settings)
        envs = [CheckedEnv(Toy(**(world or {}))) for _ in range(config.training.num_envs)]
        return Trainer(config, envs, CheckedEnv(Toy(**(world or {}))))

    return make


@pytest.fixture(scope="session")
def everything() -> Callable[[Trainer], dict[str, Any]]:
    """All that a trainer's future depends on, in a form that can be compared."""

    def collect(trainer: Trainer) -> dict[str, Any]:
        tensors, documents = trainer.checkpoint()
        found: dict[str, Any] = {
            f"{group}/{name}": (tuple(tensor.shape), tensor.numpy().tobytes())
            for group, part in tensors.items()
            for name, tensor in part.items()
        }
        found["episodes"] = [
            [block.tobytes() for block in trainer.buffer.blocks(piece)] for piece in trainer.buffer
        ]
        documents = json.loads(json.dumps(documents))
        del documents["clock"]
        return found | documents

    return collect
