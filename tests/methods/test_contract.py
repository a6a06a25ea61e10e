"""What every method promises on every space it declares. Whoever is registered is tested."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import math
import re
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from method_cases import (
    DIMENSIONS,
    LENGTHS,
    every_case,
    every_method,
    noise_batch,
    noise_buffer,
    same_bits,
    sampled,
    saved,
    small_config,
    small_learner,
    tensors_of,
    told_env,
    turned,
)
from torch import Tensor

from resel import Agent, Config
from resel.data import Batch, Moment, Trajectory
from resel.errors import ConfigError, UnsupportedSpaceError
from resel.methods import Learner, Method, methods, register_method
from resel.networks import (
    ContextInputs,
    PolicyDistribution,
    by_running_statistics,
    encoder_spec,
)
from resel.registry import METHODS
from resel.runs import read_bundle
from resel.training import evaluate
from resel.training.beside import Judge

CHANGED = 1
"""The episode that is changed where the others must not notice; it stands between two others."""


def outputs(policy: PolicyDistribution) -> Tensor:
    """All numbers of a distribution, side by side."""
    return torch.cat([part for part in vars(policy).values() if isinstance(part, Tensor)], -1)


def learn(learner: Learner, batches: list[Batch]) -> None:
    for batch in batches:
        learner.update(batch)


def several(learner: Learner, space: str, seed: int = 0) -> list[Batch]:
    """Batches for updates in which everything learns twice."""
    return [sampled(learner, space, seed + i) for i in range(2 * learner.updates_to_log)]


def slots(batch: Batch, episode: int) -> slice:
    """Where an episode stands on a batch of one row, its last observation included."""
    begin = sum(LENGTHS[:episode]) + episode
    return slice(begin, begin + LENGTHS[episode] + 1)


def with_other_episode(batch: Batch, space: str) -> Batch:
    """The same batch, but for the contents of one episode."""
    other, at = noise_batch(space, dtype=batch.reward.dtype, seed=9), slots(batch, CHANGED)
    changes = {}
    for name in ("observation", "action", "reward"):
        changes[name] = getattr(batch, name).clone()
        changes[name][:, at] = getattr(other, name)[:, at]
    return dataclasses.replace(batch, **changes)


@pytest.mark.parametrize("switches", ["as they are", "turned"])
@every_case
def test_a_learner_restored_goes_on_as_the_one_that_was_saved(
    method: Method, space: str, switches: str
) -> None:
    config = small_config(method)
    config = turned(config) if switches == "turned" else config
    learner = small_learner(config, space)
    learn(learner, several(learner, space))
    weights, tensors, document = saved(learner)
    again = small_learner(config.replace(seed=2), space)
    again.load_weights(weights)
    again.restore(tensors, document)
    same_bits(tensors_of(again), tensors_of(learner))
    for one in (learner, again):
        learn(one, several(one, space, 7))
    same_bits(tensors_of(again), tensors_of(learner))
    assert again.state()[1] == learner.state()[1]


@every_case
def test_an_update_learns(method: Method, space: str) -> None:
    learner = small_learner(small_config(method), space)
    before = tensors_of(learner)
    learn(learner, several(learner, space))
    after = tensors_of(learner)
    for name in learner.networks:
        own = [key for key in before if key.startswith(f"{name}.")]
        assert any(not torch.equal(before[key], after[key]) for key in own), name
    assert learner.updates == 2 * learner.updates_to_log
    assert all(step.finite for step in learner.steps.read())


@every_case
def test_metrics_are_finite_and_come_once_in_updates_to_log(method: Method, space: str) -> None:
    learner = small_learner(small_config(method), space)
    rounds = []
    for _ in range(2):
        found: dict[str, Tensor] = {}
        for batch in several(learner, space)[: learner.updates_to_log]:
            found |= learner.update(batch, want_metrics=True)
        rounds.append(found)
    assert rounds[0].keys() == rounds[1].keys()
    assert all(torch.isfinite(value).all() and value.numel() == 1 for value in rounds[0].values())
    assert any(name.endswith("loss") for name in rounds[0])


@every_case
def test_outputs_and_gradients_do_not_cross_the_start_of_an_episode(
    method: Method, space: str
) -> None:
    learner = small_learner(small_config(method), space, torch.float64)
    for network in learner.networks.values():
        network.eval()  # as they act: while learning, steps may see each other by batch statistics
    batch = noise_batch(space, dtype=torch.float64)
    at = slots(batch, CHANGED)
    others = torch.ones_like(batch.mask)
    others[:, at] = False
    found = []
    for given in (batch, with_other_episode(batch, space)):
        inputs, action = learner.inputs(given)
        watched = ContextInputs(*(part.detach().requires_grad_() for part in inputs))
        parts = [outputs(learner.policy(watched, given.is_first))]
        if "critic" in learner.networks:
            critic = learner.critic
            values = critic.values_of(critic.embed(watched, given.is_first), action)
            parts.append(values.movedim(0, -1))
        kept = torch.cat([part.flatten(2)[others] for part in parts], -1)
        weights = [p for name in learner.networks for p in learner.networks[name].parameters()]
        gradients = torch.autograd.grad(
            kept.square().sum(), [*watched, *weights], allow_unused=True
        )
        for gradient in gradients[: len(watched)]:
            assert gradient is None or not gradient[:, at].any()
        found.append([kept.detach(), *gradients[len(watched) :]])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@every_case
def test_an_episode_that_does_not_count_changes_no_update(method: Method, space: str) -> None:
    config = small_config(method)
    learner = small_learner(config, space, torch.float64)
    if learner.batch_statistics:
        pytest.skip("it declares that steps of a batch see each other")
    found = []
    for change in (False, True):
        learner = small_learner(config, space, torch.float64)
        for seed in range(2 * learner.updates_to_log):
            batch = noise_batch(space, dtype=torch.float64, seed=seed)
            mask = batch.mask.clone()
            mask[:, slots(batch, CHANGED)] = False
            batch = with_other_episode(batch, space) if change else batch
            learner.update(dataclasses.replace(batch, mask=mask, steps=int(mask.sum())))
        found.append(tensors_of(learner))
    for name, tensor in found[0].items():
        torch.testing.assert_close(tensor, found[1][name], rtol=1e-10, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("switches", ["as they are", "turned"])
@pytest.mark.parametrize("where", ["reward", "observation"])
@every_case
def test_a_step_that_is_not_finite_leaves_everything_as_it_was(
    method: Method, space: str, where: str, switches: str
) -> None:
    config = small_config(method)
    learner = small_learner(turned(config) if switches == "turned" else config, space)
    learn(learner, several(learner, space))
    # A target that has caught up has nowhere to go: only what should not reach it can move it.
    weights = dict(learner.weights())
    weights |= {k: weights[k.removeprefix("target_")] for k in weights if k.startswith("target_")}
    learner.load_weights(weights)
    learner.steps.read()
    before = tensors_of(learner)
    for batch in several(learner, space)[: learner.updates_to_log]:
        spoiled = getattr(batch, where).clone()
        spoiled[tuple(batch.mask.nonzero()[0])] = math.nan
        learner.update(dataclasses.replace(batch, **{where: spoiled}))
    after = tensors_of(learner)
    steps = learner.steps.read()
    left_out = {step.network for step in steps if not step.finite}
    taken = {step.network for step in steps} - left_out
    assert left_out, "the step was not recorded as left out"
    if where == "observation":
        assert not taken
    # The temperature goes with the policy.
    moves = {f"{name}." for name in taken} | {f"state/optimizer.{name}." for name in taken}
    moves |= {f"target_{name}." for name in taken}
    moves |= {f"state/{name}_" for name in taken}  # what a method keeps of that network's outputs
    moves |= {"log_alpha", "state/optimizer.alpha."} if "policy" in taken else set()
    kept = [name for name in before if not name.startswith((*moves, "state/stream."))]
    same_bits(before, after, kept)
    learn(learner, several(learner, space, 7))
    assert all(step.finite for step in learner.steps.read())
    assert all(torch.isfinite(v).all() for k, v in tensors_of(learner).items() if k in weights)


@every_case
def test_packed_and_separate_episodes_give_the_same_update(
    method: Method, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same noise at every step, wherever it is laid out.
    for name in ("randn", "rand"):
        real = getattr(torch, name)
        monkeypatch.setattr(
            torch, name, lambda *a, real=real, **k: torch.full_like(real(*a, **k), 0.3)
        )
    config = small_config(method)
    found = []
    for rows in (1, 3):
        learner = small_learner(config, space, torch.float64)
        for seed in range(2 * learner.updates_to_log):
            batch = noise_batch(space, rows, torch.float64, seed)
            assert len(batch.mask) == rows
            learner.update(batch)
        found.append(learner.weights())
    for name, tensor in found[0].items():
        torch.testing.assert_close(tensor, found[1][name], rtol=1e-6, atol=1e-9)


@every_case
def test_acting_step_by_step_is_the_policy_of_the_sequence(method: Method, space: str) -> None:
    learner = small_learner(small_config(method), space, torch.float64)
    learn(learner, [noise_batch(space, dtype=torch.float64)])
    batch = noise_batch(space, dtype=torch.float64, seed=3)
    inputs, _ = learner.inputs(batch)
    with torch.no_grad(), by_running_statistics(learner.policy):
        expected = outputs(learner.policy(inputs, batch.is_first))
        for episode in range(len(LENGTHS)):
            state = learner.policy.initial_state(1)
            for t in range(slots(batch, episode).start, slots(batch, episode).stop):
                moment = ContextInputs(*(part[:, t] for part in inputs))
                policy, state = learner.policy.step(moment, state)
                torch.testing.assert_close(outputs(policy), expected[:, t], rtol=1e-8, atol=1e-10)


@every_case
def test_what_is_told_reaches_no_policy(method: Method, space: str) -> None:
    learner = small_learner(small_config(method), space)
    learn(learner, several(learner, space))
    batch = noise_batch(space)
    told = {name: len(LENGTHS) - 1 - column for name, column in batch.extras.items()}
    assert told.keys() == TOLD.keys()
    learner.policy.eval()  # as it acts
    both = [
        outputs(learner.policy(learner.inputs(one)[0], one.is_first))
        for one in (batch, dataclasses.replace(batch, extras=told))
    ]
    assert torch.equal(*both)


@every_case
def test_only_what_a_method_declares_is_learned_from(method: Method, space: str) -> None:
    found = []
    for otherwise in ((), TOLD.keys() - {*method.learner.learns_from}):
        learner = small_learner(small_config(method), space)
        count = range(2 * learner.updates_to_log)
        learn(learner, [sampled(learner, space, seed, otherwise) for seed in count])
        found.append(tensors_of(learner))
    same_bits(*found)


@every_method
def test_other_spaces_are_refused_with_methods_that_can(method: Method) -> None:
    for space in DIMENSIONS.keys() - {*method.spaces}:
        with pytest.raises(UnsupportedSpaceError) as refused:
            small_learner(small_config(method), space)
        able = [other.name for other in methods()[0] if space in other.spaces]
        assert method.name in str(refused.value) and space in str(refused.value)
        assert all(name in str(refused.value) for name in able)


def test_an_agent_of_a_method_for_one_space_refuses_the_other() -> None:
    first = methods()[0][0]
    register_method(dataclasses.replace(first, name="boxes-only", spaces=("Box",)))
    try:
        with pytest.raises(UnsupportedSpaceError, match=f"boxes-only .*Discrete.*{first.name}"):
            Agent("toy/Discrete-v0", method="boxes-only")
    finally:
        METHODS.remove("boxes-only")


@pytest.mark.parametrize("lengths", [(1,), (2, 1), LENGTHS, (30, 3, 5)])
@every_case
def test_a_batch_can_be_drawn_from_few_episodes(
    method: Method, space: str, lengths: tuple[int, ...]
) -> None:
    learner = small_learner(small_config(method), space)
    buffer = noise_buffer(space, lengths)
    draws = [
        learner.sampler.draw(buffer, np.random.default_rng(seed), learner.policy.suitable_rows)
        for seed in (1, 1, 2)
    ]
    for name in ("observation", "action", "reward", "is_first", "mask"):
        assert torch.equal(getattr(draws[0], name), getattr(draws[1], name))
    for batch in draws:
        assert batch.steps == int(batch.mask.sum()) > 0
        assert batch.is_first[:, 0].all() and not batch.mask[:, -1].any()
        assert not batch.terminated[~batch.mask].any()
        learner.update(batch)
    assert all(step.finite for step in learner.steps.read())


@every_method
def test_updates_fall_due(method: Method) -> None:
    learner = small_learner(small_config(method), method.spaces[0])
    schedule, length = learner.schedule, 10
    trajectory = Trajectory(
        np.zeros((length + 1, 3), np.float32),
        np.zeros((length, 1), np.float32),
        np.ones(length, np.float32),
        terminated=True,
    )
    due = []
    for step in range(10_000):
        before, after = step // length * length, (step + 1) // length * length
        ended = (trajectory,) if after > before else ()
        due.append(schedule.due(Moment(step, step + 1, before, after, ended)))
    assert all(isinstance(count, int) and count >= 0 for count in due)
    assert sum(due) > 0


@every_method
def test_settings_survive_a_file(method: Method) -> None:
    config = small_config(method)
    for one in (config, turned(config), Config.build("Some-v0", {"method": method.name})):
        assert Config.from_json(json.loads(json.dumps(one.to_json()))) == one


@every_method
def test_every_setting_is_explained(method: Method) -> None:
    kinds = [method.settings, method.network]
    kinds += [encoder_spec(method.encoder).settings] if method.encoder else []
    for kind in kinds:
        told = explained(kind)
        assert kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("), kind
        for field in dataclasses.fields(kind):
            assert field.name in told, f"{kind.__name__}.{field.name} has no docstring below it"


def explained(kind: type[Any]) -> set[str]:
    """The fields of a dataclass that are followed by a text, which is where --help reads it."""
    found = set()
    for base in filter(dataclasses.is_dataclass, kind.__mro__):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            is_field = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if is_field and is_text and str(text.value.value).strip():
                found.add(field.target.id)
    return found


@every_method
def test_it_says_what_it_is(method: Method) -> None:
    assert method.title and method.summary and method.source and method.spaces
    assert "\n" not in method.summary and method.preset(None, "paper") is not None


@every_case
def test_a_saved_agent_acts_as_before(method: Method, space: str, tmp_path: Path) -> None:
    config = small_config(
        method, warmup_steps=20, buffer_steps=1000, eval_every=0, checkpoint_every=0
    )
    agent = Agent(told_env(method, f"toy/{space}-v0"), config=config)
    agent.learn(30)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent", told_env(method, f"toy/{space}-v0"), device="cpu")
    same_bits(dict(agent.learner.weights()), dict(again.learner.weights()))
    rng = np.random.default_rng(0)
    states: list[Any] = [None, None]
    for _ in range(5):
        seen, reward = rng.normal(size=3).astype(np.float32), float(rng.normal())
        actions = []
        for i, one in enumerate((agent, again)):
            action, states[i] = one.predict(seen, states[i], reward=reward)
            actions.append(action)
        np.testing.assert_array_equal(actions[0], actions[1])
    judge = Judge(config, agent.learner.dims, agent.learner.device, lambda: None)
    env, weights = agent._trainer.evaluator.env, agent.learner.acting_weights()
    assert env is not None
    assert judge.evaluate(weights, env, [1, 2]) == evaluate(agent.actor, env, [1, 2])
    for one in (agent, again):
        one.close()


TOLD = {"task": 12345, "hidden": 0.7316842}
OTHERWISE = {"task": 11223, "hidden": 0.1684273}
FEW = {"task": 211, "hidden": 0.7316842}
TELLING = [
    pytest.param(method, TOLD, {"n_tasks": 12_400, "relation_after": 10**6}, id=method.name)
    for method in methods()[0]
    if method.learner.learns_from
]
"""Methods that are told something, what it is, and how they learn from it."""
for case in list(TELLING):  # a relation of tasks is learned from the matrix of all of them
    if "relation_after" in vars(case.values[0].settings()):
        related = {"n_tasks": 212, "relation_after": 0}
        TELLING.append(pytest.param(case.values[0], FEW, related, id=f"{case.id} with relation"))


class Telling(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells this at every reset; the world is the same."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(gymnasium.make("toy/Box-v0"))
        self._told = told

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed)[0], dict(self._told)


def told_agent(method: Method, told: dict[str, Any], **settings: Any) -> Agent:
    config = small_config(method, eval_every=0, checkpoint_every=0)
    settings = {"phase_steps": 8, "learn_after": 0, **settings}
    known = config.flat()
    own = {name: value for name, value in settings.items() if name in known}
    return Agent(lambda: Telling(told), config=config.replace(**own))


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("policy_only", [False, True], ids=["whole", "policy only"])
@pytest.mark.parametrize(("method", "numbers", "learning"), TELLING)
def test_what_is_told_is_in_no_file_of_a_saved_agent(
    method: Method,
    numbers: dict[str, Any],
    learning: dict[str, Any],
    policy_only: bool,
    tmp_path: Path,
) -> None:
    """Before an update every file is the same whatever is told; after some no number of it is
    there, and no tensor more than before. What was learned from it may differ."""
    found = []
    otherwise = OTHERWISE if numbers is TOLD else {**OTHERWISE, "task": 113}
    for number, told in enumerate((numbers, otherwise)):
        agent = told_agent(method, told, warmup_steps=1000, **learning).learn(40)
        assert not agent.learner.updates
        held = agent._trainer.buffer.episode(0).extras
        assert all(
            np.all(held[name] == np.float32(told[name])) for name in method.learner.learns_from
        )
        agent.save(tmp_path / str(number), policy_only=policy_only)
        found.append(files_of(tmp_path / str(number)))
        agent.close()
    assert found[0] == found[1]
    agent = told_agent(method, numbers, warmup_steps=10, **learning).learn(200)
    assert agent.learner.updates
    agent.save(tmp_path / "learned", policy_only=policy_only)
    files = files_of(tmp_path / "learned")
    assert files.keys() == found[0].keys()
    for name, content in files.items():
        for value in numbers.values():
            for written in (np.float32(value).tobytes(), np.float64(value).tobytes()):
                assert written not in content, name
            assert not re.search(rf"(?<![\w.]){value}(?![\w.])".encode(), content), name
    names = [
        read_bundle(tmp_path / at, "agent").tensors["weights"].keys() for at in ("0", "learned")
    ]
    assert names[0] == names[1]
    silent = Agent.load(tmp_path / "learned", env=lambda: gymnasium.make("toy/Box-v0"))
    observation, state = np.zeros(3, np.float32), None
    again = None
    for _ in range(3):
        action, state = silent.predict(observation, state)
        expected, again = agent.predict(observation, again)
        np.testing.assert_array_equal(action, expected)
    if silent.learner.adaptation is None:
        assert np.isfinite(silent.evaluate(2)[0])
    if not policy_only:
        with pytest.raises(ConfigError, match=r"learns from info\['\w+'\].* does not tell"):
            silent.learn(1)
    for one in (agent, silent):
        one.close()
