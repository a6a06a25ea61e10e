"""An environment as the loop sees it: encoded observations, checked numbers, clear faults."""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from resel.envs.actions import ActionSpec
from resel.envs.critic_signal import CRITIC, CriticSignal, SignalReader
from resel.envs.limits import DEFAULT_EPISODE_CAP, own_limit
from resel.envs.spaces import Encoded, ObservationSpec
from resel.envs.told import Told, check_alike, check_task, read_told
from resel.errors import (
    BadInputError,
    ConfigError,
    EnvironmentFault,
    NotAskedError,
    ReselError,
    UnsupportedSpaceError,
)

Env = gymnasium.Env[Any, Any]
EnvFactory = Callable[[], Env]

_PACKAGE = str(Path(__file__).parents[1])
_STEP_RETURNS = (
    "step must return (observation, reward, terminated, truncated, info), as Gymnasium's do"
)
_RESET_RETURNS = "reset must take seed= and return (observation, info), as Gymnasium's do"


def warn_user(message: str) -> None:
    """Warn of something at the line of the caller's own that led to it."""
    level, frame = 1, sys._getframe()
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


class StepResult(NamedTuple):
    """What one step gave."""

    observation: Encoded
    reward: float
    terminated: bool
    truncated: bool
    success: bool | None
    """What `info["success"]` said; None if it said nothing."""
    episode: int | None = None
    """Which episode of a trial of several it was, from 0 on, as `info["episode"]` said."""
    critic: NDArray[np.float32] | None = None
    """What the critic alone reads after this step; None where nothing is asked for."""


class HowMade(NamedTuple):
    """What it takes to make another environment like one."""

    make: EnvFactory
    signal: CriticSignal | None
    options: Mapping[str, Any]
    """Those of `CheckedEnv`."""


