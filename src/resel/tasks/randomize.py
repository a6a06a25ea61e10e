"""Randomised dynamics: a field of a simulator scaled anew for every episode, unseen."""

from __future__ import annotations

import importlib
from numbers import Real
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from resel.errors import ConfigError
from resel.tasks.simulators import mujoco_env, pendulum_env
from resel.tasks.splits import TaskSplit, check_task_seed, tell_task
from resel.tasks.strict import Sealed

_SCALED_ALONG = {"body_mass": "body_inertia"}
"""Denser bodies are harder to turn as well."""
_WIDEST = float(np.log(1000.0))
"""How far a field is scaled at most, in logarithms: beyond that simulators compute nothing."""


class RandomizeField(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Scales one field of the model by 1.5^a, with a drawn from U[-limit, limit] for each task.

    `field` is `gravity` or any array of floats of a MuJoCo model, such as `body_mass`,
    `geom_friction` or `dof_damping`; `per_entry` draws a factor for each of its entries. Without
    a MuJoCo model it is `gravity`, where the environment has a number of that name or `g`. All
    `tasks` are fixed by `task_seed`: the first `train_tasks` are for training, the rest held
    out. An episode plays a random one of its `split`, or the one that `options={"task": 3}`
    asks for. The value stands in `info[field]`, its place in the range in `info["hidden"]` and
    the task in `info["task"]`, never in the observation. Several wrappers randomise several
    fields: `hidden` is then theirs side by side, the inner ones' first, and `task` counts the
    combinations.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        field: str = "gravity",
        *,
        split: str = "train",
        tasks: int = 60,
        train_tasks: int = 40,
        limit: float = 3.0,
        base: float = 1.5,
        per_entry: bool = False,
        task_seed: int = 1,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            field=field,
            split=split,
            tasks=tasks,
            train_tasks=train_tasks,
            limit=limit,
            base=base,
            per_entry=per_entry,
            task_seed=task_seed,
        )
        gymnasium.Wrapper.__init__(self, env)
        if not all(isinstance(value, Real) and np.isfinite(value) for value in (limit, base)):
            raise ConfigError(f"limit={limit!r} and base={base!r} must be numbers.")
        check_task_seed(task_seed)
        if not (limit >= 0 and base > 0 and abs(limit * np.log(base)) <= _WIDEST):
            raise ConfigError(
                f"limit={limit!r} with base={base!r} cannot work: the limit must be at least 0, "
                f"the base above 0, and base^limit within a factor of {np.exp(_WIDEST):.0f}."
            )
        self.field = field
        self.split = TaskSplit(tasks, train_tasks, split)
        nominal = _read(env, field)
        self._nominal = {field: nominal}
        if field in _SCALED_ALONG:
            self._nominal[_SCALED_ALONG[field]] = _read(env, _SCALED_ALONG[field])
        rng = np.random.default_rng(task_seed)
        exponents = rng.uniform(-limit, limit, (tasks, nominal.size if per_entry else 1))
        self.scales: NDArray[np.float64] = base**exponents  # (tasks, entries or 1)
        # One factor shows in any entry that is not 0.
        self._entries = range(nominal.size) if per_entry else [int(np.abs(nominal).argmax())]
        ends = nominal.reshape(-1)[self._entries] * base ** np.array([[-limit], [limit]])
        self._range = ends.min(0), ends.max(0)  # (entries or 1,) each
        self._combined = _is_randomized(env)
        self._task = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode of another task."""
        if seed is not None:
            # Seeds the generator that the task is drawn from; the second reset goes on with it.
            self.env.reset(seed=seed, options=options)
        self._task = self.split.draw(self.np_random, seed, options)
        self._write(self.scales[self._task])
        observation, info = self.env.reset(options=options)
        return observation, self._tell(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """A step of the environment, with the field's value added to its info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self._tell(info)

    def _write(self, scale: NDArray[np.float64]) -> None:
        for name, nominal in self._nominal.items():
            if scale.size == nominal.size:
                factors = scale.reshape(nominal.shape)
            else:  # one factor for all, or one for each row
                factors = scale.reshape(-1, *[1] * (nominal.ndim - 1))
            _assign(self.env, name, nominal * factors)
        if self.field != "gravity":
            # What MuJoCo derives from masses and the like; the reset that follows clears `data`.
            simulator: Any = self.env.unwrapped
            importlib.import_module("mujoco").mj_setConst(simulator.model, simulator.data)

    def _tell(self, info: dict[str, Any]) -> dict[str, Any]:
        value = _read(self.env, self.field)
        told = tell_task(self._task, value.reshape(-1)[self._entries], *self._range)
        if self._combined:
            told["task"] += info["task"] * self.split.total
            told["hidden"] = np.concatenate([info["hidden"], told["hidden"]])
        return {**info, self.field: value, **told}


def _is_randomized(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether another wrapper of this kind is inside."""
    while isinstance(env, gymnasium.Wrapper) and not isinstance(env, RandomizeField):
        env = env.env
    return isinstance(env, RandomizeField)


def _read(env: gymnasium.Env[Any, Any], field: str) -> NDArray[np.float64]:
    """The field's value, as an array of at least one entry."""
    number = _number_of(env, field)
    if number is not None:
        return np.array([getattr(env.unwrapped, number)], np.float64)
    return _array(env, field).copy()


def _assign(env: gymnasium.Env[Any, Any], field: str, value: NDArray[np.float64]) -> None:
    number = _number_of(env, field)
    if number is not None:
        setattr(env.unwrapped, number, float(value[0]))
    else:
        _array(env, field)[:] = value


def _number_of(env: gymnasium.Env[Any, Any], field: str) -> str | None:
    """The attribute that holds the field as one number, in an environment without a model."""
    if field != "gravity" or hasattr(env.unwrapped, "model"):
        return None
    held = ((name, getattr(env.unwrapped, name, None)) for name in ("gravity", "g"))
    return next((name for name, value in held if isinstance(value, int | float)), None)


def _array(env: gymnasium.Env[Any, Any], field: str) -> NDArray[np.float64]:
    """A view into the simulator's own memory."""
    model = getattr(env.unwrapped, "model", None)
    if model is None or not hasattr(model, "opt"):
        raise ConfigError(
            f"{env.unwrapped} has no MuJoCo model: only Gymnasium's MuJoCo environments and "
            "others with `model` and `data` can be randomised, and the gravity of those that have "
            "it as a number."
        )
    value = model.opt.gravity if field == "gravity" else getattr(model, field, None)
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        raise ConfigError(
            f"field={field!r} is not an array of numbers of the MuJoCo model: use gravity, "
            "body_mass, geom_friction, dof_damping or another one."
        )
    return value


def gravity_env(
    robot: str,
    split: str = "train",
    tasks: int = 60,
    train_tasks: int = 40,
    limit: float = 3.0,
    task_seed: int = 1,
    render_mode: str | None = None,
) -> gymnasium.Env[Any, Any]:
    """The entry point of the gravity tasks, those of MuJoCo's robots and of the pendulum."""
    return Sealed(
        RandomizeField(
            pendulum_env(render_mode) if robot == "Pendulum" else mujoco_env(robot, render_mode),
            "gravity",
            split=split,
            tasks=tasks,
            train_tasks=train_tasks,
            limit=limit,
            task_seed=task_seed,
        )
    )
