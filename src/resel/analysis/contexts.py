"""What the context knows: its vectors, and how well a number can be read from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from resel.agent import RESeL
from resel.analysis._episodes import lay_out, record_episodes
from resel.data import Batch
from resel.envs import CheckedEnv, Env
from resel.errors import BadInputError, MissingDependencyError
from resel.networks import Dimensions, by_running_statistics
from resel.tasks import make_env
from resel.training import evaluation_seeds

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Contexts:
    """Contexts of N steps of some episodes, and what the agent could not see."""

    context: NDArray[np.float32]  # (N, embedding)
    episode: NDArray[np.int64]  # (N,)
    step: NDArray[np.int64]  # (N,)
    hidden: dict[str, Floats]  # (N, size) each
    """Entries of `info`: those asked for, or all numbers that stay the same during an episode and
    differ between episodes, such as `gravity`, `wind`, `goal` or `hidden`."""


def context_embeddings(
    agent: RESeL,
    env: str | Env | None = None,
    *,
    episodes: int = 40,
    seed: int = 1,
    every: int = 1,
    hidden: tuple[str, ...] | None = None,
) -> Contexts:
    """The policy's contexts at every `every`-th step of episodes of the deterministic policy.

    `env` is an environment, a task or id, or None for the evaluation version of the agent's own.
    """
    owned = env is None or isinstance(env, str)
    heard = _Listening(_world(agent, env))
    limit = agent.config.training.max_episode_steps
    stage = CheckedEnv(heard, limit=limit, signal=agent.critic_signal)
    try:
        found = Dimensions.of(stage.observation, stage.action)
        if found != agent.learner.dims._replace(privileged=0):
            raise BadInputError(f"The agent acts in {agent.learner.dims}, not in {found}.")
        trajectories = record_episodes(agent.actor, stage, evaluation_seeds(seed, episodes))
    finally:
        if owned:
            stage.close()
    contexts, episode, step = [], [], []
    for index, packed in enumerate(lay_out(trajectories)):
        chosen = np.arange(0, len(trajectories[index]), every)
        contexts.append(_contexts(agent, packed)[chosen])
        episode.append(np.full(len(chosen), index))
        step.append(chosen)
    names = _constants(heard.infos) if hidden is None else hidden
    return Contexts(
        np.concatenate(contexts),
        np.concatenate(episode),
        np.concatenate(step),
        {
            name: np.concatenate(
                [_values(infos, name)[s] for infos, s in zip(heard.infos, step, strict=True)]
            )
            for name in names
        },
    )


def read_out_score(
    context: NDArray[Any],
    target: NDArray[Any],
    groups: NDArray[Any],
    *,
    folds: int = 5,
    ridge: float = 1e-3,
) -> float:
    """Cross-validated R^2 of a ridge regression from contexts (N, E) to a target (N,) or (N, k).

    Rows of one group, which should be an episode, are never split between fitting and testing: a
    target that is constant in an episode could otherwise be learned by heart. 1 is perfect, 0 no
    better than the mean. Contexts are standardised, and `ridge` is the penalty per row.
    """
    x, y = np.asarray(context, np.float64), np.asarray(target, np.float64)
    y = y.reshape(len(y), -1)
    kinds = np.unique(groups)
    if len(x) != len(y) or len(x) != len(groups):
        raise BadInputError(
            f"{len(x)} contexts, {len(y)} targets and {len(groups)} groups do not belong together."
        )
    if len(kinds) < folds:
        raise BadInputError(f"{len(kinds)} group(s) cannot be parted into {folds} folds.")
    spread = float(((y - y.mean(0)) ** 2).sum())
    if spread == 0:
        raise BadInputError("The target is the same everywhere: there is nothing to read out.")
    missed = 0.0
    for fold in range(folds):
        tested = np.isin(groups, kinds[fold::folds])
        predicted = _ridge(x[~tested], y[~tested], x[tested], ridge)
        missed += float(((y[tested] - predicted) ** 2).sum())
    return 1 - missed / spread


def context_map(context: NDArray[Any], perplexity: float = 30.0, seed: int = 1) -> Floats:
    """Places in the plane (N, 2) that keep neighbours among contexts (N, E) together: t-SNE."""
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingDependencyError(
            "A map of contexts needs the package scikit-learn: pip install 'resel[report]'."
        ) from error
    x = np.asarray(context, np.float64)
    if len(x) < 4 or not np.ptp(x, axis=0).any():  # nothing to tell apart
        return np.zeros((len(x), 2))
    reach = min(perplexity, (len(x) - 1) / 3)
    start = "pca" if x.shape[1] > 1 else "random"
    with threadpool_limits(1):  # several threads add up in any order, and the map would differ
        places = TSNE(perplexity=reach, init=start, random_state=seed).fit_transform(x)
    return np.asarray(places, np.float64)


def _ridge(x: Floats, y: Floats, new: Floats, penalty: float) -> Floats:
    """Predictions for `new` of the closed form (X'X + penalty I)^-1 X'y on standardised x."""
    centre, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    z = (x - centre) / scale
    gram = z.T @ z / len(z) + penalty * np.eye(z.shape[1])
    weights = np.linalg.solve(gram, z.T @ (y - y.mean(0)) / len(z))
    predicted: Floats = (new - centre) / scale @ weights + y.mean(0)
    return predicted


class _Listening(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the `info` that came with every observation, one list per episode."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.infos: list[list[dict[str, Any]]] = []

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self.infos.append([dict(info)])
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.infos[-1].append(dict(info))
        return observation, reward, terminated, truncated, info


def _world(agent: RESeL, env: str | Env | None) -> Env:
    if isinstance(env, gymnasium.Env):
        return env
    name = env or agent.config.task
    if not name:
        raise BadInputError("The agent's environment has no name: give one as env=...")
    limit = agent.config.training.max_episode_steps
    return make_env(name, evaluation=True, max_episode_steps=limit)


@torch.no_grad()
def _contexts(agent: RESeL, packed: Batch) -> NDArray[np.float32]:
    """(L, embedding), for one trajectory."""
    learner = agent.learner
    packed = packed.to(learner.device)
    inputs, _ = learner.inputs(packed)
    with by_running_statistics(learner.policy):
        context = learner.policy.context(inputs, packed.is_first)
    assert context is not None, "checked before any episode is played"
    found: NDArray[np.float32] = context[packed.mask].cpu().numpy()
    return found


def _values(infos: list[dict[str, Any]], name: str) -> Floats:
    """(L + 1, size): an entry of `info` along one episode."""
    missing = next((t for t, info in enumerate(infos) if name not in info), None)
    if missing is not None:
        told = ", ".join(infos[missing]) or "nothing"
        raise BadInputError(f"info has no {name!r} at step {missing}, but {told}.")
    return np.stack([np.asarray(info[name], np.float64).reshape(-1) for info in infos])


def _constants(infos: list[list[dict[str, Any]]]) -> list[str]:
    """Numbers that tell episodes apart: the same during each, and not in all."""
    names = [name for name, value in infos[0][0].items() if np.asarray(value).dtype.kind == "f"]
    found = []
    for name in names:
        if not all(name in info for episode in infos for info in episode):
            continue
        values = [_values(episode, name) for episode in infos]
        constant = all((value == value[0]).all() for value in values)
        if constant and any((value[0] != values[0][0]).any() for value in values):
            found.append(name)
    return found
