"""An encoder that is no memory handed on acts on no more steps at once than it has learned from."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import pytest
from method_cases import TellTasks, small_config

from resel import Agent
from resel.config import Config
from resel.data import Windows, WindowsBySteps
from resel.errors import ConfigError
from resel.methods import Method, own_methods
from resel.networks import encoders

STEPS = 12
"""Of the longest episode."""
CONTEXT = 5
METHODS = [
    method
    for method in own_methods()
    if method.encoder is not None and hasattr(method.settings, "context_length")
]
FOR_WINDOWS = [spec.name for spec in encoders()[0] if not spec.carries_on]


def _config(method: Method, encoder: str, **settings: Any) -> Config:
    own = {"smoothing_width": 2} if encoder == "smoothing" else {"n_heads": 2}
    config = small_config(method).replace(encoder=encoder, context_length=CONTEXT)
    return config.replace(**{**own, "window": None, **settings})


def _agent(config: Config) -> Agent:
    return Agent(
        lambda: TellTasks(gymnasium.make("toy/Box-v0", max_episode_steps=STEPS)), config=config
    )


def test_encoders_that_count_places_say_so() -> None:
    assert sorted(FOR_WINDOWS) == ["gpt", "smoothing", "transformer"]


@pytest.mark.parametrize("encoder", FOR_WINDOWS)
@pytest.mark.parametrize("method", METHODS, ids=[method.name for method in METHODS])
def test_longer_episodes_than_windows_are_refused_with_what_helps(
    method: Method, encoder: str
) -> None:
    agent = _agent(_config(method, encoder))
    if not isinstance(agent.learner.sampler, (Windows, WindowsBySteps)):
        agent.learn(1)  # such as histories, by which it also acts
        return
    said = f"context_length={CONTEXT} .* {STEPS} steps.* set window to {CONTEXT + 1}.*, or raise "
    with pytest.raises(ConfigError, match=f"{said}context_length to {STEPS}"):
        agent.learn(1)
    agent.close()
    helps = ({"window": CONTEXT + 1}, {"context_length": STEPS}, {"window": STEPS + 1})
    for remedy in (*helps[:2], {**helps[1], **helps[2]}):
        remedied = _agent(_config(method, encoder, **remedy))
        remedied.learn(1)
        remedied.close()
    with pytest.raises(ConfigError, match=re.escape(f"set window to {CONTEXT + 1}")):
        _agent(_config(method, encoder, window=CONTEXT + 2)).learn(1)


@pytest.mark.parametrize("encoder", [spec.name for spec in encoders()[0] if spec.carries_on])
def test_memories_that_are_handed_on_are_not_concerned(encoder: str) -> None:
    for method in ("resel", "sac-gru"):
        config = Config.build("", {"method": method, "encoder": encoder, "context_length": CONTEXT})
        sizes = dict.fromkeys(config.sized("tiny"), 8)
        agent = _agent(config.replace(**sizes, device="cpu", eval_every=0))
        agent.learn(1)
        agent.close()


def test_episodes_without_a_declared_end(toy: Any) -> None:
    config = Config.build("", {"encoder": "smoothing", "context_length": CONTEXT, "device": "cpu"})
    sizes = {**dict.fromkeys(config.sized("tiny"), 8), "buffer_steps": 1000}
    config = config.replace(**sizes, warmup_steps=10)
    with pytest.raises(ConfigError, match=r"acts in episodes, .* behind them\.$"):
        Agent(toy, config=config).learn(1)
    Agent(toy, config=config.replace(window=CONTEXT + 1)).learn(1)


def test_an_agent_that_is_there_still_acts(tmp_path: Any) -> None:
    """Short episodes are all learned from, and what was learned may be tried in longer ones."""
    sizes = dict.fromkeys(Config.build("", {"encoder": "gpt"}).sized("tiny"), 8)
    config = Config.build("", {"encoder": "gpt", "context_length": CONTEXT}, {"device": "cpu"})
    agent = Agent(
        lambda: gymnasium.make("toy/Box-v0", max_episode_steps=CONTEXT),
        config=config.replace(**sizes, warmup_steps=10, eval_every=0),
    )
    agent.learn(1)
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent", env=_agent_env)
    assert loaded.evaluate(1)[0] is not None
    with pytest.raises(ConfigError, match="set window to"):
        loaded.learn(1)


def _agent_env() -> Any:
    return gymnasium.make("toy/Box-v0", max_episode_steps=STEPS)
