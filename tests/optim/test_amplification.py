"""The two halves of measuring an amplification: what a policy would do, and a step undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from resel.optim import PackedInputs, moved, policy_outputs
from resel.training import Trainer


@pytest.mark.parametrize("discrete", [False, True])
def test_a_step_moves_the_outputs_and_is_undone(
    discrete: bool, make_trainer: Callable[..., Trainer]
) -> None:
    trainer = make_trainer({"discrete": discrete})
    trainer.train(50)
    learner = trainer.learner
    batch = trainer.sample().to(learner.device)
    sequences = [PackedInputs(learner.inputs(batch)[0], batch.is_first, batch.mask)]
    groups = learner.groups["policy"]
    before = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
    (outputs,) = policy_outputs(learner.policy, sequences)
    assert outputs.shape == (batch.steps, learner.dims.action) and not outputs.requires_grad
    if discrete:
        torch.testing.assert_close(outputs.sum(-1), torch.ones(batch.steps).double())
    steps = {group.name: torch.ones_like(group.block.detach()) for group in groups}
    for name in steps:
        rates = {other: 1e-2 if other == name else 0.0 for other in steps}
        with moved(groups, steps, rates):
            for group in groups:
                for key, parameter in group.parameters.items():
                    torch.testing.assert_close(parameter, before[key] - rates[group.name])
            assert not torch.equal(policy_outputs(learner.policy, sequences)[0], outputs)
        after = learner.policy.state_dict()
        assert all(torch.equal(after[key], before[key]) for key in before)
    with pytest.raises(KeyError), moved(groups, steps, {"context_encoder": 1.0}):
        pass
    assert torch.equal(policy_outputs(learner.policy, sequences)[0], outputs)
