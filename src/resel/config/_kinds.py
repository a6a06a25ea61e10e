"""Kinds of values that the command line reads in ways of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import field, fields
from typing import Annotated, Any, Literal

from tyro.constructors import PrimitiveConstructorSpec


def parse_count(text: str) -> int:
    """Whole numbers as people write them: `20000`, `20_000`, `1.5e6`."""
    try:
        return int(text)
    except ValueError:
        pass  # not plain digits: perhaps 1.5e6
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        raise ValueError(f"{text!r} is not a number; write 20000, 20_000 or 2e4") from None
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{text!r} is not a whole number; write 20000, 20_000 or 2e4")
    return int(value)


Count = Annotated[
    int,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda args: parse_count(args[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""An integer that the command line also takes as `1.5e6`."""


_PYTHON = {"True": True, "False": False, "None": None}
"""Words of Python beside those of JSON."""


def parse_env_kwargs(words: Sequence[str]) -> dict[str, Any]:
    """Arguments as people write them: `length=40 noise=0.2 split=test`."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (equals and name.isidentifier()):
            raise ValueError(f"{word!r} is no argument; write NAME=VALUE, as in length=40")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = _PYTHON.get(text, text)
    return found


EnvKwargs = Annotated[
    dict[str, Any],
    PrimitiveConstructorSpec(
        nargs="*",
        metavar="NAME=VALUE",
        instance_from_str=parse_env_kwargs,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [f"{k}={json.dumps(v)}" for k, v in value.items()],
    ),
]
"""Arguments of an environment by name, plain values only."""


def scaled(default: int | None) -> Any:
    """A size of a network that `--size` makes smaller."""
    return field(default=default, metadata={"scaled": True})


def only_for(actions: Literal["Box", "Discrete"], default: Any) -> Any:
    """A setting that does nothing where actions are of the other kind."""
    return field(default=default, metadata={"actions": actions})


def actions_of(kind: type[Any], name: str) -> str | None:
    """The kind of actions a setting of a dataclass is for; None if it is for both."""
    return next((f.metadata.get("actions") for f in fields(kind) if f.name == name), None)
