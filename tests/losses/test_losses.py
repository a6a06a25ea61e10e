"""The losses on packed sequences against the paper's sums over trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from resel import losses
from resel.networks import Draw

Array = NDArray[np.float64]
HEADS, DRAWN, ACTIONS = 5, 2, 3
JUNK = 1e6  # what stands outside the mask must not count


@dataclass
class Case:
    """One trajectory: arrays over o_0 .. o_L where the next value needs it, else over L steps."""

    q: Array  # (E, L) value of the taken action, all heads
    target_q: Array  # (drawn, L + 1)
    log_prob: Array  # (L + 1,)
    target_q_all: Array  # (drawn, L + 1, A)
    q_all: Array  # (E, L, A)
    log_probs: Array  # (L + 1, A)
    reward: Array  # (L,)
    terminated: bool

    @property
    def length(self) -> int:
        return len(self.reward)


def random_case(length: int, rng: np.random.Generator) -> Case:
    logits = rng.normal(size=(length + 1, ACTIONS))
    return Case(
        q=rng.normal(size=(HEADS, length)),
        target_q=rng.normal(size=(DRAWN, length + 1)),
        log_prob=rng.normal(size=length + 1),
        target_q_all=rng.normal(size=(DRAWN, length + 1, ACTIONS)),
        q_all=rng.normal(size=(HEADS, length, ACTIONS)),
        log_probs=logits - np.log(np.exp(logits).sum(-1, keepdims=True)),
        reward=rng.normal(size=length),
        terminated=bool(rng.random() < 0.5),
    )


@dataclass
class Tape:
    """The same on rows: L + 1 steps each, junk where the paper's sums have no term."""

    q: Tensor
    target_q: Tensor
    log_prob: Tensor
    target_q_all: Tensor
    q_all: Tensor
    log_probs: Tensor
    reward: Tensor
    terminated: Tensor
    mask: Tensor
    steps: int

    def draw(self, discrete: bool) -> Draw:
        """One sampled action at each step, or all of them."""
        if discrete:
            return Draw(None, self.log_probs, self.log_probs.exp())
        return Draw(None, self.log_prob, None)


def lay_out(cases: list[Case], rows: int) -> Tape:
    spread = [cases[row::rows] for row in range(rows) if cases[row::rows]]
    length = max(sum(case.length + 1 for case in row) for row in spread)
    shape = (len(spread), length)
    parts = {
        "q": np.full((HEADS, *shape), JUNK),
        "target_q": np.full((DRAWN, *shape), JUNK),
        "log_prob": np.full(shape, JUNK),
        "target_q_all": np.full((DRAWN, *shape, ACTIONS), JUNK),
        "q_all": np.full((HEADS, *shape, ACTIONS), JUNK),
        "log_probs": np.full((*shape, ACTIONS), -JUNK),
        "reward": np.full(shape, JUNK),
        "terminated": np.zeros(shape),
        "mask": np.zeros(shape, bool),
    }
    for r, row in enumerate(spread):
        at = 0
        for case in row:
            end = at + case.length
            parts["q"][:, r, at:end] = case.q
            parts["q_all"][:, r, at:end] = case.q_all
            parts["target_q"][:, r, at : end + 1] = case.target_q
            parts["target_q_all"][:, r, at : end + 1] = case.target_q_all
            parts["log_prob"][r, at : end + 1] = case.log_prob
            parts["log_probs"][r, at : end + 1] = case.log_probs
            parts["reward"][r, at:end] = case.reward
            parts["terminated"][r, end - 1] = case.terminated
            parts["mask"][r, at:end] = True
            at = end + 1
    tensors = {name: torch.from_numpy(array) for name, array in parts.items()}
    return Tape(**tensors, steps=sum(case.length for case in cases))  # type: ignore[arg-type]


def paper_targets(case: Case, alpha: float, gamma: float, discrete: bool) -> list[float]:
    """y_i: rows 1 .. L of r+ + gamma (min over the drawn heads of Q' - alpha log p)."""
    y = []
    for t in range(1, case.length + 1):
        if discrete:
            value = 0.0
            for a in range(ACTIONS):
                low = min(case.target_q_all[j, t, a] for j in range(DRAWN))
                value += np.exp(case.log_probs[t, a]) * (low - alpha * case.log_probs[t, a])
        else:
            value = min(case.target_q[j, t] - alpha * case.log_prob[t] for j in range(DRAWN))
        ended = case.terminated and t == case.length
        y.append(case.reward[t - 1] + (0.0 if ended else gamma * value))
    return y


batches = {
    "lengths": st.lists(st.integers(1, 6), min_size=1, max_size=6),
    "rows": st.integers(1, 3),
    "alpha": st.floats(0, 2),
    "gamma": st.floats(0, 1),
    "discrete": st.booleans(),
    "seed": st.integers(0, 10**6),
}


