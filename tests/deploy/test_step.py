"""A step of plain tensor operations does what the kernels and networks do while acting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from exported import ACTIONS, case, config_of, outcome, run_plainly
from gymnasium import spaces
from method_cases import every_case, every_method, small_learner

from resel.deploy import PolicyStep, Session, StepLayout, onnx_model
from resel.envs import ActionSpec
from resel.errors import ConfigError
from resel.methods import Method
from resel.networks import encoders


def _short(settings: type[Any]) -> dict[str, Any]:
    """What is kept of an episode, where that has to be known."""
    return {"longest_episode": 30} if hasattr(settings, "longest_episode") else {}


ENCODERS: list[tuple[str, dict[str, Any]]] = [
    *((spec.name, _short(spec.settings)) for spec in encoders()[0]),
    ("mamba", {"n_layers": 2, "feed_forward": False}),
    ("mamba", {"conv_kernel": 0}),
    ("mamba", {"conv_kernel": 1}),
    ("gru", {"n_layers": 2, "reward_input": True}),
    ("lstm", {"n_layers": 2, "normalize_observations": True}),
    ("transformer", {"window": 6}),
    ("smoothing", {"window": 5}),
]
every_encoder = pytest.mark.parametrize(
    ("encoder", "settings"), ENCODERS, ids=[f"{e}-{'-'.join(s)}" for e, s in ENCODERS]
)


def adapts(method: Method) -> bool:
    """Whether it plays in a task before it acts there."""
    return "adaptation" in vars(method.learner)


@pytest.fixture
def _as_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways that networks take while a graph is made of them."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


@pytest.mark.parametrize("space", ["Box", "Discrete"])
@every_encoder
def test_every_encoder(
    encoder: str, settings: dict[str, Any], space: str, request: pytest.FixtureRequest
) -> None:
    config = config_of("resel", encoder, **settings)
    _, step, vectors = case(config, space, rows=3)
    request.getfixturevalue("_as_traced")
    found = outcome(run_plainly(step), step, vectors, space)
    assert found.good and found.steps > 100, found


@every_case
def test_every_method(method: Method, space: str, request: pytest.FixtureRequest) -> None:
    if adapts(method):
        pytest.skip("refused: see below")
    _, step, vectors = case(config_of(method.name), space, rows=2, stochastic=True)
    request.getfixturevalue("_as_traced")
    found = outcome(run_plainly(step), step, vectors, space)
    assert found.good, found


@every_method
def test_only_those_that_adapt_before_acting_are_refused(method: Method) -> None:
    learner = small_learner(config_of(method.name), method.spaces[0])
    if not adapts(method):
        StepLayout.of(learner)
        return
    with pytest.raises(ConfigError, match=f"The method {method.name} cannot be exported"):
        StepLayout.of(learner)


def test_the_state_is_laid_out_as_told() -> None:
    _, step, _ = case(config_of("resel", "lstm", reward_input=True), "Box", 1, stochastic=True)
    layout = step.layout
    assert [part.name for part in layout.h] == ["last_observation", "last_action", "memory_0"]
    assert [part.shape for part in layout.h] == [(3,), (2,), (1, 8)]
    assert [part.shape for part in layout.c] == [(1, 8)]
    shapes = {"obs": (4, 3), "h_in": (1, 4, 13), "c_in": (1, 4, 8)}
    assert layout.inputs(4) == {**shapes, "reward": (4, 1), "noise": (4, 2)}
    assert layout.outputs == ["actions", "h_out", "c_out"]
    found = step(torch.ones(1, 3), torch.zeros(1, 1, 13), torch.zeros(1, 1, 8), *noise(1))
    assert torch.equal(found[1][0, 0, :3], torch.ones(3))  # without a normaliser, as they are
    action = found[1][0, 0, 3:5]
    assert torch.allclose(found[0][0], torch.tensor([2.0, 0.5]) * action + torch.tensor([0, 0.5]))


def noise(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(rows, 1), torch.zeros(rows, 2)


def test_actions_are_the_environments_own() -> None:
    learner = small_learner(config_of("ppo-gru"), "Discrete")
    step = PolicyStep(learner, ActionSpec.of(ACTIONS["Discrete"]))
    assert step.units(torch.tensor([[0.0], [3.0]])).tolist() == [[0, 5], [1, 6]]
    single = PolicyStep(learner, ActionSpec.of(spaces.Discrete(4, start=7)))
    assert single.units(torch.tensor([[1.0]])).tolist() == [[8]]
    box = PolicyStep(small_learner(config_of("ppo-gru"), "Box"), ActionSpec.of(ACTIONS["Box"]))
    assert box.units(torch.tensor([[-3.0, 0.5]])).tolist() == [[-2.0, 0.75]]  # Gaussians go beyond


_MODELS: list[tuple[str, str | None, str, Any, dict[str, Any]]] = [
    ("resel", "transformer", "Box", "dynamic", {"window": 6, "normalize_observations": True}),
    ("resel", "transformer", "Discrete", 1, {"longest_episode": 40}),
    ("resel", "gpt", "Box", 1, {"longest_episode": 40}),
    ("resel", "smoothing", "Box", "dynamic", {}),
    ("resel", "smoothing", "Discrete", 2, {"window": 5}),
    ("resel", "mlp", "Discrete", "dynamic", {"reward_input": True}),
    ("resel", "lstm", "Box", "dynamic", {"reward_input": True, "normalize_observations": True}),
    ("osi", "mamba", "Box", "dynamic", {}),
    ("osi", "lstm", "Box", 1, {}),
    *((name, None, "Box", 1, {}) for name in ("escp", "epi", "gpide-ess", "td3-ofe", "td7")),
    *((name, None, "Box", "dynamic", {}) for name in ("vrm", "varibad", "varibad-off", "ppo-gru")),
    *((name, None, "Discrete", 2, {}) for name in ("rl2", "mf-gpt", "a2c-gru", "sac-gru")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "encoder", "space", "batch", "settings"), _MODELS)
def test_models(
    method: str,
    encoder: str | None,
    space: str,
    batch: Any,
    settings: dict[str, Any],
    tmp_path: Any,
) -> None:
    rows = 5 if batch == "dynamic" else batch
    config = config_of(method, encoder, **settings)
    _, step, vectors = case(config, space, rows, stochastic=batch != 1)
    model = onnx_model(step, batch, {"observation": {"names": []}, "action": {"names": []}})
    (tmp_path / "policy.onnx").write_bytes(model)
    found = outcome(Session(tmp_path / "policy.onnx"), step, vectors, space)
    assert found.good, found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_models_of_any_size(seed: int, tmp_path: Any) -> None:
    rng = np.random.default_rng(seed)
    encoder = ["mamba", "gru", "lstm", "mlp"][seed % 4]
    settings = {
        "size": int(rng.choice([1, 2, 5, 33])),
        "n_layers": int(rng.integers(1, 4)),
        "input_layers": int(rng.integers(1, 3)),
        "head_layers": int(rng.integers(1, 4)),
        "reward_input": bool(rng.integers(2)),
        "normalize_observations": bool(rng.integers(2)),
    }
    space = ["Box", "Discrete"][int(rng.integers(2))]
    _, step, vectors = case(config_of("resel", encoder, **settings), space, 1)
    model = onnx_model(step, 1, {"observation": {"names": []}, "action": {"names": []}})
    (tmp_path / "policy.onnx").write_bytes(model)
    found = outcome(Session(tmp_path / "policy.onnx"), step, vectors, space)
    assert found.good, (settings, found)
