"""How an environment is made in another process: the function that makes it, in bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from resel.envs.checked import CheckedEnv, HowMade, build
from resel.errors import ConfigError, EnvironmentFault


class Recipe(NamedTuple):
    """What another process needs to make an environment."""

    name: str
    pickled: bytes
    options: Mapping[str, Any]
    """Those of `CheckedEnv`."""

    @classmethod
    def of(cls, name: str, how: HowMade, setting: str) -> Recipe:
        """Refuses what cannot be sent to another process, which a `setting` asks for."""
        try:
            read = pickle.dumps(how.signal)
        except Exception as error:
            raise ConfigError(
                f"{setting}=True sends the function given as critic_observations to other "
                f"processes, and this one cannot be sent ({error}). Define it with `def` at the "
                f"top of a module, or leave {setting} off."
            ) from error
        try:
            return cls(name, pickle.dumps((how.make, read)), how.options)
        except Exception as error:
            raise ConfigError(
                f"{setting}=True sends the function that makes the environment to other processes, "
                f"and this one cannot be sent ({error}). Define it with `def` at the top of a "
                f"module, without a lambda or an environment inside, or leave {setting} off."
            ) from error

    def make(self, tell: Callable[[str], None]) -> CheckedEnv:
        """The environment; `tell` hears of what is odd in it."""
        try:
            make, read = pickle.loads(self.pickled)
        except Exception as error:
            raise EnvironmentFault(
                f"{self.name} cannot be made in a process of its own, where the function that "
                f"makes it is not found ({type(error).__name__}: {error}). Define it in a module "
                "that can be imported."
            ) from error
        try:
            signal = pickle.loads(read)
        except Exception as error:
            raise EnvironmentFault(
                f"{self.name}: the function given as critic_observations is not found in a "
                f"process of its own ({type(error).__name__}: {error}). Define it in a module that "
                "can be imported."
            ) from error
        env = build(make, self.name)
        return CheckedEnv(env, make, name=self.name, tell=tell, signal=signal, **self.options)
