"""What one update does to a policy, on one where it is known by hand and on real runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from resel.analysis import PAPER_RATES, Rates, measure_amplification
from resel.analysis.amplification import Actions, Probe, compare
from resel.errors import BadInputError, ConfigError, RunDirectoryError
from resel.training import Trainer

MakeRun = Callable[..., Path]


class LinearPolicy:
    """h_t = k h_{t-1} + w x_t and y_t = c h_t + v x_t, fed with x = 1 or -1.

    An update moves w by LR_CE and v by LR_other, so that
    |y_t - y'_t| = |LR_CE c (1 - k^(t+1)) / (1 - k) + LR_other|.
    """

    k, c = 0.9, 0.5

    def __init__(self, lengths: tuple[int, ...] = (120, 150, 100, 200)) -> None:
        self.inputs = [np.full(n, 1.0 if n % 4 else -1.0) for n in lengths]

    def act(self, rates: Rates) -> Actions:
        return [
            self._episode(x, 0.3 + rates.context_encoder, 0.2 + rates.other) for x in self.inputs
        ]

    def _episode(self, x: np.ndarray, w: float, v: float) -> np.ndarray:
        h, y = 0.0, []
        for now in x:
            h = self.k * h + w * now
            y.append([self.c * h + v * now, 1.0])
        return np.array(y)


def vary(policy: LinearPolicy, lr_context_encoder: float, lr_other: float) -> object:
    rates = Rates(lr_context_encoder, lr_other)
    return compare(policy.act(Rates(0, 0)), policy.act(rates), rates)


# By hand


def test_a_linear_policy_gives_the_closed_form() -> None:
    policy, lr = LinearPolicy(), 0.02
    found = vary(policy, lr, 0.0)
    t = np.arange(150)  # of four episodes, two reach step 149
    exact = lr * policy.c * (1 - policy.k ** (t + 1)) / (1 - policy.k)
    assert found.mean == pytest.approx(exact)
    assert found.episodes == (4,) * 100 + (3,) * 20 + (2,) * 30
    assert found.standard_error == pytest.approx(np.zeros(150), abs=1e-12)
    assert found.running_mean == pytest.approx(np.cumsum(exact) / (t + 1))
    assert found.first == pytest.approx(lr * policy.c)
    assert found.converged == pytest.approx(lr * policy.c / (1 - policy.k), rel=1e-4)
    assert found.factor == pytest.approx(1 / (1 - policy.k), rel=1e-4)
    # The same as Proposition 1 with K_h = K_y = k: one step of the memory, then its echo.
    assert found.effective.K_h == pytest.approx(policy.k, abs=1e-4)
    assert found.effective.K_y == pytest.approx(policy.k, rel=1e-3)
    assert found.effective.epsilon == pytest.approx(lr * policy.c, rel=1e-3)
    assert found.bound == pytest.approx(found.running_mean, rel=1e-4)


def test_layers_without_memory_are_not_amplified() -> None:
    found = vary(LinearPolicy(), 0.0, 0.02)
    assert found.mean == pytest.approx(np.full(150, 0.02))
    assert found.factor == pytest.approx(1.0)
    both = vary(LinearPolicy(), 0.01, 0.02)
    alone = vary(LinearPolicy(), 0.01, 0.0)
    assert both.mean == pytest.approx(np.add(alone.mean, 0.02))


def test_mean_and_standard_error_over_episodes() -> None:
    before = [np.zeros((4, 2)), np.zeros((4, 2)), np.zeros((5, 2))]
    after = [np.tile([3.0, 4.0], (4, 1)), np.zeros((4, 2)), np.tile([0.0, 1.0], (5, 1))]
    found = compare(before, after, Rates(1, 1))
    assert found.mean == pytest.approx([2.0] * 4)  # distances 5, 0 and 1
    assert found.standard_error == pytest.approx([np.std([5, 0, 1], ddof=1) / 3**0.5] * 4)
    assert found.episodes == (3, 3, 3, 3)


def test_nothing_changed_is_zero() -> None:
    found = vary(LinearPolicy(), 0.0, 0.0)
    assert set(found.mean) == {0.0} and found.converged == 0
    assert found.factor is None and set(found.bound) == {0.0}


def test_output_that_is_not_finite_is_told() -> None:
    with pytest.raises(BadInputError, match="not finite: try lower rates"):
        compare([np.zeros((5, 1))] * 2, [np.full((5, 1), np.nan)] * 2, Rates(1e9, 0))


# Real runs


@pytest.mark.parametrize("encoder", ["gru", "lstm", "mamba"])
def test_the_protocol_on_a_run(encoder: str, make_run: MakeRun) -> None:
    path = make_run(encoder=encoder)
    found = measure_amplification(path, [*PAPER_RATES, (0.0, 0.0)], episodes=6, seed=3)
    assert found.task == "toy/LongBox-v0" and found.encoder == encoder and found.step == 150
    assert found.distance == "tanh(mean)" and len(found.lengths) == len(found.returns) == 6
    assert [tuple(v.rates) for v in found.variations] == [*map(tuple, PAPER_RATES), (0, 0)]
    same, others, fast, slow, both, nothing = found.variations
    assert set(nothing.mean) == {0.0}
    for variation in (same, others, fast, slow, both):
        assert len(variation.mean) >= 25 and min(variation.mean) > 0
        assert max(variation.episodes) == 6 and min(variation.episodes) >= 3
    # Steps this small are nearly linear in the rate.
    assert slow.mean == pytest.approx(np.array(same.mean) / 30, rel=0.2)
    assert fast.mean == pytest.approx(np.array(others.mean) * 20, rel=0.5)
    json.dumps(found.to_json(), allow_nan=False)
    assert found.to_json()["variations"][0]["effective"]["K_h"] == same.effective.K_h
    assert found.of(Rates(0.0, 6e-3)) is fast
    assert measure_amplification(path, PAPER_RATES[:1], 6, 3).variations == (same,)
    assert measure_amplification(path, PAPER_RATES[:1], 6, 4).variations[0] != same


def test_discrete_policies_are_compared_by_probabilities(make_run: MakeRun) -> None:
    found = measure_amplification(make_run("toy/LongDiscrete-v0"), [(1e-3, 0.0)], episodes=4)
    assert found.distance == "probabilities"
    assert 0 < found.variations[0].converged < 2**0.5


def test_each_update_begins_at_the_checkpoint(make_run: MakeRun, everything: object) -> None:
    with Probe(make_run(), episodes=3) as probe:
        trainer: Trainer = probe._trainer
        before = everything(trainer)  # type: ignore[operator]
        found = [probe.vary(Rates(1e-2 / i, 1e-2)) for i in (1, 2, 3)]
        assert everything(trainer) == before  # type: ignore[operator]
        assert probe.vary(Rates(1e-2, 1e-2)) is found[0]
        with pytest.raises(ConfigError, match="none may be below 0"):
            probe.vary(Rates(-1e-3, 0.0))
    with Probe(make_run(), episodes=3) as probe:
        assert [probe.vary(Rates(1e-2 / i, 1e-2)) for i in (3, 2, 1)] == found[::-1]


def test_the_run_is_only_read(make_run: MakeRun) -> None:
    path = make_run()

    def content() -> dict[str, tuple[str, int]]:
        return {
            str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
            for file in sorted(path.rglob("*"))
            if file.is_file()
        }

    before = content()
    measure_amplification(path, episodes=2)
    assert content() == before


# What cannot be measured


def test_runs_that_cannot_be_diagnosed(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="There is no run in"):
        measure_amplification(tmp_path)
    with pytest.raises(ConfigError, match="no recurrence that could amplify"):
        measure_amplification(make_run(encoder="mlp"))
    with pytest.raises(RunDirectoryError, match="learning had not begun"):
        measure_amplification(make_run(until=20))
    with pytest.raises(BadInputError, match="fewer than 4 steps"):
        measure_amplification(make_run("toy/Box-v0", max_episode_steps=3))
    with pytest.raises(ConfigError, match="episodes=1 is too small"):
        measure_amplification(make_run(), episodes=1)
    (tmp_path / "config.json").write_bytes((make_run() / "config.json").read_bytes())
    with pytest.raises(RunDirectoryError, match="has no checkpoint yet"):
        measure_amplification(tmp_path)
