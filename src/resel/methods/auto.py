"""Settings for environments nobody has made settings for: the preset `auto`.

It starts from the method's preset `small` and chooses by what is known beforehand: the spaces, the
longest episode and how many steps are asked for. Every choice has a reason, which is shown when a
run starts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from resel.config import SizeName
from resel.envs import AnyEnv, CheckedEnv, ImageShape, own_limit
from resel.methods.registry import Method
from resel.networks import fitting_convolutions
from resel.tasks import usual_gamma

STEPS = 50_000
"""Of a training for which nobody says how long it is to be."""
_SHORT, _LONG = 50_000, 1_000_000
"""Steps up to which rates are those of `small`, and from which on they are those of `paper`."""
_HORIZON = 200
"""Taken where episodes have no known end."""
_TRYING = "Discrete actions: a sure policy goes on trying"
_WHOLE = 100
"""Episodes up to this length are learned from as a whole, and those of an unknown one."""


@dataclass(frozen=True)
class World:
    """What an environment says of itself before the first step."""

    discrete: bool
    unit_observations: bool
    """Whether all that is no image is declared to lie within [-1, 1]."""
    horizon: int | None
    """Steps of the longest episode; None if it has no end that is known."""
    images: tuple[ImageShape, ...] = ()
    """Those that an observation is or holds."""
    only_images: bool = False
    """Whether it holds nothing else."""

    @classmethod
    def of(cls, env: AnyEnv, limit: int | None = None) -> World:
        """Of an environment, whose episodes are cut after `limit` steps if that is given.

        What runs in a process of its own does not tell its own limit.
        """
        seen, bounds = env.observation, env.observation.bounds()
        others = np.ones(seen.size, np.bool_)
        for image in seen.images:
            others[image.begin : image.begin + image.size] = False
        unit = bounds is not None and all((abs(bound[others]) <= 1).all() for bound in bounds)
        own = own_limit(env.env) if isinstance(env, CheckedEnv) else None
        return cls(env.action.discrete, unit, limit or own, seen.images, not others.any())


class Choice(NamedTuple):
    """A setting that was chosen, and why."""

    name: str
    value: Any
    reason: str


def auto_choices(method: Method, world: World, steps: int) -> list[Choice]:
    """What the preset `auto` sets, `size` among it; may hold settings that a method has not."""
    small, paper = method.preset(None, "small") or {}, method.preset(None, "paper") or {}
    return [
        Choice("steps", steps, "as asked for" if steps != STEPS else "an hour or less on a CPU"),
        *_of_length(dict(small), {**dataclasses.asdict(method.settings()), **paper}, steps),
        *_of_episodes(method, world),
        _warmup(method, steps),
        *_of_observations(method, world),
        *_of_spaces(world),
        *([] if method.learner.on_policy else _of_exploration(method, world)),
        *_of_loop(steps),
    ]


def not_overruled(choices: Sequence[Choice], settings: Mapping[str, Any]) -> list[Choice]:
    """The choices that these settings have; of a size, only layers are known there."""
    sized = [choice for choice in choices if choice.name == "size" or choice.name in settings]
    return [c for c in sized if settings.get(c.name, c.value) == c.value]


def _of_length(small: dict[str, Any], paper: dict[str, Any], steps: int) -> Iterator[Choice]:
    """Sizes and rates: large and fast for a short training, the paper's for a long one."""
    share = min(1.0, max(0.0, math.log(steps / _SHORT) / math.log(_LONG / _SHORT)))
    sizes: tuple[SizeName, ...] = ("tiny", "small", "paper")
    yield Choice("size", sizes[round(2 * share)], f"a training of {steps:,} steps")
    for name, value in small.items():
        slow = paper.get(name)
        if name in ("size", "batch_steps", "warmup_steps"):
            continue
        if (name == "tau" or name.startswith("lr_")) and isinstance(slow, float):
            rate = float(f"{value ** (1 - share) * slow**share:.2g}")
            yield Choice(name, rate, "faster than the paper's, as the training is shorter")
        else:
            yield Choice(name, value, "as for the small tasks")


