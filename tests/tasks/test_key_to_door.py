"""Key to door: what is seen, what it pays, and a player that knows the rules."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from presets import task_settings

from resel.errors import BadInputError, ConfigError
from resel.tasks import make_env
from resel.tasks.key_to_door_env import EAST, NORTH, SOUTH, WEST, KeyToDoorEnv

PLAYER, WALL, FLOOR = (228, 148, 109), (25, 25, 25), (204, 204, 204)
KEY, DOOR, APPLE, LIGHT = (159, 81, 44), (134, 206, 235), (140, 178, 0), (255, 255, 255)
LENGTHS = [60, 120, 250, 500]
STEPS = {NORTH: (-1, 0), SOUTH: (1, 0), WEST: (0, -1), EAST: (0, 1)}


def colours(observation: Any) -> dict[tuple[int, int], tuple[int, ...]]:
    """The colour of each visible cell, by its place relative to the player."""
    image = np.rint(observation.reshape(3, 5, 5).transpose(1, 2, 0) * 255).astype(int)
    return {(r - 2, c - 2): tuple(image[r, c].tolist()) for r in range(5) for c in range(5)}


def way(seen: dict[tuple[int, int], Any], goal: tuple[int, int]) -> list[int]:
    """The shortest visible way from the player to `goal`, as moves."""
    queue, before = deque([(0, 0)]), {(0, 0): (-1, (0, 0))}
    while queue:
        place = queue.popleft()
        for move, (row, column) in STEPS.items():
            there = (place[0] + row, place[1] + column)
            if there in before or seen.get(there, WALL) == WALL:
                continue
            before[there] = (move, place)
            queue.append(there)
    moves: list[int] = []
    while goal in before and goal != (0, 0):
        move, goal = before[goal]
        moves.insert(0, move)
    return moves


class Scripted:
    """Looks only at the view: walks to a key, an apple or the door it sees."""

    def __init__(self, takes_key: bool = True) -> None:
        self.takes_key = takes_key

    def __call__(self, observation: Any, time: int, distractor: int) -> int:
        seen = colours(observation)
        wanted = KEY if time < 15 else APPLE if time < 15 + distractor else DOOR
        if time < 15 and not self.takes_key:
            return SOUTH
        goals = [place for place, colour in seen.items() if colour == wanted]
        ways = sorted((way(seen, goal) for goal in goals), key=len)
        for moves in ways:
            if moves:
                return moves[0]
        if time < 15:  # go up to where keys are, then along
            return [NORTH, EAST, NORTH, WEST, NORTH, WEST, WEST][time % 7]
        return [WEST, EAST, NORTH, NORTH, EAST, SOUTH][time % 6]


def run(env: Any, player: Any, seed: int) -> tuple[list[Any], list[float], list[Any]]:
    observation, info = env.reset(seed=seed)
    observations, rewards, infos = [observation], [], [info]
    terminated = False
    while not terminated:
        action = player(observation, len(rewards), env.unwrapped.distractor)
        observation, reward, terminated, truncated, info = env.step(action)
        assert not truncated
        observations.append(observation)
        rewards.append(reward)
        infos.append(info)
    return observations, rewards, infos


@pytest.mark.parametrize("length", LENGTHS)
def test_a_player_that_knows_the_layout_opens_the_door(length: int) -> None:
    env = make_env(f"KeyToDoor-{length}-v0")
    world: Any = env.unwrapped
    for seed in range(10):
        env.reset(seed=seed)
        key, agent = world._key, world._agent
        room = {(r, c) for r in (1, 2, 4, 5) for c in range(3, 8)} | {(3, c) for c in (4, 5, 6)}
        seen = {(r + 2 - agent[0], c + 2 - agent[1]): FLOOR for r, c in room}
        moves = way(seen, (key[0] - agent[0], key[1] - agent[1]))
        assert 2 <= len(moves) <= 8
        script = moves + [SOUTH] * (length + 15 - len(moves)) + [NORTH] * 2 + [SOUTH] * 8
        outcomes = [env.step(move) for move in script]
        assert [o[2] for o in outcomes] == [False] * (length + 24) + [True]
        assert not any(o[3] for o in outcomes)
        assert [o[1] for o in outcomes[length + 15 :]] == [0, 5] + [0] * 8
        assert [o[4]["success"] for o in outcomes] == [False] * (length + 16) + [True] * 9
        assert sum(o[1] for o in outcomes) == 5


def test_a_player_that_only_looks_does_well() -> None:
    results = [run(KeyToDoorEnv(60), Scripted(), seed) for seed in range(40)]
    successes = np.mean([infos[-1]["success"] for _, _, infos in results])
    assert successes > 0.8
    assert np.mean([sum(rewards[15:75]) for _, rewards, _ in results]) > 12


@pytest.mark.parametrize("length", [60, 500])
def test_random_play(length: int) -> None:
    rng, returns, successes = np.random.default_rng(0), [], []
    for seed in range(300 if length == 60 else 60):
        _, rewards, infos = run(KeyToDoorEnv(length), lambda *_: int(rng.integers(4)), seed)
        returns.append(sum(rewards))
        successes.append(infos[-1]["success"])
    assert np.mean(returns) == pytest.approx({60: 5.4, 500: 43}[length], rel=0.15)
    assert np.mean(successes) < 0.06


def test_the_first_view_of_each_phase() -> None:
    observations, _, _ = run(KeyToDoorEnv(7), lambda *_: SOUTH, 0)
    explore, apples, door = (colours(observations[i]) for i in (0, 15, 22))
    assert explore[0, 0] == apples[0, 0] == door[0, 0] == PLAYER
    assert APPLE not in explore.values() and DOOR not in explore.values()
    # The player starts in the bottom row of the apples' room.
    assert [apples[1, c] for c in range(-2, 3)] == [WALL] * 5
    assert KEY not in apples.values() and DOOR not in apples.values()
    assert door == {
        (r, c): DOOR
        if (r, c) == (-2, 0)
        else PLAYER
        if (r, c) == (0, 0)
        else WALL
        if 2 in (abs(r), abs(c))
        else FLOOR
        for r in range(-2, 3)
        for c in range(-2, 3)
    }


def test_layouts() -> None:
    env, keys, starts, apples = KeyToDoorEnv(5), set(), set(), set()
    for seed in range(300):
        env.reset(seed=seed)
        keys.add(env._key)
        starts.add(env._agent)
        assert len(env._ripe_from) == 10
        apples |= set(env._ripe_from)
    assert (len(keys), len(starts), len(apples)) == (10, 10, 22)


def test_the_key_lights_one_cell_for_one_step_and_pays_nothing() -> None:
    env = KeyToDoorEnv(5)
    env.reset(seed=0)
    env._agent, env._key = (4, 6), (3, 6)  # below the key, which lies left of the middle
    assert KEY in colours(env._observation()).values()
    observation, reward, *_ = env.step(NORTH)
    assert reward == 0
    assert colours(observation)[-1, 1] == LIGHT
    assert KEY not in colours(observation).values()
    assert LIGHT not in colours(env.step(SOUTH)[0]).values()
    assert LIGHT not in colours(env.step(NORTH)[0]).values()  # there is no second key


def test_the_key_is_never_seen_again() -> None:
    """The same moves with and without the key look the same until the door."""
    env = KeyToDoorEnv(30)
    script = np.random.default_rng(0).integers(4, size=55)
    views = []
    for has_key in (False, True):
        env.reset(seed=1)
        env._found = has_key
        views.append([env.step(int(move))[0] for move in script][14:45])
    np.testing.assert_array_equal(*views)


def test_what_is_done_early_does_not_change_later_rooms() -> None:
    apples = []
    for move in (NORTH, SOUTH):
        env = KeyToDoorEnv(30)
        env.reset(seed=1)
        apples.append([env.step(move)[0] for _ in range(15)][-1])
    np.testing.assert_array_equal(*apples)


def test_an_apple_grows_back() -> None:
    env = KeyToDoorEnv(60)
    env.reset(seed=0)
    for _ in range(15):
        env.step(SOUTH)
    env._ripe_from = {(7, 5): 0}  # two steps left of the start
    assert [env.step(WEST)[1] for _ in range(2)] == [0, 1]
    env.step(EAST)
    visible = [colours(env.step(SOUTH)[0])[0, -1] == APPLE for _ in range(21)]
    assert visible == [False] * 19 + [True] * 2
    assert env.step(WEST)[1] == 1
    # Standing on the cell it is picked with the step after it is back.
    assert [env.step(SOUTH)[1] for _ in range(23)] == [0] * 21 + [1, 0]


def test_the_door() -> None:
    env = KeyToDoorEnv(1)
    for found, expected in ((False, [0, 0, 0, 0]), (True, [0, 5, 0, 0])):
        env.reset(seed=0)
        env._found = found
        for _ in range(16):
            env.step(SOUTH)
        outcomes = [env.step(move) for move in (NORTH, NORTH, SOUTH, NORTH)]
        assert [o[1] for o in outcomes] == expected
        assert outcomes[-1][4]["success"] == found
        view = colours(outcomes[-1][0])
        # The door hides the player who stands in it and stops the one without a key.
        assert (view[0, 0], view[-1, 0]) == ((DOOR, FLOOR) if found else (PLAYER, DOOR))
    for _ in range(5):  # out through the door, up to the edge of the board
        observation, *_ = env.step(NORTH)
    assert colours(observation)[1, 0] == DOOR


@pytest.mark.parametrize("length", LENGTHS)
def test_seeds_alone_decide(length: int, repeats: Any) -> None:
    repeats(lambda: make_env(f"KeyToDoor-{length}-v0"))


def test_bad_input() -> None:
    for length in (0, -1, 2.5, True):
        with pytest.raises(ConfigError, match=f"distractor={length!r} cannot work"):
            gymnasium.make("resel/KeyToDoor-60-v0", distractor=length)
    with pytest.raises(ConfigError, match="render_mode='human' is not known"):
        KeyToDoorEnv(render_mode="human")
    env = gymnasium.make("resel/KeyToDoor-60-v0", distractor=1)
    with pytest.raises(ResetNeeded, match="no episode running"):
        env.step(0)
    env.reset(seed=0)
    for action in (4, -1, 0.5, None):
        with pytest.raises(BadInputError, match=r"The action .* is not in Discrete\(4\)"):
            env.step(action)
    assert [env.step(0)[2] for _ in range(26)] == [False] * 25 + [True]
    with pytest.raises(ResetNeeded, match="no episode running"):
        env.step(0)


def test_the_picture_shows_the_whole_room() -> None:
    env = KeyToDoorEnv(60, render_mode="rgb_array")
    env.reset(seed=0)
    picture: Any = env.render()
    assert picture.shape == (7 * 32, 11 * 32, 3) and picture.dtype == np.uint8
    row, column = env._agent[0] - 2, env._agent[1] - 2
    assert picture[row * 32 + 16, column * 32 + 16].tolist() == pytest.approx(PLAYER, abs=1)
    assert KeyToDoorEnv().render() is None


def test_settings() -> None:
    for length, steps in zip(LENGTHS, (3.4e6, 5.8e6, 8.25e6, 7.9e6), strict=True):
        settings = task_settings(f"KeyToDoor-{length}-v0")
        assert settings["steps"] == steps and settings["gamma"] == 0.9999
        assert settings["conv_kernel"] == 0 and not settings["feed_forward"]
        assert settings["input_layers"] == 3
        assert settings.get("n_layers", 1) == (4 if length == 500 else 1)
        assert settings["lr_context_encoder"] == 1e-5 and settings["batch_steps"] == 1000
