"""Is a kernel right on a device? Its results beside those of plain torch in float64."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.reference import scan as reference_scan

ALLOWED = 5e-3
"""Deviation that is rounding, of whatever precision: what is wrong differs by much more."""
_ROWS, _LENGTH, _CHANNELS, _STATES = 2, 70, 20, 5
"""Sizes of a case: more than two chunks of steps, and no power of two."""


def deviation(found: Iterable[Tensor], wanted: Iterable[Tensor]) -> float:
    """The largest difference, over the largest number where that is above 1; inf for NaN."""
    largest = 0.0
    for one, other in zip(found, wanted, strict=True):
        difference = (one.detach().cpu().double() - other.detach().cpu().double()).abs().max()
        size = max(1.0, float(other.detach().abs().max()))
        largest = max(largest, float(difference.nan_to_num(nan=torch.inf)) / size)
    return largest


@torch.no_grad()
def scan_deviation(kernels: Any, device: torch.device) -> float:
    """That of an implementation of the scan, outputs and gradients, in float32."""
    rng = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    rows, length, channels, states = _ROWS, _LENGTH, _CHANNELS, _STATES
    inputs = ScanInputs(
        u=normal(rows, length, channels),
        delta=0.3 * normal(rows, length, channels).exp(),
        A=-normal(channels, states).exp(),
        B=normal(rows, length, states),
        C=normal(rows, length, states),
        D=normal(channels),
        z=normal(rows, length, channels),
        is_first=torch.rand(rows, length, generator=rng) < 0.1,
    )
    others = normal(rows, channels, states), normal(*inputs.u.shape), normal(rows, channels, states)
    here = ScanInputs(*(_as_given(t, device) for t in inputs))
    return deviation(
        _both_ways(kernels, here, *(_as_given(t, device) for t in others)),
        _both_ways(reference_scan, inputs, *others),
    )


def _as_given(tensor: Any, device: torch.device) -> Any:
    return tensor.to(device) if tensor.dtype == torch.bool else tensor.to(device, torch.float32)


def _both_ways(
    kernels: Any, inputs: ScanInputs, initial: Tensor, grad_y: Tensor, grad_final: Tensor
) -> list[Tensor]:
    y, final, saved = kernels.forward(inputs, initial, True)
    return [y, final, *kernels.backward(grad_y, grad_final, inputs, saved)]


@functools.cache
def trusted(kernels: Any, device: torch.device) -> Any:
    """The implementation of the scan, or the reference, with a warning, if it is wrong there.

    It is looked at once in a process, when it is first used on a device.
    """
    if kernels is reference_scan:
        return kernels
    try:
        differs = scan_deviation(kernels, device)
    except Exception as error:  # whatever a compiler or a driver raises
        why = f"it failed ({type(error).__name__}: {str(error).strip().partition(chr(10))[0]})"
    else:
        if differs <= ALLOWED:
            return kernels
        why = f"its results differ from the reference by {differs:.2g}"
    warnings.warn(
        f"The kernel of the scan is not used on {device}: {why}. Torch's own operations take its "
        "place, slower but right. `resel doctor` looks at all kernels.",
        stacklevel=2,
    )
    return reference_scan
