"""What the critic reads at every step and the policy never does: the setting critic_observations.

    hidden, info:hidden     an entry of `info`, of every reset and every step
    obs:velocity            an entry of a Dict observation, which the policy then does not see
    a function              of the environment, called after every reset and every step

An environment that gives none of it at its first reset can be acted in, but not learned from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.envs.spaces import ObservationSpec
from resel.envs.told import finite_numbers
from resel.errors import BadInputError, ConfigError, EnvironmentFault

CRITIC = "critic"
"""The column that holds the signal."""
OF_TASK, OF_FUNCTION = "task", "function"
"""Words that stand for what a task of ours names, and for a function that only Python can give."""
_Parts = dict[str, NDArray[np.float32]] | str
"""Flat numbers by name, or what is not there."""
_INFO, _ENTRY = "info", "obs"
_HOW = (
    "write entries of info as in hidden, entries of a Dict observation as in obs:velocity, and "
    "commas between several"
)


class _Source(NamedTuple):
    """One entry, and where it is looked for."""

    place: str
    key: str

    def __str__(self) -> str:
        return f"{'info' if self.place == _INFO else 'observation'}[{self.key!r}]"


@dataclass(frozen=True)
class CriticSignal:
    """Where the signal comes from: entries, side by side in this order, or a function."""

    sources: tuple[_Source, ...] = ()
    function: Callable[[Any], Any] | None = None
    unread: bool = False
    """Whether it is only kept from the policy: where one is measured, nobody needs it."""

    @classmethod
    def of(cls, text: str) -> Self:
        """From how it is written in a setting."""
        found = [_source(word.strip(), text) for word in text.split(",")]
        if twice := next((str(source) for source in found if found.count(source) > 1), None):
            raise ConfigError(f"critic_observations={text} names {twice} twice: name it once.")
        return cls(tuple(found))

    def to_evaluate(self) -> Self:
        """The same for an environment that nothing is learned from."""
        return dataclasses.replace(self, unread=True)

    @property
    def entries(self) -> tuple[str, ...]:
        """The entries of a Dict observation that the policy does not see."""
        return tuple(source.key for source in self.sources if source.place == _ENTRY)


def _source(word: str, text: str) -> _Source:
    place, colon, key = word.partition(":")
    source = _Source(place, key) if colon else _Source(_INFO, word)
    if not source.key or source.place not in (_INFO, _ENTRY):
        raise ConfigError(f"critic_observations={text} has no meaning at {word!r}: {_HOW}.")
    if word in (OF_TASK, OF_FUNCTION):
        raise ConfigError(
            f"critic_observations={text}: the word {word} stands alone; an entry of info with that "
            f"name is info:{word}."
        )
    return source


class SignalReader:
    """Reads the signal of one environment, which must stay as its first reset has it."""

    def __init__(self, signal: CriticSignal, space: Any, called: str) -> None:
        self._signal, self._called = signal, called
        inside = space.spaces if isinstance(space, spaces.Dict) else {}
        self._entries = {
            key: ObservationSpec.of(inside[key]) for key in signal.entries if key in inside
        }
        self._sizes: dict[str, int] | None = None
        """Of the parts at the first reset that gave all of them."""
        self.missing: str | None = None
        """What the last reset did not give, in words."""

    def begin(
        self, env: Any, observation: Any, info: Any, where: str
    ) -> NDArray[np.float32] | None:
        """The signal at a reset, refused unless it is like that of the first; None if a part of it
        was never there, which `missing` names."""
        parts = self._parts(env, observation, info, where)
        if self._sizes is not None:
            return self._joined(parts, self._sizes, where)
        if isinstance(parts, str):
            self.missing = parts
            return None
        self.missing, self._sizes = None, {name: len(part) for name, part in parts.items()}
        return self._joined(parts, self._sizes, where)

    def after_step(
        self, env: Any, observation: Any, info: Any, where: str
    ) -> NDArray[np.float32] | None:
        """The signal at a step, refused unless it is like that of the first reset; None if that
        had none."""
        if self._sizes is None:
            return None
        return self._joined(self._parts(env, observation, info, where), self._sizes, where)

    def _joined(self, parts: _Parts, sizes: Mapping[str, int], where: str) -> NDArray[np.float32]:
        """All parts side by side, which must have these sizes."""
        subject = f"{self._called}: critic_observations at {where}"
        if isinstance(parts, str):
            raise EnvironmentFault(
                f"{subject}: {parts}, and the first reset had it. Give it at every reset and every "
                "step, the last one included."
            )
        for name, part in parts.items():
            if len(part) != sizes[name]:
                raise EnvironmentFault(
                    f"{subject}: {name} has {len(part)} numbers, but {sizes[name]} at the first "
                    "reset. Give as many every time."
                )
        return np.concatenate(list(parts.values()))

    def _parts(self, env: Any, observation: Any, info: Any, where: str) -> _Parts:
        """Flat numbers by name, or what is not there."""
        subject = f"{self._called}: critic_observations at {where}"
        advice = "the critic reads finite numbers, as many at every step"
        if self._signal.function is not None:
            value = self._called_function(self._signal.function, env, where)
            name = "what the function returned"
            return {name: finite_numbers(value, f"{subject}: {name}", advice)}
        found: dict[str, NDArray[np.float32]] = {}
        for source in self._signal.sources:
            given = info if source.place == _INFO else observation
            if not isinstance(given, Mapping) or source.key not in given:
                there = ", ".join(map(str, given)) if isinstance(given, Mapping) else "no dict"
                return f"there is no {source} (there is: {there or 'nothing'})"
            name = str(source)
            if source.place == _ENTRY and source.key in self._entries:
                entry = self._entries[source.key]
                try:
                    found[name] = entry.numbers(entry.encode(given[source.key]))
                except BadInputError as error:
                    raise EnvironmentFault(f"{subject}: {name}: {error}") from error
            else:
                found[name] = finite_numbers(given[source.key], f"{subject}: {name}", advice)
        return found

    def _called_function(self, function: Callable[[Any], Any], env: Any, where: str) -> Any:
        try:
            return function(env)
        except Exception as error:
            raise EnvironmentFault(
                f"{self._called}: the function given as critic_observations raised "
                f"{type(error).__name__} at {where}: {error}"
            ) from error
