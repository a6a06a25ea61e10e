"""`resel methods`: what can learn, with its settings and their meaning."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.table import Column, Table

from resel.cli._arguments import PLAIN, word
from resel.cli._kept import kept
from resel.cli._meanings import field_meanings
from resel.cli.console import OUT, escape, print_table

if TYPE_CHECKING:
    from resel.methods import Method


@dataclass(frozen=True)
class MethodsArguments:
    """List the methods and context encoders, those of installed packages too."""

    method: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[METHOD]")] = None
    """Only this one, as with --show."""
    json: bool = False
    """Print JSON and nothing else: a list, or with --show one object."""
    show: Annotated[str | None, word("METHOD")] = None
    """Print every setting of one method instead, with its default and meaning."""
    actions: Annotated[Literal["Box", "Discrete"] | None, word("{Box,Discrete}")] = None
    """Only methods that can act in such an environment."""


def run(argv: Sequence[str]) -> int:
    """List all methods, or show one."""
    arguments = tyro.cli(MethodsArguments, args=argv, prog="resel methods", config=PLAIN)
    asked = arguments.show or arguments.method
    if asked is not None:
        from resel.methods import get_method

        method = get_method(asked)  # refuses unknown names with near matches
        if arguments.json:
            settings = {group: _settings_json(kind) for group, _, kind in _groups(method)}
            print(json.dumps({**_method_json(method), "settings": settings}, indent=1))
        else:
            _show(method)
    elif arguments.json:
        known = _known(arguments.actions)
        lost = [{"name": name, "fault": reason} for name, reason in known["faults"].items()]
        print(json.dumps([*known["methods"], *lost], indent=1))
    else:
        _list(arguments.actions)
    return 0


def _list(actions: str | None) -> None:
    """The methods with what is known of them, then the encoders, then what cannot be had."""
    known = _known(actions)
    table = _plain_table()
    for method in known["methods"]:
        table.add_row(f"[bold]{method['name']}[/bold]", f"[bold]{escape(method['title'])}[/bold]")
        for line in _description(method):
            table.add_row("", escape(line))
    print_table(table)
    OUT.print("\nContext encoders, for methods that have one (--encoder):")
    table = _plain_table()
    for name, summary in known["encoders"].items():
        table.add_row(name, escape(summary))
    print_table(table)
    if lost := [*known["faults"].items(), *known["encoder_faults"].items()]:
        OUT.print("\nNot available:")
        table = _plain_table()
        for name, reason in lost:
            table.add_row(escape(name), escape(reason))
        print_table(table)


def _known(actions: str | None) -> dict[str, Any]:
    """Methods for such actions and all encoders, and why those that cannot be had cannot."""
    found = every_method() if (known := kept()) is None else known["methods"]
    suitable = [m for m in found["methods"] if actions is None or actions in m["spaces"]]
    return {**found, "methods": suitable}


def every_method() -> dict[str, Any]:
    """The same, asked of the code."""
    from resel.methods import methods
    from resel.networks import encoders

    (found, faults), (specs, encoder_faults) = methods(), encoders()
    return {
        "methods": [_method_json(method) for method in found],
        "faults": faults,
        "encoders": {spec.name: spec.summary for spec in specs},
        "encoder_faults": encoder_faults,
    }


def _plain_table() -> Table:
    return Table(Column(no_wrap=True), Column(), box=None, show_header=False)


def _description(method: Mapping[str, Any]) -> Iterator[str]:
    """What a method says of itself, line by line."""
    yield method["summary"]
    yield f"Source: {method['source']}"
    encoder = method["encoder"] or "none"
    yield f"Actions: {', '.join(method['spaces'])}. Context encoder: {encoder}."
    if method["learns_from"]:
        told = " and ".join(f"info[{name!r}]" for name in method["learns_from"])
        yield f"Needs environments whose resets tell {told}, such as Pendulum-gravity-v0."
    if method["figures"]:
        yield f"In: {', '.join(method['figures'])}"


def _show(method: Method) -> None:
    """Every setting that the method, its network and its usual encoder have."""
    OUT.print(f"[bold]{method.name}[/bold]: {escape(method.title)}")
    for line in _description(_method_json(method)):
        OUT.print(escape(line))
    table = Table(Column("setting", no_wrap=True), "default", "meaning", box=None)
    for _, name, kind in _groups(method):
        table.add_row(f"[bold]{name}:[/bold]")
        meanings = field_meanings(kind)
        for field in dataclasses.fields(kind):
            table.add_row(field.name, str(_default(field)), escape(meanings.get(field.name, "")))
    OUT.print()
    print_table(table)
    OUT.print(
        f"\nA task has values of its own: `resel tasks --show TASK --method {method.name}`. The "
        f"settings of the loop: `resel train --method {method.name} --help-all`."
    )


def _groups(method: Method) -> Iterator[tuple[str, str, type[Any]]]:
    """The dataclasses with the method's flags: their group in a config, and in words."""
    from resel.networks import encoder_spec

    yield "algorithm", "the method", method.settings
    yield "network", "its network", method.network
    if method.encoder is not None:
        encoder = encoder_spec(method.encoder)
        yield "encoder_settings", f"its encoder {encoder.name}", encoder.settings


def _method_json(method: Method) -> dict[str, Any]:
    names = ("name", "title", "summary", "source", "spaces", "encoder", "figures")
    found = {name: getattr(method, name) for name in names}
    return {**found, "learns_from": method.learner.learns_from, "fault": None}


def _settings_json(kind: type[Any]) -> dict[str, Any]:
    meanings = field_meanings(kind)
    return {
        field.name: {"default": _default(field), "meaning": meanings.get(field.name, "")}
        for field in dataclasses.fields(kind)
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    return (
        field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    )
