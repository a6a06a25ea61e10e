"""Checks that a dataclass of settings makes of itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin, get_type_hints

from resel.errors import ConfigError


@functools.cache  # resolving them takes longer than all else
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=False)


def check_type(kind: Any, name: str, value: Any) -> None:
    """Refuse a value that a field of the dataclass cannot hold."""
    hint = _hints(kind)[name]
    allowed = get_args(hint) or (hint,)
    if value is None and type(None) in allowed:
        return
    if isinstance(value, str) and any(value in get_args(kind) for kind in allowed):
        return
    plain = [kind for kind in allowed if isinstance(kind, type)]
    if not plain and get_origin(hint) is not dict:  # a Literal: checked by the dataclass itself
        return
    if dict in (get_origin(hint), *map(get_origin, allowed)):
        good, plain = isinstance(value, dict), [dict]
    elif bool in plain:
        good = isinstance(value, bool)
    elif float in plain:
        good = isinstance(value, int | float) and not isinstance(value, bool)
    elif int in plain:
        good = isinstance(value, int) and not isinstance(value, bool)
    else:
        good = isinstance(value, str)
    if not good:
        words = [repr(w) for kind in allowed if get_origin(kind) is Literal for w in get_args(kind)]
        kinds = [kind.__name__ for kind in plain if kind is not type(None)][:1]
        expected = " or ".join([*kinds, *words])
        raise ConfigError(
            f"{name}={value!r} has the wrong type: {type(value).__name__}, expected {expected}."
        )


def _values(config: object, names: Iterable[str]) -> list[tuple[str, Any]]:
    return [(n, getattr(config, n)) for n in names if getattr(config, n) is not None]


def at_least(config: object, lowest: int, *names: str) -> None:
    """Refuse settings below a number; None passes."""
    for name, value in _values(config, names):
        if value < lowest:
            raise ConfigError(f"{name}={value} is too small: it must be at least {lowest}.")


def at_most(config: object, highest: int, *names: str) -> None:
    """Refuse settings above a number; None passes."""
    for name, value in _values(config, names):
        if value > highest:
            raise ConfigError(
                f"{name}={value:.3g} is too large: it must be at most {highest:,}, which no "
                "machine gets through."
            )


def positive(config: object, *names: str) -> None:
    """Refuse settings that are not finite and above 0; None passes."""
    for name, value in _values(config, names):
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{name}={value} cannot work: it must be a finite number above 0.")


def positive_or(config: object, word: str, *names: str) -> None:
    """Refuse settings that are neither the word nor finite and above 0; None passes."""
    for name, value in _values(config, names):
        if value != word and (isinstance(value, str) or not (math.isfinite(value) and value > 0)):
            raise ConfigError(
                f"{name}={value} cannot work: it must be a finite number above 0, or {word}."
            )


def between(config: object, low: float, high: float, *names: str) -> None:
    """Refuse settings outside a range; None passes."""
    for name, value in _values(config, names):
        if not low <= value <= high or math.isinf(value):
            raise ConfigError(f"{name}={value} is out of range: it must lie in [{low}, {high}].")


def finite(config: object, *names: str) -> None:
    """Refuse settings that are not finite; None passes."""
    for name, value in _values(config, names):
        if not math.isfinite(value):
            raise ConfigError(f"{name}={value} must be a finite number.")


def one_of(config: object, name: str, choices: Any) -> None:
    """Refuse a setting that is not one of a Literal's words."""
    value = getattr(config, name)
    if value not in get_args(choices):
        known = ", ".join(get_args(choices))
        raise ConfigError(f"{name}={value!r} is not known: choose one of {known}.")
