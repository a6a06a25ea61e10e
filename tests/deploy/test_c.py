"""A policy as C does what the library does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from c_policies import (
    LIMITS,
    SPACES,
    compiler,
    difference,
    dims_of,
    header_of,
    run_header,
    small_learner,
    some_steps,
    warmed,
)
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import every_case, small_config
from torch import Tensor
from torch.nn import functional as F

from resel import Encoder, EncoderSpec, register_encoder
from resel.deploy import CannotWriteError, PolicyStep, acted_alone, c_policy, compiled
from resel.envs import ActionSpec
from resel.errors import ConfigError, DivergedError
from resel.methods import Learner, Method, build_learner
from resel.networks import State
from resel.registry import ENCODERS as ENCODERS_KNOWN

TOLERANCE = 1e-5
ENCODERS = ("mamba", "gru", "lstm", "mlp")
PLAIN = {"normalize_observations": False, "reward_input": False}
RICH = {"normalize_observations": True, "reward_input": True, "probability_floor": 0.01}


def inputs_of(rich: bool, space: str) -> dict[str, Any]:
    """Settings of what is read."""
    chosen = dict(RICH if rich else PLAIN)
    if space == "Box":
        chosen.pop("probability_floor", None)
    return chosen


@pytest.mark.parametrize(
    ("encoder", "space", "rich", "name"),
    [
        ("mamba", "Box", True, "clang"),
        ("mamba", "Discrete", False, "gcc"),
        ("gru", "Box", False, "gcc"),
        ("gru", "Discrete", True, "clang"),
        ("lstm", "Box", True, "gcc"),
        ("lstm", "Discrete", False, "clang"),
        ("mlp", "Box", False, "clang"),
        ("mlp", "Discrete", True, "gcc"),
    ],
)
def test_the_same_over_a_thousand_steps(encoder: str, space: str, rich: bool, name: str) -> None:
    learner = small_learner(space, encoder=encoder, **inputs_of(rich, space))
    steps = some_steps(1000)
    answers = run_header(header_of(learner, space), steps, name)
    assert difference(learner, space, steps, answers) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "space", "rich", "name"),
    list(itertools.product(ENCODERS, SPACES, (False, True), ("gcc", "clang"))),
)
def test_the_same_in_all_combinations(encoder: str, space: str, rich: bool, name: str) -> None:
    learner = small_learner(space, 16, encoder=encoder, **inputs_of(rich, space))
    steps = some_steps(1000)
    answers = run_header(header_of(learner, space), steps, name)
    assert difference(learner, space, steps, answers) < TOLERANCE


NO_C = {"sac-transformer", "gpide-ess", "mf-gpt", "escp", "pearl", "promp"}
"""Methods that read their last steps anew, or adapt before they act."""


@pytest.mark.slow
@every_case
def test_every_method_is_the_same_or_refused(method: Method, space: str) -> None:
    learner = warmed(build_learner(small_config(method), dims_of(space), torch.device("cpu")))
    steps = some_steps(200)
    if method.name in NO_C:
        with pytest.raises(ConfigError, match=f"(policy of|method) {method.name} .*cannot be"):
            header_of(learner, space)
        return
    header = header_of(learner, space)
    assert difference(learner, space, steps, run_header(header, steps)) < TOLERANCE


def rounded(learner: Learner) -> None:
    """Matrices as float16 has them; the decays of a Mamba block are none."""
    with torch.no_grad():
        for name, parameter in learner.policy.named_parameters():
            if parameter.dim() >= 2 and not name.endswith("A_log"):
                parameter.copy_(parameter.half())


@pytest.mark.parametrize(("encoder", "space"), [("mamba", "Discrete"), ("lstm", "Box")])
def test_weights_of_16_bits_are_those_of_a_rounded_network(encoder: str, space: str) -> None:
    learner = small_learner(space, encoder=encoder)
    before = [parameter.clone() for parameter in learner.policy.parameters()]
    header = header_of(learner, space, "float16")
    after = list(learner.policy.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))  # nothing is left
    rounded(learner)
    steps = some_steps(300)
    assert difference(learner, space, steps, run_header(header, steps)) < TOLERANCE
    assert "uint16_t" in header
    assert header_of(learner, space, "float16") == header


def check_sizes(data: st.DataObject) -> None:
    encoder = data.draw(st.sampled_from(ENCODERS))
    space = data.draw(st.sampled_from(sorted(SPACES)))
    numbers = st.integers(1, 19)
    chosen = {name: data.draw(numbers) for name in ("embedding", "width", "head_width")}
    layers = {name: data.draw(st.integers(1, 3)) for name in ("n_layers", "head_layers")}
    own: dict[str, Any] = {}
    if encoder == "mamba":
        own = {
            "state_size": data.draw(numbers),
            "conv_kernel": data.draw(st.sampled_from((0, 1, 2, 8))),
            "expansion": data.draw(st.integers(1, 3)),
            "feed_forward": data.draw(st.booleans()),
        }
    rich = inputs_of(data.draw(st.booleans()), space)
    learner = small_learner(space, encoder=encoder, **chosen, **layers, **own, **rich)
    weights = data.draw(st.sampled_from(("float32", "float16")))
    header = header_of(learner, space, weights)
    if weights == "float16":
        rounded(learner)
    steps = some_steps(60, data.draw(st.integers(0, 9)))
    assert difference(learner, space, steps, run_header(header, steps)) < TOLERANCE


@settings(max_examples=4, deadline=None, derandomize=True)
@given(st.data())
def test_the_same_in_any_size(data: st.DataObject) -> None:
    check_sizes(data)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_same_in_many_sizes(data: st.DataObject) -> None:
    check_sizes(data)


def test_actions_of_several_choices_are_the_environments_own() -> None:
    space = spaces.MultiDiscrete([2, 3], start=[1, 5])
    action = ActionSpec.of(space)
    dims = dims_of("Discrete")._replace(action=action.size)
    learner = small_learner("Discrete", encoder="gru")
    learner = warmed(build_learner(learner.config, dims, torch.device("cpu")))
    steps = some_steps(100)
    answers = run_header(c_policy(learner, action, LIMITS, steps), steps)
    wanted = acted_alone(learner, PolicyStep(learner, action), steps)
    assert answers.actions.shape == (100, 2)
    assert np.array_equal(answers.actions, wanted["actions"])
    assert all(space.contains(row.astype(space.dtype)) for row in answers.actions)


def test_the_self_test_finds_another_policy() -> None:
    learner = small_learner("Box", encoder="gru")
    lines = header_of(learner, "Box").splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "resel_weight resel_w" in line)
    numbers = lines[at + 1].split(", ")
    lines[at + 1] = ", ".join(["2.5f", *numbers[1:]])
    with compiled("".join(lines), compiler("gcc")) as program:
        assert program.self_test() > 0


def test_what_has_no_c_is_refused_in_words() -> None:
    learner = small_learner("Box", method="sac-transformer")
    with pytest.raises(CannotWriteError, match="sac-transformer with the encoder transformer"):
        header_of(learner, "Box")


class Own(Encoder):
    """Without a memory: a function of what it reads."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        return self.function(x)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.function(x), ()

    def initial_state(self, rows: int) -> State:
        return ()


