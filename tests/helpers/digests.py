"""What RESeL's numbers are, in a form that can be kept: digests of bits, and norms to rounding.

`python tests/helpers/digests.py` prints them for the code as it stands. A digest does not depend on
names or order of tensors, only on their contents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from method_cases import noise_episodes
from torch import Tensor

from resel import RESeL
from resel.config import Config
from resel.data import Batch, pack
from resel.methods import Learner, build_learner
from resel.networks import Dimensions
from resel.runs import numeric_machine

RECORDED = Path(__file__).with_name("digests.json")
_UPDATES = 36
_SMALL: dict[str, Any] = {
    "width": 16,
    "embedding": 8,
    "head_width": 16,
    "state_size": 8,
    "n_critics": 4,
    "lr_context_encoder": 3e-4,
    "lr_policy": 1e-3,
    "lr_critic": 3e-3,
    "lr_alpha": 3e-3,
    "device": "cpu",
}
_LENGTHS = ([9, 21, 5, 13], [30, 4, 17], [2, 25, 11, 8, 6])

Case = Mapping[str, Any]


def machine() -> str:
    """On which machines the bits are comparable."""
    told = {k: v for k, v in numeric_machine("cpu").items() if k not in ("resel", "threads")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def update_cases() -> dict[str, Case]:
    """Updates from given batches: spaces, encoders, rows and the clamp."""
    cases = {}
    for encoder, discrete, rows, clamp in product(
        ("mamba", "gru"), (False, True), (1, 3), (False, True)
    ):
        name = f"{encoder}-{'discrete' if discrete else 'box'}-rows{rows}{'-clamp' * clamp}"
        cases[name] = {
            "discrete": discrete,
            "rows": rows,
            "settings": {"encoder": encoder, "clamp_target_values": clamp},
        }
    for name, settings in {
        "lstm": {"encoder": "lstm", "n_layers": 2},
        "mlp": {"encoder": "mlp", "normalize_observations": True},
        "mamba-rewards": {"encoder": "mamba", "reward_input": True, "reward_scale": 0.3},
        "mamba-2": {"encoder": "mamba", "n_layers": 2, "input_layers": 2},
        "mamba-bare": {"encoder": "mamba", "conv_kernel": 0, "feed_forward": False},
        "released": {"encoder": "gru", "released_details": True, "clamp_target_values": True},
        "gru-rnn-scope": {"encoder": "gru", "lr_scope": "rnn", "alpha": 0.1},
        "gru-entropy": {"encoder": "gru", "target_entropy_scale": 0.5, "tau": 0.01},
    }.items():
        cases[name] = {"discrete": False, "rows": 1, "settings": settings}
    return cases


def run_cases() -> dict[str, Case]:
    """Short whole runs, one and two environments."""
    short = {"warmup_steps": 400, "eval_every": 250, "eval_episodes": 2, "device": "cpu"}
    cases = {}
    for task, encoder, envs in (
        ("Pendulum-V-v0", "mamba", 1),
        ("Pendulum-V-v0", "gru", 2),
        ("CartPole-V-v0", "mamba", 2),
        ("TMaze-v0", "gru", 1),
    ):
        name = f"{task}-{encoder}-{envs}"
        cases[name] = {"task": task, "settings": {**short, "encoder": encoder, "num_envs": envs}}
    # Presets get better; a digest is of what the engine makes of certain settings.
    cases["TMaze-v0-gru-1"]["settings"] |= {
        "lr_policy": 3e-3,
        "critic_entropy": True,
        "policy_kl": "reverse",
        "critic_episodes": 0.0,
        "deviation_episodes": 0.0,
    }
    cases["CartPole-V-v0-mamba-2"]["settings"] |= {
        "target_entropy_scale": 0.2,
        "gamma": 0.98,
        "reward_scale": 0.1,
        "batch_steps": 400,
        "context_length": None,
        "td_lambda": 0.0,
        "noise_hold": 1,
        "exploration_epsilon": 0.0,
        "critic_entropy": True,
        "policy_kl": "reverse",
        "critic_episodes": 0.0,
        "deviation_episodes": 0.0,
        "normalize_rewards": False,
        "lr_final_scale": 1.0,
    }
    return cases


def batch(discrete: bool, lengths: list[int], rows: int, seed: int) -> Batch:
    """Episodes of noise."""
    dims = Dimensions(3, 4 if discrete else 2, discrete)
    buffer = noise_episodes(dims, lengths, np.random.default_rng(seed))
    return pack(buffer, list(buffer), rows)


def updated(case: Case) -> list[Tensor]:
    """Everything that some dozens of updates have left behind."""
    discrete = case["discrete"]
    config = Config.build("", _SMALL, case["settings"])
    dims = Dimensions(3, 4 if discrete else 2, discrete)
    learner = build_learner(config, dims, torch.device("cpu"))
    rng = np.random.default_rng(7)
    learner.normalizer.update(rng.normal(size=(50, 3)).astype(np.float32))
    batches = [batch(discrete, lengths, case["rows"], i) for i, lengths in enumerate(_LENGTHS)]
    metrics: dict[str, Tensor] = {}
    for i in range(_UPDATES):
        metrics |= learner.update(batches[i % len(batches)], want_metrics=i >= _UPDATES - 2)
    return [*_of_learner(learner), *metrics.values()]


def trained(case: Case) -> list[Tensor]:
    """Everything that a short run has left behind."""
    agent = RESeL(case["task"], **case["settings"])
    agent.learn(750)
    evaluations = torch.tensor(agent.evaluations, dtype=torch.float64)
    tensors = [*_of_learner(agent.learner), evaluations]
    agent.close()
    return tensors


def _of_learner(learner: Learner) -> Iterable[Tensor]:
    state = learner.state()[0]
    return [*learner.weights().values(), *(t for t in state.values() if t.is_floating_point())]


def digest(tensors: Iterable[Tensor]) -> dict[str, Any]:
    """The bits of all tensors as one word, and their largest norms in rising order."""
    arrays = [t.detach().cpu().contiguous().numpy() for t in tensors]
    words = sorted(hashlib.sha256(a.tobytes()).hexdigest() for a in arrays if a.size)
    norms = sorted(float(np.sqrt(np.nansum(np.square(a.astype(np.float64))))) for a in arrays)
    return {
        "bits": hashlib.sha256("".join(words).encode()).hexdigest()[:16],
        "norms": [float(f"{norm:.6g}") for norm in norms[-8:]],
    }


def all_digests() -> dict[str, Any]:
    """Every case by name, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = {name: digest(updated(case)) for name, case in update_cases().items()}
        return found | {name: digest(trained(case)) for name, case in run_cases().items()}
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    lines = ",\n".join(f'  "{name}": {json.dumps(case)}' for name, case in all_digests().items())
    print(f'{{\n "machine": "{machine()}",\n "cases": {{\n{lines}\n }}\n}}')
