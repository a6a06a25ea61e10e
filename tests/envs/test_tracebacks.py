"""Where in its own code an environment raised."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from resel.envs import CheckedEnv, SubprocEnv, own_traceback
from resel.errors import EnvironmentFault


def _worst(values: dict[str, float]) -> float:
    return values["speed"]


class World(gymnasium.Env[Any, Any]):
    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), _worst({}), False, False, {}


def make() -> Any:
    """At the top of the module, so that it can be sent to another process."""
    return gymnasium.wrappers.TimeLimit(World(), 10)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_lines_of_its_own(elsewhere: bool) -> None:
    env = SubprocEnv(make, 60).ready() if elsewhere else CheckedEnv(make())
    assert env.horizon == 10
    try:
        env.reset(1)
        with pytest.raises(EnvironmentFault) as raised:
            env.step(np.zeros(1, np.float32))
    finally:
        env.close()
    shown = own_traceback(raised.value)
    assert shown.startswith("Traceback of the environment:\n")
    assert shown.endswith("KeyError: 'speed'\n")
    assert shown.count("  File ") == 2 and shown.count(__file__) == 2  # no wrapper, none of ours
    assert 'return values["speed"]' in shown


def test_an_environment_that_raised_nothing(toy: Any) -> None:
    env = CheckedEnv(toy())
    env.env.reset = lambda **how: np.zeros(3)  # type: ignore[method-assign]
    with pytest.raises(EnvironmentFault) as raised:
        env.reset(1)
    assert own_traceback(raised.value) == ""
