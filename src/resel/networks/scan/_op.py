"""The operators `resel::selective_scan` and `resel::selective_scan_backward`.

As operators of torch's dispatcher they choose their kernels by device, have a gradient, know the
shapes of their results without running, and are one opaque node to `torch.compile`. There is no
second derivative, and asking for one is an error.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from resel.networks.scan import _chunked

_INPUTS = (
    "Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D, Tensor? z, Tensor? start"
)
_FORWARD, _BACKWARD = "resel::selective_scan", "resel::selective_scan_backward"

_library = torch.library.Library("resel", "FRAGMENT")  # what it registers lives as long as it does
_library.define(
    f"selective_scan({_INPUTS}, Tensor? initial_state, bool keep)"
    " -> (Tensor y, Tensor state, Tensor saved)",
    tags=torch.Tag.pt2_compliant_tag,
)
_library.define(
    f"selective_scan_backward(Tensor grad_y, Tensor grad_state, {_INPUTS}, Tensor saved)"
    " -> (Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor D, Tensor z,"
    " Tensor initial_state)",
    tags=torch.Tag.pt2_compliant_tag,
)


def _kernels(device: str) -> Any:
    """The module whose `forward` and `backward` run on a device."""
    if device == "cpu":
        from resel.networks.scan import _cpu_call  # Numba is slow to import: not for a GPU

        return _cpu_call
    if device == "cuda" and find_spec("triton") is not None:
        from resel.networks.scan import _gpu

        return _gpu
    return _chunked


for _key, _device in (("CPU", "cpu"), ("CUDA", "cuda"), ("CompositeExplicitAutograd", "other")):
    _library.impl(
        "selective_scan", lambda *inputs, on=_device: _kernels(on).forward(*inputs), _key
    )
    _library.impl(
        "selective_scan_backward", lambda *inputs, on=_device: _kernels(on).backward(*inputs), _key
    )


@torch.library.register_fake(_FORWARD, lib=_library)
def _shapes(u: Tensor, delta: Tensor, A: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    saved = _kernels(u.device.type).saved_shape(u, A, keep=rest[-1])
    return (
        u.new_empty(u.shape),
        u.new_empty(u.shape[0], u.shape[2], A.shape[1]),
        u.new_empty(saved),
    )


@torch.library.register_fake(_BACKWARD, lib=_library)
def _gradient_shapes(
    grad_y: Tensor,
    grad_state: Tensor,
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    start: Tensor | None,
    saved: Tensor,
) -> tuple[Tensor, ...]:
    rows, _, channels = u.shape
    of_z = (0, 0, 0) if z is None else u.shape
    of_state = (rows, channels, A.shape[1])
    shapes = (u.shape, u.shape, A.shape, B.shape, C.shape, (channels,), of_z, of_state)
    return tuple(u.new_empty(shape) for shape in shapes)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, ctx.kept = inputs
    ctx.save_for_backward(*tensors, output[2])
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)  # `saved` is large, and its gradient never wanted


def _backward(
    ctx: Any, grad_y: Tensor | None, grad_state: Tensor | None, _: None
) -> tuple[Tensor | None, ...]:
    *inputs, initial_state, saved = ctx.saved_tensors
    u, _, A, _, _, D, z, _ = inputs
    if not ctx.kept:
        saved = torch.ops.resel.selective_scan(*inputs, initial_state, True)[2]
    if grad_y is None:
        grad_y = torch.zeros_like(u)
    if grad_state is None:
        grad_state = u.new_zeros(u.shape[0], u.shape[2], A.shape[1])
    *grads, grad_D, grad_z, grad_initial = torch.ops.resel.selective_scan_backward(
        grad_y, grad_state, *inputs, saved
    )
    return (
        *grads,
        None if D is None else grad_D,
        None if z is None else grad_z,
        None,
        None if initial_state is None else grad_initial,
        None,
    )


def _refuse(ctx: Any, *grads: Tensor | None) -> None:
    raise RuntimeError(
        "selective_scan has no second derivative. Take its gradient without create_graph=True, "
        "or keep it out of what is differentiated twice."
    )


torch.library.register_autograd(_FORWARD, _backward, setup_context=_remember, lib=_library)
torch.library.register_autograd(_BACKWARD, _refuse, lib=_library)

selective_scan = torch.ops.resel.selective_scan.default
