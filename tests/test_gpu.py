"""What a GPU is asked: every kernel beside its reference, and agents that learn and act there.

RESEL_TEST_DEVICE=cpu runs them without one, to see that the tests themselves work.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from resel import Agent
from resel.networks import check_kernels, encoders
from resel.networks.ops import _scan_operator as scan_operator
from resel.networks.ops.checking import trusted
from resel.networks.ops.reference import scan as reference_scan

DEVICE = torch.device(os.environ.get("RESEL_TEST_DEVICE", "cuda"))
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        DEVICE.type == "cuda" and not torch.cuda.is_available(), reason="there is no GPU here"
    ),
]


def test_every_kernel_is_right() -> None:
    checks = list(check_kernels(DEVICE))
    assert all(check.good for check in checks), checks


def test_the_kernel_of_the_scan_is_used() -> None:
    kernels = scan_operator._kernels(DEVICE.type)
    assert kernels is not reference_scan, "Triton is not installed"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trusted(kernels, DEVICE) is kernels


@pytest.mark.parametrize("encoder", [spec.name for spec in encoders()[0] if spec.memory])
@pytest.mark.parametrize("task", ["toy/Box-v0", "toy/Discrete-v0"])
def test_an_agent_learns_and_acts(
    task: str, encoder: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    here = tiny | {"encoder": encoder, "device": str(DEVICE)}
    if encoder != "gru":
        here.pop("width")
    agent = Agent(task, size="tiny", **here)
    agent.learn(60)
    agent.save(tmp_path / "agent")
    other = Agent.load(tmp_path / "agent", device="cpu")
    state = other_state = None
    for time in range(10):
        observation = np.array([0.1 * time, time, -0.3], np.float32)
        action, state = agent.predict(observation, state)
        other_action, other_state = other.predict(observation, other_state)
        np.testing.assert_allclose(action, other_action, atol=1e-3)


def test_a_run_goes_on_where_it_was(tiny: dict[str, Any], tmp_path: Path) -> None:
    # Rates that fall, as by the preset `auto`, depend on how far the training is to go.
    here = tiny | {"device": str(DEVICE), "lr_final_scale": 1.0}
    whole, parts = (Agent("toy/Box-v0", seed=3, **here) for _ in range(2))
    whole.learn(80, run_dir=tmp_path / "whole")
    parts.learn(50, run_dir=tmp_path / "parts")
    again = Agent("toy/Box-v0", seed=3, **here)
    again.learn(80, run_dir=tmp_path / "parts", resume="auto")
    observation = np.array([0.5, 1.0, 0.0], np.float32)
    np.testing.assert_array_equal(whole.predict(observation)[0], again.predict(observation)[0])
