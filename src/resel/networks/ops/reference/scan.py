"""The selective scan in plain torch, for devices without a kernel of their own.

Glossary
    R rows, L length, D channels, S states per channel
    K = CHUNK steps are worked on together; backward recomputes the states inside a chunk
    n_t: starts up to and with step t, so n_s = n_t says that nothing is dropped between s and t

Inside a chunk the recurrence is solved by doubling: after pass i every state holds what reaches it
from the last 2^i steps, so log2(K) passes do. Only products of decays occur, no quotients, and what
must not cross a start is selected away instead of multiplied by zero: nothing of one trajectory,
not even NaN, gets into another. The largest temporary is (R, K, D, S), and nothing ever waits for
the device.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops._scan_inputs import ScanInputs

CHUNK = 32


def forward(
    inputs: ScanInputs, initial_state: Tensor | None, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the last state, and the state at the start of each chunk if `keep` is set."""
    u, delta, A, B, C, D, z, is_first = inputs
    rows, length, channels = u.shape
    h = u.new_zeros(rows, channels, A.shape[1])
    if initial_state is not None:
        h.copy_(initial_state)
    y = u.new_empty(u.shape)
    saved = u.new_empty(saved_shape(u, A, keep))
    fresh, n = _starts(u, is_first)
    for i, now in enumerate(_chunks(length)):
        if keep:
            saved[:, i] = h
        _, states = _states(u[:, now], delta[:, now], A, B[:, now], fresh[:, now], n[:, now], h)
        y[:, now] = torch.einsum("rkds,rks->rkd", states, C[:, now])
        h = states[:, -1].clone()
    if D is not None:
        y += D * u
    if z is not None:
        y *= F.silu(z)
    return y, h, saved


def backward(
    grad_y: Tensor, grad_final: Tensor, inputs: ScanInputs, saved: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of u, delta, A, B, C, D, z and the initial state; of what is absent, anything."""
    u, delta, A, B, C, D, z, is_first = inputs
    skip = u.new_zeros(u.shape[2]) if D is None else D
    grad_u, grad_delta = u.new_empty(u.shape), u.new_empty(u.shape)
    grad_B, grad_C = u.new_empty(B.shape), u.new_empty(B.shape)
    grad_A, grad_D = u.new_zeros(A.shape), u.new_zeros(skip.shape)
    grad_z = u.new_empty((0, 0, 0) if z is None else u.shape)
    fresh, n = _starts(u, is_first)
    dh = grad_final.clone()  # (R, D, S), of the state after the chunk
    for i, now in reversed(list(enumerate(_chunks(u.shape[1])))):
        ut, dt, Bt, Ct, g = (t[:, now] for t in (u, delta, B, C, grad_y))
        decay, states = _states(ut, dt, A, Bt, fresh[:, now], n[:, now], saved[:, i])
        if z is not None:
            ungated = torch.einsum("rkds,rks->rkd", states, Ct) + skip * ut
            sigmoid = torch.sigmoid(z[:, now])
            slope = sigmoid * (1 + z[:, now] * (1 - sigmoid))
            grad_z[:, now] = g * ungated * slope
            g = g * z[:, now] * sigmoid
        adjoint = _adjoints(g, Ct, decay, n[:, now], dh)
        carried = adjoint * decay
        before = torch.cat([saved[:, i, None], states[:, :-1]], 1)
        past = carried * torch.where(fresh[:, now, None, None], 0.0, before)
        dh = torch.where(fresh[:, now.start, None, None], 0.0, carried[:, 0])
        along_b = torch.einsum("rkds,rks->rkd", adjoint, Bt)
        grad_A += torch.einsum("rkds,rkd->ds", past, dt)
        grad_B[:, now] = torch.einsum("rkds,rkd->rks", adjoint, dt * ut)
        grad_C[:, now] = torch.einsum("rkds,rkd->rks", states, g)
        grad_D += (g * ut).sum((0, 1))
        grad_u[:, now] = g * skip + along_b * dt
        grad_delta[:, now] = torch.einsum("rkds,ds->rkd", past, A) + along_b * ut
    return grad_u, grad_delta, grad_A, grad_B, grad_C, grad_D, grad_z, dh


def saved_shape(u: Tensor, A: Tensor, keep: bool) -> tuple[int, ...]:
    """Shape of the states that forward leaves for backward: none unless `keep` is set."""
    rows, length, channels = u.shape
    return (rows if keep else 0, -(-length // CHUNK), channels, A.shape[1])


def _chunks(length: int) -> list[slice]:
    return [slice(begin, min(begin + CHUNK, length)) for begin in range(0, length, CHUNK)]


def _starts(u: Tensor, is_first: Tensor | None) -> tuple[Tensor, Tensor]:
    """The start flags and n. (R, L) each"""
    fresh = u.new_zeros(u.shape[:2], dtype=torch.bool) if is_first is None else is_first
    return fresh, fresh.cumsum(1)


def _states(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, fresh: Tensor, n: Tensor, h: Tensor
) -> tuple[Tensor, Tensor]:
    """Decays and states of a chunk that is entered with the state h. (R, K, D, S) each"""
    decay = torch.exp(delta[..., None] * A)
    drive = (delta * u)[..., None] * B[:, :, None]
    drive[:, 0] += torch.where(fresh[:, 0, None, None], 0.0, decay[:, 0] * h)
    return decay, _solve(decay.clone(), drive, n)


def _adjoints(g: Tensor, C: Tensor, decay: Tensor, n: Tensor, dh: Tensor) -> Tensor:
    """Gradients of the states of a chunk: the same recurrence, run backwards. (R, K, D, S)"""
    drive = g[..., None] * C[:, :, None]
    drive[:, -1] += dh
    onward = decay.roll(-1, 1)  # from t + 1 to t; the last is never used
    return _solve(onward.flip(1), drive.flip(1), n.flip(1)).flip(1)


def _solve(decay: Tensor, drive: Tensor, n: Tensor) -> Tensor:
    """x_t = decay_t x_{t-1} + drive_t, where x_{t-1} counts if n is the same; overwrites both."""
    reach = 1
    while reach < drive.shape[1]:
        near = n[:, reach:] == n[:, :-reach]
        carried = decay[:, reach:] * drive[:, :-reach]
        drive[:, reach:] += torch.where(near[..., None, None], carried, 0.0)
        decay[:, reach:] = decay[:, reach:] * decay[:, :-reach]
        reach *= 2
    return drive
