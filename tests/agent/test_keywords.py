"""Keywords that editors complete are those of the dataclasses."""

from __future__ import annotations

import importlib.util
import typing
from pathlib import Path

from resel import Agent, Config, RESeL, configure
from resel.agent import _keywords
from resel.methods import own_methods

ROOT = Path(__file__).parents[2]


def test_the_file_is_up_to_date() -> None:
    script = ROOT / "docs" / "write_keywords.py"
    spec = importlib.util.spec_from_file_location("write_keywords", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = Path(_keywords.__file__).read_text()
    assert module.keywords() == written, "run `python docs/write_keywords.py`"
    names = module.NAMES.read_text(encoding="utf-8")
    assert "| `learning_starts` | `warmup_steps` |" in names
    assert module.with_other_names(names) == names, "run `python docs/write_keywords.py`"


def test_every_setting_is_a_keyword() -> None:
    for method in own_methods():
        names = Config.build("", {"method": method.name}).flat().keys()
        assert names <= _keywords.AgentKeywords.__annotations__.keys()
    own = set(configure("Pendulum-V-v0").flat()) | set(configure("", encoder="gru").flat())
    assert own <= _keywords.RESeLKeywords.__annotations__.keys()


def test_the_classes_take_them() -> None:
    kept = typing.get_type_hints(RESeL.__init__)["settings"]
    assert typing.get_args(kept) == (_keywords.RESeLKeywords,)
    first = typing.get_overloads(Agent.__init__)[0]
    assert typing.get_args(typing.get_type_hints(first)["settings"]) == (_keywords.AgentKeywords,)