def _of_episodes(method: Method, world: World) -> Iterator[Choice]:
    horizon = world.horizon or _HORIZON
    reason = f"episodes of up to {horizon:,} steps"
    if world.horizon is None:
        reason = f"taken as {reason}: they have no declared end (max_episode_steps)"
    yield Choice("gamma", usual_gamma(horizon), reason)
    whole = getattr(method.settings, "context_length", _WHOLE) is None
    if whole and world.horizon is not None and horizon > _WHOLE:
        window = min(max(64, horizon // 4), 500)
        reason = "a quarter of an episode, so that a batch holds several parts of such"
        yield Choice("context_length", window, reason)
        yield Choice("batch_steps", max(400, 4 * window), "four of these windows at least")
        return
    batch = min(max(400, 2 * horizon), 2000)
    yield Choice("batch_steps", batch, "two of the longest episodes, within 400 and 2,000")


def _warmup(method: Method, steps: int) -> Choice:
    if method.learner.on_policy:
        return Choice("warmup_steps", 0, "an on-policy method learns from its own actions alone")
    chosen = min(max(1000, steps // 50), 5000, max(1, steps // 5))
    reason = "1,000, or a fiftieth of a longer training, up to 5,000; a fifth of a shorter one"
    return Choice("warmup_steps", chosen, reason)


def _of_observations(method: Method, world: World) -> Iterator[Choice]:
    images, able = world.images, hasattr(method.network, "image_channels")
    found = [fitting_convolutions(image) for image in images if able]
    fitting = sorted({sizes for sizes in found if sizes is not None})
    shapes = " and ".join(map(str, images))
    if fitting:
        alike = len(fitting) == 1 and None not in found
        channels, kernel, stride = fitting[0] if alike else (fitting[-1].channels, 0, 0)
        reason = f"images: convolutions, for {shapes}{'' if alike else ', each by its size'}"
        yield Choice("image_channels", channels, reason)
        yield Choice("image_kernel", kernel, reason)
        yield Choice("image_stride", stride, reason)
    elif found:
        yield Choice("image_channels", 0, f"images: {shapes} is too small for convolutions")
    scales = {image.scale for image in images}
    if fitting and world.only_images:
        divided = " and ".join(f"{scale:g}" for scale in sorted(scales))
        yield Choice("normalize_observations", False, f"images, divided by {divided}")
        return
    unit = world.unit_observations and (bool(fitting) or scales <= {1.0})
    words = "observations within [-1, 1]" if unit else "observations on scales of their own"
    apart = "; images are left alone" if fitting else "; images are read as vectors"
    yield Choice("normalize_observations", not unit, words + (apart if images else ""))


def _of_spaces(world: World) -> Iterator[Choice]:
    yield Choice("normalize_rewards", True, "rewards of an unknown scale")
    if world.discrete:
        yield Choice("critic_entropy", False, _TRYING)
        yield Choice("policy_kl", "forward", _TRYING)
        yield Choice("td_lambda", 0.9, "what is far away is learned in fewer updates")


def _of_exploration(method: Method, world: World) -> Iterator[Choice]:
    """Not for those who learn from their own actions alone."""
    if world.discrete:
        if hasattr(method.settings, "lr_alpha"):  # exp(Q / alpha) needs a temperature
            yield Choice("critic_episodes", 0.5, _TRYING)
        yield Choice("deviation_episodes", 0.25, _TRYING)
        yield Choice("exploration_epsilon", 1.0, _TRYING + ", loudly in the other episodes")
    hold = min(max(1, (world.horizon or _HORIZON) // 32), 32)
    reason = "random actions that add up: held for up to a 32nd of an episode"
    yield Choice("noise_hold", hold, reason)


def _of_loop(steps: int) -> Iterator[Choice]:
    yield Choice("lr_final_scale", 0.1, "rates fall in the second half, to end with what is best")
    every = max(500, steps // 20)
    yield Choice("eval_every", every, "a twentieth of the training, 500 at least")
    yield Choice("eval_episodes", 10, "enough to see a trend")
    yield Choice("checkpoint_every", 5 * every, "every fifth evaluation")
    yield Choice("buffer_steps", min(steps, 1_000_000), "everything that is seen, up to a million")
