"""A film of a policy: frames of an environment written as gif or mp4."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray
from PIL import Image

from resel.config import Config
from resel.envs import CheckedEnv
from resel.errors import (
    ConfigError,
    EnvironmentFault,
    MissingDependencyError,
    NoPicturesError,
)
from resel.training.actor import Actor
from resel.training.env_factory import make_task
from resel.training.evaluation import Evaluation, evaluate

DRAWINGS = (".png", ".svg", ".pdf")
"""Endings of pictures that are no films."""
_DEFAULT_FPS = 30
_LONGEST_GIF_FPS = 50  # viewers slow down gifs with shorter frames


def check_film_path(path: Path) -> None:
    """Refuse what cannot be written before anything is played."""
    if path.suffix not in (".gif", ".mp4"):
        raise ConfigError(
            f"{path.name!r} has an unknown ending: write to a .gif or .mp4 file, or observations "
            f"and actions over time to a {', '.join(DRAWINGS)} file."
        )
    if path.suffix == ".mp4":
        try:
            import imageio_ffmpeg  # noqa: F401
        except ImportError as error:
            raise MissingDependencyError(
                "Writing mp4 needs an encoder: pip install 'resel[video]', or choose a .gif file."
            ) from error


def can_be_filmed(config: Config) -> bool:
    """Whether the task of a config draws pictures, as far as that is known without drawing any."""
    try:
        with warnings.catch_warnings(action="ignore"):
            env = make_task(config, evaluation=True, render_mode="rgb_array")
        modes = env.metadata.get("render_modes")
        drawn = type(env.unwrapped).render is not gymnasium.Env.render
        env.close()
    except Exception:  # an environment may raise anything, and was only asked
        return False
    return drawn and (not modes or "rgb_array" in modes)


def film(
    actor: Actor, env: CheckedEnv, seeds: list[int], path: Path, side: int | None = None
) -> Evaluation:
    """Play episodes in an environment made with render_mode='rgb_array' and write them.

    `side` bounds the height and width of the pictures.
    """
    frames: list[NDArray[np.uint8]] = []

    def keep() -> None:
        frame = _rendered(env)
        if not isinstance(frame, np.ndarray):
            raise NoPicturesError(
                f"{env.called} draws no pictures: its render() returned "
                f"{type(frame).__name__}, with render_mode='rgb_array' it must be an array."
            )
        frames.append(_within(side, frame.astype(np.uint8, copy=False)))

    result = evaluate(actor, env, seeds, on_step=keep)
    fps = int(env.env.metadata.get("render_fps") or _DEFAULT_FPS)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        _write_gif(path, frames, fps)
    else:
        _write_mp4(path, frames, fps)
    return result


def _within(side: int | None, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture, made smaller if a side of it is longer."""
    if side is None or max(frame.shape[:2]) <= side:
        return frame
    picture = Image.fromarray(frame)
    picture.thumbnail((side, side))
    return np.asarray(picture)


def _rendered(env: CheckedEnv) -> Any:
    try:
        return env.env.render()
    except DependencyNotInstalled as error:
        raise MissingDependencyError(f"{env.called} cannot be drawn: {error}") from error
    except NotImplementedError as error:
        raise NoPicturesError(f"{env.called} draws no pictures: it has no render().") from error
    except Exception as error:
        raise EnvironmentFault(
            f"{env.called} raised {type(error).__name__} in render(): {error}"
        ) from error


def _write_gif(path: Path, frames: list[NDArray[np.uint8]], fps: int) -> None:
    skip = -(-fps // _LONGEST_GIF_FPS)
    pictures = [Image.fromarray(frame).quantize(64) for frame in frames[::skip]]
    pictures[0].save(
        path,
        save_all=True,
        append_images=pictures[1:],
        duration=round(1000 * skip / fps),
        loop=0,
        optimize=True,
    )


def _write_mp4(path: Path, frames: list[NDArray[np.uint8]], fps: int) -> None:
    import imageio_ffmpeg

    height, width = frames[0].shape[:2]
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=fps, macro_block_size=1)
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame[..., :3]))
    writer.close()