class AnyEnv(ABC):
    """What the loop needs of an environment, in whichever process it runs."""

    name: str
    """The subject of messages about it."""
    called: str
    """The same with its id or class."""
    observation: ObservationSpec
    action: ActionSpec
    horizon: int | None = None
    """Steps of the longest episode that is declared; None if none is."""
    told: Told = MappingProxyType({})
    """What the last reset told beside the observation."""
    columns: Mapping[str, int] | None = None
    """The sizes of what every reset tells; None before the first."""
    untold: str | None = None
    """What the critic is to read and the last reset did not give, in words."""
    replay: Literal["alone", "together", "never"] = "alone"
    """Whether an episode can be played again from its seed and actions: at any time, only in step
    with the other environments, or not at all."""
    how_made: HowMade | None = None
    """None where nobody has said."""

    @abstractmethod
    def reset(self, seed: int, task: int | None = None) -> Encoded:
        """Start an episode, of this task if one is asked for; the first observation."""

    @abstractmethod
    def send(self, action: NDArray[np.float32]) -> None:
        """Begin a step with an action given as it is stored; `receive` completes it."""

    @abstractmethod
    def receive(self) -> StepResult:
        """What the action last sent led to."""

    @property
    @abstractmethod
    def can_rebuild(self) -> bool:
        """Whether `rebuild` knows how."""

    @abstractmethod
    def rebuild(self) -> None:
        """Put a newly made environment in the place of one that failed."""

    @abstractmethod
    def close(self) -> None:
        """Release the simulator; may be called again."""

    @property
    def between_episodes(self) -> bool:
        """Whether it lets the next step of all pass, with which its next episode begins."""
        return False

    def abandon(self) -> None:  # noqa: B027
        """Give up the episode under way, for one that steps with others: all are begun anew."""

    def step(self, action: NDArray[np.float32]) -> StepResult:
        """Take an action given as it is stored."""
        self.send(action)
        return self.receive()

    def sample(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """A uniformly random action, as it is stored."""
        return np.atleast_1d(np.asarray(self.action.sample(rng), np.float32))

    def hear(self, told: Told, called: str) -> None:
        """Keep what a reset told, which must be like what the first one did."""
        sizes = {name: len(values) for name, values in told.items()}
        if self.columns is not None:
            check_alike(sizes, self.columns, called)
        self.told, self.columns = told, sizes


class CheckedEnv(AnyEnv):
    """One environment in this process.

    `make` is how to make it again. Episodes are truncated after `limit` steps, by default the
    environment's own limit or `DEFAULT_EPISODE_CAP`, and never get longer than `longest`. `tell`
    hears, once each, of what is odd but can be lived with. `signal` is what the critic is to read.
    """

    def __init__(
        self,
        env: Env,
        make: EnvFactory | None = None,
        *,
        name: str = "The environment",
        limit: int | None = None,
        longest: int | None = None,
        tell: Callable[[str], None] = warn_user,
        signal: CriticSignal | None = None,
    ) -> None:
        self.name, self.env = name, env
        self.called = f"{name} ({self.title})"
        space = self._space("observation_space")
        self.observation = ObservationSpec.of(space, signal.entries if signal else ())
        reads = signal is not None and not signal.unread
        self._signal = SignalReader(signal, space, self.called) if signal and reads else None
        self.action = ActionSpec.of(self._space("action_space"))
        self._make, self._tell = make, tell
        if make is not None:
            self.how_made = HowMade(make, signal, {"limit": limit, "longest": longest})
        wanted = limit or own_limit(env)
        cap = wanted or DEFAULT_EPISODE_CAP
        self._cap = cap if longest is None else min(cap, longest)
        self._cap_is_ours = self._cap != wanted
        self.horizon = self._cap if wanted else None
        self._bounds = self.observation.bounds()
        self._steps = 0
        self._action: NDArray[np.float32] | None = None
        self._closed = False

    @property
    def title(self) -> str:
        """What people call it."""
        return title(self.env)

    def reset(self, seed: int, task: int | None = None) -> Encoded:
        """Start an episode, of this task if one is asked for; the first observation."""
        self._steps = 0
        asked: dict[str, Any] = {} if task is None else {"options": {"task": task}}
        try:
            start = self.env.reset(seed=seed, **asked)
        except (Exception, SystemExit) as error:
            if isinstance(error, TypeError) and "argument 'options'" in str(error):
                raise NotAskedError(
                    f"{self.called} cannot be asked for a task: its reset must take options= and "
                    "play the task that options['task'] says."
                ) from error
            if isinstance(error, TypeError) and "argument 'seed'" in str(error):
                raise EnvironmentFault(
                    f"{self.called} cannot be seeded: {_RESET_RETURNS}."
                ) from error
            raise EnvironmentFault(
                f"{self.called} raised {type(error).__name__} in reset(seed={seed}): {error}"
            ) from error
        pair = isinstance(start, tuple | list) and len(start) == 2
        # Two numbers are an observation alone; an info that says nothing may be anything else.
        if not pair or isinstance(start[1], int | float | np.number | np.ndarray):
            given = f"{_kind(start[1])} as info" if pair else _kind(start)
            raise EnvironmentFault(
                f"{self.called} returned {given} from reset(seed={seed}): {_RESET_RETURNS}."
            )
        where = f"reset(seed={seed})"
        self._check_spaces_kept(where)
        first = self._encode(start[0], where)
        told = read_told(start[1], self.called, where)
        if self._signal is not None:
            signal = self._signal.begin(self.env, *start, where)
            told |= {} if signal is None else {CRITIC: signal}
            self.untold = self._signal.missing
        self.hear(told, self.called)
        if task is not None:
            check_task(self.told, task, self.called)
        return first

    def send(self, action: NDArray[np.float32]) -> None:
        """Keep an action for `receive`, so that several environments look alike to the loop."""
        self._action = action

    def receive(self) -> StepResult:
        """Take the step."""
        self._steps += 1
        where = f"step {self._steps} of an episode"
        native = self._native(where)
        try:
            outcome = self.env.step(native)
            if isinstance(outcome, tuple | list) and len(outcome) == 5:
                observation, reward, terminated, truncated, info = outcome
                if not isinstance(info, Mapping):
                    raise self._wrong_step(f"{_kind(info)} as info", where)
                success = bool(info["success"]) if "success" in info else None
                episode = _inner_episode(info.get("episode"))
            else:
                raise self._wrong_step(_kind(outcome), where)
        except EnvironmentFault:
            raise
        except (Exception, SystemExit) as error:
            if "values to unpack (expected 5" in str(error):  # a wrapper of Gymnasium's found out
                raise self._wrong_step("another number of values", where) from error
            raise EnvironmentFault(
                f"{self.called} raised {type(error).__name__} at {where}: {error}"
            ) from error
        value = self._reward(reward, where)
        encoded = self._encode(observation, where)
        signal = None
        if self._signal is not None:
            signal = self._signal.after_step(self.env, observation, info, where)
        if self._steps >= self._cap and not terminated:
            truncated = True
            self._tell_of_cap()
        ended = bool(terminated), bool(truncated)
        return StepResult(encoded, value, *ended, success, episode, signal)

    @property
    def can_rebuild(self) -> bool:
        """Only where the way to make one is known."""
        return self._make is not None

    def rebuild(self) -> None:
        """Close what is left and make the environment anew."""
        if self._make is None:
            raise ConfigError(f"{self.name} cannot be made anew: give a function that makes it.")
        with contextlib.suppress(Exception):  # it has failed already
            self.env.close()
        self.env = build(self._make, self.name)
        check_rebuilt(self, self.env.observation_space, self.env.action_space)

    def close(self) -> None:
        """Release the simulator; may be called again."""
        if not self._closed:
            self._closed = True
            self.env.close()

    def _space(self, name: str) -> Any:
        space = getattr(self.env, name, None)
        if space is None:
            raise UnsupportedSpaceError(
                f"{self.called} has no {name}: set self.{name} in its __init__, to a "
                "gymnasium.spaces.Box for instance."
            )
        return space

    def _check_spaces_kept(self, where: str) -> None:
        """Refuse spaces that are not those the agent was made for."""
        specs: dict[str, ObservationSpec | ActionSpec] = {
            "observation_space": self.observation,
            "action_space": self.action,
        }
        for name, spec in specs.items():
            space = self._space(name)
            if space is not spec.space and spec.like(space).to_json() != spec.to_json():
                raise EnvironmentFault(
                    f"{self.called} changed its {name} at {where}, from {spec.space} to {space}: "
                    "the spaces of an environment must stay as they were when it was made."
                )

    def _wrong_step(self, returned: str, where: str) -> EnvironmentFault:
        return EnvironmentFault(f"{self.called} returned {returned} at {where}: {_STEP_RETURNS}.")

    def _native(self, where: str) -> Any:
        action = self._action
        if action is None:
            raise BadInputError(f"{self.name} was given no action for {where}.")
        try:
            return self.action.to_env(int(action[0]) if self.action.discrete else action)
        except (ValueError, OverflowError) as error:  # int() raises them for NaN and inf
            raise BadInputError(f"The action for {where} cannot be taken: {error}") from error

    def _reward(self, reward: Any, where: str) -> float:
        try:
            value = float(reward)
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(
                f"{self.called}: the reward at {where} is {reward!r}, not a number."
            ) from error
        if not abs(value) <= _LARGEST:  # written so that NaN counts as too large
            what = "beyond what float32 holds" if math.isfinite(value) else "it must be finite"
            raise EnvironmentFault(f"{self.called}: the reward at {where} is {value}: {what}.")
        return value

    def _encode(self, observation: Any, where: str) -> Encoded:
        try:
            encoded = self.observation.encode(observation)
        except BadInputError as error:
            raise EnvironmentFault(f"{self.called}: observation at {where}: {error}") from error
        if self._bounds is not None:
            low, high = self._bounds
            numbers = self.observation.numbers(encoded)
            outside = (numbers < low) | (numbers > high)
            if outside.any():
                i = int(np.argmax(outside))
                self._bounds = None
                self._tell(
                    f"{self.called}: the observation at {where} has {numbers[i]:g} as number {i}, "
                    f"outside the [{low[i]:g}, {high[i]:g}] its space declares. It is used as "
                    "it is; further cases are not reported."
                )
        return encoded

    def _tell_of_cap(self) -> None:
        if self._cap_is_ours:
            self._cap_is_ours = False
            self._tell(
                f"{self.called}: an episode was cut (as truncation) after {self._cap} steps, the "
                "most allowed where no limit is set. max_episode_steps sets another, up to "
                "buffer_steps; further cases are not reported."
            )


_LARGEST = float(np.finfo(np.float32).max)


def title(env: Env) -> str:
    """What people call an environment: its id, or the class it is of."""
    spec = getattr(env, "spec", None)
    return type(env.unwrapped).__name__ if spec is None else str(spec.id)


def _inner_episode(told: Any) -> int | None:
    """The number of an episode within a trial; others tell other things by that name."""
    counts = isinstance(told, int | np.integer) and not isinstance(told, bool) and told >= 0
    return int(told) if counts else None


def _kind(value: Any) -> str:
    """What was returned instead of a tuple of the right length."""
    if isinstance(value, tuple | list):
        return f"{len(value)} values"
    return f"one value of type {type(value).__name__}"


def build(make: EnvFactory, name: str) -> Env:
    """Make an environment, telling apart what cannot be made from what is no environment."""
    try:
        env = make()
    except ReselError:
        raise
    except (Exception, SystemExit) as error:
        raise EnvironmentFault(
            f"{name} could not be made: {type(error).__name__}: {error}"
        ) from error
    several = isinstance(env, gymnasium.vector.VectorEnv)  # EnvPool's are both
    if several or not isinstance(env, gymnasium.Env):
        hint = " Make a single one; num_envs= says how many." if several else ""
        raise ConfigError(f"The function given as env returned {env!r}, not an environment.{hint}")
    return env


def check_rebuilt(env: AnyEnv, observation: Any, action: Any) -> None:
    """Refuse a new environment with other spaces than the one it takes the place of."""
    before = (env.observation.to_json(), env.action.to_json())
    now = (env.observation.like(observation).to_json(), env.action.like(action).to_json())
    if before != now:
        raise EnvironmentFault(f"{env.name} came back with other spaces: {now}, before {before}.")


def check_spaces(env: AnyEnv, wanted: Any, name: str) -> None:
    """Refuse an environment other than an agent with the spaces `wanted` can act in."""
    found = spaces_of(env)
    if found != wanted:
        raise UnsupportedSpaceError(
            f"The agent was trained on spaces {wanted}, but {name} has {found}: use an environment "
            "with the same spaces."
        )


def spaces_of(env: AnyEnv) -> dict[str, Any]:
    """The spaces of an environment as JSON data."""
    return {"observation": env.observation.to_json(), "action": env.action.to_json()}
