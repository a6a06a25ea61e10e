"""What the site's pages have beyond their files: settings from the code, films of the zoo.

MkDocs calls `on_page_markdown` for each page (mkdocs.yml, `hooks`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from write_methods import page_of

from resel.cli._meanings import field_meanings
from resel.config import TrainingConfig
from resel.methods import Method, own_methods
from resel.networks import encoders

SETTINGS, MARK = "reference/settings.md", "<!-- settings -->"
"""The page of all settings, and the place in it where they are put."""
ZOO = Path(__file__).parents[1] / "src" / "resel" / "zoo" / "agents"
_OWN = """
## Every setting

From the docstrings, with the defaults; a task's preset may have others. With the settings of
[the loop](../reference/settings.md#the-loop) and of
[the encoder](../reference/settings.md#encoders) that is all there is.
"""


def on_files(files: Files, config: Any) -> Files:
    """Also the films of the zoo, which lie in the package."""
    for film in sorted(ZOO.glob("*/film.gif")):
        files.append(File.generated(config, f"zoo/{film.parent.name}.gif", abs_src_path=str(film)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with its tables, if it has any."""
    place = page.file.src_uri
    if place == SETTINGS:
        assert MARK in markdown, f"{place} has lost its {MARK}"
        return markdown.replace(MARK, every_setting())
    markdown = re.sub(r"\.\./src/resel/zoo/agents/([a-z-]+)/film\.gif", r"zoo/\1.gif", markdown)
    standing = [method for method in own_methods() if place == f"methods/{page_of(method)}"]
    if not standing:
        return markdown
    tables = [_settings_of(method, titled=len(standing) > 1) for method in standing]
    return "\n".join([markdown, _OWN, *tables])


def every_setting() -> str:
    """The loop's settings, the encoders', and those of all methods by name."""
    parts = ["## The loop", "What all methods have.", _table(TrainingConfig), "## Encoders"]
    for spec in encoders()[0]:
        parts += [f"### `{spec.name}`", f"{spec.summary}.", _table(spec.settings)]
    return "\n\n".join([*parts, "## Methods", _by_name(own_methods())])


def _settings_of(method: Method, titled: bool) -> str:
    head = [f"### `{method.name}`"] if titled else []
    return "\n\n".join([*head, _table(method.settings, method.network)])


def _table(*kinds: type[Any]) -> str:
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for kind in kinds:
        meanings = field_meanings(kind)
        rows += [
            f"| `{field.name}` | {_default(field)} | {_cell(meanings.get(field.name, ''))} |"
            for field in dataclasses.fields(kind)
        ]
    return "\n".join(rows)


def _by_name(methods: Iterable[Method]) -> str:
    """Each setting once, with its first meaning and the methods that have it by their default."""
    meanings: dict[str, str] = {}
    owners: dict[str, dict[str, list[str]]] = {}
    for method in methods:
        for kind in (method.settings, method.network):
            told = field_meanings(kind)
            for field in dataclasses.fields(kind):
                meanings.setdefault(field.name, told.get(field.name, ""))
                link = f"[{method.name}](../methods/{page_of(method)})"
                owners.setdefault(field.name, {}).setdefault(_default(field), []).append(link)
    rows = ["| setting | meaning | default: methods |", "|---|---|---|"]
    for name in sorted(meanings):
        shown = "<br>".join(f"{value}: {', '.join(links)}" for value, links in owners[name].items())
        rows.append(f"| `{name}` | {_cell(meanings[name])} | {shown} |")
    return "\n".join(rows)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()!r}`"
    value = field.default
    return f"`{value:g}`" if isinstance(value, float) else f"`{value!r}`"


def _cell(text: str) -> str:
    """Text as it may stand in a cell of a table."""
    return text.replace("|", "\\|")
