"""The scan as an operator of torch: what it refuses, registers, compiles to and allocates."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scan_cases import ON_EVERY_MACHINE, TENSORS, fused, leaves, make_case, results, using
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from resel.errors import BadInputError
from resel.networks.encoders.mamba import MambaMixer
from resel.networks.ops import _scan_operator as scan_operator
from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.reference import scan as reference_scan
from resel.networks.ops.scan import selective_scan

FORWARD = torch.ops.resel.selective_scan.default
BACKWARD = torch.ops.resel.selective_scan_backward.default
OPTIONAL = ("D", "z", "is_first", "initial_state")


@pytest.mark.parametrize("name", ["delta", "A", "B", "C", "D", "z", "is_first", "initial_state"])
@pytest.mark.parametrize("fault", ["shape", "dtype", "device"])
def test_a_wrong_argument_is_named(name: str, fault: str) -> None:
    case = make_case(2, 5, 4, 3)
    value = case[name]
    if fault == "shape":
        index = 0 if name in ("A", "D") else 1
        case[name] = value.narrow(index, 0, value.shape[index] - 1)
    elif fault == "dtype":
        case[name] = value.to(torch.float32)
    else:
        case[name] = value.to("meta")
    with pytest.raises(BadInputError, match=rf"selective_scan: {name} is"):
        selective_scan(**case)


@pytest.mark.parametrize("name", ["u", "A"])
def test_a_missing_dimension_is_named(name: str) -> None:
    case = make_case(2, 5, 4, 3)
    case[name] = case[name][0]
    with pytest.raises(BadInputError, match=rf"{name} of shape"):
        selective_scan(**case)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_other_precisions_are_refused(dtype: torch.dtype) -> None:
    case = make_case(2, 5, 4, 3)
    case = {n: v.to(dtype) if n != "is_first" else v for n, v in case.items()}
    with pytest.raises(BadInputError, match="takes float32 or float64"):
        selective_scan(**case)


@pytest.mark.parametrize("kernels", ON_EVERY_MACHINE)
@pytest.mark.parametrize("skip", [(), OPTIONAL])
def test_opcheck(skip: tuple[str, ...], kernels: str) -> None:
    case = make_case(2, 19, 5, 3, skip=skip)
    differentiable = leaves(case, torch.float64)
    with using(ON_EVERY_MACHINE[kernels]):
        y, state, saved = FORWARD(*case.values(), True)
        torch.library.opcheck(FORWARD, (*case.values(), False))
        torch.library.opcheck(FORWARD, (*differentiable.values(), True))
        grads = (torch.randn_like(y), torch.randn_like(state))
        torch.library.opcheck(BACKWARD, (*grads, *list(case.values())[:-1], saved))


@pytest.mark.parametrize("skip", [(), OPTIONAL])
def test_code_around_it_compiles_to_one_graph(skip: tuple[str, ...]) -> None:
    def function(**case: Any) -> tuple[Tensor, Tensor]:
        y, state = fused(**{**case, "u": case["u"].sin()})
        return y.cos(), state * 2

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    for length in (19, 40):
        case = leaves(make_case(2, length, 5, 3, skip=skip), torch.float64)
        found, expected = results(compiled, case), results(function, case)
        assert all(torch.equal(found[name], expected[name]) for name in expected)


# Dynamo's own warnings, where the graph breaks:
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize(("taps", "whole"), [(0, True), (4, False)])
def test_a_compiled_mixer_is_the_same(taps: int, whole: bool) -> None:
    """The convolution's kernels are no operators: the graph breaks there, the numbers stay."""
    mixer = MambaMixer(16, expansion=2, state_size=4, conv_kernel=taps)
    x, is_first = torch.randn(2, 20, 16), torch.rand(2, 20) < 0.2
    compiled = torch.compile(mixer, backend="aot_eager", fullgraph=whole)
    outputs = [function(x, is_first) for function in (mixer, compiled)]
    grads = [torch.autograd.grad(y.square().sum(), mixer.parameters()) for y in outputs]
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(grads[0], grads[1])


@pytest.mark.filterwarnings("ignore:Triton is not installed")
@pytest.mark.parametrize("device", ["cpu", "cuda", "mps", "meta"])
def test_shapes_are_known_without_running(device: str) -> None:
    shapes = {name: value.shape for name, value in make_case(2, 70, 5, 3).items()}
    with FakeTensorMode():
        case = {name: torch.empty(shape, device=device) for name, shape in shapes.items()}
        y, state, saved = FORWARD(*case.values(), True)
        grads = BACKWARD(y, state, *list(case.values())[:-1], saved)
    assert (y.shape, state.shape) == ((2, 70, 5), (2, 5, 3))
    assert [grad.shape for grad in grads] == [shapes[name] for name in TENSORS]
    assert {t.device.type for t in (y, state, saved, *grads)} == {device}


