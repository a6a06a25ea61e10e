"""The formulas of docs/deployment.md, in NumPy on the weights of a saved agent, are the policy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_policies import warmed
from numpy.typing import NDArray
from safetensors.numpy import load_file

from resel import RESeL

Vector = NDArray[np.float64]
Memory = tuple[Vector, ...]


class Weights:
    """Those of a folder, by the end of their names."""

    def __init__(self, folder: Path) -> None:
        self.of = load_file(folder / "weights.safetensors")

    def __call__(self, name: str) -> Vector:
        return self.of[name].astype(np.float64)

    def linear(self, name: str, x: Vector) -> Vector:
        bias = self(f"{name}.bias") if f"{name}.bias" in self.of else 0.0
        return self(f"{name}.weight") @ x + bias


def sigma(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))


def elu(x: Vector) -> Vector:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def gelu(x: Vector) -> Vector:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


RNN = "policy.trunk.context_encoder.rnn"


def gates(w: Weights, layer: int, x: Vector, h: Vector) -> tuple[Vector, Vector]:
    at = [
        f"{RNN}.layers.{kind}_{place}_l{layer}"
        for place in ("ih", "hh")
        for kind in ("weight", "bias")
    ]
    return w(at[0]) @ x + w(at[1]), w(at[2]) @ h + w(at[3])


def gru(w: Weights, x: Vector, memory: Memory) -> tuple[Vector, Memory]:
    after = []
    for layer, h in enumerate(memory[0]):
        (ar, az, an), (br, bz, bn) = (np.split(v, 3) for v in gates(w, layer, x, h))
        z = sigma(az + bz)
        x = (1 - z) * np.tanh(an + sigma(ar + br) * bn) + z * h
        after.append(x)
    return x, (np.stack(after),)


def lstm(w: Weights, x: Vector, memory: Memory) -> tuple[Vector, Memory]:
    after = []
    for layer, (h, c) in enumerate(zip(*memory, strict=True)):
        i, f, g, o = np.split(sum(gates(w, layer, x, h)), 4)
        c = sigma(f) * c + sigma(i) * np.tanh(g)
        x = sigma(o) * np.tanh(c)
        after.append((x, c))
    return x, tuple(np.stack(part) for part in zip(*after, strict=True))


def mlp(w: Weights, x: Vector, memory: Memory) -> tuple[Vector, Memory]:
    x = w.linear(f"{RNN}.layers.0", x)
    return w.linear(f"{RNN}.layers.2", elu(x)), ()


def mamba(w: Weights, x: Vector, memory: Memory) -> tuple[Vector, Memory]:
    after: list[Vector] = []
    for block in range(len(memory) // 2):
        past, h = memory[2 * block : 2 * block + 2]  # (K - 1, D), (D, S)
        at, size = f"{RNN}.mixers.{block}", h.shape[1]
        n = x / np.sqrt((x**2).mean() + 1e-8) * w(f"{RNN}.norms.{block}.weight")
        v, z = np.split(w.linear(f"{at}.in_proj", n), 2)
        window = np.vstack([past, v])  # newest last; the first weight is that of the newest
        u = (window[::-1] * w(f"{at}.conv_weight").T).sum(0) + w(f"{at}.conv_bias")
        u = u * sigma(u)
        d, B, C = np.split(w.linear(f"{at}.x_proj", u), [-2 * size, -size])
        delta = np.log1p(np.exp(w.linear(f"{at}.dt_proj", d)))
        A = -np.exp(w(f"{at}.A_log"))
        h = np.exp(delta[:, None] * A) * h + np.outer(delta * u, B)
        x = x + w.linear(f"{at}.out_proj", (h @ C + w(f"{at}.D") * u) * z * sigma(z))
        after += [window[1:], h]
    x = x + w.linear(f"{RNN}.last.down", gelu(w.linear(f"{RNN}.last.up", x)))
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-8)
    return x * w(f"{RNN}.last.norm.weight") + w(f"{RNN}.last.norm.bias"), tuple(after)


ENCODERS = {"gru": gru, "lstm": lstm, "mlp": mlp, "mamba": mamba}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_formulas_are_the_policy(encoder: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    own = {"encoder": encoder, "n_layers": 2, "normalize_observations": True, "reward_input": True}
    agent = RESeL("toy/Box-v0", **{**tiny, **own})
    warmed(agent.learner)
    agent.save(tmp_path / "agent", policy_only=True)
    w = Weights(tmp_path / "agent")
    memory: Memory = tuple(
        np.zeros(part.shape[1:]) for part in agent.learner.policy.initial_state(1)
    )
    rng, state = np.random.default_rng(0), None
    n_last, u, reward = np.zeros(3), np.zeros(2), 0.0
    low, high = np.array([-2.0, 0.0]), np.array([2.0, 1.0])
    for _ in range(12):
        o = rng.normal(size=3)
        wanted, state = agent.predict(o, state, reward=None if state is None else reward)
        n = np.clip((o - w("normalizer.mean")) / (w("normalizer.deviation") + 1e-6), -10, 10)
        kinds = {"observation": n, "last_observation": n_last, "last_action": u}
        read = {**kinds, "last_reward": np.array([reward])}
        e = np.concatenate([w.linear(f"policy.trunk.{kind}", x) for kind, x in read.items()])
        x = elu(w.linear("policy.trunk.context_encoder.before.0.linear", e))
        y, memory = ENCODERS[encoder](w, x, memory)
        context = w.linear("policy.trunk.context_encoder.after", elu(y))
        x = np.concatenate([w.linear("policy.observation", n), context])
        for layer in range(2):
            x = elu(w.linear(f"policy.head.0.{layer}.linear", x))
        _, mean = np.split(w.linear("policy.head.1", x), 2)
        n_last, u, reward = n, np.tanh(mean), float(rng.normal())
        found = np.clip((low + high) / 2 + (high - low) / 2 * u, low, high)
        np.testing.assert_allclose(found, wanted, atol=2e-5)
