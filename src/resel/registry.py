"""Methods and encoders by name: ours, those a program registers, and those of installed packages.

A package offers one as an entry point, under the name it is to have:

    [project.entry-points."resel.methods"]
    my-method = "my_package:MY_METHOD"

It is imported when it is asked for by name, or when all are listed.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Protocol, TypeVar

from resel.errors import ConfigError


class Named(Protocol):
    """Whatever can be registered."""

    @property
    def name(self) -> str:
        """What people ask for it by."""

    @property
    def settings(self) -> type[Any]:
        """The frozen dataclass of its settings."""


class MethodLike(Named, Protocol):
    """What a config must know of a method."""

    @property
    def network(self) -> type[Any]:
        """The frozen dataclass with the sizes of its networks."""

    @property
    def encoder(self) -> str | None:
        """The context encoder it has by default; None if it can have none."""

    @property
    def former(self) -> Mapping[str, Any]:
        """Settings that it had once, with the values at which they changed nothing."""


Item = TypeVar("Item", bound=Named)


class Registry(Generic[Item]):
    """Items of one kind by name."""

    def __init__(self, what: str, group: str) -> None:
        self._what, self._group = what, group
        self._items: dict[str, Item] = {}
        self._loaded: set[str] = set()
        self.kind: type[Any] = object
        """The class of its items, named by the room that has it."""

    def add(self, item: Item) -> Item:
        """Register an item; a name is given once."""
        self._check(item, f"What was to be registered as a {self._what}")
        if item.name in self._items:
            raise ConfigError(
                f"There is a {self._what} named {item.name!r} already: give yours another name."
            )
        self._items[item.name] = item
        return item

    def remove(self, name: str) -> None:
        """Forget an item that a program has registered, or that a package has brought."""
        self._items.pop(name, None)
        self._loaded.discard(name)

    def get(self, name: str) -> Item:
        """The item of that name; refuses unknown names with near matches."""
        known = isinstance(name, str)  # settings may bring anything
        plugins = self._plugins().get(name) if known else None
        if plugins is not None and name not in self._loaded:
            return self._load(plugins)
        if not known or name not in self._items:
            near = difflib.get_close_matches(str(name).lower(), self.names(), n=3)
            hint = f"Did you mean {', '.join(near)}?" if near else ""
            raise ConfigError(
                f"There is no {self._what} {name!r}. {hint or 'Choose one of ' + self.listed()}"
            )
        return self._items[name]

    def registered(self) -> list[Item]:
        """What this program has registered, without what installed packages offer."""
        return [item for name, item in self._items.items() if name not in self._loaded]

    def names(self) -> list[str]:
        """All names, without importing anything."""
        return list(dict.fromkeys([*self._items, *self._plugins()]))

    def offered(self) -> list[str]:
        """The names that installed packages bring, without importing anything."""
        return list(self._plugins())

    def listed(self) -> str:
        """All names in one sentence."""
        return f"{', '.join(self.names())}."

    def all(self) -> tuple[list[Item], dict[str, str]]:
        """All items, and why those that cannot be had cannot."""
        found: list[Item] = []
        faults: dict[str, str] = {}
        for name in self.names():
            try:
                found.append(self.get(name))
            except ConfigError as error:
                faults[name] = str(error)
        return found, faults

    @property
    def first(self) -> str:
        """The name of whatever was registered first."""
        return next(iter(self._items))

    def _load(self, plugins: list[EntryPoint]) -> Item:
        plugin = plugins[0]
        called = f"The {self._what} {plugin.name!r} of {_origin(plugin)}"
        if len(plugins) > 1:
            raise ConfigError(
                f"The {self._what} {plugin.name!r} is offered by "
                f"{' and by '.join(map(_origin, plugins))}: remove one of them."
            )
        try:
            item: Item = plugin.load()
        except Exception as error:  # whatever a foreign module raises
            raise ConfigError(
                f"{called} cannot be imported ({type(error).__name__}: {error}): mend or remove "
                "that package."
            ) from error
        self._check(item, called)
        if item.name != plugin.name:
            raise ConfigError(
                f"{called} calls itself {item.name!r}: it needs the same name in the entry point."
            )
        if self._items.get(plugin.name, item) is not item:  # its module may have registered it
            raise ConfigError(
                f"{called} takes a name that is taken: rename it in that package, or remove it."
            )
        self._items[plugin.name] = item
        self._loaded.add(plugin.name)
        return item

    def _check(self, item: object, called: str) -> None:
        """Refuse what could not be used later, where nobody would know whose it is."""
        if not isinstance(item, self.kind):
            raise ConfigError(f"{called} is {item!r}: it must be a {self.kind.__name__}.")
        for part in ("settings", "network"):
            kind = getattr(item, part, None)
            if kind is None:
                continue
            if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
                raise ConfigError(f"{called} has {kind!r} as {part}: it must be a dataclass.")
            for field in dataclasses.fields(kind):
                if field.default is field.default_factory:  # both missing
                    raise ConfigError(
                        f"{called} has a setting {field.name!r} without a default: give it one."
                    )

    def _plugins(self) -> dict[str, list[EntryPoint]]:
        return _entry_points(self._group)


def _origin(plugin: EntryPoint) -> str:
    return f"the package {plugin.dist.name}" if plugin.dist is not None else plugin.value


@functools.cache
def _entry_points(group: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = defaultdict(list)
    for plugin in entry_points(group=group):
        found[plugin.name].append(plugin)
    return dict(found)


METHODS: Registry[MethodLike] = Registry("method", "resel.methods")
ENCODERS: Registry[Named] = Registry("encoder", "resel.encoders")