@settings(max_examples=60, deadline=None)
@given(**batches)
def test_critic_loss_is_the_papers(
    lengths: list[int], rows: int, alpha: float, gamma: float, discrete: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    cases = [random_case(length, rng) for length in lengths]
    packed = lay_out(cases, rows)
    temperature = torch.tensor(alpha, dtype=torch.float64)
    draw = packed.draw(discrete)
    target_q = packed.target_q_all if discrete else packed.target_q
    value = draw.expect(losses.soft_value(target_q, draw.log_prob, temperature))
    y = losses.td_target(packed.reward, packed.terminated, losses.next_step(value), gamma)
    expected = [paper_targets(case, alpha, gamma, discrete) for case in cases]
    in_order = [y_i for row in range(rows) for y_i in expected[row::rows]]  # as laid out
    np.testing.assert_allclose(y[packed.mask], np.concatenate(in_order), rtol=1e-10, atol=1e-10)

    total = 0.0
    for case, targets in zip(cases, expected, strict=True):
        for e in range(HEADS):
            total += sum((targets[t] - case.q[e, t]) ** 2 for t in range(case.length))
    found = losses.critic_loss(packed.q, y, packed.mask, packed.steps)
    assert float(found) == pytest.approx(total / sum(lengths), rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(**batches)
def test_policy_loss_is_the_papers(
    lengths: list[int], rows: int, alpha: float, gamma: float, discrete: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    cases = [random_case(length, rng) for length in lengths]
    packed = lay_out(cases, rows)
    temperature = torch.tensor(alpha, dtype=torch.float64)
    total = 0.0
    for case in cases:
        for t in range(case.length):
            for e in range(HEADS):
                if discrete:
                    total += sum(
                        np.exp(case.log_probs[t, a])
                        * (case.q_all[e, t, a] - alpha * case.log_probs[t, a])
                        for a in range(ACTIONS)
                    )
                else:
                    total += case.q[e, t] - alpha * case.log_prob[t]
    expected = -total / (HEADS * sum(lengths))
    draw = packed.draw(discrete)
    q = (packed.q_all if discrete else packed.q).mean(0)
    term = draw.expect(losses.soft_policy_term(q, draw.log_prob, temperature))
    found = losses.masked_mean(term, packed.mask, packed.steps)
    assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_places_that_do_not_count_get_no_gradient() -> None:
    mask = torch.tensor([[True, False, True]])
    x = torch.tensor([[1.0, float("nan"), 3.0]], requires_grad=True)
    mean = losses.masked_mean(x, mask, 2)
    mean.backward()
    assert mean.item() == 2
    assert x.grad.tolist() == [[0.5, 0.0, 0.5]]


def test_next_step() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert losses.next_step(x).tolist() == [[2.0, 3.0, 0.0], [5.0, 6.0, 0.0]]


def test_a_truncated_episode_bootstraps_and_a_terminated_one_does_not() -> None:
    reward, value = torch.tensor([[1.0, 1.0]]), torch.tensor([[10.0, 10.0]])
    y = losses.td_target(reward, torch.tensor([[0.0, 1.0]]), value, 0.5)
    assert y.tolist() == [[6.0, 1.0]]


@pytest.mark.parametrize(("rows", "length"), [(1, 1), (2, 7), (3, 64), (1, 455)])
def test_longer_returns_against_a_loop(rows: int, length: int) -> None:
    torch.manual_seed(length)
    reward, value, q = torch.randn(3, rows, length, dtype=torch.float64)
    ends = (torch.rand(rows, length) < 0.1).double()
    trace = torch.rand(rows, length, dtype=torch.float64)
    trace = torch.where(torch.rand(rows, length) < 0.2, torch.zeros_like(trace), trace)
    trace[:, -1] = 0
    wanted, later = torch.zeros_like(reward), torch.zeros(rows, dtype=torch.float64)
    for t in reversed(range(length)):
        ahead = value[:, t] + trace[:, t] * (later - q[:, t])
        later = reward[:, t] + 0.97 * (1 - ends[:, t]) * ahead
        wanted[:, t] = later
    found = losses.lambda_target(reward, ends, value, q, trace, 0.97)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    one_step = losses.lambda_target(reward, ends, value, q, 0 * trace, 0.97)
    assert torch.equal(one_step, losses.td_target(reward, ends, value, 0.97))


def test_the_minimum_is_taken_at_each_place() -> None:
    q = torch.tensor([[[1.0, 5.0]], [[3.0, 2.0]]])
    log_prob = torch.tensor([[2.0, -1.0]])
    value = losses.soft_value(q, log_prob, torch.tensor(0.5))
    assert value.tolist() == [[0.0, 2.5]]


def test_discrete_minimum_is_taken_for_each_action() -> None:
    q = torch.tensor([[[[1.0, 5.0]]], [[[3.0, 2.0]]]])
    log_probs = torch.log(torch.tensor([[[0.25, 0.75]]]))
    draw = Draw(None, log_probs, log_probs.exp())
    value = draw.expect(losses.soft_value(q, log_probs, torch.tensor(0.0)))
    assert value.item() == pytest.approx(0.25 * 1 + 0.75 * 2)


@pytest.mark.parametrize(("entropy", "sign"), [(-1.0, 1), (-3.0, -1), (-2.0, 0)])
def test_temperature_falls_while_the_policy_is_too_random(entropy: float, sign: int) -> None:
    log_alpha = torch.tensor(0.3, requires_grad=True)
    measured = torch.tensor(entropy, requires_grad=True)
    loss = losses.temperature_loss(log_alpha, measured, -2.0)
    loss.backward()
    assert log_alpha.grad.item() == pytest.approx(entropy + 2.0)
    assert np.sign(log_alpha.grad.item()) == sign
    assert measured.grad is None
