"""The T-maze: rewards, what is seen when, and who succeeds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from resel.errors import BadInputError, ConfigError
from resel.tasks import TMazeEnv
from resel.tasks.tmaze import CORRIDOR, CUE, DOWN, FORWARD, JUNCTION, LEFT, UP


def play(env: TMazeEnv, moves: list[int], seed: int) -> list[tuple[Any, ...]]:
    """The reset observation, then every step, of one episode."""
    return [env.reset(seed=seed), *(env.step(move) for move in moves)]


def cued(env: TMazeEnv, seed: int) -> int:
    return UP if env.reset(seed=seed)[0][CUE] > 0 else DOWN


@pytest.mark.parametrize("length", range(1, 31))
def test_perfect_play_succeeds_at_every_length(length: int) -> None:
    env = TMazeEnv(length)
    for seed in range(4):
        turn = cued(env, seed)
        steps = play(env, [FORWARD] * length + [turn], seed)[1:]
        assert [s[1] for s in steps] == [0.0] * length + [1.0]
        assert [s[2] for s in steps] == [False] * length + [True]
        assert not any(s[3] for s in steps)
        assert [s[4]["success"] for s in steps] == [False] * length + [True]
        junctions = [s[0][JUNCTION] for s in steps]
        assert junctions == [0] * (length - 1) + [1, 1]


@pytest.mark.parametrize("turn", [FORWARD, LEFT, "wrong"])
def test_any_other_move_at_the_junction_earns_nothing(turn: int | str) -> None:
    env = TMazeEnv(3)
    move = UP + DOWN - cued(env, 0) if turn == "wrong" else turn
    assert isinstance(move, int)
    last = play(env, [FORWARD] * 3 + [move], 0)[-1]
    assert (last[1], last[2], last[4]["success"]) == (0.0, True, False)


@pytest.mark.parametrize("idle", [UP, LEFT, DOWN])
def test_each_idle_corridor_step_costs_one_over_length(idle: int) -> None:
    env = TMazeEnv(4)
    steps = play(env, [FORWARD, idle, FORWARD, idle, FORWARD], 7)[1:]
    assert [s[1] for s in steps] == [0.0, -0.25, 0.0, -0.25, 0.0]
    # Too late for the junction: the time is up, whatever the position.
    assert [s[2] for s in steps] == [False] * 4 + [True]
    assert not steps[-1][4]["success"]
    assert steps[-1][0][CORRIDOR] == 1


def test_standing_still_never_succeeds() -> None:
    env = TMazeEnv(5)
    for move in (UP, DOWN):
        steps = play(env, [move] * 6, 0)[1:]
        assert sum(s[1] for s in steps) == pytest.approx(-6 / 5)
        assert not steps[-1][4]["success"]


def test_arriving_with_the_last_step_shows_the_junction_without_a_turn() -> None:
    steps = play(TMazeEnv(2), [UP, FORWARD, FORWARD], 0)
    np.testing.assert_array_equal(steps[-1][0], [0, 0, 1])
    assert steps[-1][2] and not steps[-1][4]["success"]


def test_the_cue_is_seen_once_and_the_rest_does_not_depend_on_it() -> None:
    env, rng = TMazeEnv(6), np.random.default_rng(0)
    seeds = {cued(env, seed): seed for seed in range(20)}
    assert set(seeds) == {UP, DOWN}
    for moves in [rng.choice(4, 7, p=[0.7, 0.1, 0.1, 0.1]).tolist() for _ in range(50)]:
        up, down = (play(env, moves, seeds[cue]) for cue in (UP, DOWN))
        assert (up[0][0][CUE], down[0][0][CUE]) == (1, -1)
        for one, other in zip(up[1:], down[1:], strict=True):
            assert one[0][CUE] == 0
            np.testing.assert_array_equal(one[0], other[0])
            assert one[0][CORRIDOR] + one[0][JUNCTION] == 1


def test_a_coin_flip_at_the_junction_is_right_half_of_the_time() -> None:
    env, rng = TMazeEnv(3), np.random.default_rng(1)
    env.reset(seed=0)
    wins = 0
    for _ in range(600):
        env.reset()
        for _ in range(3):
            env.step(FORWARD)
        wins += env.step(rng.choice([UP, DOWN]))[4]["success"]
    assert 250 < wins < 350


def test_seeds_reproduce_the_cues() -> None:
    def cues(seed: int) -> list[float]:
        env = TMazeEnv(2)
        env.reset(seed=seed)
        return [float(env.reset()[0][CUE]) for _ in range(30)]

    assert cues(3) == cues(3)
    assert len({tuple(cues(seed)) for seed in range(5)}) == 5
    assert set(cues(3)) == {-1.0, 1.0}


def test_a_step_needs_a_reset() -> None:
    env = TMazeEnv(1)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
        env.step(FORWARD)
    play(env, [FORWARD, UP], 0)
    with pytest.raises(ResetNeeded, match="no episode running"):
        env.step(FORWARD)
    env.reset()
    env.step(FORWARD)


@pytest.mark.parametrize("move", [4, -1, 0.5, None])
def test_unknown_moves(move: Any) -> None:
    env = TMazeEnv(2)
    env.reset(seed=0)
    with pytest.raises(BadInputError, match=f"no move {move!r}: use an integer from 0 to 3"):
        env.step(move)


@pytest.mark.parametrize("length", [0, -3, 2.5, True])
def test_bad_lengths(length: Any) -> None:
    with pytest.raises(ConfigError, match=f"length={length!r} cannot work"):
        TMazeEnv(length)


def test_bad_render_mode() -> None:
    with pytest.raises(ConfigError, match="render_mode='human' is not known"):
        TMazeEnv(render_mode="human")


@pytest.mark.parametrize("length", [1, 5, 500])
def test_the_picture_shows_the_cue_only_at_the_start(length: int) -> None:
    env = TMazeEnv(length, render_mode="rgb_array")
    seeds = {cued(env, seed): seed for seed in range(20)}

    def pictures(cue: int) -> list[Any]:
        env.reset(seed=seeds[cue])
        frames = [env.render()]
        for move in [FORWARD] * length + [UP]:
            env.step(move)
            frames.append(env.render())
        return frames

    up, down = pictures(UP), pictures(DOWN)
    assert up[0].dtype == np.uint8 and up[0].ndim == 3
    assert up[0].shape[0] <= 72 and up[0].shape[1] <= 4 * (length + 1) * 6
    assert (up[0] != down[0]).any()
    assert (up[-1] != down[-1]).any()  # the right turn looks different from the wrong one
    for one, other in zip(up[1:-1], down[1:-1], strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in itertools.pairwise(up):
        assert (one != other).any()  # the agent is seen to move


def test_without_a_render_mode_there_is_no_picture() -> None:
    env = TMazeEnv()
    env.reset(seed=0)
    assert env.render() is None
