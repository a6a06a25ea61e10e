"""PPO and A2C: one update beside Stable-Baselines3, the memory of a rollout, and its scales."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from method_cases import DIMENSIONS, small_config
from stable_baselines3.common.logger import Logger
from torch import Tensor, nn

from resel import Agent
from resel.data import Batch, Taken
from resel.errors import ConfigError
from resel.methods import build_learner, get_method
from resel.networks import ContextInputs
from resel.tasks import make_env

ROWS, STEPS = 4, 6
RATE = 3e-3


def make(method: str, space: str = "Box", **changes: Any) -> Any:
    settings = {"rollout_steps": STEPS, "lr_policy": RATE, **changes}
    config = small_config(get_method(method), num_envs=ROWS, **settings)
    return build_learner(config, DIMENSIONS[space], torch.device("cpu"), torch.float64)


def act(
    learner: Any, rollouts: int, seed: int = 0, ends: float = 0.2, fails: float = 0.0
) -> list[Taken]:
    """Play noise, with the learner's own memory; the steps."""
    steps = []
    dims, rng = learner.dims, np.random.default_rng(seed)
    state = learner.policy.initial_state(ROWS)
    first = np.ones(ROWS, np.bool_)
    for _ in range(rollouts * STEPS):
        observation = rng.normal(size=(ROWS, dims.observation)).astype(np.float32)
        action = (
            rng.integers(dims.action, size=(ROWS, 1))
            if dims.discrete
            else rng.normal(size=(ROWS, dims.action))
        ).astype(np.float32)
        over, terminated = rng.uniform(size=ROWS) < ends, rng.uniform(size=ROWS) < 0.5
        steps.append(
            Taken(
                observation,
                action,
                rng.normal(size=ROWS).astype(np.float32),
                over & terminated,
                over & ~terminated,
                rng.normal(size=(ROWS, dims.observation)).astype(np.float32),
                first,
                rng.uniform(size=ROWS) >= fails if fails else np.ones(ROWS, np.bool_),
                state,
            )
        )
        learner.note(steps[-1])
        inputs = ContextInputs(*(torch.from_numpy(observation).double() for _ in range(4)))
        inputs = inputs._replace(observation=learner.normalizer(inputs.observation))
        with torch.no_grad():
            _, state = learner.policy.step(inputs, state)
        mask = torch.from_numpy(over)[:, None, None]
        state = tuple(part.masked_fill(mask, 0) for part in state)
        first = over
    return steps


