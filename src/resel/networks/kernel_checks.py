"""Every kernel beside its reference, on a device: what `resel doctor` looks at.

A case is run as the networks run it, in float32 on the device, and once more in torch's own
operations, in float64 on the CPU; outputs and gradients are compared. Encoders are run over a
sequence and step by step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resel.networks.encoders import EncoderSpec, encoders
from resel.networks.kernel_cases import CASES, LENGTH, ROWS, WIDTH, Case
from resel.networks.ops import _scan_operator as scan_operator
from resel.networks.ops.checking import ALLOWED, deviation, scan_deviation


class KernelCheck(NamedTuple):
    """How one kernel did."""

    name: str
    deviation: float | None
    """None if it failed."""
    fault: str
    seconds: float
    """Compiling included, where that was never done."""

    @property
    def good(self) -> bool:
        """Whether it can be relied on."""
        return self.deviation is not None and self.deviation <= ALLOWED


def check_kernels(device: torch.device) -> Iterator[KernelCheck]:
    """Look at one after the other."""
    yield _timed("selective scan", lambda: _scan(device))
    for name, case in CASES.items():
        yield _timed(name, lambda case=case: _compare(case, device))  # type: ignore[misc]
    for spec in encoders()[0]:
        if spec.memory:
            name = f"encoder {spec.name}, a step at a time"
            yield _timed(name, lambda spec=spec: _step_by_step(spec, device))  # type: ignore[misc]


def _timed(name: str, check: Callable[[], float]) -> KernelCheck:
    begin, found, fault = time.perf_counter(), None, ""
    try:
        found = check()
    except Exception as error:  # whatever a compiler or a driver raises
        fault = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return KernelCheck(name, found, fault, time.perf_counter() - begin)


def _scan(device: torch.device) -> float:
    return scan_deviation(scan_operator._kernels(device.type), device)


def _compare(case: Case, device: torch.device) -> float:
    rng = torch.Generator().manual_seed(0)
    inputs = case.inputs(lambda *size: torch.randn(*size, generator=rng, dtype=torch.float64))
    here = [tensor.to(device, torch.float32) for tensor in inputs]
    weights = torch.randn(case.plain(*inputs).shape, generator=rng, dtype=torch.float64)
    return deviation(_results(case.ours, here, weights), _results(case.plain, inputs, weights))


def _results(function: Callable[..., Tensor], inputs: list[Tensor], weights: Tensor) -> list[Any]:
    """The output, and the gradient of a weighting of it for every input."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    y = function(*leaves)
    return [y, *torch.autograd.grad((y * weights.to(y)).sum(), leaves)]


@torch.no_grad()
def _step_by_step(spec: EncoderSpec, device: torch.device) -> float:
    """An encoder over a sequence beside the same encoder one step at a time."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, LENGTH, WIDTH, generator=rng).to(device)
    is_first = torch.zeros(ROWS, LENGTH, dtype=torch.bool, device=device)
    is_first[:, 0] = True
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        encoder = spec.build(spec.settings(), WIDTH).to(device).eval()
    state, steps = encoder.initial_state(ROWS), []
    for t in range(LENGTH):
        y, state = encoder.step(x[:, t], state)
        steps.append(y)
    return deviation([torch.stack(steps, 1)], [encoder(x, is_first)])
