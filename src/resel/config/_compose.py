"""A config: a task, a method with its settings, a network, an encoder, a loop.

Methods and encoders bring a frozen dataclass each and declare it in the registry under their name;
nothing here knows one of them. Field names are unique within a config, so a setting is named the
same everywhere: as a keyword of `Agent(...)`, as a flag of `resel train` (`lr_policy` is
`--lr-policy`) and in `config.json`.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from resel.config._checks import check_type
from resel.config._other_names import OTHER_NAMES
from resel.config._training import TrainingConfig
from resel.errors import ConfigError
from resel.registry import ENCODERS, METHODS, MethodLike

SizeName = Literal["paper", "small", "tiny"]
SIZES: dict[SizeName, float] = {"paper": 1.0, "small": 0.5, "tiny": 0.25}
"""Factors on the sizes that a network marks with `scaled`; its other numbers stay as they are."""


@dataclass(frozen=True)
class NoEncoder:
    """What a network without a context encoder has to set in one: nothing."""


GROUPS = ("algorithm", "network", "encoder_settings", "training")
"""The dataclasses inside a config."""
NAMES = ("task", "method", "encoder")
"""What chooses them."""


@dataclass(frozen=True)
class Config:
    """Everything that defines a run. Build it with `Config.build` or change one with `replace`."""

    task: str
    """A task of ours or any Gymnasium id; empty for an environment made by the caller."""
    method: str
    """The method, by its name in the registry."""
    encoder: str | None
    """The context encoder, by name; None for a method without one."""
    algorithm: Any
    """The method's own settings."""
    network: Any
    """Sizes of its networks."""
    encoder_settings: Any
    """Settings of the context encoder."""
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @classmethod
    def build(cls, task: str = "", *layers: Mapping[str, Any]) -> Config:
        """The method's defaults with layers of settings on top, later ones winning.

        Layers may hold settings of other methods and encoders, which are passed over; `replace`
        refuses those.
        """
        merged: dict[str, Any] = {}
        for layer in layers:
            merged.update(layer)
        method = METHODS.get(merged.pop("method", None) or METHODS.first)
        encoder = _encoder_of(method, merged.pop("encoder", None))
        empty = cls(
            task,
            method.name,
            encoder,
            method.settings(),
            method.network(),
            _settings_of(encoder)(),
        )
        empty._check_names()
        own = empty.flat()
        for name in [name for name in merged if name not in own]:
            if not owners(name):
                raise empty._no_such(name)
            del merged[name]
        return empty.replace(**merged)

    def replace(self, **settings: Any) -> Config:
        """A copy with these settings changed; names as in the groups, without their prefix."""
        top: dict[str, Any] = {name: settings.pop(name) for name in NAMES if name in settings}
        if top.get("method", self.method) != self.method:
            raise ConfigError(
                f"The method of a config cannot be replaced ({self.method} by {top['method']}): "
                "build another config."
            )
        before = self
        if "encoder" in top and top["encoder"] != self.encoder:
            encoder = _encoder_of(METHODS.get(self.method), top["encoder"])
            kind = _settings_of(encoder)
            kept = {
                f.name: getattr(self.encoder_settings, f.name)
                for f in dataclasses.fields(kind)
                if hasattr(self.encoder_settings, f.name)
            }
            top |= {"encoder": encoder, "encoder_settings": kind(**kept)}
            before = dataclasses.replace(self, **top)
            before._check_names()
        groups: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            group = before.group_of(name)
            if group is None:
                raise before._no_such(name)
            check_type(type(getattr(before, group)), name, value)
            groups.setdefault(group, {})[name] = value
        for group, changes in groups.items():
            top[group] = dataclasses.replace(getattr(before, group), **changes)
        return dataclasses.replace(self, **top)

    def _check_names(self) -> None:
        """Refuse a setting that two of the groups have: nobody could say which is meant."""
        names = [name for g in GROUPS for name in field_names(type(getattr(self, g)))]
        if twice := sorted({name for name in names if names.count(name) > 1 or name in NAMES}):
            raise ConfigError(
                f"The setting {twice[0]!r} exists twice in {self.method} with the encoder "
                f"{self.encoder}: rename it in the method, its network or the encoder."
            )

    def group_of(self, name: str) -> str | None:
        """The group a setting lives in; None if there is no such setting here."""
        return next((g for g in GROUPS if name in field_names(type(getattr(self, g)))), None)

    def flat(self) -> dict[str, Any]:
        """All settings by name, `encoder` among them."""
        found: dict[str, Any] = {"encoder": self.encoder}
        for group in GROUPS:
            part = getattr(self, group)
            found |= {name: getattr(part, name) for name in field_names(type(part))}
        return found

    def sized(self, size: SizeName, preset: Mapping[str, Any] | None = None) -> dict[str, int]:
        """The settings that `size` brings to this method and encoder.

        It is a factor on what a preset says, or else on the defaults; what is left out stays out.
        """
        if size not in SIZES:
            raise ConfigError(f"size={size!r} is not known: choose one of {', '.join(SIZES)}.")
        usual = {
            f.name: (preset or {}).get(f.name, f.default)
            for group in ("network", "encoder_settings")
            for f in dataclasses.fields(getattr(self, group))
            if f.metadata.get("scaled")
        }
        return {n: max(1, round(value * SIZES[size])) for n, value in usual.items() if value}

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` turns back into an equal config."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        """Rebuild a config, refusing anything that is unknown or of the wrong type."""
        names = {key: data[key] for key in NAMES if key in data}
        for key, value in names.items():
            if not isinstance(value, str) and not (key == "encoder" and value is None):
                raise ConfigError(f"{key}={value!r} of a saved config is not a name.")
        config = cls.build(names.pop("task", ""), {k: v for k, v in names.items() if v is not None})
        unknown = [key for key in data if key not in NAMES and key not in GROUPS]
        settings: dict[str, Any] = {}
        for group in GROUPS:
            part = data.get(group, {})
            if not isinstance(part, Mapping):
                raise ConfigError(f"The group {group!r} of a saved config is not an object.")
            kept = without_former(config.method, part)
            unknown += [f"{group}.{key}" for key in kept if config.group_of(key) != group]
            settings.update(kept)
        if unknown:
            raise ConfigError(
                f"A saved config has entries this version does not know: {', '.join(unknown)}."
            )
        return config.replace(**settings)

    def _no_such(self, name: str) -> ConfigError:
        """The error for a setting that this method and encoder do not have."""
        here, others = self.flat(), OTHER_NAMES.get(name, [])
        meant = [other for other in others if other.split()[0] in here]
        for foreign in [] if meant else [name, *(other.split()[0] for other in others)]:
            if found := owners(foreign):
                who = f"{self.method} with {self.encoder}" if self.encoder else self.method
                return ConfigError(
                    f"{who} has no setting {foreign!r}: it belongs to {' and '.join(found)}."
                )
        near = meant or difflib.get_close_matches(name, here, n=3)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        return ConfigError(f"There is no setting named {name!r}.{hint}")


def without_former(method: str, saved: Mapping[str, Any]) -> dict[str, Any]:
    """Saved settings but for those that a method no longer has, where they changed nothing."""
    former = METHODS.get(method).former
    for name in former.keys() & saved.keys():
        if saved[name] != former[name]:
            raise ConfigError(
                f"What was saved has {name}={saved[name]!r}, a setting that this version no longer "
                "has: go on with the version of resel that made it."
            )
    return {name: value for name, value in saved.items() if name not in former}


def _settings_of(encoder: str | None) -> type[Any]:
    return NoEncoder if encoder is None else ENCODERS.get(encoder).settings


def _encoder_of(method: MethodLike, asked: str | None) -> str | None:
    if asked is None:
        return method.encoder
    if method.encoder is None:
        able = [other.name for other in METHODS.all()[0] if other.encoder is not None]
        raise ConfigError(
            f"encoder={asked!r}: the method {method.name} has no context encoder. Leave it out, or "
            f"choose one of {', '.join(able)}."
        )
    return ENCODERS.get(asked).name


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """The settings of one dataclass."""
    return tuple(f.name for f in dataclasses.fields(kind))


def owners(name: str) -> list[str]:
    """Which methods and encoders have a setting of this name."""
    found = ["the loop"] if name in field_names(TrainingConfig) else []
    having: dict[str, list[str]] = {"method": [], "encoder": []}
    for method in METHODS.all()[0]:
        if name in (*field_names(method.settings), *field_names(method.network)):
            having["method"].append(method.name)
    for encoder in ENCODERS.all()[0]:
        if name in field_names(encoder.settings):
            having["encoder"].append(encoder.name)
    for what, names in having.items():
        if names:
            found.append(f"the {what}{'s' if len(names) > 1 else ''} {', '.join(names)}")
    return found
