"""Agents on disk: the weights, the config they belong to and the spaces they act in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from resel.config import Config
from resel.envs import AnyEnv, check_spaces, spaces_of, warn_user
from resel.errors import ConfigError, DamagedFileError
from resel.methods import Learner, smallest_size
from resel.runs.bundle import Bundle, read_bundle, read_document, write_bundle
from resel.tasks import source_digest
from resel.training import Snapshot, check_tensors

Path = str | os.PathLike[str]
_POLICY_ONLY, _LEARNED = "policy_only", "learned"

_MOST_PRIVILEGED = 10**7
"""Numbers that a critic may read beside the history; a file that asks for more was altered."""


def save_agent(
    path: Path,
    learner: Learner,
    env: AnyEnv,
    step: int | None,
    *,
    learned: bool | None = False,
    policy_only: bool = False,
    snapshot: Snapshot | None = None,
) -> None:
    """Write an agent directory: safetensors, JSON and hashes. `step` says how far it had come.

    `learned` says whether its weights were updated before the learner had them; None where that is
    not known. With `policy_only` it can act, but not learn on. The weights are those of a
    `snapshot`, if there is one.
    """
    weights = learner.acting_weights() if policy_only else learner.weights()
    if snapshot is not None:
        weights = {name: snapshot.weights[name] for name in weights}
    learned = learned if (snapshot or learner).updates == 0 else True
    write_bundle(
        path,
        "agent",
        {"weights": weights},
        {
            "agent": {
                "config": learner.config.to_json(),
                "spaces": spaces_of(env),
                "step": step,
                **({} if learned is None else {_LEARNED: learned}),
                **privileged_of(learner),
                **origin_of(learner.config),
                **({_POLICY_ONLY: True} if policy_only else {}),
            }
        },
    )


def privileged_of(learner: Learner) -> dict[str, int]:
    """How many numbers the critic reads beside the history, where it does."""
    return {"privileged": learner.dims.privileged} if learner.dims.privileged else {}


def saved_privileged(bundle: Bundle) -> int | None:
    """The same of a saved agent; None where its critic reads the history alone."""
    count = bundle.documents["agent"].get("privileged")
    if count is not None and not (type(count) is int and 0 < count <= _MOST_PRIVILEGED):
        raise DamagedFileError(
            f"The agent says that its critic reads {count!r:.50} numbers of its own: it was "
            "altered. Use an earlier copy."
        )
    return count


def origin_of(config: Config) -> dict[str, str]:
    """What is saved of the file with the environment, for tasks that name one."""
    digest = source_digest(config.task)
    return {} if digest is None else {"source": digest}


def source_changed(document: Mapping[str, Any], task: str) -> str | None:
    """In words, that the file of a task is not what it was when a document was saved."""
    before, now = document.get("source"), source_digest(task)
    if before is None or now is None or before == now:
        return None
    return f"the file of the environment has changed ({task})"


def agent_step(path: Path) -> int | None:
    """The step at which the agent in a folder was saved; None for older ones, which do not say."""
    step = read_document(os.fspath(path), "agent", "agent").get("step")
    return step if type(step) is int else None


def agent_learned(path: Path) -> bool | None:
    """Whether the agent in a folder was ever updated; None for older ones, which do not say."""
    return learned_before(read_document(os.fspath(path), "agent", "agent"))


def learned_before(document: Mapping[str, Any]) -> bool | None:
    """The same by what a saved agent says of itself."""
    learned = document.get(_LEARNED)
    return learned if isinstance(learned, bool) else None


def read_agent(path: Path) -> tuple[Config, Bundle]:
    """The config of a saved agent, and its files, checked but not yet used.

    A run directory stands for its newest agent.
    """
    last = os.path.join(path, "agents", "last")
    if os.path.isfile(os.path.join(path, "config.json")) and os.path.isdir(last):
        path = last
    bundle = read_bundle(path, "agent")
    try:
        config = Config.from_json(bundle.documents["agent"]["config"])
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise DamagedFileError(
            f"The agent at {os.fspath(path)} has no usable config: {error}"
        ) from error
    _check_size(config, bundle, path)
    return config, bundle


def is_policy_only(bundle: Bundle) -> bool:
    """Whether an agent was saved without what it would need to learn on."""
    return bundle.documents.get("agent", {}).get(_POLICY_ONLY) is True


def _check_size(config: Config, bundle: Bundle, path: Path) -> None:
    """Refuse a config whose network is far larger than the weights, before it takes memory."""
    weights = bundle.tensors.get("weights", {})
    numbers = [*vars(config.network).values(), *vars(config.encoder_settings).values()]
    deep = any(type(n) is int and n > 100_000 for n in numbers) or _deepest(config) > len(weights)
    least = 0 if deep else smallest_size(config, policy_only=is_policy_only(bundle))
    if deep or least > 2 * sum(t.numel() for t in weights.values()) + 10**6:
        raise DamagedFileError(
            f"The agent at {os.fspath(path)} describes a network much larger than its weights: it "
            "was altered. Use an earlier copy."
        )


def _deepest(config: Config) -> int:
    """The largest number of layers that the config asks for."""
    both = {**vars(config.network), **vars(config.encoder_settings)}
    layers = [number for name, number in both.items() if name.endswith("layers")]
    return max((number for number in layers if number is not None), default=0)


def check_agent_origin(bundle: Bundle, env: AnyEnv, task: str) -> None:
    """Refuse an environment that a saved agent cannot act in, and tell of one that was changed."""
    document = bundle.documents["agent"]
    check_spaces(env, document.get("spaces"), "env")
    trained_on = document["config"]["task"]
    if task == trained_on and (changed := source_changed(document, task)):
        warn_user(f"Since the agent was saved {changed}: it acts in what is there now.")


def use_weights(bundle: Bundle, learner: Learner) -> None:
    """Put a saved agent's weights into a learner built for the same config and spaces."""
    weights, own = bundle.tensors.get("weights", {}), learner.weights()
    expected = learner.acting_weights() if is_policy_only(bundle) else own
    check_tensors(weights, expected, "the agent")
    learner.load_weights({**own, **weights})
