"""What an environment tells at a reset arrives as clean columns, or is refused in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from resel.envs import COLUMNS, AnyEnv, CheckedEnv, SubprocEnv
from resel.errors import EnvironmentFault
from resel.tasks import make_env


@pytest.fixture
def telling(toy: Any) -> Any:
    """An environment that tells one `info` after another, then the last for ever."""

    class Telling(toy):  # type: ignore[misc]
        def __init__(self, *infos: Any) -> None:
            super().__init__()
            self.infos = list(infos)

        def reset(self, **how: Any) -> Any:
            observation, _ = super().reset(**how)
            return observation, self.infos.pop(0) if len(self.infos) > 1 else self.infos[0]

    return Telling


def test_what_is_told_can_be_read_after_each_reset(telling: Any) -> None:
    infos = [
        {"task": 3, "hidden": np.array([[0.5], [1.0]]), "other": "text"},
        {"task": np.int64(4), "hidden": [0, 1]},
    ]
    env = CheckedEnv(telling(*infos))
    assert env.columns is None and env.told == {}
    env.reset(1)
    assert env.columns == {"task": 1, "hidden": 2} and list(COLUMNS) == ["task", "hidden"]
    first = env.told
    assert {name: values.tolist() for name, values in first.items()} == {
        "task": [3],
        "hidden": [0.5, 1.0],
    }
    assert all(values.dtype == np.float32 for values in first.values())
    env.step(np.zeros(2, np.float32))
    assert env.told is first  # until the next reset
    env.reset(2)
    assert env.told["task"].tolist() == [4] and first["task"].tolist() == [3]


def test_an_array_that_is_used_again_is_copied(telling: Any) -> None:
    hidden = np.zeros(2, np.float32)
    env = CheckedEnv(telling({"hidden": hidden}))
    env.reset(1)
    hidden[:] = 5
    assert env.told["hidden"].tolist() == [0, 0]


@pytest.mark.parametrize("info", [{}, {"success": True}, None, "nothing"])
def test_an_environment_that_tells_nothing(telling: Any, info: Any) -> None:
    env = CheckedEnv(telling(info))
    env.reset(1)
    assert env.columns == {} and env.told == {}


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"task": "reach"}, "info['task'] at reset(seed=1) is str 'reach', no numbers: tell the n"),
        ({"task": None}, "is NoneType None, no numbers"),
        ({"task": 1.5}, "is float 1.5, no number from 0 to 16777216: tell the number of the task"),
        ({"task": -1}, "is int -1, no number from 0"),
        ({"task": [1, 2]}, "is list [1, 2], no number from 0"),
        ({"task": 2**24 + 1}, "is int 16777217, no number from 0"),
        ({"task": 10**400}, "no numbers"),
        (
            {"hidden": {"mass": 1}},
            "info['hidden'] at reset(seed=1) is dict {'mass': 1}, no numbers",
        ),
        ({"hidden": [[1], [2, 3]]}, "no numbers"),
        ({"hidden": []}, "is list [], no numbers: tell the parameters the agent cannot see"),
        ({"hidden": [1j]}, "no numbers"),
        ({"hidden": [0.0, np.nan]}, "is list [0.0, nan], not finite in float32"),
        ({"hidden": np.array([np.inf])}, "not finite in float32"),
        ({"hidden": 1e300}, "is float 1e+300, not finite in float32"),
    ],
)
def test_what_cannot_be_learned_from(telling: Any, info: Any, message: str) -> None:
    env = CheckedEnv(telling(info))
    with pytest.raises(EnvironmentFault, match=re.escape(message)) as fault:
        env.reset(1)
    assert "Telling" in str(fault.value) and "or give the entry another name" in str(fault.value)


@pytest.mark.parametrize(
    ("later", "words"),
    [
        ({}, "told nothing at this reset, but task (1), hidden (2) at the first"),
        ({"task": 1}, "told task (1) at this reset, but task (1), hidden (2) at"),
        ({"task": 1, "hidden": [1]}, "told task (1), hidden (1) at this reset"),
    ],
)
def test_what_changes_between_resets(telling: Any, later: Any, words: str) -> None:
    first = {"task": 0, "hidden": [0, 1]}
    env = CheckedEnv(telling(first, later, first))
    env.reset(1)
    with pytest.raises(EnvironmentFault, match=re.escape(words)):
        env.reset(2)
    env.reset(3)  # and it goes on
    late = CheckedEnv(telling({}, first))
    late.reset(1)
    with pytest.raises(EnvironmentFault, match="but nothing at the first"):
        late.reset(2)


def test_an_environment_made_anew_must_tell_the_same(telling: Any) -> None:
    env = CheckedEnv(telling({"task": 1}), lambda: telling({"hidden": [1]}))
    env.reset(1)
    env.rebuild()
    with pytest.raises(EnvironmentFault, match=r"told hidden \(1\) at this reset, but task \(1\)"):
        env.reset(2)


@pytest.fixture
def both() -> Iterator[tuple[AnyEnv, AnyEnv]]:
    """The same task here and in a process of its own."""
    make = partial(make_env, "Wind-v0")
    there = SubprocEnv(make, 60).ready()
    yield CheckedEnv(make()), there
    there.close()


def test_a_process_hands_over_what_it_is_told(both: tuple[AnyEnv, AnyEnv]) -> None:
    here, there = both
    for round in range(2):
        for seed in (3, 41, 7):
            np.testing.assert_array_equal(here.reset(seed), there.reset(seed))
            assert here.columns == there.columns == {"task": 1, "hidden": 2}
            for name, values in here.told.items():
                np.testing.assert_array_equal(values, there.told[name])
            assert here.told["task"].tolist() == [seed % 40]
        if round == 0:
            there.rebuild()
            there.columns = {"task": 1}  # as if it had told something else before
            with pytest.raises(EnvironmentFault, match=r"but task \(1\) at the first"):
                there.reset(3)
            there.columns = here.columns