@dataclass(frozen=True)
class OwnSettings:
    """None."""


def _added(x: Tensor) -> Tensor:
    y = x * 2
    y += x
    return y


def _doubled(x: Tensor) -> Tensor:
    return x.clone().mul_(2)


def _put(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, :3] = x[:, 1:4]
    return y


def _into(x: Tensor) -> Tensor:
    return torch.mul(x, x, out=torch.empty(1, x.shape[1]))


def _within(x: Tensor) -> Tensor:
    return torch.clamp(x, torch.zeros_like(x), torch.ones_like(x))


def _between(x: Tensor) -> Tensor:
    return x.clamp(min=x * 0.5)


def _left_alone(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5, training=False).contiguous().clamp(max=2)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_added, r"in their place"),
        (_doubled, r"in their place \(mul_\)"),
        (_put, r"in their place \(__setitem__\)"),
        (_into, r"in their place \(mul\)"),
        (_within, "clamp between other numbers"),
        (_between, "clamp between other numbers"),
        (_left_alone, None),
    ],
)
def test_numbers_that_are_changed_in_their_place_have_no_c(
    function: Callable[[Tensor], Tensor], message: str | None
) -> None:
    spec = EncoderSpec(
        "own-test", "a function", OwnSettings, lambda *_: Own(function), memory=False
    )
    register_encoder(spec)
    try:
        learner = small_learner("Box", encoder=spec.name)
        if message is not None:
            with pytest.raises(CannotWriteError, match=message):
                header_of(learner, "Box")
            return
        steps = some_steps(50)
        answers = run_header(header_of(learner, "Box"), steps)
        assert difference(learner, "Box", steps, answers) < TOLERANCE
    finally:
        ENCODERS_KNOWN.remove(spec.name)


def test_weights_that_are_not_finite_or_too_large_are_refused() -> None:
    learner = small_learner("Box", encoder="mlp")
    weight = next(p for p in learner.policy.parameters() if p.dim() == 2)
    with torch.no_grad():
        weight[0, 0] = 1e5
    with pytest.raises(CannotWriteError, match="too large for float16"):
        header_of(learner, "Box", "float16")
    header_of(learner, "Box")
    with torch.no_grad():
        weight[0, 0] = torch.nan
    with pytest.raises(DivergedError, match="diverged"):
        header_of(learner, "Box")
