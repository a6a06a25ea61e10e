"""`Agent`: learn, predict, save, load. The face a library user sees."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Any, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray

from resel.config import Config, SizeName, TrainingConfig
from resel.envs import (
    AnyEnv,
    CheckedEnv,
    Env,
    EnvFactory,
    SubprocEnv,
    build,
    check_spaces,
    spaces_of,
)
from resel.errors import BadInputError, ConfigError
from resel.methods import (
    AUTO_STEPS,
    Choice,
    Learner,
    World,
    auto_choices,
    default_method,
    get_method,
    preset_settings,
)
from resel.randomness import draw_seed, torch_stream
from resel.runs import Bundle, check_agent_origin, read_agent, save_agent, use_weights
from resel.tasks import full_name, get_task, make_env
from resel.training import (
    Actor,
    Callback,
    PolicyState,
    ProgressLine,
    Trainer,
    evaluate,
    make_envs,
    make_task,
    task_envs,
)
from resel.training.threads import threads_for


def configure(
    task: str,
    *,
    method: str | None = None,
    preset: str | None = None,
    size: SizeName | None = None,
    world: World | None = None,
    **settings: Any,
) -> Config:
    """The settings of a method on a task: its preset, then the network size, then what is asked.

    Without a preset it is `paper` for tasks of ours, else `auto`, for which an environment without
    a name has to say what its `world` is.
    """
    chosen, task = get_method(method or default_method()), full_name(task)
    if preset is None:
        ours = get_task(task) is not None or not (task or world)
        preset = "paper" if ours else "auto"
    if preset == "auto":
        if world is None and task:
            world = world_of(task, settings)
        if world is None:
            raise ConfigError("preset='auto' looks at the environment: name one, or give it.")
        found = auto_choices(chosen, world, settings.get("steps", AUTO_STEPS))
        layer = {choice.name: choice.value for choice in found}
    else:
        layer = preset_settings(chosen, task, preset)
    usual_size, usual_encoder = layer.pop("size", None), layer.pop("encoder", None)
    encoder = settings.pop("encoder", None) or usual_encoder
    names = {"method": chosen.name, "encoder": encoder}
    bare = Config.build(task, names)
    factor = size or usual_size
    sizes = bare.sized(factor, layer) if factor else {}
    return Config.build(task, names, layer, sizes).replace(**settings)


def world_of(env: str | Env | EnvFactory, settings: Mapping[str, Any]) -> World | None:
    """What the preset `auto` has to know, for which an environment may be made and closed again.

    None for what is no environment.
    """
    limit = settings.get("max_episode_steps")
    if isinstance(env, gymnasium.Env):
        return World.of(CheckedEnv(env), limit)
    if isinstance(env, str):
        given = {**settings.get("env_kwargs", {})}
        made = make_env(env, env_kwargs={k: 1 if v == "seed" else v for k, v in given.items()})
    elif not callable(env):
        return None
    elif settings.get("env_workers"):  # it may not be possible, or not safe, to make it here
        timeout = settings.get("env_timeout", TrainingConfig().env_timeout)
        with closing(SubprocEnv(env, timeout)) as worker:
            return World.of(worker.ready(), limit)
    else:
        made = build(env, "The environment")
    with closing(made):
        return World.of(CheckedEnv(made), limit)


class Agent:
    """An agent that learns with any method of the registry, RESeL by default.

    `env` is a task of ours, any registered Gymnasium id, `file.py:Class` or `module:Class`, an
    environment, or a function that makes one. Settings are those of the method, its network, its
    encoder and the loop by name (`encoder="gru"`, `lr_policy=1e-3`, `batch_steps=2000`, ...; `resel
    methods --show NAME` lists them); a whole `config` can be given instead. They start from a
    `preset`: `paper` for tasks of ours, for other environments `auto`, which chooses by the spaces,
    the longest episode and `steps`, the length of the training that is meant.
    """

    _method: str | None = None
    """The method of a class that has one."""

    def __init__(
        self,
        env: str | Env | EnvFactory,
        method: str | None = None,
        *,
        config: Config | None = None,
        preset: str | None = None,
        size: SizeName | None = None,
        **settings: Any,
    ) -> None:
        env = full_name(env) if isinstance(env, str) else env
        task, method = env if isinstance(env, str) else "", self._chosen(method)
        self.choices: list[Choice] = []
        """What the preset `auto` chose for the environment, and why."""
        if config is None:
            usual = "paper" if get_task(task) is not None else "auto"
            world = world_of(env, settings) if (preset or usual) == "auto" else None
            if world is not None:
                chosen = get_method(method or default_method())
                self.choices = auto_choices(chosen, world, settings.get("steps", AUTO_STEPS))
            config = configure(
                task, method=method, preset=preset, size=size, world=world, **settings
            )
        elif not isinstance(config, Config):
            raise ConfigError(
                f"config={config!r} is a {type(config).__name__}: it must be a resel.Config. Pass "
                f"single settings by name, as in {type(self).__name__}(env, gamma=0.9)."
            )
        elif size is not None or settings or preset is not None:
            raise ConfigError(
                "Give either config=... or single settings: config.replace(...) changes a config."
            )
        elif method not in (None, config.method):
            raise ConfigError(f"The config is for {config.method}, not for {method}.")
        self._start(env, config if config.task == task else config.replace(task=task))

    def _start(
        self, env: str | Env | EnvFactory, config: Config, saved: Bundle | None = None
    ) -> None:
        """Make environments and learner, and take over a saved agent."""
        self.config = config
        envs, evaluation = _make_envs(env, config)
        if saved is not None:
            check_agent_origin(saved, envs[0], config.task)
        _check_separate([*envs, *([evaluation] if evaluation else [])])
        with threads_for(self.config):
            self._trainer = Trainer(self.config, envs, evaluation)
        self._env = envs[0]
        self._sampling = torch_stream(
            self.config.training.seed, "predict", self._trainer.learner.device
        )
        if saved is not None:
            use_weights(saved, self._trainer.learner)

    @classmethod
    def _chosen(cls, method: str | None) -> str | None:
        if cls._method is not None and method not in (None, cls._method):
            raise ConfigError(
                f"{cls.__name__} is an agent with the method {cls._method}: use "
                f"Agent(env, method={method!r})."
            )
        return cls._method or method

    @property
    def num_timesteps(self) -> int:
        """Environment steps learned from so far."""
        return self._trainer.step

    @property
    def actor(self) -> Actor:
        """The policy, one step at a time, without the conveniences of `predict`."""
        return self._trainer.actor

    @property
    def learner(self) -> Learner:
        """Networks and optimisers, for whoever wants to look inside."""
        return self._trainer.learner

    @property
    def evaluations(self) -> list[tuple[int, float, float]]:
        """Step, mean return and deviation of every evaluation so far."""
        return list(self._trainer.evaluator.history)

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Callback | Sequence[Callback] | None = None,
        eval_env: str | Env | EnvFactory | None = None,
        progress_bar: bool = False,
    ) -> Self:
        """Take `total_timesteps` further steps in the environment, learning all the while.

        `callback` is called with a `TrainProgress` after every step and ends the training by
        returning False. Evaluations use `eval_env`, given like `env`, or an environment made like
        the first one.
        """
        steps, callbacks = _whole("learn", total_timesteps), _callbacks(callback)
        if eval_env is not None:
            self._trainer.evaluator.env = self._evaluation_env(eval_env)
        line = None
        if progress_bar:
            line = ProgressLine(self._trainer.step, self._trainer.step + steps)
        with threads_for(self.config), line or nullcontext():
            self._trainer.train(steps, [*callbacks, *([line] if line else [])])
        return self

    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        reward: Any = None,
    ) -> tuple[Any, PolicyState]:
        """The action for an observation, or for a batch of them, and the state to pass on.

        `state` carries everything recurrent (hidden state, last observation, last action); None
        starts an episode, and `episode_start` starts it for single rows of a batch. Tasks that
        feed the reward back also need the `reward` of the last step.
        """
        with threads_for(self.config):
            return self._predict(observation, state, episode_start, deterministic, reward)

    def _predict(
        self,
        observation: Any,
        state: PolicyState | None,
        episode_start: Any,
        deterministic: bool,
        reward: Any,
    ) -> tuple[Any, PolicyState]:
        spec, actor = self._env.observation, self._trainer.actor
        batched = spec.is_batch(observation)
        rows = len(observation) if batched else 1
        if rows == 0:
            raise BadInputError("predict got a batch without observations: give at least one.")
        encoded = (
            spec.encode_batch(observation, rows) if batched else spec.encode(observation)[None]
        )
        if state is not None and not isinstance(state, PolicyState):
            raise BadInputError(
                f"predict got {type(state).__name__} as state: pass what the last call returned, "
                "or None to start an episode."
            )
        starts = _row_flags(episode_start, rows)
        if state is None:
            state = actor.initial_state(rows)
            starts = np.ones(rows, np.bool_)
        elif not actor.fits(state):
            raise BadInputError(
                "predict got the state of an agent with other sizes or another encoder: pass what "
                "the last call of this agent returned, or None to start an episode."
            )
        if state.rows != rows:
            raise BadInputError(
                f"predict got {rows} observations and a state of {state.rows} rows: pass the "
                "state that the last call for these environments returned, or None."
            )
        state = state.reset(starts)
        policy, state = actor.observe(encoded, self._last_reward(reward, starts), state)
        chosen = actor.choose(policy, None if deterministic else self._sampling)
        state = actor.remember(state, chosen)
        to_env = self._env.action.to_env
        native = [to_env(int(a[0]) if self._env.action.discrete else a) for a in chosen]
        return (np.stack(native) if batched else native[0]), state

    def evaluate(
        self,
        episodes: int = 10,
        *,
        seed: int | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> tuple[float, float]:
        """Mean and deviation of the return of the deterministic policy.

        `env_kwargs` are arguments of the task in which it is to differ from the training, as in
        `{"length": 40}`. An agent made from one environment alone plays in that, which ends its
        unfinished episode.
        """
        rng = np.random.default_rng(self.config.training.seed if seed is None else seed)
        seeds = [draw_seed(rng) for _ in range(_whole("evaluate", episodes))]
        if env_kwargs:
            with closing(self.make_evaluation_env(env_kwargs)) as other, threads_for(self.config):
                result = evaluate(self._trainer.actor, other, seeds)
            return result.return_mean, result.return_std
        env = self._trainer.evaluator.env
        with threads_for(self.config):
            result = evaluate(self._trainer.actor, env or self._env, seeds)
        if env is None:
            self._trainer.collector.restart()
        return result.return_mean, result.return_std

    def make_evaluation_env(
        self, env_kwargs: Mapping[str, Any] | None = None, *, render_mode: str | None = None
    ) -> CheckedEnv:
        """Another environment to evaluate in, made from the task's name.

        `env_kwargs` go on top of those of the training; refused if the agent cannot act there.
        """
        if not self.config.task:
            raise ConfigError(
                "The agent was made from an environment without a name, whose arguments are not "
                "known: make the other environment, and pass it as learn(..., eval_env=...) or "
                "load(..., env=...)."
            )
        own = self.config.training
        config = self.config.replace(env_kwargs={**own.env_kwargs, **(env_kwargs or {})})
        checked = CheckedEnv(
            make_task(config, evaluation=True, render_mode=render_mode),
            name="The evaluation environment",
            longest=own.buffer_steps,
        )
        check_spaces(checked, spaces_of(self._env), "the evaluation environment")
        return checked

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a directory of safetensors and JSON, with hashes."""
        save_agent(path, self._trainer.learner, self._env)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: str | Env | EnvFactory | None = None,
        *,
        device: str = "auto",
    ) -> Self:
        """Read an agent back, or the newest one of a run directory.

        `env` is needed where it was not trained on a named task.
        """
        config, bundle = read_agent(path)
        if cls._method not in (None, config.method):
            raise ConfigError(
                f"The agent at {os.fspath(path)} learned with {config.method}, but {cls.__name__} "
                f"is an agent with the method {cls._method}: use Agent.load(path)."
            )
        if env is None and not config.task:
            raise ConfigError(
                f"The agent at {os.fspath(path)} was trained on an environment without a name: "
                f"pass it as {cls.__name__}.load(path, env=...)."
            )
        # The machine may be another one, and acting needs no processes.
        config = config.replace(device=device, env_workers=False)
        if isinstance(env, gymnasium.Env):
            config = config.replace(num_envs=1, env_restarts=0)
        task = config.task if env is None else env
        task = full_name(task) if isinstance(task, str) else task
        config = config.replace(task=task if isinstance(task, str) else "")
        agent = cls.__new__(cls)
        agent.choices = []
        agent._start(task, config, bundle)
        return agent

    def close(self) -> None:
        """Release the simulators."""
        self._trainer.close()

    def _evaluation_env(self, env: str | Env | EnvFactory) -> CheckedEnv:
        """The caller's environment to evaluate in, refused if this agent cannot act there."""
        made: Any = env
        if isinstance(env, str):
            made = make_task(self.config.replace(task=env), evaluation=True)
        elif not isinstance(env, gymnasium.Env):
            made = build(env, "eval_env") if callable(env) else None
        if made is None:
            raise ConfigError(
                f"eval_env={env!r} is neither a name, nor an environment, nor a function that "
                "makes one."
            )
        checked = CheckedEnv(made, name="The evaluation environment")
        check_spaces(checked, spaces_of(self._env), "eval_env")
        _check_separate([self._env, checked])
        return checked

    def _last_reward(self, reward: Any, starts: NDArray[np.bool_]) -> NDArray[np.float32]:
        if reward is None:
            if getattr(self.config.network, "reward_input", False) and not starts.all():
                raise BadInputError(
                    "This agent was trained with the last reward as input: pass it to "
                    "predict(..., reward=...) after the first step of an episode."
                )
            return np.zeros(len(starts), np.float32)
        given = np.asarray(reward, np.float32).reshape(-1)
        if given.shape != starts.shape or not np.isfinite(given).all():
            raise BadInputError(
                f"reward={reward!r} must be {len(starts)} finite number(s), one per observation."
            )
        return np.where(starts, np.float32(0), given)