def test_states_are_kept_only_for_a_gradient() -> None:
    cpu, kept = ON_EVERY_MACHINE["cpu"], []

    def forward(*inputs: Any) -> Any:
        found = cpu.forward(*inputs)
        kept.append(found[2].numel() > 0)
        return found

    case = make_case(2, 70, 5, 3)
    with using(SimpleNamespace(forward=forward)):
        plain = selective_scan(**case)
        with torch.no_grad():
            selective_scan(**leaves(case, torch.float64))
        differentiable = selective_scan(**leaves(case, torch.float64))
    assert kept == [False, False, True]
    torch.testing.assert_close(plain, differentiable, rtol=0, atol=0)


def test_a_gradient_without_kept_states_recomputes_them() -> None:
    case = leaves(make_case(2, 40, 5, 3), torch.float64)
    found = results(lambda **case: FORWARD(*case.values(), False)[:2], case)
    expected = results(fused, case)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_there_is_no_second_derivative() -> None:
    case = leaves(make_case(1, 4, 2, 2), torch.float64)
    y = selective_scan(**case)
    (grad,) = torch.autograd.grad(y.sum(), case["u"], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(grad.sum(), case["delta"])


def test_a_device_without_kernels_runs_the_chunked_version() -> None:
    inputs = (*make_case(2, 40, 5, 3).values(), True)
    for key in (torch._C.DispatchKey.XPU, torch._C.DispatchKey.MPS):
        found = FORWARD.redispatch(torch._C.DispatchKeySet(key), *inputs)
        expected = reference_scan.forward(ScanInputs(*inputs[:8]), *inputs[8:])
        assert all(map(torch.equal, found, expected))


def test_a_gpu_without_triton_runs_the_chunked_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says once what is slower, and what to install."""
    monkeypatch.setattr(scan_operator, "find_spec", lambda name: None)
    chosen = functools.cache(scan_operator._kernels.__wrapped__)
    with pytest.warns(UserWarning, match=r"the mamba encoder.*slower.*pip install triton") as told:
        assert chosen("cuda") is chosen("cuda") is reference_scan
    assert len(told) == 1
    assert chosen("cpu") is not reference_scan and chosen("mps") is reference_scan


class Allocations(TorchDispatchMode):
    """Bytes of every new storage that torch operations hand out."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.alive: list[Tensor] = []  # so that no address comes twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        if isinstance(result, Tensor) and result.untyped_storage().data_ptr() not in given:
            self.sizes[result.untyped_storage().data_ptr()] = result.untyped_storage().nbytes()
            self.alive.append(result)
        return result


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_memory_on_a_cpu(two_threads: None) -> None:
    """All that torch allocates for a forward and a backward pass, less the results themselves.

    The kernels' own scratch is some hundred kilobytes for each thread and not counted.
    """
    case = make_case(1, 1000, 512, 64, dtype=torch.float32)
    *given, initial_state = case.values()
    inputs, cpu = ScanInputs(*given), ON_EVERY_MACHINE["cpu"]
    with Allocations() as found:
        y, state, saved = cpu.forward(inputs, initial_state, True)
        grads = cpu.backward(y, state, inputs, saved)
    results = sum(t.nbytes for t in (y, state, *grads))
    beyond = sum(found.sizes.values()) - results
    assert saved.nbytes == 4 * math.ceil(1000 / 16) * 512 * 64
    assert saved.nbytes < beyond < 16e6


def test_memory_of_the_chunked_version() -> None:
    """Nothing as large as the states of the whole packed sequence ever exists."""
    case = make_case(2, 300, 40, 16, dtype=torch.float32)
    *given, initial_state = case.values()
    inputs = ScanInputs(*given)
    with Allocations() as found:
        y, state, saved = reference_scan.forward(inputs, initial_state, True)
        reference_scan.backward(y, state, inputs, saved)
    assert max(found.sizes.values()) == 4 * 2 * reference_scan.CHUNK * 40 * 16
    assert saved.nbytes == 4 * 2 * math.ceil(300 / reference_scan.CHUNK) * 40 * 16