def parts_of(learner: Any) -> list[Batch]:
    """All that is learned from a rollout, in order, in double precision."""
    rollout = learner._rollout
    whole = rollout.batch()
    floats = {
        name: value.double()
        for name, value in vars(whole).items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    state = tuple(part.double() for part in whole.state)
    rollout.batch = lambda: types.SimpleNamespace(to=lambda _: batch)
    batch = Batch(**{**vars(whole), **floats, "state": state})
    settings = learner.settings
    return [learner.draw(None, None) for _ in range(settings.epochs * settings.minibatches)]


@pytest.mark.parametrize("method", ["ppo-gru", "a2c-gru"])
@pytest.mark.parametrize("space", ["Box", "Discrete"])
def test_a_rollout_goes_on_with_the_memory_of_the_one_before(method: str, space: str) -> None:
    learner = make(method, space, normalize_observations=False)
    act(learner, 1, ends=0.0)
    first = learner._rollout.batch()
    act(learner, 2, ends=0.0)  # the same steps once more, and then others
    second = learner._rollout.batch()
    inputs = ContextInputs(*(x.double() for x in learner.inputs(first)[0]))
    context = learner.policy.context(inputs, first.is_first)
    # Rows begin with the last step of the rollout before, and with the memory from before it.
    torch.testing.assert_close(second.state[0][:, 0], context[:, STEPS - 2])
    assert torch.equal(second.observation[:, 0], first.observation[:, STEPS - 1])


@pytest.mark.parametrize("method", ["ppo-gru", "a2c-gru"])
@pytest.mark.parametrize("space", ["Box", "Discrete"])
def test_nothing_is_stale_in_the_first_part(method: str, space: str) -> None:
    learner = make(method, space)
    act(learner, 2)
    part = parts_of(learner)[0]
    inputs = ContextInputs(*(part.extras[f"seen_{name}"] for name in ContextInputs._fields))
    policy, value = learner.policy.evaluate(inputs, part.is_first, part.state)
    found = policy.log_prob(learner.dims.taken(part.action))
    torch.testing.assert_close(found[part.mask], part.extras["log_prob"][..., 0][part.mask])
    torch.testing.assert_close(value, part.extras["value"][..., 0])


class Indexed(gymnasium.Env[Any, Any]):
    """Its observation is the number of a step."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, space: str) -> None:
        size = DIMENSIONS[space].action
        self.action_space: Any = (
            spaces.Discrete(size) if space == "Discrete" else spaces.Box(-9, 9, (size,), np.float32)
        )

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), {}


class Stub(nn.Module):
    """Our network as Stable-Baselines3's losses see one: observations are numbers of steps."""

    def __init__(self, network: nn.Module, evaluate: Callable[[nn.Module], Any]) -> None:
        super().__init__()
        self.network, self._evaluate = network, evaluate
        self.optimizer: Any = None

    def set_training_mode(self, mode: bool) -> None:
        """Nothing here depends on it."""

    def evaluate_actions(self, observation: Tensor, action: Tensor) -> Any:
        value, log_prob, entropy = self._evaluate(self.network)
        at = observation[:, 0].long()
        return value[at][:, None], log_prob[at], entropy[at]


def move(learner: Any, by: float = 0.3) -> None:
    """Other weights than those that acted, as after some updates from the same rollout."""
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in learner.policy.parameters():
            shape = parameter.shape
            parameter += by * torch.randn(shape, generator=noise, dtype=parameter.dtype)


@pytest.mark.parametrize("space", ["Box", "Discrete"])
@pytest.mark.parametrize(
    ("method", "clips"), [("ppo-gru", False), ("ppo-gru", True), ("a2c-gru", False)]
)
def test_one_update_beside_stable_baselines(method: str, clips: bool, space: str) -> None:
    """Where ratios are clipped the value is left out, whose clip is another there."""
    own: dict[str, Any] = {"value_coefficient": 0.0} if clips else {}
    learner = make(method, space, minibatches=1, epochs=1, entropy_coefficient=0.02, **own)
    act(learner, 1)
    (part,) = parts_of(learner)
    if clips:
        move(learner)
    network = copy.deepcopy(learner.policy)
    mask, known = part.mask, {name: x[..., 0] for name, x in part.extras.items()}
    inputs = ContextInputs(*(part.extras[f"seen_{name}"] for name in ContextInputs._fields))
    taken = learner.dims.taken(part.action)

    def evaluate(module: Any) -> tuple[Tensor, Tensor, Tensor]:
        policy, value = module.evaluate(inputs, part.is_first, part.state)
        return value[mask], policy.log_prob(taken)[mask], policy.entropy()[mask]

    count = int(mask.sum())
    on_cpu: dict[str, Any] = {"device": "cpu", "n_steps": count, "ent_coef": 0.02}
    env = Indexed(space)
    if method == "ppo-gru":
        model: Any = stable_baselines3.PPO(
            "MlpPolicy",
            env,
            n_epochs=1,
            batch_size=count,
            vf_coef=0.0 if clips else 0.25,
            **on_cpu,
        )
        optimizer: type[torch.optim.Optimizer] = torch.optim.Adam
        options: dict[str, Any] = {"eps": 1e-5}
    else:
        model = stable_baselines3.A2C("MlpPolicy", env, vf_coef=0.5, **on_cpu)
        optimizer, options = torch.optim.RMSprop, {"eps": 1e-5, "alpha": 0.99}
    model.normalize_advantage = False  # ours are, where they are to be
    model.learning_rate, model.lr_schedule = RATE, lambda _: RATE
    model.set_logger(Logger(None, []))
    stub = Stub(network, evaluate)
    stub.optimizer = optimizer(network.parameters(), lr=RATE, **options)
    model.policy = stub
    buffer = model.rollout_buffer
    buffer.observations = np.arange(count, dtype=np.float32)[:, None, None]
    buffer.actions = np.zeros(buffer.actions.shape, np.float32)
    for name, column in (
        ("values", "value"),
        ("log_probs", "log_prob"),
        ("advantages", "advantage"),
        ("returns", "target"),
    ):
        setattr(buffer, name, known[column][mask].numpy()[:, None])
    buffer.full, buffer.generator_ready = True, False
    model.train()
    if method == "ppo-gru":
        clipped = model.logger.name_to_value["train/clip_fraction"]
        assert 0.2 < clipped < 0.9 if clips else clipped == 0
    learner.update(part)
    for (name, ours), theirs in zip(
        learner.policy.named_parameters(), network.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize("space", ["Box", "Discrete"])
@pytest.mark.parametrize("value_loss", ["squared", "huber"])
def test_a_clipped_update_is_the_formulas_step_by_step(space: str, value_loss: str) -> None:
    clip = 0.2
    own: dict[str, Any] = {"value_loss": value_loss, "clip": clip, "entropy_coefficient": 0.02}
    learner = make("ppo-gru", space, minibatches=1, epochs=1, **own)
    act(learner, 1)
    (part,) = parts_of(learner)
    move(learner)
    network = copy.deepcopy(learner.policy)
    inputs = ContextInputs(*(part.extras[f"seen_{name}"] for name in ContextInputs._fields))
    policy, value = network.evaluate(inputs, part.is_first, part.state)
    log_prob, entropy = policy.log_prob(learner.dims.taken(part.action)), policy.entropy()

    def error(off: Tensor) -> Tensor:
        if value_loss == "squared":
            return off**2
        return 0.5 * off**2 if abs(off) < 1 else abs(off) - 0.5

    losses, held, pulled = [], 0, 0
    for place in part.mask.nonzero().tolist():
        acted = {name: part.extras[name][*place, 0] for name in ("log_prob", "value", "target")}
        advantage = part.extras["advantage"][*place, 0]
        ratio = torch.exp(log_prob[*place] - acted["log_prob"])
        flat = ratio > 1 + clip if advantage > 0 else ratio < 1 - clip
        held += int(flat)
        bound = 1 + clip if advantage > 0 else 1 - clip
        term = -(bound if flat else ratio) * advantage
        off = value[*place] - acted["target"]
        near = acted["value"] - acted["target"]
        moved = value[*place] - acted["value"]
        if abs(moved) > clip:
            pulled += 1
            near = near + clip * torch.sign(moved)
        else:
            near = near + moved
        value_term = max(error(off), error(near), key=lambda x: x.item())
        losses.append(term + 0.5 * 0.5 * value_term - 0.02 * entropy[*place])
    assert 0 < held < len(losses) and 0 < pulled < len(losses)
    torch.stack(losses).mean().backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), learner.settings.max_gradient_norm)
    torch.optim.Adam(network.parameters(), lr=RATE, eps=1e-5).step()
    learner.update(part)
    for (name, ours), slow in zip(
        learner.policy.named_parameters(), network.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, slow, rtol=1e-7, atol=1e-10, msg=name)