class RESeL(Agent):
    """The agent of the paper: `Agent` with its method fixed.

    `env` and settings are given as to `Agent`.
    """

    _method = default_method()


def _whole(verb: str, count: Any) -> int:
    good = isinstance(count, int | float | np.number) and not isinstance(count, bool)
    if not good or not float(count).is_integer():
        raise ConfigError(f"{verb}({count!r}): a whole number is needed.")
    if count < 1:
        raise ConfigError(f"{verb}({count}): it must be at least 1.")
    return int(count)


def _callbacks(given: Any) -> list[Callback]:
    if given is None:
        return []
    several = [given] if callable(given) else given
    if not isinstance(several, Sequence) or not all(map(callable, several)):
        raise ConfigError(
            f"callback={given!r} cannot be called: give a function of one TrainProgress, or a "
            "list of such functions."
        )
    return list(several)


def _make_envs(env: str | Env | EnvFactory, config: Config) -> tuple[list[AnyEnv], AnyEnv | None]:
    """Environments to train in, and where there can be more than one, one to evaluate in."""
    settings = config.training
    if isinstance(env, str):
        return task_envs(config)
    if isinstance(env, gymnasium.Env):
        asked = settings.num_envs > 1, settings.env_workers, settings.env_restarts > 0
        for name, too_much in zip(("num_envs", "env_workers", "env_restarts"), asked, strict=True):
            if too_much:
                raise ConfigError(
                    f"{name}={getattr(settings, name)} needs more than one environment: give a "
                    "function that makes one instead of the environment itself."
                )
        return [
            CheckedEnv(env, limit=settings.max_episode_steps, longest=settings.buffer_steps)
        ], None
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ConfigError(
            f"env={env!r} is several environments in one: give the name or a function that makes "
            "a single one, and num_envs= for how many."
        )
    if not callable(env):
        raise ConfigError(
            f"env={env!r} is neither a name, nor an environment, nor a function that makes one."
        )
    return make_envs(settings, env, env)


def _check_separate(envs: Sequence[AnyEnv]) -> None:
    here = [env for env in envs if isinstance(env, CheckedEnv)]
    if len({id(env.env.unwrapped) for env in here}) < len(here):
        raise ConfigError(
            "Two environments asked for are one and the same object, and each would disturb the "
            "episodes of the other: make a new one each time."
        )


def _row_flags(episode_start: Any, rows: int) -> NDArray[np.bool_]:
    if episode_start is None:
        return np.zeros(rows, np.bool_)
    flags = np.asarray(episode_start, np.bool_).reshape(-1)
    if len(flags) != rows:
        raise BadInputError(
            f"episode_start has {len(flags)} entries for {rows} observation(s): give one for each."
        )
    return flags
