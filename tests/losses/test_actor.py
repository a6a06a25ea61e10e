"""The two ways in which a policy is drawn towards softmax(Q / alpha)."""

from __future__ import annotations

import torch

from resel.losses import forward_policy_term, soft_policy_term

ALPHA = torch.tensor(0.3, dtype=torch.float64)


def _values() -> torch.Tensor:
    return torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def _reverse(q: torch.Tensor, log_prob: torch.Tensor) -> torch.Tensor:
    return (log_prob.exp() * soft_policy_term(q, log_prob, ALPHA)).sum(-1)


def test_both_end_at_the_same_policy() -> None:
    q = _values()
    for term in (_reverse, lambda q, log_prob: forward_policy_term(q, log_prob, ALPHA)):
        logits = torch.zeros_like(q).requires_grad_()
        optimizer = torch.optim.Adam([logits], 0.05)
        for _ in range(1500):
            optimizer.zero_grad()
            term(q, torch.log_softmax(logits, -1)).sum().backward()
            optimizer.step()
        target = torch.softmax(q / ALPHA, -1)
        torch.testing.assert_close(torch.softmax(logits, -1).detach(), target, atol=1e-3, rtol=0)


def test_an_action_that_was_given_up_comes_back() -> None:
    q = torch.tensor([[0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    for term, comes_back in ((_reverse, False), (None, True)):
        logits = torch.tensor([[40.0, 0.0]], dtype=torch.float64, requires_grad=True)
        log_prob = torch.log_softmax(logits, -1)
        loss = forward_policy_term(q, log_prob, ALPHA) if term is None else term(q, log_prob)
        (slope,) = torch.autograd.grad(loss.sum(), logits, retain_graph=True)
        assert bool(abs(slope[0, 1]) > 0.9) is comes_back
    target = torch.softmax(q / ALPHA, -1)
    torch.testing.assert_close(slope, torch.softmax(logits, -1) - target)
    assert torch.autograd.grad(loss.sum(), q, allow_unused=True)[0] is None, "Q is not to learn"
