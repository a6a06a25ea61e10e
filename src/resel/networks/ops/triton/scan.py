"""The selective scan on a GPU: Triton kernels, forward and backward.

Glossary
    R rows, L length, D channels, S states per channel
    W channels are worked on by one program, N >= S is the next power of two
    K = CHUNK steps between stored states; backward recomputes the states inside a chunk

One program takes W channels of one row and walks over time with its (W, N) states in registers.
Forward stores the state at the start of each chunk; backward walks the chunks from the last to the
first and rebuilds the states of one at a time in a scratch of (K, W, N). Programs never add to the
same step: dB and dC are kept for each block of channels, dA and dD for each row, and torch sums
them, so the same inputs give the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.reference.scan import CHUNK, saved_shape

__all__ = ["backward", "forward", "saved_shape"]

_STATES_PER_PROGRAM = 1024
_MOST_CHANNELS = 64


def forward(
    inputs: ScanInputs, initial_state: Tensor | None, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the last state, and the state at the start of each chunk if `keep` is set."""
    u, A = inputs.u, inputs.A
    rows, length, channels = u.shape
    states = A.shape[1]
    y = u.new_empty(u.shape)
    final = u.new_empty(rows, channels, states)
    saved = u.new_empty(saved_shape(u, A, keep))
    wide, padded, blocks = _layout(channels, states)
    if rows * blocks:
        with _device_of(u):
            _forward[(rows, blocks)](
                *_pointers(*inputs, initial_state),
                y,
                final,
                saved,
                length,
                channels,
                states,
                KEEP=keep,
                **_options(*inputs[5:], wide, padded),
                HAS_INITIAL=initial_state is not None,
            )
    return y, final, saved


def backward(
    grad_y: Tensor, grad_final: Tensor, inputs: ScanInputs, saved: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of u, delta, A, B, C, D, z and the initial state; of what is absent, anything."""
    u = inputs.u
    rows, length, channels = u.shape
    states = inputs.A.shape[1]
    wide, padded, blocks = _layout(channels, states)
    grad_u, grad_delta = u.new_empty(u.shape), u.new_empty(u.shape)
    grad_z = u.new_empty((0, 0, 0) if inputs.z is None else u.shape)
    grad_A = u.new_empty(rows, channels, states)
    grad_D = u.new_empty(rows, channels)
    grad_B = u.new_empty(blocks, rows, length, states)
    grad_C = u.new_empty(blocks, rows, length, states)
    grad_initial = u.new_empty(rows, channels, states)
    before = u.new_empty(rows, blocks, CHUNK, wide, padded)
    if rows * blocks:
        with _device_of(u):
            _backward[(rows, blocks)](
                *_pointers(*inputs, saved),
                grad_y.contiguous(),
                grad_final.contiguous(),
                grad_u,
                grad_delta,
                grad_A,
                grad_B,
                grad_C,
                grad_D,
                grad_z,
                grad_initial,
                before,
                length,
                channels,
                states,
                **_options(*inputs[5:], wide, padded),
            )
    return (
        grad_u,
        grad_delta,
        grad_A.sum(0),
        grad_B.sum(0),
        grad_C.sum(0),
        grad_D.sum(0),
        grad_z,
        grad_initial,
    )


def _device_of(tensor: Tensor) -> Any:
    """Makes the tensor's device the current one: that is where Triton launches."""
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]


