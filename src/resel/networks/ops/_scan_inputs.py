"""What every implementation of the scan is given."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class ScanInputs(NamedTuple):
    """The tensors of `selective_scan` that both directions need, in the operators' order.

    An implementation is a module with `forward(inputs, initial_state, keep)`, which returns y, the
    last state and what backward needs; `backward(grad_y, grad_final, inputs, saved)`, which returns
    the gradients of u, delta, A, B, C, D, z and the initial state, anything for what is absent; and
    `saved_shape(u, A, keep)`.
    """

    u: Tensor
    """(rows, length, channels)"""
    delta: Tensor
    """(rows, length, channels)"""
    A: Tensor
    """(channels, state)"""
    B: Tensor
    """(rows, length, state)"""
    C: Tensor
    """(rows, length, state)"""
    D: Tensor | None
    """(channels,)"""
    z: Tensor | None
    """(rows, length, channels)"""
    is_first: Tensor | None
    """(rows, length), bool"""
