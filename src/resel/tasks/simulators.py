"""Robots of PyBullet and MuJoCo as the paper's tasks use them, imported only when made."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium
from numpy.typing import NDArray

from resel.errors import MissingDependencyError
from resel.tasks.masking import KeepIndices
from resel.tasks.spec import Needs
from resel.tasks.strict import Sealed, check_render_mode

PYBULLET = Needs(extra="pybullet", module="pybullet_envs_gymnasium")
MUJOCO = Needs(extra="mujoco", module="mujoco")

_MUJOCO_MODULES = {
    "Ant": "ant_v4",
    "HalfCheetah": "half_cheetah_v4",
    "Hopper": "hopper_v4",
    "Humanoid": "humanoid_v4",
    "Walker2d": "walker2d_v4",
}
_CONTACT_FORCES = 84
"""The last entries of a Humanoid observation: 6 numbers for each of 14 bodies."""


def bullet_env(robot: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """A walking robot of PyBullet, for example `Hopper`, exact from its first episode on."""
    module = load("pybullet_envs_gymnasium.gym_locomotion_envs", PYBULLET)
    make = getattr(module, f"{robot}BulletEnv")
    check_render_mode(make, render_mode)
    env: Any = make(render_mode=render_mode)
    if render_mode != "human":
        _connect(env)
        # It moves the camera of a window there is none of, and always asks the first simulation,
        # which may be another's and gone. Pictures are taken with a camera of their own.
        env.camera_adjust = _nothing
    # The first episode after loading differs from all later ones with the same seed.
    env.reset(seed=0)
    env.seed(None)
    return env  # type: ignore[no-any-return]


def masked_bullet(
    robot: str, keep: Sequence[int], render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """The entry point of the classic POMDP tasks: a robot of PyBullet with `keep` seen."""
    return Sealed(KeepIndices(bullet_env(robot, render_mode), keep))


def mujoco_env(robot: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """A robot of Gymnasium's MuJoCo environments, version 4, with what version 2 observed."""
    if render_mode == "rgb_array" and sys.platform == "linux" and "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")  # the default needs a screen
    mujoco = load("mujoco", MUJOCO)
    # The class itself, because `gymnasium.make` warns that there is a version 5.
    module = importlib.import_module(f"gymnasium.envs.mujoco.{_MUJOCO_MODULES[robot]}")
    make = getattr(module, f"{robot}Env")
    check_render_mode(make, render_mode)
    # Without a handler, a remark on the robot's own model goes to the screen and a file.
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        env: gymnasium.Env[Any, Any] = make(render_mode=render_mode)
    finally:
        mujoco.set_mju_user_warning(handler)
    return WithoutContactForces(env) if robot == "Humanoid" else env


def pendulum_env(render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Gymnasium's pendulum without its time limit."""
    return gymnasium.make("Pendulum-v1", render_mode=render_mode).unwrapped


def bare_mujoco(robot: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """The entry point of the MDP tasks."""
    return Sealed(mujoco_env(robot, render_mode))


class WithoutContactForces(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Humanoid with zeros for the contact forces, which version 2 never computed."""

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """A copy with the last entries zeroed."""
        seen = observation.copy()
        seen[-_CONTACT_FORCES:] = 0.0
        return seen


def _connect(env: Any) -> None:
    """Give the environment a simulation of its own.

    Left alone it would join a server in shared memory if one runs, and print on connecting.
    """
    pybullet = importlib.import_module("pybullet")
    clients = importlib.import_module("pybullet_utils.bullet_client")
    client = clients.BulletClient.__new__(clients.BulletClient)
    client._shapes, client._pid = {}, os.getpid()
    client._client = pybullet.connect(pybullet.DIRECT)
    client.resetSimulation()
    client.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
    env._p, env.physicsClientId, env.ownsPhysicsClient = client, client._client, True


def _nothing() -> None:
    pass


def load(module: str, needs: Needs) -> Any:
    """A module of an optional package; the error names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{module.partition('.')[0]!r} cannot be imported: {error}. "
            f"Install it with: pip install 'resel[{needs.extra}]'"
        ) from error
