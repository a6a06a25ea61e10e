"""What the critic alone is told arrives at every step as clean numbers, or is refused in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from resel.envs import CheckedEnv, CriticSignal, SubprocEnv
from resel.errors import BadInputError, ConfigError, EnvironmentFault, UnsupportedSpaceError
from resel.tasks import make_env

STAY = np.zeros(1, np.float32)


class Telling(gymnasium.Env[Any, Any]):
    """Observations and infos as they are listed, one after another."""

    def __init__(self, *given: tuple[Any, Any], space: spaces.Space[Any] | None = None) -> None:
        self.given, self.at = given, -1
        self.observation_space = space or spaces.Box(-1, 1, (1,))
        self.action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._next()

    def step(self, action: Any) -> Any:
        observation, info = self._next()
        return observation, 0.0, False, False, info

    def _next(self) -> Any:
        self.at += 1
        return self.given[self.at]


def of_infos(*infos: Any) -> Telling:
    return Telling(*(([0.5], info) for info in infos))


BOTH = spaces.Dict({"place": spaces.Box(-1, 1, (2,)), "speed": spaces.Box(-9, 9, (1,))})


def of_entries(*seen: Any, space: spaces.Space[Any] = BOTH) -> Telling:
    return Telling(*((one, {}) for one in seen), space=space)


def test_entries_of_info_stand_side_by_side_in_their_order() -> None:
    infos = [{"b": [1, 2], "a": 5 + t, "other": "text"} for t in range(3)]
    env = CheckedEnv(of_infos(*infos), signal=CriticSignal.of("info:b, a"))
    env.reset(1)
    assert env.columns == {"critic": 3} and env.told["critic"].tolist() == [1, 2, 5]
    for t in (1, 2):
        told = env.step(STAY).critic
        assert told is not None and told.dtype == np.float32 and told.tolist() == [1, 2, 5 + t]
    assert env.told["critic"].tolist() == [1, 2, 5]  # of the reset


def test_arrays_that_are_used_again_are_copied() -> None:
    kept = np.zeros(2, np.float32)
    env = CheckedEnv(of_infos({"a": kept}, {"a": kept}), signal=CriticSignal.of("a"))
    env.reset(1)
    told = env.step(STAY).critic
    kept[:] = 7
    assert told is not None and told.tolist() == env.told["critic"].tolist() == [0, 0]


def test_an_entry_of_the_observation_is_taken_out_of_it() -> None:
    seen = [{"place": [0.1, 0.2], "speed": [t]} for t in range(3)]
    env = CheckedEnv(of_entries(*seen), signal=CriticSignal.of("obs:speed"))
    assert env.observation.size == 2 and list(env.observation.space.spaces) == ["place"]  # type: ignore[attr-defined]
    np.testing.assert_allclose(env.reset(1), [0.1, 0.2])
    assert env.told["critic"].tolist() == [0]
    outcome = env.step(STAY)
    np.testing.assert_allclose(outcome.observation, [0.1, 0.2])
    assert outcome.critic is not None and outcome.critic.tolist() == [1]
    # Whoever acts may hand over what the environment gives, or what the policy sees of it.
    for given in (seen[0], {"place": [0.1, 0.2]}):
        np.testing.assert_allclose(env.observation.encode(given), [0.1, 0.2])
        assert env.observation.encode_batch([given, given], 2).shape == (2, 2)
    with pytest.raises(BadInputError, match="keys"):
        env.observation.encode({"speed": [1]})


def test_the_order_of_what_is_left_is_kept() -> None:
    order = spaces.Dict([("z", BOTH["place"]), ("b", BOTH["speed"]), ("a", BOTH["speed"])])
    env = CheckedEnv(of_entries(space=order), signal=CriticSignal.of("obs:b"))
    assert list(env.observation.space.spaces) == ["z", "a"]  # type: ignore[attr-defined]


def test_discrete_entries_become_one_hot() -> None:
    space = spaces.Dict({"place": BOTH["place"], "kind": spaces.Discrete(3)})
    seen = {"place": [0, 0], "kind": 2}
    env = CheckedEnv(of_entries(seen, space=space), signal=CriticSignal.of("obs:kind"))
    env.reset(1)
    assert env.told["critic"].tolist() == [0, 0, 1]


def test_something_is_left_to_see() -> None:
    with pytest.raises(UnsupportedSpaceError, match="nothing is left of the observation space"):
        CheckedEnv(of_entries(), signal=CriticSignal.of("obs:speed,obs:place"))


def _clock(env: Any) -> Any:
    return [env.unwrapped.at, 1.0]


def test_a_function_is_asked_after_every_reset_and_step() -> None:
    env = CheckedEnv(of_infos({}, {}, {}), signal=CriticSignal(function=_clock))
    env.reset(1)
    assert env.told["critic"].tolist() == [0, 1]
    assert [env.step(STAY).critic.tolist() for _ in range(2)] == [[1, 1], [2, 1]]  # type: ignore[union-attr]


def _raises(env: Any) -> Any:
    return env.unwrapped.no_such_thing


def test_a_function_that_fails_is_named() -> None:
    env = CheckedEnv(of_infos({}), signal=CriticSignal(function=_raises))
    words = "function given as critic_observations raised AttributeError at reset(seed=1)"
    with pytest.raises(EnvironmentFault, match=re.escape(words)):
        env.reset(1)


@pytest.mark.parametrize(
    ("infos", "words"),
    [
        ([{"a": 1}, {}], "at step 1 of an episode: there is no info['a'] (there is: nothing), and"),
        ([{"a": 1}, {"a": 1}, {"b": 1}], "at step 2 of an episode: there is no info['a'] (there"),
        ([{"a": 1}, {"a": [1, 2]}], "at step 1 of an episode: info['a'] has 2 numbers, but 1 at"),
        ([{"a": np.nan}], "at reset(seed=1): info['a'] is float nan, not finite in float32"),
        ([{"a": 1}, {"a": np.inf}], "at step 1 of an episode: info['a'] is float inf, not finite"),
        ([{"a": 1}, {"a": 1e300}], "not finite in float32"),
        ([{"a": "left"}], "at reset(seed=1): info['a'] is str 'left', no numbers"),
        ([{"a": None}], "info['a'] is NoneType None, no numbers: the critic reads finite numbers"),
        ([{"a": []}], "info['a'] is list [], no numbers"),
    ],
)
def test_what_a_critic_cannot_read(infos: list[Any], words: str) -> None:
    env = CheckedEnv(of_infos(*infos), signal=CriticSignal.of("a"))
    with pytest.raises(EnvironmentFault, match=re.escape(words)) as fault:
        _play(env, len(infos) - 1)
    assert str(fault.value).startswith("The environment (Telling): critic_observations at ")


def _play(env: CheckedEnv, steps: int) -> None:
    env.reset(1)
    for _ in range(steps):
        env.step(STAY)


def test_an_entry_of_the_wrong_form_is_named() -> None:
    seen = [{"place": [0, 0], "speed": [1]}, {"place": [0, 0], "speed": [1, 2]}]
    env = CheckedEnv(of_entries(*seen), signal=CriticSignal.of("obs:speed"))
    env.reset(1)
    words = "at step 1 of an episode: observation['speed']: The observation has shape (2,), expec"
    with pytest.raises(EnvironmentFault, match=re.escape(words)):
        env.step(STAY)


def test_a_reset_must_be_like_the_first() -> None:
    for later, words in (
        ({}, "there is no info['a'] (there is: nothing), and the first reset had it. Give it at"),
        ({"a": [1, 2]}, "info['a'] has 2 numbers, but 1 at the first reset. Give as many"),
    ):
        env = CheckedEnv(of_infos({"a": 1}, {"a": 1}, later), signal=CriticSignal.of("a"))
        env.reset(1)
        env.reset(2)
        subject = "The environment (Telling): critic_observations at reset(seed=3): "
        with pytest.raises(EnvironmentFault, match=re.escape(subject + words)):
            env.reset(3)


@pytest.mark.parametrize(
    ("env", "asked", "missing"),
    [
        (of_infos({"b": 1}, {}), "a", "there is no info['a'] (there is: b)"),
        (of_infos({}, {}), "obs:a", "there is no observation['a'] (there is: no dict)"),
        (of_entries(*[{"place": [0, 0]}] * 2, space=spaces.Dict({"place": BOTH["place"]})),
         "obs:speed", "there is no observation['speed'] (there is: place)"),
        (of_infos({"a": 1}, {}), "a,b", "there is no info['b'] (there is: a)"),
    ],
)  # fmt: skip
def test_where_it_is_not_given_one_can_act(env: Any, asked: str, missing: str) -> None:
    checked = CheckedEnv(env, signal=CriticSignal.of(asked))
    checked.reset(1)
    assert checked.columns == {} and checked.untold == missing
    assert checked.step(STAY).critic is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no meaning at ''"),
        ("a,", "has no meaning at ''"),
        ("obs:", "has no meaning at 'obs:'"),
        ("state:a", "has no meaning at 'state:a': write entries of info as in hidden"),
        ("a, info:a", "names info['a'] twice"),
        ("task, a", "the word task stands alone; an entry of info with that name is info:task"),
    ],
)
def test_words_without_a_meaning(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        CriticSignal.of(text)


def _state(env: Any) -> Any:
    return env.unwrapped.state


def test_a_process_hands_over_the_same() -> None:
    signal = CriticSignal(function=_state)
    make: Callable[[], Any] = partial(make_env, "Pendulum-V-v0")
    here, there = CheckedEnv(make(), signal=signal), SubprocEnv(make, 60, signal=signal).ready()
    try:
        for env in (here, there):
            env.reset(3)
        np.testing.assert_array_equal(here.told["critic"], there.told["critic"])
        for t in range(3):
            one, two = (env.step(np.array([t / 4], np.float32)) for env in (here, there))
            assert one.critic is not None and two.critic is not None
            np.testing.assert_array_equal(one.critic, two.critic)
    finally:
        there.close()


def test_a_function_that_cannot_be_sent_is_refused_at_once() -> None:
    signal = CriticSignal(function=lambda env: [0.0])
    with pytest.raises(ConfigError, match="the function given as critic_observations to other pro"):
        SubprocEnv(partial(make_env, "Pendulum-V-v0"), 60, signal=signal)
