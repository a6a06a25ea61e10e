"""What the settings of a dataclass are: meaning, kind of value and default, as words for people."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import tyro

from resel.config import actions_of, field_names

_ROOM_FOR_CHOICES = 56
"""Letters that choices may take beside their flag; more of them stand in the text."""
_PLACES = {"init_from": "RUN"}
"""Text that names a thing of another kind than the setting."""


class Flag(NamedTuple):
    """A setting as the command line has it."""

    name: str
    spelled: str
    """With a word for its value, as in `--steps N`."""
    meaning: str
    actions: str | None = None
    """The kind of actions it is for, if it is for one kind only."""


def flags_of(
    settings: Any, hidden: tuple[str, ...] = (), choices: dict[str, list[str]] | None = None
) -> list[Flag]:
    """The fields of a dataclass with values; `choices` are words that a field may be."""
    kind = type(settings)
    hints, meanings = get_type_hints(kind, include_extras=True), field_meanings(kind)
    found = []
    for name in (name for name in field_names(kind) if name not in hidden):
        value, extras = getattr(settings, name), getattr(hints[name], "__metadata__", ())
        flag = f"--{name.replace('_', '-')}"
        aliases = [alias for extra in extras for alias in getattr(extra, "aliases", None) or ()]
        text = next((e.help for e in extras if getattr(e, "help", None)), meanings.get(name, ""))
        words = (choices or {}).get(name, [])
        word = f"{{{','.join(words)}}}" if words else _word(hints[name], name)
        if words and len(word) > _ROOM_FOR_CHOICES:
            word, text = name.upper(), f"{text} One of {', '.join(words)}."
        spelled = ", ".join([*aliases, flag]) + (f" {word}" if word else "")
        if value is True:
            text += f" (default: on, {flag.replace('--', '--no-')} turns it off)"
        else:
            text += _default(value, text)
        found.append(Flag(name, spelled, text, actions_of(kind, name)))
    return found


def field_meanings(kind: type[Any]) -> dict[str, str]:
    """The string after each field of a dataclass; nothing where the source cannot be read."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):  # a class has the fields of its bases
        try:
            source = textwrap.dedent(inspect.getsource(each))
        except (OSError, TypeError):
            continue
        definition = ast.parse(source).body[0]
        assert isinstance(definition, ast.ClassDef)
        for line, following in zip(definition.body, definition.body[1:], strict=False):
            match line, following:
                case (
                    ast.AnnAssign(target=ast.Name(name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = " ".join(text.split())
    return found


def _word(hint: Any, name: str) -> str:
    """What stands for a value of that type."""
    for extra in getattr(hint, "__metadata__", ()):
        if getattr(extra, "metavar", None):
            return str(extra.metavar)
    if hasattr(hint, "__metadata__"):
        return _word(hint.__origin__, name)
    if get_origin(hint) in (Union, UnionType):
        return "|".join(_word(part, name) for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Literal:
        words = [str(word) for word in get_args(hint)]
        return words[0] if len(words) == 1 else f"{{{','.join(words)}}}"
    words_of: dict[Any, str] = {bool: "", int: "N", float: "NUMBER", Path: "PATH"}
    return words_of.get(hint, _PLACES.get(name, name.upper()))


def _default(value: Any, text: str) -> str:
    """The value in words; nothing where there is none, and None has no meaning of its own."""
    if value is tyro.MISSING or (value is None and "None" not in text):
        return ""
    if value is False:
        return " (default: off)"
    if isinstance(value, dict):
        value = " ".join(f"{name}={entry}" for name, entry in value.items())
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f" (default: {shown})" if shown else ""
