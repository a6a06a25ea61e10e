"""`resel methods`: the list, the settings of one, and plug-ins that are broken."""

from __future__ import annotations

import dataclasses
import json
import re
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from other_methods import echo_method
from terminal import refused

from resel.cli import main
from resel.cli._meanings import field_meanings
from resel.config import TrainingConfig
from resel.methods import Method, methods
from resel.networks import encoder_spec, encoders
from resel.registry import METHODS as REGISTRY

METHODS = [method.name for method in methods()[0]]


def told(capsys: Any, *argv: str) -> str:
    capsys.readouterr()
    assert main(["methods", *argv]) == 0
    return str(capsys.readouterr().out)


def words(text: str) -> str:
    return " ".join(text.split())


def kinds(method: Method) -> list[type[Any]]:
    encoder = [encoder_spec(method.encoder).settings] if method.encoder else []
    return [method.settings, method.network, *encoder]


def test_the_list(capsys: Any) -> None:
    text = told(capsys)
    assert max(map(len, text.splitlines())) <= 80
    for method in methods()[0]:
        assert re.search(rf"^ {method.name} +{re.escape(method.title)} *$", text, re.MULTILINE)
        for part in (method.summary, method.source, ", ".join(method.figures)):
            assert part in words(text)
        encoder = method.encoder or "none"
        assert f"Actions: {', '.join(method.spaces)}. Context encoder: {encoder}." in words(text)
    for spec in encoders()[0]:
        assert re.search(rf"^ {spec.name} +{re.escape(spec.summary[:30])}", text, re.MULTILINE)
    assert "Not available" not in text


def test_the_list_for_programs(capsys: Any) -> None:
    listed = {method["name"]: method for method in json.loads(told(capsys, "--json"))}
    assert list(listed) == METHODS
    for method in methods()[0]:
        entry = listed[method.name]
        assert (entry["title"], entry["summary"], entry["source"], entry["encoder"]) == (
            method.title,
            method.summary,
            method.source,
            method.encoder,
        )
        assert tuple(entry["spaces"]) == method.spaces and tuple(entry["figures"]) == method.figures
        assert entry["fault"] is None


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_is_shown_with_its_meaning(name: str, capsys: Any) -> None:
    (method,) = (method for method in methods()[0] if method.name == name)
    text = told(capsys, "--show", name)
    assert max(map(len, text.splitlines())) <= 80
    data = json.loads(told(capsys, "--show", name, "--json"))
    assert data["name"] == name
    shown = {k: v for group in data["settings"].values() for k, v in group.items()}
    fields = [field for kind in kinds(method) for field in dataclasses.fields(kind)]
    assert list(shown) == [field.name for field in fields]
    for field in fields:
        assert shown[field.name]["default"] == field.default
        assert shown[field.name]["meaning"], f"{field.name} has no docstring"
        assert re.search(rf"^ {field.name} +{re.escape(str(field.default))} ", text, re.MULTILINE)


def test_meanings_of_fields_and_of_inherited_ones(capsys: Any) -> None:
    assert field_meanings(TrainingConfig)["steps"] == "Environment steps in all."
    assert set(field_meanings(TrainingConfig)) == {
        field.name for field in dataclasses.fields(TrainingConfig)
    }
    with echo_method() as method:
        meanings = field_meanings(method.settings)
        assert meanings["echo_strength"] == "How loud the [echo] is, over two lines."
        assert {"gamma", "lr_policy"} <= set(meanings)
        shown = words(told(capsys, "--show", "echo-method"))
        assert "How loud the [echo] is, over two lines." in shown
        assert "echo-method Echo" in words(told(capsys))
    made = dataclasses.make_dataclass("made", [("unseen", int, 1)])
    assert "unseen" not in field_meanings(made)


def test_what_acting_sees_is_told_of_both_kinds_of_encoders() -> None:
    """One is handed on from step to step, the other sees the newest `window` steps."""
    told_of = {True: "a memory is kept for the whole episode", False: "an encoder with a `window`"}
    seen = set()
    for method in methods()[0]:
        text = field_meanings(method.settings).get("context_length", "")
        if method.encoder is not None and "In acting" in text:
            spec = encoder_spec(method.encoder)
            assert told_of[spec.carries_on] in text, method.name
            assert spec.carries_on or hasattr(spec.settings, "window")
            seen.add(spec.carries_on)
    assert seen == {True, False}


def test_one_by_its_name_and_those_for_some_actions(capsys: Any) -> None:
    assert main(["methods", "td7"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("td7: TD7")
    assert main(["methods", "--show", "td7"]) == 0 and capsys.readouterr().out == shown
    assert main(["methods", "--actions", "Discrete", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found and all("Discrete" in method["spaces"] for method in found)
    assert "td7" not in {method["name"] for method in found}


def test_a_name_that_is_not_there(capsys: Any) -> None:
    assert f"Did you mean {METHODS[0]}" in refused(capsys, "methods", "--show", METHODS[0] + "x")


def test_plug_ins_that_cannot_be_had_are_listed_with_the_reason(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = {
        "absent": [EntryPoint("absent", "no_such_module:METHOD", "resel.methods")],
        "strange": [EntryPoint("strange", "os:sep", "resel.methods")],
    }
    monkeypatch.setattr(
        "resel.registry._entry_points",
        lambda group: plugins if group == "resel.methods" else {},
    )
    text = told(capsys)
    assert max(map(len, text.splitlines())) <= 80
    missing = text[text.index("Not available") :]
    assert "absent" in missing and "No module named 'no_such_module'" in words(missing)
    assert "it must be a Method" in words(missing)
    faults = {entry["name"]: entry["fault"] for entry in json.loads(told(capsys, "--json"))}
    assert "cannot be imported" in faults["absent"] and "os" in faults["strange"]
    assert "cannot be imported" in refused(capsys, "train", "TMaze-v0", "--method", "absent")
    assert "it must be a Method" in refused(capsys, "methods", "--show", "strange")
    # A setting nobody has is still told in words.
    assert "Did you mean" in refused(capsys, "train", "TMaze-v0", "--learning-starts", "5")


def test_a_plug_in_is_a_method_like_ours(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with echo_method() as method:
        pass  # registered by nobody from here on
    monkeypatch.setattr("other_methods.PLUGIN", method, raising=False)
    plugin = EntryPoint("echo-method", "other_methods:PLUGIN", "resel.methods")
    monkeypatch.setattr(
        "resel.registry._entry_points",
        lambda group: {"echo-method": [plugin]} if group == "resel.methods" else {},
    )
    try:
        assert "echo-method Echo" in words(told(capsys))
        with pytest.raises(SystemExit) as left:
            main(["train", "TMaze-v0", "--method", "echo-method", "--help-all"])
        assert left.value.code == 0 and "--echo-strength" in capsys.readouterr().out
    finally:
        REGISTRY.remove("echo-method")
