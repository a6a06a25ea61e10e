"""The geometric form of the paper's bounds, and fitting it."""

from __future__ import annotations

import numpy as np
import pytest

from resel.analysis.geometric import Effective, fit
from resel.errors import BadInputError


@pytest.mark.parametrize(
    ("K_h", "K_y", "epsilon"),
    [(0.0, 2.0, 0.1), (0.5, 1.0, 3.0), (0.9, 0.4, 1e-3), (0.99, 0.09, 0.04), (0.95, 0.95, 1e-6)],
)
def test_the_fit_finds_the_constants_of_a_curve(K_h: float, K_y: float, epsilon: float) -> None:
    curve = Effective(K_h, K_y, epsilon, 0.0).variation(300)
    by_hand = [epsilon + K_y * sum(K_h**i for i in range(t)) * epsilon for t in range(300)]
    assert curve == pytest.approx(by_hand)
    found = fit(curve)
    assert found.K_h == pytest.approx(K_h, abs=1e-4)
    assert found.K_y == pytest.approx(K_y, rel=1e-3)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-3)
    assert found.relative_error < 1e-5
    assert found.amplification == pytest.approx(K_y / (1 - K_h), rel=1e-2)


def test_the_fit_is_the_best_in_its_class() -> None:
    rng = np.random.default_rng(0)
    curve = Effective(0.9, 0.5, 0.1, 0.0).variation(100) + 0.02 * rng.standard_normal(100)
    found = fit(curve)

    def error(constants: Effective) -> float:
        return float(((curve - constants.variation(100)) ** 2).mean())

    best = error(found)
    assert found.relative_error == pytest.approx(np.sqrt(best) / curve.mean())
    for _ in range(200):
        K_h, K_y, epsilon = rng.uniform(0.98, 1.02, 3) * (found.K_h, found.K_y, found.epsilon)
        assert error(Effective(min(K_h, 0.999), K_y, epsilon, 0.0)) >= best


def test_proposition_2_is_the_mean_of_proposition_1() -> None:
    constants = Effective(0.93, 0.7, 0.2, 0.0)
    means = np.cumsum(constants.variation(80)) / np.arange(1, 81)
    assert constants.mean_variation(80) == pytest.approx(means)
    t, K_h, K_y, epsilon = 41, 0.93, 0.7, 0.2
    as_printed = (
        K_y / (1 - K_h) * epsilon
        + epsilon
        - K_y * (1 - K_h ** (t + 1)) / ((1 + t) * (1 - K_h) ** 2) * epsilon
    )
    assert constants.mean_variation(80)[t] == pytest.approx(as_printed)


def test_curves_without_growth() -> None:
    zero = fit(np.zeros(20))
    assert (zero.K_h, zero.K_y, zero.epsilon, zero.relative_error) == (0, 0, 0, 0)
    flat = fit(np.full(20, 0.3))
    assert flat.epsilon == pytest.approx(0.3) and flat.variation(20) == pytest.approx(0.3)
    falling = fit(np.linspace(1.0, 0.5, 20))
    assert (falling.K_h, falling.K_y) == (0, 0) and falling.epsilon == 1


def test_epsilon_is_never_below_the_first_step() -> None:
    curve = np.concatenate([np.full(10, 0.01), np.full(90, 1.0)])
    found = fit(curve)
    assert found.epsilon == pytest.approx(0.01) and 0 < found.K_y < 100
    bent = fit(np.concatenate([[1e-20], np.linspace(0.5, 1.0, 99)]))
    assert bent.epsilon >= 1e-6 and np.isfinite(bent.K_y)
    still_rising = fit(np.arange(1.0, 101.0))
    assert still_rising.K_h <= 1 - 1 / 1000 + 1e-12


@pytest.mark.parametrize("curve", [[1.0, 2.0], [1.0, float("nan"), 2.0]])
def test_what_cannot_be_fitted(curve: list[float]) -> None:
    with pytest.raises(BadInputError, match="at least 3 finite numbers"):
        fit(curve)
