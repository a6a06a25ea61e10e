"""Settings as typed keywords: `python docs/write_keywords.py` writes agent/_keywords.py.

It also writes what they are called elsewhere (docs/coming-from.md), and the help of the command.

The dataclasses of methods, networks, encoders and the loop are the one source. Editors and type
checkers read only what is written down, so it is written down from them.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from resel.cli._meanings import field_meanings
from resel.config import OTHER_NAMES, Config, TrainingConfig
from resel.methods import Method, default_method, get_method, own_methods
from resel.networks import EncoderSpec, encoders

PLACE = Path(__file__).parents[1] / "src" / "resel" / "agent" / "_keywords.py"
_HEAD = '''"""Settings as typed keywords, for editors and type checkers.

Written by `python docs/write_keywords.py` from the dataclasses, which are the source: a test
compares. The meaning of each is there, and in `resel methods --show NAME`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

'''
NAMES = Path(__file__).with_name("coming-from.md")
_BEGIN, _END = "<!-- written by write_keywords.py -->\n", "<!-- until here -->"
_ALSO = {"critic_observations": "Callable[[Any], Any]"}
"""What an agent takes besides what a config can hold."""
Fields = dict[str, tuple[list[Any], str]]
"""By name: the types that a setting has in different dataclasses, and its meaning."""


def keywords() -> str:
    """The whole file."""
    loop = _fields([TrainingConfig])
    encoder = {"encoder": _fields([Config])["encoder"]}
    ours, known = get_method(default_method()), [spec for spec in encoders()[0] if _is_ours(spec)]
    classes = {
        "LoopKeywords": ("TypedDict", "Settings of the loop, which all methods have.", loop),
        f"{ours.title}Keywords": (
            "LoopKeywords",
            f"Settings of {ours.title} with any encoder.",
            encoder | _fields(_classes([ours], known)),
        ),
        "AgentKeywords": (
            "LoopKeywords",
            "Settings of all methods that come with resel; each has some of them.",
            encoder | _fields(_classes(own_methods(), known)),
        ),
    }
    text = _HEAD + "\n".join(_class(name, *parts) for name, parts in classes.items())
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-"],
        input=text,
        capture_output=True,
        text=True,
        cwd=PLACE.parent,
        check=True,
    )
    return done.stdout


def _is_ours(spec: EncoderSpec) -> bool:
    return spec.settings.__module__.startswith("resel.")


def _classes(methods: Iterable[Method], encoders: Iterable[EncoderSpec]) -> list[type[Any]]:
    own = [kind for method in methods for kind in (method.settings, method.network)]
    return [*own, *(spec.settings for spec in encoders)]


def _fields(kinds: Iterable[type[Any]]) -> Fields:
    found: Fields = {}
    for kind in kinds:
        hints, meanings = get_type_hints(kind), field_meanings(kind)
        for field in dataclasses.fields(kind):
            types, _ = found.setdefault(field.name, ([], meanings.get(field.name, "")))
            parts = _parts(hints[field.name])
            types += [part for part in parts if part not in types]
    return found


def _parts(hint: Any) -> list[Any]:
    return list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]


def _spelled(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
    if get_origin(kind) is not None:
        return str(kind).replace("typing.", "")
    return "None" if kind is NoneType else str(kind.__name__)


def _class(name: str, base: str, text: str, fields: Fields) -> str:
    lines = [f"class {name}({base}, total=False):", f'    """{text}"""\n']
    for field, (types, meaning) in fields.items():
        ordered = sorted(types, key=lambda kind: kind is NoneType)
        spelled = [*([_ALSO[field]] if field in _ALSO else []), *map(_spelled, ordered)]
        lines.append(f"    {field}: {' | '.join(spelled)}")
        wrapped = textwrap.wrap(f'"""{meaning}"""', 96)
        lines += [f"    {line}" for line in wrapped]
    return "\n".join(lines) + "\n\n"


def with_other_names(page: str) -> str:
    """The page with what settings of other libraries are called here."""
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    rows = [f"| `{other}` | {', '.join(map(_code, ours))} |" for other, ours in OTHER_NAMES.items()]
    table = "\n".join(["| elsewhere | here |", "|---|---|", *rows])
    return f"{before}{_BEGIN}\n{table}\n\n{_END}{after}"


def _code(name: str) -> str:
    """The name as code, and what stands in brackets after it as text."""
    name, _, rest = name.partition(" (")
    return f"`{name}`" + (f" ({rest}" if rest else "")


if __name__ == "__main__":
    PLACE.write_text(keywords())
    NAMES.write_text(with_other_names(NAMES.read_text(encoding="utf-8")), encoding="utf-8")
    subprocess.run([sys.executable, Path(__file__).with_name("write_help.py")], check=True)
