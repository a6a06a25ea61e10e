"""Films are what the policy did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image

from resel.envs import CheckedEnv
from resel.errors import (
    ConfigError,
    EnvironmentFault,
    MissingDependencyError,
    NoPicturesError,
)
from resel.training import Trainer, evaluate, evaluation_seeds
from resel.training.video import check_film_path, film


def test_a_gif_shows_every_step(make_trainer: Callable[..., Trainer], toy: Any, tmp_path: Path):
    actor = make_trainer().actor
    seeds = evaluation_seeds(1, 2)
    env = CheckedEnv(toy(render_mode="rgb_array"))
    result = film(actor, env, seeds, tmp_path / "new" / "a.gif")
    assert result == evaluate(actor, CheckedEnv(toy()), seeds)
    with Image.open(tmp_path / "new" / "a.gif") as picture:
        assert picture.n_frames == sum(result.lengths) + len(seeds)
        assert picture.info["duration"] == 100  # 10 frames a second, as the environment says
        picture.seek(2)
        assert np.asarray(picture.convert("RGB")).tolist() == [[[40] * 3] * 8] * 8


def test_a_world_without_pictures(make_trainer: Callable[..., Trainer], toy: Any, tmp_path: Path):
    class Blind(toy):  # type: ignore[misc]
        def render(self) -> None:
            return None

    class Silent(toy):  # type: ignore[misc]
        render = gymnasium.Env.render

    class Broken(toy):  # type: ignore[misc]
        def render(self) -> None:
            raise LookupError("no such camera")

    for world, told in ((Blind, "its render.. returned NoneType"), (Silent, "it has no render")):
        with pytest.raises(NoPicturesError, match=told):
            film(make_trainer().actor, CheckedEnv(world()), [1], tmp_path / "a.gif")
    with pytest.raises(EnvironmentFault, match=r"raised LookupError in render\(\): no such camera"):
        film(make_trainer().actor, CheckedEnv(Broken()), [1], tmp_path / "a.gif")
    assert not (tmp_path / "a.gif").exists()


def test_endings(monkeypatch: pytest.MonkeyPatch) -> None:
    check_film_path(Path("a.gif"))
    for name in ("a.avi", "a", "gif"):
        with pytest.raises(ConfigError, match=r"\.gif or \.mp4"):
            check_film_path(Path(name))
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingDependencyError, match=r"resel\[video\]"):
        check_film_path(Path("a.mp4"))


def test_mp4(make_trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    from resel.tasks import TMazeEnv

    class Maze(TMazeEnv):
        def __init__(self) -> None:
            super().__init__(length=3, render_mode="rgb_array")

    trainer = make_trainer({"discrete": True})
    env = CheckedEnv(Maze())
    trainer = Trainer(trainer.config, [CheckedEnv(Maze())])
    film(trainer.actor, env, [1], tmp_path / "a.mp4")
    frames, seconds = ffmpeg.count_frames_and_secs(str(tmp_path / "a.mp4"))
    assert frames == 5 and seconds > 0
