"""The operators `resel::selective_scan` and `resel::selective_scan_backward`.

As operators of torch's dispatcher they choose their kernels by device, know the shapes of their
results without running, and are one opaque node to `torch.compile`. There is no second derivative,
and asking for one is an error.
"""

from __future__ import annotations

import functools
import warnings
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.checking import trusted
from resel.networks.ops.cpu.strides import evenly_spaced
from resel.networks.ops.reference import scan as reference_scan

_INPUTS = (
    "Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D, Tensor? z, Tensor? is_first"
)

# What a library registers lives as long as it does. (Any: torch left all this without types.)
_library: Any = torch.library.Library("resel", "FRAGMENT")  # type: ignore[no-untyped-call]
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


@functools.cache
def _kernels(device: str) -> Any:
    """The module whose `forward` and `backward` run on a device; what is amiss is told once."""
    if device == "cpu":
        from resel.networks.ops.cpu import scan_call  # Numba is slow to import: not for a GPU

        return scan_call
    if device == "cuda" and find_spec("triton") is None:
        warnings.warn(
            "Triton is not installed: on a GPU the scan, the heart of the mamba encoder, takes "
            "torch's own operations, right but slower. Install the release of it that belongs to "
            "this torch (pip install triton).",
            stacklevel=2,
        )
    elif device == "cuda":
        try:
            from resel.networks.ops.triton import scan as triton_scan

            return triton_scan
        except Exception as error:  # an installation that is damaged, or too old
            why = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"Triton cannot be used ({why}): the scan takes torch's own operations, slower but "
                "right. Install Triton again, in the release that belongs to torch.",
                stacklevel=2,
            )
    return reference_scan


def _trusted(device: str, tensor: Tensor) -> Any:
    """The same, but on a GPU what is wrong there is not used."""
    kernels = _kernels(device)
    return trusted(kernels, tensor.device) if device == "cuda" else kernels


def _forward(device: str, *given: Any) -> tuple[Tensor, ...]:
    *inputs, initial_state, keep = given
    return _trusted(device, inputs[0]).forward(  # type: ignore[no-any-return]
        ScanInputs(*inputs), initial_state, keep
    )


def _backward(device: str, grad_y: Tensor, grad_final: Tensor, *given: Any) -> tuple[Tensor, ...]:
    *inputs, saved = given
    return _trusted(device, grad_y).backward(  # type: ignore[no-any-return]
        grad_y, grad_final, ScanInputs(*inputs), saved
    )


for _key, _device in (("CPU", "cpu"), ("CUDA", "cuda"), ("CompositeExplicitAutograd", "other")):
    _library.impl("selective_scan", functools.partial(_forward, _device), _key)
    _library.impl("selective_scan_backward", functools.partial(_backward, _device), _key)


def _shapes(u: Tensor, delta: Tensor, A: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    saved = _kernels(u.device.type).saved_shape(u, A, keep=rest[-1])
    return (
        u.new_empty(u.shape),
        u.new_empty(u.shape[0], u.shape[2], A.shape[1]),
        u.new_empty(saved),
    )


def _gradient_shapes(grad_y: Tensor, grad_state: Tensor, *given: Any) -> tuple[Tensor, ...]:
    u, _, A, B, C, _, z, _ = ScanInputs(*given[:-1])
    rows, _, channels = u.shape
    of_z = (0, 0, 0) if z is None else u.shape
    of_state = (rows, channels, A.shape[1])
    shapes = (u.shape, u.shape, A.shape, B.shape, C.shape, (channels,), of_z, of_state)
    return tuple(u.new_empty(shape) for shape in shapes)


class _Differentiable(torch.autograd.Function):
    """Written out because `torch.library.register_autograd` takes a tenth of a millisecond more."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        *given, ctx.kept = inputs
        # What the kernels would copy is copied once, rather than in both directions.
        tensors = [None if tensor is None else _settled(tensor) for tensor in given]
        y, state, saved = _below_autograd(selective_scan, *tensors, ctx.kept)
        ctx.save_for_backward(*tensors, saved)
        ctx.mark_non_differentiable(saved)
        ctx.set_materialize_grads(False)  # `saved` is large, and its gradient never wanted
        return y, state, saved

    @staticmethod
    def backward(
        ctx: Any, grad_y: Tensor | None, grad_state: Tensor | None, _: None
    ) -> tuple[Tensor | None, ...]:
        *given, initial_state, saved = ctx.saved_tensors
        inputs = ScanInputs(*given)
        u = inputs.u
        if not ctx.kept:
            saved = selective_scan(*inputs, initial_state, True)[2]
        if grad_y is None:
            grad_y = torch.zeros_like(u)
        if grad_state is None:
            grad_state = u.new_zeros(u.shape[0], u.shape[2], inputs.A.shape[1])
        *grads, grad_D, grad_z, grad_initial = _selective_scan_backward(
            grad_y, grad_state, *inputs, saved
        )
        return (
            *grads,
            None if inputs.D is None else grad_D,
            None if inputs.z is None else grad_z,
            None,
            None if initial_state is None else grad_initial,
            None,
        )


class _Once(torch.autograd.Function):
    """The gradient where a graph of it is made, in case it takes no part in what follows."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        return _below_autograd(_selective_scan_backward, *inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(
            "selective_scan has no second derivative: use an encoder without it where gradients "
            "are differentiated again."
        )


def _settled(tensor: Tensor) -> Tensor:
    as_it_is = tensor.device.type == "cpu" and tensor.dim() == 3 and evenly_spaced(tensor)
    return tensor if as_it_is else tensor.contiguous()


def _below_autograd(operator: Any, *inputs: Any) -> tuple[Tensor, ...]:
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*inputs)  # type: ignore[no-any-return]


def _register_gradient(name: str, operator: Any, function: Any) -> None:
    def kernel(*inputs: Any) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled() and any(
            isinstance(value, Tensor) and value.requires_grad for value in inputs
        ):
            return function.apply(*inputs)  # type: ignore[no-any-return]
        return _below_autograd(operator, *inputs)

    _library.impl(name, kernel, "Autograd")


selective_scan = torch.ops.resel.selective_scan.default
_selective_scan_backward = torch.ops.resel.selective_scan_backward.default
_register_gradient("selective_scan", selective_scan, _Differentiable)
_register_gradient("selective_scan_backward", _selective_scan_backward, _Once)
torch.library.register_fake("resel::selective_scan", _shapes, lib=_library)
torch.library.register_fake("resel::selective_scan_backward", _gradient_shapes, lib=_library)
