"""Agents saved without what only learning needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported import config_of
from method_cases import every_case, noise_buffer, small_learner

from resel import RESeL
from resel.errors import ConfigError, DamagedFileError
from resel.methods import Learner, Method
from resel.runs import read_bundle, write_bundle
from resel.training import Actor


def acted(learner: Learner, space: str) -> list[np.ndarray]:
    """What it does with the same noise, after some episodes if it adapts."""
    actor, rng, found = Actor(learner), np.random.default_rng(0), []
    state = actor.initial_state(2)
    if learner.adaptation is not None:
        buffer = noise_buffer(space)
        played = [buffer.episode(number) for number in range(2)]
        state = actor.started(played, torch.Generator().manual_seed(0))
    for _ in range(6):
        seen = rng.normal(size=(state.rows, learner.dims.observation)).astype(np.float32)
        policy, state = actor.observe(seen, np.ones(state.rows, np.float32), state)
        action = actor.choose(policy, None)
        state = actor.remember(state, action)
        found.append(action)
    return found


@every_case
def test_what_suffices_to_act(method: Method, space: str) -> None:
    config = config_of(method.name)
    one, other = small_learner(config, space), small_learner(config.replace(seed=7), space)
    for network in one.networks.values():
        for parameter in network.parameters():
            parameter.data += 0.1
    policy = one.acting_weights()
    assert not any(name.startswith("target_") for name in policy)
    other.load_weights({**other.weights(), **policy})
    for a, b in zip(acted(one, space), acted(other, space), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_agent_without_critics(tiny: dict[str, Any], tmp_path: Path) -> None:
    whole = RESeL("toy/Box-v0", **tiny, normalize_observations=True).learn(45)
    whole.save(tmp_path / "whole")
    whole.save(tmp_path / "policy", policy_only=True)
    weights = read_bundle(tmp_path / "policy", "agent").tensors["weights"]
    assert {name.partition(".")[0] for name in weights} == {"policy", "normalizer"}
    sizes = [
        sum(file.stat().st_size for file in (tmp_path / name).glob("*.safetensors"))
        for name in ("whole", "policy")
    ]
    assert sizes[1] < 0.5 * sizes[0]
    agent = RESeL.load(tmp_path / "policy")
    assert agent.policy_only and not RESeL.load(tmp_path / "whole").policy_only
    seen, state, other = np.ones(3, np.float32), None, None
    for _ in range(5):
        action, state = whole.predict(seen, state)
        again, other = agent.predict(seen, other)
        assert np.array_equal(action, again)
    assert agent.evaluate(2, seed=3) == whole.evaluate(2, seed=3)
    with pytest.raises(ConfigError, match=r"policy_only=True and cannot learn on.*init_from"):
        agent.learn(10)
    with pytest.raises(ConfigError, match="can be saved with policy_only=True alone"):
        agent.save(tmp_path / "again")
    agent.save(tmp_path / "again", policy_only=True)
    assert np.array_equal(RESeL.load(tmp_path / "again").predict(seen)[0], whole.predict(seen)[0])
    new = RESeL("toy/Box-v0", **tiny, init_from=str(tmp_path / "policy"))
    assert new.warm_start is not None and "New are critic" in str(new.warm_start)


def test_a_policy_that_is_not_all_there(tiny: dict[str, Any], tmp_path: Path) -> None:
    RESeL("toy/Box-v0", **tiny).save(tmp_path / "policy", policy_only=True)
    bundle = read_bundle(tmp_path / "policy", "agent")
    weights = dict(bundle.tensors["weights"])
    lost = next(name for name in weights if name.startswith("policy."))
    del weights[lost]
    write_bundle(tmp_path / "policy", "agent", {"weights": weights}, bundle.documents)
    with pytest.raises(DamagedFileError, match=f"{lost} is missing"):
        RESeL.load(tmp_path / "policy")
    full = RESeL("toy/Box-v0", **tiny)
    document = {"agent": {**bundle.documents["agent"], "policy_only": False}}
    write_bundle(tmp_path / "policy", "agent", {"weights": full.learner.acting_weights()}, document)
    with pytest.raises(DamagedFileError, match="critic"):
        RESeL.load(tmp_path / "policy")
