"""The contract of every encoder: packed, alone and step by step are the same function."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from resel.config import Config
from resel.errors import ConfigError
from resel.networks import (
    Encoder,
    EncoderSpec,
    batch_norms,
    build_encoder,
    encoder_spec,
    encoders,
)

WIDTH = 6
KINDS: dict[str, dict[str, object]] = {
    "mamba": {"encoder": "mamba", "conv_kernel": 4},
    "mamba-long-conv": {"encoder": "mamba", "conv_kernel": 8},
    "mamba-one-tap": {"encoder": "mamba", "conv_kernel": 1},
    "mamba-2": {"encoder": "mamba", "conv_kernel": 3, "n_layers": 2},
    "mamba-no-conv": {"encoder": "mamba", "conv_kernel": 0},
    "mamba-no-feed-forward": {"encoder": "mamba", "conv_kernel": 4, "feed_forward": False},
    "mamba-2-bare": {"encoder": "mamba", "conv_kernel": 0, "feed_forward": False, "n_layers": 2},
    "gru": {"encoder": "gru"},
    "gru-2": {"encoder": "gru", "n_layers": 2},
    "lstm": {"encoder": "lstm"},
    "lstm-2": {"encoder": "lstm", "n_layers": 2},
    "mlp": {"encoder": "mlp"},
    "mlp-2": {"encoder": "mlp", "n_layers": 2},
    "transformer": {"encoder": "transformer", "n_layers": 2, "n_heads": 3, "longest_episode": 20},
    "transformer-window": {"encoder": "transformer", "n_layers": 2, "n_heads": 2, "window": 21},
    "gpt": {"encoder": "gpt", "n_layers": 2, "n_heads": 3, "longest_episode": 20},
    "gpt-window": {"encoder": "gpt", "window": 21},
    "smoothing": {"encoder": "smoothing", "smoothing_width": 2},
    "smoothing-window": {"encoder": "smoothing", "smoothing_width": 2, "window": 21},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def test_every_encoder_has_a_kind() -> None:
    assert {spec.name for spec in encoders()[0]} == {kind["encoder"] for kind in KINDS.values()}


def spec_of(kind: str) -> EncoderSpec:
    return encoder_spec(str(KINDS[kind]["encoder"]))


def make_config(kind: str, **changes: object) -> Config:
    return Config.build("", {"state_size": 3}, KINDS[kind], changes)


def make_encoder(
    kind: str, dtype: torch.dtype = torch.float64, seed: int = 0, **changes: object
) -> Encoder:
    """An encoder as it acts; while learning, batch statistics make an exception: see below."""
    torch.manual_seed(seed)
    encoder = build_encoder(make_config(kind, **changes), WIDTH).to(dtype)
    with torch.no_grad():  # zero biases and unit scales would hide that they are not used
        for parameter in encoder.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        for buffer in encoder.buffers():
            buffer += 0.1 * torch.rand_like(buffer)
    return encoder.eval()


def alone(encoder: Encoder, x: Tensor) -> Tensor:
    """One trajectory (length, width) by itself."""
    is_first = torch.zeros(1, len(x), dtype=torch.bool)
    is_first[0, 0] = True
    return encoder(x[None], is_first)[0]


@dataclass
class Tape:
    """Trajectories laid out on rows, with padding at the ends."""

    x: Tensor
    is_first: Tensor
    spots: list[tuple[int, slice]]
    """Row and steps of each trajectory."""


def lay_out(trajectories: list[Tensor], rows: int, mark_first: bool = True) -> Tape:
    where: list[list[int]] = [list(range(row, len(trajectories), rows)) for row in range(rows)]
    where = [row for row in where if row]
    length = max(sum(len(trajectories[i]) for i in row) for row in where)
    x = torch.randn(len(where), length, WIDTH, dtype=trajectories[0].dtype)  # padding is noise
    is_first = torch.ones(len(where), length, dtype=torch.bool)
    spots: list[tuple[int, slice]] = [(0, slice(0))] * len(trajectories)
    for r, row in enumerate(where):
        at = 0
        for i in row:
            end = at + len(trajectories[i])
            x[r, at:end] = trajectories[i]
            is_first[r, at + 1 : end] = False
            spots[i] = (r, slice(at, end))
            at = end
    if not mark_first:
        is_first[:, 0] = False
    return Tape(x, is_first, spots)


def random_trajectories(lengths: list[int], seed: int, dtype: torch.dtype) -> list[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(n, WIDTH, generator=rng, dtype=torch.float64).to(dtype) for n in lengths]


@every_kind
@settings(max_examples=8, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 21), min_size=1, max_size=6),
    rows=st.integers(1, 3),
    mark_first=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_packed_equals_separate(
    kind: str, lengths: list[int], rows: int, mark_first: bool, dtype: torch.dtype, seed: int
) -> None:
    encoder = make_encoder(kind, dtype, seed)
    parameters = dict(encoder.named_parameters())
    trajectories = random_trajectories(lengths, seed, dtype)
    weightings = random_trajectories(lengths, seed + 1, dtype)

    leaves = [t.clone().requires_grad_() for t in trajectories]
    separate = [alone(encoder, leaf) for leaf in leaves]
    loss = sum((w * y).sum() for w, y in zip(weightings, separate, strict=True))
    expected = torch.autograd.grad(loss, [*leaves, *parameters.values()])

    packed = lay_out(trajectories, rows, mark_first)
    x = packed.x.requires_grad_()
    y = encoder(x, packed.is_first)
    together = [y[row, steps] for row, steps in packed.spots]
    loss = sum((w * y).sum() for w, y in zip(weightings, together, strict=True))
    grad_x, *found = torch.autograd.grad(loss, [x, *parameters.values()])

    close = 1e-10 if dtype == torch.float64 else 2e-4
    for ours, theirs in zip(together, separate, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=close, atol=close)
    untouched = torch.ones(grad_x.shape[:2], dtype=torch.bool)
    for (row, steps), wanted in zip(packed.spots, expected, strict=False):
        torch.testing.assert_close(grad_x[row, steps], wanted, rtol=close, atol=close)
        untouched[row, steps] = False
    assert torch.all(grad_x[untouched] == 0)  # padding
    for name, ours, theirs in zip(parameters, found, expected[len(leaves) :], strict=True):
        size = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(
            ours, theirs, rtol=close, atol=close * size, msg=lambda m, n=name: f"{n}: {m}"
        )


@every_kind
@pytest.mark.parametrize("length", [1, 2, 20])
def test_steps_equal_forward(kind: str, length: int) -> None:
    """With gradients, and as when acting, where other kernels may run; in both precisions."""
    for dtype, close in ((torch.float64, 1e-11), (torch.float32, 2e-5)):
        encoder = make_encoder(kind).to(dtype)
        x = torch.stack(random_trajectories([length] * 3, 0, dtype))  # (rows, length, width)
        is_first = torch.zeros(3, length, dtype=torch.bool)
        for learns in (True, False):
            with torch.set_grad_enabled(learns):
                state = encoder.initial_state(3)
                outputs = []
                for t in range(length):
                    y, state = encoder.step(x[:, t], state)
                    outputs.append(y)
                torch.testing.assert_close(
                    torch.stack(outputs, 1), encoder(x, is_first), rtol=close, atol=close
                )


@every_kind
def test_a_step_treats_its_rows_alone(kind: str) -> None:
    encoder = make_encoder(kind)
    x = torch.stack(random_trajectories([7] * 4, 0, torch.float64))
    together = encoder.initial_state(4)
    separate = [encoder.initial_state(1) for _ in range(4)]
    for t in range(7):
        y, together = encoder.step(x[:, t], together)
        for row in range(4):
            own, separate[row] = encoder.step(x[row : row + 1, t], separate[row])
            torch.testing.assert_close(y[row : row + 1], own, rtol=1e-12, atol=1e-13)
            for all_rows, one_row in zip(together, separate[row], strict=True):
                torch.testing.assert_close(all_rows[row : row + 1], one_row, rtol=1e-12, atol=1e-13)


@every_kind
def test_zeroing_a_row_of_the_state_restarts_only_that_row(kind: str) -> None:
    encoder = make_encoder(kind)
    x = torch.stack(random_trajectories([6, 6], 0, torch.float64))
    state = encoder.initial_state(2)
    for t in range(3):
        _, state = encoder.step(x[:, t], state)
    for part in state:
        part.data[0] = 0
    y, _ = encoder.step(x[:, 3], state)
    torch.testing.assert_close(y[0], alone(encoder, x[0, 3:4])[0])
    torch.testing.assert_close(y[1], alone(encoder, x[1, :4])[3])


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trajectories_do_not_touch_each_other(kind: str, dtype: torch.dtype) -> None:
    """Exactly: not one bit of the others changes, and not one gradient flows."""
    encoder = make_encoder(kind, dtype)
    packed = lay_out(random_trajectories([5, 1, 20, 3, 17, 2], 0, dtype), 2)
    with torch.no_grad():
        before = encoder(packed.x, packed.is_first)
    for row, steps in packed.spots:
        others = torch.ones(packed.is_first.shape, dtype=torch.bool)
        others[row, steps] = False
        changed = packed.x.clone()
        changed[row, steps] = 3 * torch.randn_like(changed[row, steps])
        with torch.no_grad():
            after = encoder(changed, packed.is_first)
        assert torch.equal(after[others], before[others])
        assert not torch.equal(after[row, steps], before[row, steps])
        x = packed.x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(encoder(x, packed.is_first)[others].square().sum(), x)
        assert torch.all(grad[row, steps] == 0)
        assert torch.any(grad[others] != 0)


@every_kind
def test_only_the_past_counts(kind: str) -> None:
    encoder = make_encoder(kind)
    (x,) = random_trajectories([12], 0, torch.float64)
    changed = x.clone()
    changed[7:, 0] += 1  # not all of them: a norm would take that off again
    before, after = alone(encoder, x), alone(encoder, changed)
    torch.testing.assert_close(before[:7], after[:7], rtol=1e-12, atol=1e-13)
    assert not torch.allclose(before[7:], after[7:])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if spec_of(kind).memory])
def test_the_first_input_is_remembered(kind: str) -> None:
    encoder = make_encoder(kind)
    (x,) = random_trajectories([12], 0, torch.float64)
    x.requires_grad_()
    (grad,) = torch.autograd.grad(alone(encoder, x)[11].square().sum(), x)
    assert grad[0].abs().max() > 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not spec_of(kind).memory])
def test_without_a_memory_nothing_is_remembered(kind: str) -> None:
    encoder = make_encoder(kind)
    (x,) = random_trajectories([12], 0, torch.float64)
    torch.testing.assert_close(alone(encoder, x)[11:], alone(encoder, x[11:]))
    assert encoder.initial_state(3) == ()


@every_kind
def test_the_initial_state_is_zero_and_of_the_weights_kind(kind: str) -> None:
    encoder = make_encoder(kind, torch.float32)
    state = encoder.initial_state(5)
    assert all(part.shape[0] == 5 and part.dtype == torch.float32 for part in state)
    assert all(torch.all(part == 0) for part in state)
    y, after = encoder.step(torch.randn(5, WIDTH), state)
    assert y.shape == (5, WIDTH)
    assert [part.shape for part in after] == [part.shape for part in state]
    assert all(torch.all(part == 0) for part in state)  # the old state is left as it was


@every_kind
def test_one_tape_suits_a_cpu(kind: str) -> None:
    assert make_encoder(kind).suitable_rows([3, 900, 20]) == 1


@every_kind
def test_it_reaches_as_far_as_it_declares(kind: str) -> None:
    """While acting; what is older is without any influence."""
    spec = spec_of(kind)
    changes = {"window": 4} if KINDS[kind].get("window") else {}
    encoder = make_encoder(kind, **changes)
    reach = spec.reach(make_config(kind, **changes).encoder_settings)
    (x,) = random_trajectories([12], 0, torch.float64)
    x.requires_grad_()
    state = encoder.initial_state(1)
    for t in range(12):
        y, state = encoder.step(x[t : t + 1], state)
    (grad,) = torch.autograd.grad(y.square().sum(), x)
    seen = grad.abs().amax(1) > 0
    assert seen.sum() == (reach or 12) and seen[-(reach or 12) :].all()


@every_kind
def test_longer_than_it_declares_is_refused(kind: str) -> None:
    encoder = make_encoder(kind)
    longest = spec_of(kind).longest(make_config(kind).encoder_settings)
    (x,) = random_trajectories([longest.observations + 1 if longest else 40], 0, torch.float64)
    state = encoder.initial_state(1)
    for t in range(len(x) - 1):
        _, state = encoder.step(x[t : t + 1], state)
    if longest is None or longest.slides:
        encoder.step(x[-1:], state)
    else:
        with pytest.raises(ConfigError, match=f"22 observations .* larger {longest.setting}"):
            encoder.step(x[-1:], state)
    if longest is None:
        assert alone(encoder, x).isfinite().all()
    else:
        with pytest.raises(ConfigError, match=f"22 observations .* larger {longest.setting}"):
            alone(encoder, x)


@every_kind
def test_batch_statistics_are_declared(kind: str) -> None:
    """While learning, others are seen by those alone that say so; how a batch is laid out never
    matters."""
    encoder, spec = make_encoder(kind).train(), spec_of(kind)
    assert bool(batch_norms(encoder)) == spec.batch_statistics
    trajectories = random_trajectories([5, 2, 9, 3], 0, torch.float64)

    def learned(pieces: list[Tensor], rows: int) -> list[Tensor]:
        packed = lay_out(pieces, rows)
        y = encoder(packed.x, packed.is_first)
        return [y[row, steps] for row, steps in packed.spots]

    usual = learned(trajectories, 1)
    for one, other in zip(usual, learned(trajectories, 3), strict=True):
        torch.testing.assert_close(one, other)
    changed = learned([*trajectories[:-1], 3 * trajectories[-1]], 1)
    assert torch.allclose(usual[0], changed[0]) != spec.batch_statistics