@pytest.mark.parametrize("space", ["Box", "Discrete"])
def test_updates_of_a2c_are_the_formulas_step_by_step(space: str) -> None:
    """Advantages that look to the end of the rollout, plain losses, RMSprop; twice in turn."""
    own = {"entropy_coefficient": 0.02, "value_coefficient": 0.4, "bootstrap_truncated": True}
    learner = make("a2c-gru", space, **own)
    act(learner, 1)
    (part,) = parts_of(learner)
    settings, known = learner.settings, {n: column[..., 0] for n, column in part.extras.items()}
    move(learner)
    network = copy.deepcopy(learner.policy)
    inputs = ContextInputs(*(part.extras[f"seen_{name}"] for name in ContextInputs._fields))
    ends = 0

    def target(row: int, t: int) -> Tensor:
        """The rewards until the episode or the rollout ends, and what was expected then."""
        nonlocal ends
        reward, after = part.reward[row, t], known["value"][row, t + 1]
        if part.terminated[row, t]:
            ends += 1
            return reward
        if part.mask[row, t + 1]:
            after = target(row, t + 1)
        return reward + settings.gamma * after

    squares = [torch.zeros_like(parameter) for parameter in network.parameters()]
    for _ in range(2):
        policy, value = network.evaluate(inputs, part.is_first, part.state)
        log_prob, entropy = policy.log_prob(learner.dims.taken(part.action)), policy.entropy()
        terms = []
        for row, t in part.mask.nonzero().tolist():
            wanted = target(row, t)
            advantage = wanted - known["value"][row, t]
            term = -advantage * log_prob[row, t] + 0.4 * (wanted - value[row, t]) ** 2
            terms.append(term - 0.02 * entropy[row, t])
        gradients = torch.autograd.grad(sum(terms) / len(terms), list(network.parameters()))
        norm = torch.sqrt(sum((g**2).sum() for g in gradients))
        assert norm > settings.max_gradient_norm  # so that it is shortened
        with torch.no_grad():
            for parameter, g, square in zip(network.parameters(), gradients, squares, strict=True):
                shortened = g * settings.max_gradient_norm / norm
                square.copy_(0.99 * square + 0.01 * shortened**2)
                parameter -= RATE * shortened / (square.sqrt() + 1e-5)
        learner.update(part)
        for (name, ours), slow in zip(
            learner.policy.named_parameters(), network.parameters(), strict=True
        ):
            # Norms are shortened by way of norm + 1e-6.
            torch.testing.assert_close(ours, slow, rtol=1e-6, atol=1e-8, msg=name)
    assert ends > 0 and not part.mask.all()


