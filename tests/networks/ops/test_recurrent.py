"""GRU and LSTM on a packed sequence against torch's layers on each trajectory alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from resel.networks.ops.recurrent import by_trajectory, gru_packed, segment_bounds

Run = Callable[[Tensor, Tensor], Tensor]


def pieces(is_first: Tensor) -> list[tuple[int, int, int]]:
    """(row, begin, end) of every trajectory on a packed sequence."""
    found = []
    for row, flags in enumerate(is_first.tolist()):
        begins = [0, *(t for t, flag in enumerate(flags) if flag and t > 0)]
        found += [(row, b, e) for b, e in zip(begins, [*begins[1:], len(flags)], strict=True)]
    return found


def one_by_one(layer: nn.Module, x: Tensor, is_first: Tensor) -> Tensor:
    rows: list[list[Tensor]] = [[] for _ in range(x.shape[0])]
    for row, begin, end in pieces(is_first):
        rows[row].append(layer(x[row : row + 1, begin:end])[0][0])
    return torch.stack([torch.cat(parts) for parts in rows])


def outputs_and_gradients(
    run: Run, layer: nn.Module, x: Tensor, is_first: Tensor
) -> dict[str, Tensor]:
    x = x.clone().requires_grad_()
    y = run(x, is_first)
    rng = torch.Generator().manual_seed(3)
    weighting = torch.randn(y.shape, generator=rng, dtype=torch.float64).to(y.dtype)
    names = ["x", *(name for name, _ in layer.named_parameters())]
    grads = torch.autograd.grad((y * weighting).sum(), [x, *layer.parameters()])
    return {"y": y.detach(), **dict(zip(names, grads, strict=True))}


def through_layers(layer: nn.GRU) -> Run:
    def run(x: Tensor, is_first: Tensor) -> Tensor:
        for index in range(layer.num_layers):
            x = gru_packed(x, is_first, layer, index)
        return x

    return run


shapes = {
    "rows": st.integers(1, 3),
    "length": st.integers(1, 20),
    "features": st.sampled_from([1, 3, 8]),
    "hidden": st.sampled_from([1, 2, 5, 9]),
    "layers": st.integers(1, 2),
    "share": st.sampled_from([0.0, 0.2, 1.0]),
    "seed": st.integers(0, 10**6),
}


def random_tape(
    rows: int, length: int, features: int, share: float, seed: int
) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, length, features, generator=rng, dtype=torch.float64)
    return x, torch.rand(rows, length, generator=rng) < share


@settings(max_examples=30, deadline=None)
@given(**shapes, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_gru_tape_equals_torch(
    rows: int,
    length: int,
    features: int,
    hidden: int,
    layers: int,
    share: float,
    seed: int,
    dtype: torch.dtype,
) -> None:
    torch.manual_seed(seed)
    layer = nn.GRU(features, hidden, layers, batch_first=True, dtype=torch.float64)
    x, is_first = random_tape(rows, length, features, share, seed)
    expected = outputs_and_gradients(lambda x, s: one_by_one(layer, x, s), layer, x, is_first)
    tested = layer.to(dtype)
    found = outputs_and_gradients(through_layers(tested), tested, x.to(dtype), is_first)
    close = 1e-10 if dtype == torch.float64 else 3e-5
    for name, value in found.items():
        assert value.dtype == dtype
        torch.testing.assert_close(value.double(), expected[name], rtol=close, atol=close)


@settings(max_examples=20, deadline=None)
@given(**shapes, kind=st.sampled_from([nn.GRU, nn.LSTM]))
def test_by_trajectory_equals_one_by_one(
    rows: int,
    length: int,
    features: int,
    hidden: int,
    layers: int,
    share: float,
    seed: int,
    kind: type[nn.GRU] | type[nn.LSTM],
) -> None:
    torch.manual_seed(seed)
    layer = kind(features, hidden, layers, batch_first=True, dtype=torch.float64)
    x, is_first = random_tape(rows, length, features, share, seed)
    expected = outputs_and_gradients(lambda x, s: one_by_one(layer, x, s), layer, x, is_first)
    found = outputs_and_gradients(
        lambda x, s: by_trajectory(x, s, lambda padded: layer(padded)[0]), layer, x, is_first
    )
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-10, atol=1e-11)


def test_by_trajectory_shows_each_trajectory_once() -> None:
    x = torch.arange(1.0, 13).view(2, 6, 1)
    is_first = torch.tensor([[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0]], dtype=torch.bool)
    seen: list[Tensor] = []

    def run(padded: Tensor) -> Tensor:
        seen.append(padded)
        return torch.cat([padded, -padded], -1)

    y = by_trajectory(x, is_first, run)
    assert seen[0][..., 0].tolist() == [
        [1, 2, 3, 0, 0],
        [4, 5, 6, 0, 0],
        [7, 0, 0, 0, 0],
        [8, 9, 10, 11, 12],
    ]
    assert torch.equal(y, torch.cat([x, -x], -1))


def test_padding_holds_nothing_of_other_trajectories() -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(3, 5, batch_first=True)
    x, is_first = random_tape(1, 9, 3, 0.0, 0)
    is_first[0, 5] = True
    x = x.float()
    x[0, 0] = float("nan")
    x.requires_grad_()
    y = by_trajectory(x, is_first, lambda padded: layer(padded)[0])
    (grad,) = torch.autograd.grad(y[0, 5:].sum(), x)
    assert torch.isfinite(y[0, 5:]).all()
    assert torch.isfinite(grad[0, 5:]).all()


def test_segment_bounds() -> None:
    is_first = torch.tensor([[0, 0, 1, 0], [1, 1, 0, 0]], dtype=torch.bool)
    assert segment_bounds(is_first).tolist() == [0, 2, 4, 5, 8]
    assert is_first[0, 0].item() is False  # left as it was


def test_gradcheck() -> None:
    torch.manual_seed(0)
    layer = nn.GRU(2, 3, batch_first=True, dtype=torch.float64)
    x, is_first = random_tape(2, 5, 2, 0.3, 0)
    names = [name for name, _ in layer.named_parameters()]

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        changed = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(
            _Tape(layer), {f"layer.{n}": w for n, w in changed.items()}, (x, is_first)
        )

    assert torch.autograd.gradcheck(function, (x.requires_grad_(), *layer.parameters()))


class _Tape(nn.Module):
    def __init__(self, layer: nn.GRU) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        return gru_packed(x, is_first, self.layer, 0)


@pytest.mark.parametrize("size", [1e3, 1e30])
def test_saturated_gates_stay_finite(size: float) -> None:
    torch.manual_seed(0)
    layer = nn.GRU(4, 6, batch_first=True)
    x, is_first = random_tape(1, 8, 4, 0.2, 0)
    found = outputs_and_gradients(through_layers(layer), layer, (size * x).float(), is_first)
    assert all(torch.isfinite(value).all() for value in found.values())
    torch.testing.assert_close(found["y"], one_by_one(layer, (size * x).float(), is_first).detach())


def test_nan_stays_in_its_trajectory() -> None:
    torch.manual_seed(0)
    layer = nn.GRU(3, 5, batch_first=True)
    x, is_first = random_tape(1, 12, 3, 0.0, 0)
    is_first[0, 4] = is_first[0, 8] = True
    x = x.float()
    clean = gru_packed(x, is_first, layer, 0)
    x[0, 5, 1] = float("nan")
    dirty = gru_packed(x, is_first, layer, 0)
    assert torch.isnan(dirty[0, 5:8]).all()
    kept = [0, 1, 2, 3, 4, 8, 9, 10, 11]
    assert torch.equal(dirty[:, kept], clean[:, kept])


def test_two_threads_agree_with_one() -> None:
    torch.manual_seed(0)
    layer = nn.GRU(4, 24, batch_first=True, dtype=torch.float64)
    x, is_first = random_tape(2, 200, 4, 0.05, 0)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = outputs_and_gradients(through_layers(layer), layer, x, is_first)
        torch.set_num_threads(2)
        two = outputs_and_gradients(through_layers(layer), layer, x, is_first)
        again = outputs_and_gradients(through_layers(layer), layer, x, is_first)
    finally:
        torch.set_num_threads(before)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-11, atol=1e-12)
        assert torch.equal(two[name], again[name]), name
