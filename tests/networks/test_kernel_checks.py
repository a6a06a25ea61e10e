"""The checks of `resel doctor` notice each gradient that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from resel.networks import ensemble, folding, kernel_checks
from resel.networks.ops import feed_forward

CPU = torch.device("cpu")
WRITTEN_OUT = {
    "feed-forward part": (feed_forward._FeedForward, 7),
    "linear layer on an ELU": (feed_forward._EluLinear, 3),
    "folded pre-encoders": (folding._FoldedDense, 6),
    "policy head, folded": (folding._Fold, 4),
    "critic heads": (ensemble._FusedHeads, 7),
    "critic heads, folded": (ensemble._FusedHeads, 12),
}
"""What has a backward pass of its own on a CPU, and how many inputs that gives a gradient."""


def _spoilt(backward: Callable[..., Any], which: int) -> Callable[..., Any]:
    """The same, but one of the gradients is a tenth too large."""

    def spoils(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        found = list(backward(ctx, *grads))
        at = [index for index, gradient in enumerate(found) if gradient is not None][which]
        found[at] = 1.1 * found[at]
        return tuple(found)

    return spoils


@pytest.mark.parametrize(
    ("name", "which"), [(n, i) for n, (_, count) in WRITTEN_OUT.items() for i in range(count)]
)
def test_each_gradient_is_compared(name: str, which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    node, count = WRITTEN_OUT[name]
    case, seen = kernel_checks.CASES[name], []
    right = node.backward

    def counts(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        found = right(ctx, *grads)
        seen.append(sum(gradient is not None for gradient in found))
        return found

    monkeypatch.setattr(node, "backward", staticmethod(counts))
    assert kernel_checks._compare(case, CPU) < kernel_checks.ALLOWED
    assert seen == [count]
    monkeypatch.setattr(node, "backward", staticmethod(_spoilt(right, which)))
    assert kernel_checks._compare(case, CPU) > kernel_checks.ALLOWED
