"""Arguments of an environment as words of a command."""

from __future__ import annotations

import pytest

from resel.config._kinds import parse_env_kwargs


def test_values_are_those_that_are_meant() -> None:
    words = ["a=40", "b=0.5", "c=test", "d=True", "e=false", "f=None", 'g=[1, "x"]', "h=Truly"]
    assert parse_env_kwargs(words) == {
        "a": 40, "b": 0.5, "c": "test", "d": True, "e": False, "f": None, "g": [1, "x"],
        "h": "Truly",
    }  # fmt: skip
    with pytest.raises(ValueError, match="write NAME=VALUE"):
        parse_env_kwargs(["40"])
