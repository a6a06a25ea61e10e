"""Which settings of a method are worth a search, and between which values.

Ranges lie around what the preset says, so that a search starts from what is known to work; that
value itself is always among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resel.config import Config, parse_count
from resel.errors import ConfigError
from resel.methods.preset_files import NOT_KEPT

_RATE = "lr_"
_CONTEXT_RATE = "lr_context_encoder"
_WEIGHTS = (
    "kl_weight",
    "consistency_weight",
    "diversity_weight",
    "entropy_coefficient",
    "value_coefficient",
    "inner_step",
    "action_penalty",
)
NOT_SEARCHED = frozenset({*NOT_KEPT, "steps", "eval_every", "eval_episodes", "checkpoint_every"})
"""What does not belong to a method, or what trials are compared by."""
_WIDE, _LOWEST, _HIGHEST = 10.0, 1e-7, 1e-2
"""How far from its value a rate is searched, and which are never worth a trial."""
_CONTEXT_RATES = (1e-6, 1e-5, 1e-4, 1e-3)
_ORDERS = 1000.0
"""How far below the policy's rate that of the context encoder is searched."""


@dataclass(frozen=True)
class Between:
    """Any number of an interval; whole ones where both ends are."""

    low: float
    high: float
    log: bool = False

    def with_value(self, value: float) -> Between:
        """The same, reaching to a value."""
        return Between(min(self.low, value), max(self.high, value), self.log)

    def to_json(self) -> list[Any]:
        """Plain data that tells it from all others."""
        return ["log" if self.log else "between", self.low, self.high]


@dataclass(frozen=True)
class OneOf:
    """One of some values."""

    choices: tuple[Any, ...]

    def to_json(self) -> list[Any]:
        """Plain data that tells it from all others."""
        return ["one of", *self.choices]


Range = Between | OneOf

_FIXED: dict[str, Range] = {
    "gamma": OneOf((0.9, 0.95, 0.98, 0.99, 0.995, 0.999)),
    "tau": Between(0.001, 0.05, log=True),
    "target_entropy_scale": OneOf((None, 0.1, 0.3, 0.7, 1.5)),
    "policy_delay": OneOf((1, 2, 4)),
    "exploration_noise": Between(0.03, 0.5, log=True),
    "target_noise": Between(0.05, 0.5, log=True),
    "gae_lambda": OneOf((0.8, 0.9, 0.95, 0.98, 1.0)),
    "clip": Between(0.1, 0.4),
    "epochs": OneOf((1, 2, 4, 8)),
}
_SIZES = ("batch_steps", "batch_transitions", "batch_windows", "batch_episodes", "rollout_steps")
"""Half of the value, the value, and twice it."""


def search_space(config: Config) -> dict[str, Range]:
    """The settings of a config's method that are searched if nobody says which."""
    found: dict[str, Range] = {}
    for name, value in config.flat().items():
        usual = _usual(name, value, config)
        if usual is not None and (own := _allowed(_including(usual, value), name, config)):
            found[name] = own
    return found


def _allowed(found: Range, name: str, config: Config) -> Range | None:
    """Without choices that the method refuses; None if there is none left."""
    if isinstance(found, Between):
        return found
    good = tuple(value for value in found.choices if _takes(config, name, value))
    return OneOf(good) if len(good) > 1 else None


def _takes(config: Config, name: str, value: Any) -> bool:
    try:
        config.replace(**{name: value})
    except ConfigError:
        return False
    return True


def _usual(name: str, value: Any, config: Config) -> Range | None:
    number = _is_number(value)
    if config.group_of(name) != "algorithm":
        return None
    if name == "lr_alpha" and getattr(config.algorithm, "alpha", None) is not None:
        return None  # it is fixed
    if name == _CONTEXT_RATE:
        rate = float(getattr(config.algorithm, "lr_policy", _HIGHEST))
        return Between(rate / _ORDERS, rate, log=True) if number else OneOf(_CONTEXT_RATES)
    if (name.startswith(_RATE) or name in _WEIGHTS) and number and value > 0:
        most = _HIGHEST if name.startswith(_RATE) else value * _WIDE
        return Between(max(value / _WIDE, _LOWEST), min(value * _WIDE, most), log=True)
    if name in _SIZES and number and value > 1:
        return OneOf((value // 2, value, 2 * value))
    if name == "context_length":
        # Never longer than the method's own: some encoders can read no further.
        return OneOf((None, 64)) if value is None else OneOf((max(1, value // 2), value))
    return _FIXED.get(name)


def _including(found: Range, value: Any) -> Range:
    if isinstance(found, Between):
        return found.with_value(float(value))
    return found if value in found.choices else OneOf((value, *found.choices))


def chosen_space(
    config: Config, words: Sequence[str], fixed: Mapping[str, Any]
) -> dict[str, Range]:
    """The usual search of a config without what is `fixed`, or what `words` say.

    A word is NAME (its usual range), NAME=LOW:HIGH (on a logarithmic scale if LOW is above 0 and
    HIGH ten times it) or NAME=A,B,C.
    """
    usual = search_space(config)
    if not words:
        space = {name: found for name, found in usual.items() if name not in fixed}
        if not space:
            raise ConfigError(
                f"No setting of {config.method} is searched by itself: name some, as in "
                "--search lr_policy=1e-5:1e-3 gamma=0.9,0.99."
            )
        return space
    space = {}
    for word in words:
        name, equals, text = word.partition("=")
        if name in NOT_SEARCHED:
            raise ConfigError(
                f"--search {name}: it belongs to how a trial is run and measured, not to the "
                "method. Fix it for all trials: --steps, --seeds, --eval-every or --settings."
            )
        if name in fixed:
            raise ConfigError(f"{name} is both fixed and searched: leave one of them out.")
        if not equals and name not in usual:
            config.replace(**{name: config.flat().get(name)})  # refuses what is no setting
            raise ConfigError(
                f"--search {name}: there is no usual range for it. Give one: {name}=LOW:HIGH or "
                f"{name}=A,B,C. Usual ones have: {', '.join(usual)}."
            )
        space[name] = _checked(_parsed(name, text, config), name, config) if equals else usual[name]
    return space


def _checked(found: Range, name: str, config: Config) -> Range:
    """Refuses values that the setting cannot have, before any trial meets one."""
    values = found.choices if isinstance(found, OneOf) else (found.low, found.high)
    for value in values:
        config.replace(**{name: value})
    return found


def _parsed(name: str, text: str, config: Config) -> Range:
    low, colon, high = (_value(word) for word in text.partition(":"))
    if not colon:
        return OneOf(tuple(map(_value, text.split(","))))
    if not (_is_number(low) and _is_number(high) and low < high):
        raise ConfigError(
            f"--search {name}={text}: write NAME=LOW:HIGH with LOW below HIGH, or NAME=A,B,C."
        )
    if not _takes_whole_numbers(config, name, low):
        low, high = float(low), float(high)
    return Between(low, high, log=low > 0 and high >= 10 * low)


def _takes_whole_numbers(config: Config, name: str, low: float) -> bool:
    """Whether a setting can only be whole; one that is not set is tried with a fraction."""
    value = config.flat().get(name)
    if value is not None:
        return isinstance(value, int)
    try:
        config.replace(**{name: low + 0.5})
    except ConfigError:
        return True
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(word: str) -> Any:
    words = {"None": None, "True": True, "true": True, "False": False, "false": False}
    if word in words:
        return words[word]
    try:
        return parse_count(word) if "." not in word else float(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word
