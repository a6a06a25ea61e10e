"""What the tests of the scan share: random cases, two plain versions of it, and comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from resel.networks.ops import _scan_operator as scan_operator
from resel.networks.ops.cpu import scan_call
from resel.networks.ops.reference import scan as reference_scan
from resel.networks.ops.scan import selective_scan

Case = dict[str, Any]
TENSORS = ("u", "delta", "A", "B", "C", "D", "z", "initial_state")
BY_TIME = ("u", "delta", "B", "C", "z")
ON_EVERY_MACHINE = {"cpu": scan_call, "chunked": reference_scan}
TOLERANCE = {
    torch.float32: {"rtol": 2e-4, "atol": 2e-5},
    torch.float64: {"rtol": 1e-10, "atol": 1e-11},
}


def make_case(
    rows: int,
    length: int,
    channels: int,
    states: int,
    *,
    seed: int = 0,
    starts: float = 0.1,
    skip: tuple[str, ...] = (),
    dtype: torch.dtype = torch.float64,
) -> Case:
    """Random arguments of `selective_scan`; those named in `skip` are None."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64).to(dtype)

    case: Case = {
        "u": normal(rows, length, channels),
        "delta": 0.3 * normal(rows, length, channels).exp(),
        "A": -normal(channels, states).exp(),
        "B": normal(rows, length, states),
        "C": normal(rows, length, states),
        "D": normal(channels),
        "z": normal(rows, length, channels),
        "is_first": torch.rand(rows, length, generator=rng) < starts,
        "initial_state": normal(rows, channels, states),
    }
    return {name: None if name in skip else value for name, value in case.items()}


def scan_loop(
    u: Tensor,  # (R, L, D)
    delta: Tensor,  # (R, L, D)
    A: Tensor,  # (D, S)
    B: Tensor,  # (R, L, S)
    C: Tensor,  # (R, L, S)
    D: Tensor | None,  # (D,)
    z: Tensor | None,  # (R, L, D)
    is_first: Tensor | None,  # (R, L)
    initial_state: Tensor | None,  # (R, D, S)
) -> tuple[Tensor, Tensor]:
    """y (R, L, D) and the state after the last step (R, D, S), step by step, for autograd."""
    rows, length, channels = u.shape
    h = u.new_zeros(rows, channels, A.shape[1]) if initial_state is None else initial_state
    outputs = []
    for t in range(length):
        if is_first is not None:
            h = torch.where(is_first[:, t, None, None], torch.zeros_like(h), h)
        decay = torch.exp(delta[:, t, :, None] * A)  # (R, D, S)
        drive = (delta[:, t] * u[:, t])[:, :, None] * B[:, t, None, :]  # (R, D, S)
        h = decay * h + drive
        outputs.append((h * C[:, t, None, :]).sum(-1))  # (R, D)
    y = torch.stack(outputs, 1) if outputs else torch.zeros_like(u)
    if D is not None:
        y = y + D * u
    if z is not None:
        y = y * torch.nn.functional.silu(z)
    return y, h


def closed_form(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    is_first: Tensor | None,
    initial_state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """No recurrence: h_t = sum over s <= t of exp(A sum of delta after s) delta_s B_s u_s."""
    rows, length, channels = u.shape
    initial = u.new_zeros(rows, channels, A.shape[1]) if initial_state is None else initial_state
    if is_first is None:
        is_first = torch.zeros(rows, length, dtype=torch.bool)
    trajectory = is_first.cumsum(1)  # 0 until the first start: the initial state still counts
    elapsed = delta.cumsum(1)  # (R, L, D)
    seen = (trajectory[:, :, None] == trajectory[:, None, :]).tril()[..., None]  # (R, t, s, 1)
    gap = torch.where(seen, elapsed[:, :, None] - elapsed[:, None, :], 0.0)  # (R, t, s, D)
    weight = torch.exp(gap[..., None] * A) * seen[..., None]  # (R, t, s, D, S)
    h = torch.einsum("rtsdn,rsd,rsn->rtdn", weight, delta * u, B)
    untouched = (trajectory == 0)[..., None, None]
    h = h + untouched * torch.exp(elapsed[..., None] * A) * initial[:, None]
    y = torch.einsum("rtdn,rtn->rtd", h, C)
    if D is not None:
        y = y + D * u
    if z is not None:
        y = y * z * torch.sigmoid(z)
    return y, (h[:, -1] if length else initial)


def leaves(case: Case, dtype: torch.dtype) -> Case:
    """A copy of a case whose tensors collect gradients."""
    return {
        name: None
        if value is None
        else value.clone()
        if value.dtype == torch.bool
        else value.detach().to(dtype).clone().requires_grad_()
        for name, value in case.items()
    }


def strided(case: Case) -> Case:
    """The same numbers with gaps between them and the first dimension innermost."""
    views: Case = {}
    for name, value in case.items():
        views[name] = value
        if value is not None:
            wide = torch.stack([value.detach(), torch.ones_like(value)], -1)
            view = wide.transpose(0, -2).contiguous().transpose(0, -2)[..., 0]
            views[name] = view.requires_grad_(value.requires_grad)
    return views


def parts(case: Case) -> Case:
    """The same numbers as parts of wider tensors, as a projection's output is split."""
    views: Case = {}
    for name, value in case.items():
        views[name] = value
        if value is not None:
            wide = torch.cat([value.detach(), torch.ones_like(value)], -1)
            views[name] = wide[..., : value.shape[-1]].requires_grad_(value.requires_grad)
    return views


def results(function: Any, case: Case, seed: int = 1) -> dict[str, Tensor]:
    """y, the last state, and the gradient of a random weighting of both for every input."""
    y, state = function(**case)
    rng = torch.Generator().manual_seed(seed)
    weights = [torch.randn(t.shape, generator=rng, dtype=torch.float64) for t in (y, state)]
    loss = sum((w.to(t.dtype) * t).sum() for w, t in zip(weights, (y, state), strict=True))
    names = [name for name in TENSORS if case[name] is not None]
    loss = loss + 0 * case["u"].sum()  # the loop over no steps has no graph at all
    grads = torch.autograd.grad(loss, [case[name] for name in names], allow_unused=True)
    found = {"y": y.detach(), "state": state.detach()}
    for name, grad in zip(names, grads, strict=True):
        found[name] = torch.zeros_like(case[name]) if grad is None else grad
    return found


def fused(**case: Any) -> tuple[Tensor, Tensor]:
    result = selective_scan(**case, return_state=True)
    assert isinstance(result, tuple)
    return result


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], dtype: torch.dtype) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        wanted = expected[name]
        size = float(wanted.abs().max()) if wanted.numel() else 0.0
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(
            value.double(),
            wanted,
            rtol=tolerance["rtol"],
            atol=tolerance["atol"] * max(1.0, size),
            msg=lambda text, name=name: f"{name}: {text}",
        )


@contextmanager
def using(kernels: Any) -> Iterator[None]:
    """Let `selective_scan` run the kernels of a module on every device."""
    with mock.patch.object(scan_operator, "_kernels", return_value=kernels):
        yield
