"""`Agent`: learn, predict, save, load. The face a library user sees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Self, Unpack, overload

import gymnasium
import numpy as np

from resel.agent._announce import announced, speaker
from resel.agent._configure import configure, world_of
from resel.agent._given import (
    callbacks_of,
    check_separate,
    describe_env,
    envs_of,
    evaluation_env,
    whole_number,
)
from resel.agent._keywords import AgentKeywords, RESeLKeywords
from resel.agent._learning import Origin, RunOptions, open_run, why_it_rests
from resel.agent._predict import predict
from resel.agent._vectors import no_evaluation, with_rows
from resel.agent.callbacks import LearnCallback, SeenBy, asked_return
from resel.choices import CWeights
from resel.config import Config, SizeName
from resel.deploy import Batch, export_policy
from resel.envs import (
    OF_FUNCTION,
    AnyEnv,
    AnyVector,
    CheckedEnv,
    CriticSignal,
    Env,
    EnvFactory,
    check_spaces,
    row_count,
    spaces_of,
    warn_user,
)
from resel.errors import ConfigError
from resel.methods import (
    AUTO_STEPS,
    Choice,
    Learner,
    auto_choices,
    check_episodes,
    default_method,
    get_method,
    not_overruled,
)
from resel.randomness import draw_seed, torch_stream
from resel.runs import (
    Bundle,
    Resume,
    Run,
    WarmStart,
    check_agent_origin,
    is_policy_only,
    learned_before,
    read_agent,
    save_agent,
    saved_privileged,
    threads_so_far,
    use_weights,
    warm_start,
)
from resel.tasks import full_name, get_task
from resel.training import (
    Actor,
    PolicyState,
    Trainer,
    evaluate,
    make_task,
    named_by_task,
    signal_of,
)
from resel.training.threads import threads_for, why_threads_spin
from resel.zoo import locate


class Agent:
    """An agent that learns with any method of the registry, RESeL by default.

    `env` is a task of ours, any registered Gymnasium id, `file.py:Class` or `module:Class`, an
    environment, a vector of several, or a function that makes one. Settings are those of the
    method, its network, its encoder and the loop by name (`encoder="gru"`, `lr_policy=1e-3`,
    `batch_steps=2000`, ...; `resel methods --show NAME` lists them); a whole `config` can be given
    instead. They start from a `preset`: `paper` for tasks of ours, for other environments `auto`,
    which chooses by the spaces, the longest episode and `steps`, the length of the training that is
    meant.
    """

    _method: str | None = None
    """The method of a class that has one."""

    @overload
    def __init__(
        self,
        env: str | Env | AnyVector | EnvFactory,
        method: str | None = None,
        *,
        config: Config | None = None,
        preset: str | None = None,
        size: SizeName | None = None,
        **settings: Unpack[AgentKeywords],
    ) -> None: ...

    @overload  # a method of another package has settings of its own
    def __init__(
        self,
        env: str | Env | AnyVector | EnvFactory,
        method: str | None = None,
        *,
        config: Config | None = None,
        preset: str | None = None,
        size: SizeName | None = None,
        **settings: Any,
    ) -> None: ...

    def __init__(
        self,
        env: str | Env | AnyVector | EnvFactory,
        method: str | None = None,
        *,
        config: Config | None = None,
        preset: str | None = None,
        size: SizeName | None = None,
        **settings: Any,
    ) -> None:
        env = full_name(env) if isinstance(env, str) else env
        task, method = env if isinstance(env, str) else "", self._chosen(method)
        function = settings.get("critic_observations")
        if not callable(function):
            function = None
        elif isinstance(config, Config):  # which says itself that it is one
            del settings["critic_observations"]
        else:  # a config holds words alone
            settings["critic_observations"] = OF_FUNCTION
        if settings.get("init_from") is not None:  # the run may be resumed from another folder
            settings["init_from"] = os.path.abspath(settings["init_from"])
        settings, config = with_rows(env, settings, config)
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
            self.choices = not_overruled(self.choices, config.flat())
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
        config = named_by_task(config if config.task == task else config.replace(task=task))
        if config.training.env_kwargs and not task:
            raise ConfigError(
                f"env_kwargs={config.training.env_kwargs} are for an environment that is made by "
                "its name: name it, as in 'my_env.py:MyEnv', or give a function that makes it with "
                "them, as in functools.partial(MyEnv, length=40)."
            )
        self._start(env, config, signal_of(config, function))

    def _start(
        self,
        env: str | Env | AnyVector | EnvFactory,
        config: Config,
        signal: CriticSignal | None,
        saved: Bundle | None = None,
        origin: Origin | None = None,
    ) -> None:
        """Make environments and learner, and take over a saved agent, or weights to begin with."""
        envs, evaluation = envs_of(env, config, signal)
        if saved is not None:
            check_agent_origin(saved, envs[0], config.task)
        check_separate([*envs, *([evaluation] if evaluation else [])])
        with threads_for(config):
            privileged = None if saved is None else saved_privileged(saved)
            self._trainer = Trainer(config, envs, evaluation, privileged)
        self._env, self._origin = envs[0], origin
        self.critic_signal = signal
        """What the critic reads in the environments and the policy never does, if there is such."""
        self._sampling = torch_stream(config.training.seed, "predict", self.learner.device)
        self.policy_only = saved is not None and is_policy_only(saved)
        """Whether it was saved without what it would need to learn on."""
        self.warm_start: WarmStart | None = None
        """What was taken over from `init_from`."""
        self.stopped_because: str | None = None
        """Why the last `learn` ended before its steps were taken, unless it was interrupted."""
        if saved is None:
            self.warm_start = warm_start(self._trainer)
        else:
            use_weights(saved, self.learner)
        self._steps_before: int | None = 0
        """What a saved agent had learned from before this one; None where that is not known."""
        if saved is not None and not (origin and origin.same_task):
            step = saved.documents["agent"].get("step")
            self._steps_before = step if type(step) is int else None
        if origin is not None and origin.same_task:
            self._trainer.step = origin.step
        self._learned_before = False if saved is None else learned_before(saved.documents["agent"])

    @classmethod
    def _chosen(cls, method: str | None) -> str | None:
        if cls._method is not None and method not in (None, cls._method):
            raise ConfigError(
                f"{cls.__name__} is an agent with the method {cls._method}: use "
                f"Agent(env, method={method!r})."
            )
        return cls._method or method

    def __repr__(self) -> str:
        config, learner = self.config, self.learner
        where = repr(config.task) if config.task else describe_env(self._env)
        names = [f"{n}={v!r}" for n, v in (("method", config.method), ("encoder", config.encoder))]
        chosen = names[self._method is not None : 2 if config.encoder else 1]
        facts = [
            f"{sum(g.count for own in learner.groups.values() for g in own):,} parameters on "
            f"{learner.device}",
            f"{self.num_timesteps:,} steps",
        ]
        facts += [f"{learner.updates:,} updates"] if learner.updates else []
        if self.evaluations:
            step, mean, _ = self.evaluations[-1]
            facts.append(f"evaluation {mean:.4g} at step {step:,}")
        return f"<{type(self).__name__}({', '.join([where, *chosen])}): {', '.join(facts)}>"

    @property
    def config(self) -> Config:
        """All settings."""
        return self._trainer.config

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
        return list(self.evaluated)

    @property
    def evaluated(self) -> Sequence[tuple[int, float, float]]:
        """The same without a copy, to be read only: it grows as learning goes on."""
        return self._trainer.evaluator.history

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: LearnCallback | Sequence[LearnCallback] | None = None,
        eval_env: str | Env | EnvFactory | None = None,
        progress_bar: bool = False,
        run_dir: str | os.PathLike[str] | None = None,
        resume: Resume = "never",
        wandb: bool = False,
        force: bool = False,
    ) -> Self:
        """Take `total_timesteps` further steps in the environment, learning all the while.

        `callback` is called with a `LearnProgress` after every step and ends the training by
        returning False; a list holds several. Evaluations use `eval_env`, given like `env`, or an
        environment made like the first one.

        `run_dir` makes a run of it, with the checkpoints, logs and agents of `resel train`. With
        `resume="auto"` the same call goes on with the run that is there, to as many steps as it was
        to take, and does nothing where they are taken, or where a callback ended it before. `wandb`
        also logs to Weights & Biases, `force` goes on where the machine differs from before.
        """
        self._check_whole("cannot learn on")
        steps, callbacks = whole_number("learn", total_timesteps), callbacks_of(callback)
        options, total = RunOptions(run_dir, resume, wandb, force), self.num_timesteps + steps
        if eval_env is not None:
            self._trainer.evaluator.env = evaluation_env(
                eval_env, self.config, self._env, self.critic_signal
            )
        unmeasured = self._trainer.evaluator.env is None and self.config.training.eval_every > 0
        if unmeasured and (reason := no_evaluation(self._env)):
            warn_user(f"{reason} Until then no evaluations are made.")
        told, say = [SeenBy(self, callback) for callback in callbacks], speaker(progress_bar)
        self.stopped_because = None
        so_far = threads_so_far(options.run_dir) if options.goes_on and options.run_dir else None
        with threads_for(self.config, so_far):
            if self.learner.device.type == "cpu" and (cost := why_threads_spin()):
                warn_user(cost)
            if self._origin is not None and not options.goes_on:
                self._origin.restore(self._trainer)
            if run_dir is None:
                self._trainer.check_settings(anew=True)
                self._trainer.set_steps(max(total, self.config.training.steps))
                with announced(self._trainer, total, progress_bar) as line:
                    self._trainer.train(total - self.num_timesteps, [*told, *line])
                self._tell_ending(total, say)
            else:
                with open_run(self._trainer, options, total, asked_return(callbacks)) as run:
                    if isinstance(run, Run):
                        if run.going_on is not None:
                            say(run.going_on)
                        with announced(self._trainer, total, progress_bar) as line:
                            run.train([*told, *line])
                        self._tell_ending(total, say)
                    else:
                        self.stopped_because = run.get("stopped_because")
                        say(f"{run_dir} {why_it_rests(run, total)}")
        self._origin = None
        return self

    def _tell_ending(self, total: int, say: Callable[[str], None]) -> None:
        """Why there are fewer steps than were asked for, if that was on purpose."""
        ending = self._trainer.ending
        if ending is not None and self.num_timesteps < total:
            self.stopped_because = ending.reason
            say(f"Stopped early at step {self.num_timesteps:,}: {ending.reason}.")

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
        sampling = None if deterministic else self._sampling
        with threads_for(self.config):
            return predict(
                self.actor, self._env, sampling, observation, state, episode_start, reward
            )

    def evaluate(
        self,
        episodes: int = 10,
        *,
        env: str | Env | EnvFactory | None = None,
        seed: int | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> tuple[float, float]:
        """Mean and deviation of the return of the deterministic policy.

        It is played in `env`, given like that of the agent, or in an environment like those of the
        training. `env_kwargs` are arguments of the task in which that is to differ from them, as in
        `{"length": 40}`. An agent made from one environment alone plays in that, which ends its
        unfinished episode.
        """
        rng = np.random.default_rng(self.config.training.seed if seed is None else seed)
        seeds = [draw_seed(rng) for _ in range(whole_number("evaluate", episodes))]
        if env is not None and env_kwargs:
            raise ConfigError(
                "evaluate(env=..., env_kwargs=...): the arguments are of an environment that is "
                "made here: give one of the two."
            )
        if env is not None:
            given = evaluation_env(env, self.config, self._env, self.critic_signal, "env")
            with threads_for(self.config):
                result = evaluate(self._trainer.actor, given, seeds)
            if not isinstance(env, gymnasium.Env):  # made here
                given.close()
            return result.return_mean, result.return_std
        if env_kwargs:
            with closing(self.make_evaluation_env(env_kwargs)) as other, threads_for(self.config):
                result = evaluate(self._trainer.actor, other, seeds)
            return result.return_mean, result.return_std
        with self._played_in() as own:
            result = evaluate(self._trainer.actor, own, seeds)
        return result.return_mean, result.return_std

    @contextmanager
    def _played_in(self) -> Iterator[AnyEnv]:
        """What to play in: the evaluation environment, or the agent's own, begun anew after."""
        env = self._trainer.evaluator.env
        if env is None and (reason := no_evaluation(self._env)):
            raise ConfigError(reason)
        try:
            with threads_for(self.config):
                yield env or self._env
        finally:
            if env is None:
                self._trainer.collector.restart()

    def make_evaluation_env(
        self, env_kwargs: Mapping[str, Any] | None = None, *, render_mode: str | None = None
    ) -> CheckedEnv:
        """Another environment to evaluate in, made from the task's name.

        `env_kwargs` go on top of those of the training; refused if the agent cannot act there.
        """
        if not self.config.task:
            raise ConfigError(
                "The agent was made from an environment without a name, whose arguments are not "
                "known: make the other environment, and pass it as evaluate(env=...) or "
                "learn(..., eval_env=...)."
            )
        own = self.config.training
        config = self.config.replace(env_kwargs={**own.env_kwargs, **(env_kwargs or {})})
        checked = CheckedEnv(
            make_task(config, evaluation=True, render_mode=render_mode),
            name="The evaluation environment",
            longest=own.buffer_steps,
            signal=self.critic_signal and self.critic_signal.to_evaluate(),
        )
        check_spaces(checked, spaces_of(self._env), "the evaluation environment")
        check_episodes(config, checked)
        return checked

    def save(self, path: str | os.PathLike[str], *, policy_only: bool = False) -> None:
        """Write the agent to a directory of safetensors and JSON, with hashes.

        With `policy_only` critics and targets are left out, most of what it weighs: what is loaded
        then acts, and cannot learn on.
        """
        if not policy_only:
            self._check_whole("can be saved with policy_only=True alone")
        save_agent(
            path,
            self.learner,
            self._env,
            self._step,
            learned=self._learned_before,
            policy_only=policy_only,
        )

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        batch: Batch = 1,
        stochastic: bool = False,
        weights: CWeights = "float32",
    ) -> dict[str, Any]:
        """Write the policy to a folder from which it acts without resel and torch.

        One step as an ONNX model and, where it can be, in C, with these `weights`; a description,
        which is also returned, a loader, and steps to check them by, for which some episodes are
        played. See docs/deployment.md. `batch` is the number of environments that the model acts in
        at once, or "dynamic"; a `stochastic` one reads noise.
        """
        with self._played_in() as env:
            return export_policy(
                path,
                self.learner,
                env,
                self._step,
                batch=batch,
                stochastic=stochastic,
                weights=weights,
            )

    @property
    def _step(self) -> int | None:
        """Steps learned from in all, where that is known."""
        before = self._steps_before
        return None if before is None else before + self.num_timesteps

    def _check_whole(self, problem: str) -> None:
        if self.policy_only:
            raise ConfigError(
                f"This agent was saved with policy_only=True and {problem}: its critics were left "
                "out. Load one that was saved whole, or a run; or begin a new training with its "
                "policy: init_from=FOLDER."
            )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: str | Env | AnyVector | EnvFactory | None = None,
        *,
        device: str = "auto",
        critic_observations: Callable[[Env], Any] | None = None,
    ) -> Self:
        """Read an agent back, the newest one of a run directory, or one of the zoo: `zoo:NAME`.

        `env` is needed where it was not trained on a named task. The agent of a run goes on where
        the run stood once it learns: with its optimisers and random streams and, in the same task,
        its replay buffer. The run itself is only read. Where the critic reads a function of the
        environment, learning needs it again, as `critic_observations`; acting does not.
        """
        path = locate(path)
        config, bundle = read_agent(path)
        if cls._method not in (None, config.method):
            raise ConfigError(
                f"The agent at {os.fspath(path)} learned with {config.method}, but {cls.__name__} "
                f"is an agent with the method {cls._method}: use Agent.load(path)."
            )
        if env is None and not config.task:
            raise ConfigError(
                f"The agent at {os.fspath(path)} was trained on an environment without a name, "
                f"as vectors and environments that a program makes are: pass one like it, or its "
                f"name, as {cls.__name__}.load(path, env=...), in a program; what is loaded can "
                "act, be evaluated and be exported there."
            )
        trained = config
        # The machine may be another one, and acting needs no processes.
        config = config.replace(device=device, env_workers=False)
        if env is not None:  # only the task's own name is known to have a vectorised version
            config = config.replace(env_vector=False)
        if isinstance(env, gymnasium.vector.VectorEnv):
            config = config.replace(num_envs=row_count(env), env_restarts=0)
        elif isinstance(env, gymnasium.Env):
            config = config.replace(num_envs=1, env_restarts=0)
        task = config.task if env is None else env
        task = full_name(task) if isinstance(task, str) else task
        config = config.replace(task=task if isinstance(task, str) else "")
        same_task = (config.task, config.training.num_envs) == (
            trained.task,
            trained.training.num_envs,
        )
        agent = cls.__new__(cls)
        agent.choices = []
        signal = signal_of(config, critic_observations, to_act=True)
        agent._start(task, config, signal, bundle, Origin.of(path, same_task))
        return agent

    def close(self) -> None:
        """Release the simulators."""
        self._trainer.close()


class RESeL(Agent):
    """The agent of the paper: `Agent` with its method fixed.

    `env` and settings are given as to `Agent`.
    """

    _method = default_method()

    def __init__(
        self,
        env: str | Env | AnyVector | EnvFactory,
        method: str | None = None,
        *,
        config: Config | None = None,
        preset: str | None = None,
        size: SizeName | None = None,
        **settings: Unpack[RESeLKeywords],
    ) -> None:
        super().__init__(env, method, config=config, preset=preset, size=size, **settings)