def _layout(channels: int, states: int) -> tuple[int, int, int]:
    """W, N, and the number of blocks of W channels."""
    padded = triton.next_power_of_2(max(1, states))
    wide = max(1, min(_MOST_CHANNELS, _STATES_PER_PROGRAM // padded))
    return wide, padded, triton.cdiv(channels, wide)


def _pointers(u: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
    """Contiguous tensors for the kernels, flags as bytes; u itself where one is absent."""
    present = (u, *(u if tensor is None else tensor for tensor in rest))
    return tuple(
        t.contiguous().view(torch.uint8) if t.dtype == torch.bool else t.contiguous()
        for t in present
    )


def _options(
    D: Tensor | None, z: Tensor | None, is_first: Tensor | None, wide: int, padded: int
) -> dict[str, Any]:
    return {
        "HAS_D": D is not None,
        "HAS_Z": z is not None,
        "HAS_START": is_first is not None,
        "K": CHUNK,
        "W": wide,
        "N": padded,
        "enable_fp_fusion": True,  # the default changes between releases of Triton
        "num_warps": 4,
        "num_stages": 1,  # backward reads what it wrote: nothing may be fetched ahead
    }


@triton.jit(do_not_specialize=["length"])  # packed sequences come in every length
def _forward(
    u,  # (R, L, D)
    delta,  # (R, L, D)
    A,  # (D, S)
    B,  # (R, L, S)
    C,  # (R, L, S)
    D,  # (D,)
    z,  # (R, L, D)
    is_first,  # (R, L)
    initial,  # (R, D, S)
    y,  # out (R, L, D)
    final,  # out (R, D, S)
    saved,  # out (R, chunks, D, S)
    length,
    channels,
    states,
    KEEP: tl.constexpr,
    HAS_D: tl.constexpr,
    HAS_Z: tl.constexpr,
    HAS_START: tl.constexpr,
    HAS_INITIAL: tl.constexpr,
    K: tl.constexpr,
    W: tl.constexpr,
    N: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * W + tl.arange(0, W)
    s = tl.arange(0, N)
    c_in = c < channels
    s_in = s < states
    inside = c_in[:, None] & s_in[None, :]
    cell = c[:, None] * states + s[None, :]  # of a (D, S) matrix
    a = tl.load(A + cell, mask=inside, other=0.0)
    h = tl.zeros_like(a)
    if HAS_INITIAL:
        h = tl.load(initial + row * channels * states + cell, mask=inside, other=0.0)
    chunks = tl.cdiv(length, K)
    for chunk in range(chunks):
        if KEEP:
            at = (row * chunks + chunk) * channels * states
            tl.store(saved + at + cell, h, mask=inside)
        for t in range(chunk * K, min(chunk * K + K, length)):
            step = row * length + t
            if HAS_START:
                h = tl.where(tl.load(is_first + step) != 0, 0.0, h)
            dt = tl.load(delta + step * channels + c, mask=c_in, other=0.0)
            ut = tl.load(u + step * channels + c, mask=c_in, other=0.0)
            bt = tl.load(B + step * states + s, mask=s_in, other=0.0)
            ct = tl.load(C + step * states + s, mask=s_in, other=0.0)
            h = tl.exp(dt[:, None] * a) * h + (dt * ut)[:, None] * bt[None, :]
            h = tl.where(inside, h, 0.0)  # 0 * infinity must not reach a sum
            out = tl.sum(h * ct[None, :], 1)
            if HAS_D:
                out += tl.load(D + c, mask=c_in, other=0.0) * ut
            if HAS_Z:
                gate = tl.load(z + step * channels + c, mask=c_in, other=0.0)
                out = out * gate / (1.0 + tl.exp(-gate))
            tl.store(y + step * channels + c, out, mask=c_in)
    tl.store(final + row * channels * states + cell, h, mask=inside)


@triton.jit(do_not_specialize=["length"])  # packed sequences come in every length
def _backward(
    u,
    delta,
    A,
    B,
    C,
    D,
    z,
    is_first,
    saved,
    grad_y,  # (R, L, D)
    grad_final,  # (R, D, S)
    grad_u,  # out (R, L, D)
    grad_delta,  # out (R, L, D)
    grad_A,  # out (R, D, S)
    grad_B,  # out (blocks, R, L, S)
    grad_C,  # out (blocks, R, L, S)
    grad_D,  # out (R, D)
    grad_z,  # out (R, L, D)
    grad_initial,  # out (R, D, S)
    before,  # scratch (R, blocks, K, W, N): the states that the steps of a chunk start from
    length,
    channels,
    states,
    HAS_D: tl.constexpr,
    HAS_Z: tl.constexpr,
    HAS_START: tl.constexpr,
    K: tl.constexpr,
    W: tl.constexpr,
    N: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    c = block * W + tl.arange(0, W)
    s = tl.arange(0, N)
    c_in = c < channels
    s_in = s < states
    inside = c_in[:, None] & s_in[None, :]
    cell = c[:, None] * states + s[None, :]
    own = (block * tl.num_programs(0) + row) * length  # this program's part of grad_B and grad_C
    scratch = before + (row * tl.num_programs(1) + block) * K * W * N
    scratch = scratch + tl.arange(0, W)[:, None] * N + s[None, :]
    a = tl.load(A + cell, mask=inside, other=0.0)
    dh = tl.load(grad_final + row * channels * states + cell, mask=inside, other=0.0)
    da = tl.zeros_like(a)
    skip = tl.zeros([W], a.dtype)
    if HAS_D:
        skip = tl.load(D + c, mask=c_in, other=0.0)
    dd = tl.zeros_like(skip)
    chunks = tl.cdiv(length, K)
    for back in range(chunks):
        chunk = chunks - 1 - back
        first = chunk * K
        steps = min(K, length - first)
        h = tl.load(
            saved + (row * chunks + chunk) * channels * states + cell, mask=inside, other=0.0
        )
        for k in range(steps):
            step = row * length + first + k
            if HAS_START:
                h = tl.where(tl.load(is_first + step) != 0, 0.0, h)
            tl.store(scratch + k * W * N, h)
            dt = tl.load(delta + step * channels + c, mask=c_in, other=0.0)
            ut = tl.load(u + step * channels + c, mask=c_in, other=0.0)
            bt = tl.load(B + step * states + s, mask=s_in, other=0.0)
            h = tl.exp(dt[:, None] * a) * h + (dt * ut)[:, None] * bt[None, :]
            h = tl.where(inside, h, 0.0)
            gt = tl.load(grad_y + step * channels + c, mask=c_in, other=0.0)
            if HAS_Z:
                ct = tl.load(C + step * states + s, mask=s_in, other=0.0)
                out = tl.sum(h * ct[None, :], 1) + skip * ut
                gate = tl.load(z + step * channels + c, mask=c_in, other=0.0)
                sigmoid = 1.0 / (1.0 + tl.exp(-gate))
                slope = sigmoid * (1.0 + gate * (1.0 - sigmoid))
                tl.store(grad_z + step * channels + c, gt * out * slope, mask=c_in)
                gt = gt * gate * sigmoid
            tl.store(grad_C + (own + first + k) * states + s, tl.sum(gt[:, None] * h, 0), mask=s_in)
        tl.debug_barrier()  # the scratch is read by other threads than wrote it
        for done in range(steps):
            k = steps - 1 - done
            step = row * length + first + k
            dt = tl.load(delta + step * channels + c, mask=c_in, other=0.0)
            ut = tl.load(u + step * channels + c, mask=c_in, other=0.0)
            bt = tl.load(B + step * states + s, mask=s_in, other=0.0)
            ct = tl.load(C + step * states + s, mask=s_in, other=0.0)
            gt = tl.load(grad_y + step * channels + c, mask=c_in, other=0.0)
            if HAS_Z:
                gate = tl.load(z + step * channels + c, mask=c_in, other=0.0)
                gt = gt * gate / (1.0 + tl.exp(-gate))
            d = tl.where(inside, dh + gt[:, None] * ct[None, :], 0.0)
            db = tl.sum(d * (dt * ut)[:, None], 0)
            tl.store(grad_B + (own + first + k) * states + s, db, mask=s_in)
            along_b = tl.sum(d * bt[None, :], 1)
            dh = tl.where(inside, d * tl.exp(dt[:, None] * a), 0.0)
            x = dh * tl.load(scratch + k * W * N)
            along_a = tl.sum(x * a, 1)
            da += x * dt[:, None]
            dd += gt * ut
            tl.store(grad_u + step * channels + c, gt * skip + along_b * dt, mask=c_in)
            tl.store(grad_delta + step * channels + c, along_a + along_b * ut, mask=c_in)
            if HAS_START:
                dh = tl.where(tl.load(is_first + step) != 0, 0.0, dh)
        tl.debug_barrier()  # and written by others again
    tl.store(grad_initial + row * channels * states + cell, dh, mask=inside)
    tl.store(grad_A + row * channels * states + cell, da, mask=inside)
    tl.store(grad_D + row * channels + c, dd, mask=c_in)
