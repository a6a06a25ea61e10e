"""What is searched: every method has something, and every end of a range can be had."""

from __future__ import annotations

import pytest

from resel.agent import configure
from resel.methods import Between, OneOf, chosen_space, methods, search_space


@pytest.mark.parametrize("method", [method.name for method in methods()[0]])
def test_every_method_can_be_tuned(method: str) -> None:
    for preset in ("paper", "small"):
        config = configure("", method=method, preset=preset)
        space = search_space(config)
        assert {"gamma", "lr_policy"} <= set(space) and len(space) >= 3
        for name, found in space.items():
            own = config.flat()[name]
            if isinstance(found, Between):
                assert found.low <= own <= found.high and found.low < found.high, name
            else:
                assert own in found.choices and len(set(found.choices)) > 1, name
            ends = found.choices if isinstance(found, OneOf) else (found.low, found.high)
            for value in ends:
                config.replace(**{name: value})


def test_the_encoder_s_rate_is_searched_below_the_policy_s() -> None:
    space = search_space(configure("Pendulum-V-v0", method="resel"))
    found = space["lr_context_encoder"]
    assert isinstance(found, Between) and found.log
    assert (found.low, found.high) == (pytest.approx(1e-6), pytest.approx(1e-3))


def test_words() -> None:
    config = configure("TMaze-v0", method="resel")
    words = ["tau", "gamma=0.9:0.99", "batch_steps=1e2:1000", "policy_kl=forward,reverse"]
    space = chosen_space(config, [*words, "alpha=None,0.1"], {})
    assert space["tau"] == search_space(config)["tau"]
    assert space["gamma"] == Between(0.9, 0.99)
    assert space["batch_steps"] == Between(100, 1000, log=True)
    assert isinstance(space["batch_steps"].low, int)
    assert space["policy_kl"] == OneOf(("forward", "reverse"))
    assert space["alpha"] == OneOf((None, 0.1))
    assert "tau" not in chosen_space(config, [], {"tau": 0.1})