def test_scales_move_after_a_rollout_was_cut_up() -> None:
    learner = make("ppo-gru", normalize_rewards=True)
    act(learner, 1)
    assert learner.normalizer.count == 0 and learner.reward_scale.count == 0
    parts_of(learner)
    assert learner.normalizer.count == ROWS * STEPS == learner.reward_scale.count
    seen = learner._rollout.counted("observation").reshape(-1, 3)
    np.testing.assert_allclose(learner.normalizer.mean.numpy(), seen.mean(0), atol=1e-6)


def test_scales_are_of_steps_that_happened() -> None:
    learner = make("ppo-gru", normalize_rewards=True)
    steps = act(learner, 1, ends=1.0, fails=0.4)  # every return is a reward
    parts_of(learner)
    happened = np.stack([step.happened for step in steps])
    seen = np.stack([step.observation for step in steps])[happened]
    rewards = np.stack([step.reward for step in steps])[happened]
    assert 0 < len(seen) < ROWS * STEPS
    assert learner.normalizer.count == len(seen) == learner.reward_scale.count
    np.testing.assert_allclose(learner.normalizer.mean, seen.mean(0), atol=1e-6)
    np.testing.assert_allclose(learner.normalizer.deviation, seen.std(0), atol=1e-6)
    np.testing.assert_allclose(learner.reward_scale.deviation, rewards.std(), atol=1e-6)


@pytest.mark.parametrize("how", ["resumed", "restarted"])
def test_episodes_that_are_dropped_end_there(how: str) -> None:
    config = small_config(get_method("ppo-gru"), num_envs=ROWS, rollout_steps=8)
    config = config.replace(eval_every=0, checkpoint_every=0, log_every=50)

    def made() -> Agent:
        modes = {"autoreset_mode": AutoresetMode.SAME_STEP}
        envs = gymnasium.make_vec("toy/Box-v0", ROWS, "sync", vector_kwargs=modes, spread=0)
        return Agent(envs, config=config)

    agent = made().learn(5 * ROWS)  # the second episodes have had one of four steps
    if how == "resumed":
        tensors, documents = copy.deepcopy(agent._trainer.checkpoint())
        agent = made()
        assert not agent._trainer.restore(tensors, documents, lambda index, buffer: None)
    else:
        agent._trainer.collector.restart()
    agent._trainer.train(3 * ROWS)
    rollout = agent.learner._rollout  # type: ignore[attr-defined]
    assert rollout.full
    begins, terminated, truncated = map(rollout.counted, ("first", "terminated", "truncated"))
    assert begins.tolist() == [[True, False, False, False, True, True, False, False]] * ROWS
    assert terminated.tolist() == [[False] * 3 + [True] + [False] * 4] * ROWS
    assert truncated.tolist() == [[False] * 4 + [True] + [False] * 3] * ROWS


def test_every_environment_is_learned_from_once_in_a_pass() -> None:
    learner = make("ppo-gru", minibatches=2, epochs=3)
    act(learner, 1)
    parts = parts_of(learner)
    assert len(parts) == 6 and all(len(part.mask) == 2 for part in parts)
    for begin in (0, 2, 4):
        seen = torch.cat([part.observation[:, 0] for part in parts[begin : begin + 2]])
        assert len(seen.unique(dim=0)) == ROWS


@pytest.mark.parametrize(
    ("method", "changes", "said"),
    [
        ("a2c-gru", {"lr_context_encoder": "auto"}, "a2c-gru learns by RMSprop"),
        ("ppo-gru", {"rollout_steps": 0}, "rollout_steps"),
    ],
)
def test_refused(method: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(method, **changes)


def test_too_few_environments_are_enough_to_act(tmp_path: Path) -> None:
    config = small_config(get_method("ppo-gru"), num_envs=ROWS, minibatches=ROWS)
    Agent("Pendulum-V-v0", config=config).save(tmp_path / "agent")
    agent = Agent.load(tmp_path / "agent", make_env("Pendulum-V-v0"))
    assert agent.predict(np.zeros(1, np.float32))[0].shape == (1,)
    with pytest.raises(ConfigError, match="num_envs=1: raise num_envs or lower minibatches"):
        agent.learn(10)


@pytest.mark.parametrize("method", ["ppo-gru", "a2c-gru"])
def test_resumed_in_the_middle_of_a_rollout(method: str) -> None:
    config = small_config(get_method(method), num_envs=ROWS, rollout_steps=8)
    config = config.replace(eval_every=0, checkpoint_every=0, log_every=50)
    agents = [Agent("Pendulum-V-v0", config=config) for _ in range(2)]
    agents[0].learn(200)
    tensors, documents = agents[0]._trainer.checkpoint()
    agents[1]._trainer.restore(
        copy.deepcopy(tensors), copy.deepcopy(documents), lambda index, buffer: None
    )
    for agent in agents:
        agent._trainer.train(120)
    one, two = (agent.learner.weights() for agent in agents)
    assert all(torch.equal(one[name], two[name]) for name in one)
