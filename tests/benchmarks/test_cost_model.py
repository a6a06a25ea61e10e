"""What an update should cost, worked out from three that were measured."""

from __future__ import annotations

import pytest

from resel.agent import configure
from resel.benchmarks import CostModel, UpdateCost, measure_cost, measure_model, work_of
from resel.config import Config
from resel.methods import own_methods

TINY = Config.build("", {}).sized("tiny")


def test_the_model_goes_through_what_was_measured() -> None:
    """Also where a part seems to take less than no time."""
    truth = CostModel(1e-4, 3e-11, 2e-5, 4e8)

    def measure(config: Config, threads: int) -> UpdateCost:
        assert threads == 2
        return truth.estimate(work_of(config))

    found = measure_model(2, measure)
    for name, value in vars(truth).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-6)
    odd = measure_model(1, lambda config, threads: UpdateCost(0.01, 10, 10))
    assert odd.product == 0 and odd.tensor > 0 and odd.process == 0
    assert odd.estimate(work_of(Config.build("TMaze-v0", TINY))).estimated


@pytest.mark.parametrize("method", [method.name for method in own_methods()])
def test_work_of_every_method(method: str) -> None:
    """Larger networks are more work, and what on-policy methods do in turn is seen."""
    task = "Pendulum-gravity-v0"
    tiny, small = (
        work_of(configure(task, method=method, preset="small", size=size, device="cpu"))
        for size in ("tiny", "small")
    )
    assert tiny.tensors == small.tensors > 0
    assert 0 < tiny.products < small.products and 0 < tiny.outputs < small.outputs
    assert 0 < tiny.saved < small.saved
    (found,) = [one for one in own_methods() if one.name == method]
    assert (tiny.row > 0) == found.learner.on_policy


@pytest.mark.slow
def test_estimates_are_near_what_is_measured() -> None:
    model = measure_model(1, measure_cost)
    for task, given in (("TMaze-v0", {}), ("Pendulum-V-v0", {"method": "sac-gru"})):
        config = configure(task, size="tiny", device="cpu", **given)  # type: ignore[arg-type]
        measured, estimate = measure_cost(config, 1), model.estimate(work_of(config))
        assert 1 / 4 < estimate.seconds / measured.seconds < 4
        assert 1 / 2 < estimate.memory / measured.memory < 2
        assert estimate.saved == pytest.approx(measured.saved, rel=0.05)
