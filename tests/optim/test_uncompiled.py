"""Optimisers that do without torch's compiler, and do the same as torch's."""

from __future__ import annotations

import subprocess
import sys

import torch

from resel.optim._uncompiled import AdamW

PROGRAM = """
import sys
from resel.config import Config
from resel.networks import Dimensions
from resel.training import Workload
for method in ("resel", "a2c-gru"):
    config = Config.build("", {"method": method, "encoder": "gru", "width": 8, "embedding": 4})
    learner = Workload.build(config, Dimensions(3, 2, discrete=False), 4, 2).learner
    learner.restore(*learner.state())
    for optimizer in learner.optimizers.values():
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
print("torch._dynamo" in sys.modules)
"""


def test_making_and_using_them_loads_no_compiler() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "False\n", done.stderr


def test_steps_are_torchs() -> None:
    rng = torch.Generator().manual_seed(1)
    start, gradients = torch.randn(7, generator=rng), torch.randn(4, 7, generator=rng)
    ends = []
    for kind in (torch.optim.AdamW, AdamW):
        weights = start.clone().requires_grad_()
        optimizer = kind([weights], lr=0.1, weight_decay=0.01, fused=True)
        for skip, gradient in enumerate(gradients):
            weights.grad = gradient.clone()
            optimizer.found_inf = torch.tensor(float(skip == 2))  # type: ignore[attr-defined]
            optimizer.step()
        again = kind([start.clone().requires_grad_()], lr=0.5, fused=True)
        again.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad(set_to_none=False)
        assert weights.requires_grad and not weights.grad.any()
        ends.append((weights.detach(), again.state_dict()["state"][0]))
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=0)
