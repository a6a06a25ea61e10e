"""policy.h in an export: whether there is C for a policy, and whether it does what it should."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resel.choices import CWeights
from resel.deploy._c import c_policy
from resel.deploy._c_graph import CannotWriteError
from resel.deploy._c_program import Answers, compiled, find_compiler
from resel.deploy._c_vectors import Steps
from resel.deploy._compare import Outcome, Step, compare
from resel.deploy._document import Limits
from resel.deploy._vectors import Vectors
from resel.envs import AnyEnv
from resel.errors import DamagedFileError
from resel.methods import Learner

_OWN_TEST = 200
"""Steps that the header itself carries."""


def header_of(
    learner: Learner, env: AnyEnv, vectors: Vectors, limits: Limits, weights: CWeights
) -> tuple[str | None, dict[str, Any]]:
    """The header, or None, and what policy.json says of it."""
    if "noise" in vectors.inputs:
        return None, {"left_out": "C is written of policies without noise only."}
    steps = _alone(vectors, _OWN_TEST)
    try:
        return c_policy(learner, env.action, limits, steps, weights), {"weights": weights}
    except CannotWriteError as error:
        return None, {"left_out": str(error)}


def check_header(header: str, vectors: Vectors, about: Mapping[str, Any]) -> Outcome | None:
    """What a compiler of this machine makes of it; None if there is none.

    Weights of 16 bits are another policy than that of check.npz: the header's own test is all.
    """
    if find_compiler() is None:
        return None
    steps = _alone(vectors)
    with compiled(header) as program:
        if wrong := program.self_test():
            raise DamagedFileError(
                f"The policy in C does not do what it was exported to do, from step {wrong} of its "
                "own test on. Do not use it here; try another compiler, or export again."
            )
        if about["c"]["weights"] == "float16":
            return Outcome(min(_OWN_TEST, len(steps.start)), None)
        answers = program.run(steps)
    if answers.codes.any():
        at = int(np.flatnonzero(answers.codes)[0])
        raise DamagedFileError(
            f"The policy in C refuses step {at} of check.npz, code {answers.codes[at]}."
        )
    one = Vectors(
        vectors.start[:, :1],
        {name: values[:, :1] for name, values in vectors.inputs.items()},
        {name: values[:, :1] for name, values in vectors.outputs.items()},
    )
    return compare(_as_step(answers), one, about)


def _alone(vectors: Vectors, most: int | None = None) -> Steps:
    """The first row, or so many of its steps."""
    start, inputs = vectors.start[:most, 0], vectors.inputs
    reward = np.zeros(len(start), np.float32)
    if "reward" in inputs:
        reward = inputs["reward"][:most, 0, 0]
    return Steps(start, inputs["obs"][:most, 0], reward)


def _as_step(answers: Answers) -> Step:
    """Answers one after the other, as from a model whose state nobody sees."""
    at = iter(range(len(answers.codes)))

    def step(feed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        t = next(at)
        found: dict[str, NDArray[Any]] = {
            "actions": answers.actions[t][None],
            "h_out": feed["h_in"],
        }
        return found if answers.logits is None else {**found, "logits": answers.logits[t][None]}

    return step
