"""The test that a header of C carries: some steps, and what the policy did in them.

Glossary
    T steps, O observation, A action
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resel.deploy._c_text import array
from resel.deploy._step import PolicyStep
from resel.deploy._vectors import acted
from resel.methods import Learner

_TIED = 1e-5
"""Of two actions whose logits are as near as this, another machine may take the other one."""
_TEST = """\
#ifdef RESEL_SELF_TEST
{arrays}
/* 0, or the first step, counted from 1, in which the policy does not do what it did before. */
static inline int resel_self_test(void) {{
    static resel_state state;
    {kind} actions[RESEL_ACTIONS];
    int t, i;
    for (t = 0; t < {T}; t++) {{
        const float *wanted = resel_test_wanted + t * {N};
        if (resel_test_start[t]) resel_reset(&state);
        if (resel_step(&state, resel_test_obs + t * {O}, {reward}actions)) return t + 1;
        for (i = 0; i < {N}; i++)
            if (fabsf({found} - wanted[i]) > 1e-4f * ({scale})) return t + 1;
    }}
    return 0;
}}
#endif

"""


class Steps(NamedTuple):
    """What a policy reads in steps that follow each other."""

    start: NDArray[np.bool_]  # (T,)
    """Where an episode begins."""
    observation: NDArray[np.float32]  # (T, O)
    reward: NDArray[np.float32]  # (T,), of the step before


def acted_alone(learner: Learner, step: PolicyStep, steps: Steps) -> Mapping[str, NDArray[Any]]:
    """What the library does in them: actions (T, entries) and, for Discrete ones, logits (T, A)."""
    rewards = np.where(steps.start, np.float32(0), steps.reward)[:, None]
    inputs = {"obs": steps.observation[:, None]}
    found = acted(learner, step, steps.start[:, None], inputs, rewards)
    return {name: values[:, 0] for name, values in found.items()}


def comparable(steps: Steps, logits: NDArray[np.float32] | None) -> NDArray[np.bool_]:
    """Steps (T,) before which no action was tied with another since the episode began."""
    kept = np.ones(len(steps.start), np.bool_)
    if logits is None or logits.shape[1] < 2:
        return kept
    best = np.sort(logits, -1)[:, -2:]
    tied, lost = best[:, 1] - best[:, 0] < _TIED, False
    for t, begins in enumerate(steps.start):
        lost = lost and not begins
        kept[t] = not lost
        lost = lost or bool(tied[t])
    return kept


def self_test(learner: Learner, step: PolicyStep, steps: Steps, reads_reward: bool) -> str:
    """The test as C."""
    found, discrete = acted_alone(learner, step, steps), step.layout.discrete
    kept = comparable(steps, found.get("logits"))
    wanted = found["logits" if discrete else "actions"]
    arrays = [
        array("int", "resel_test_start", steps.start[kept].astype(np.int64)),
        array("float", "resel_test_obs", steps.observation[kept]),
        array("float", "resel_test_reward", steps.reward[kept]) if reads_reward else "",
        array("float", "resel_test_wanted", wanted[kept]),
    ]
    return _TEST.format(
        arrays="".join(arrays),
        kind="int" if discrete else "float",
        T=int(kept.sum()),
        O=steps.observation.shape[1],
        N=wanted.shape[1],
        reward="resel_test_reward[t], " if reads_reward else "",
        found="state.logits[i]" if discrete else "actions[i]",
        scale=(
            "1.0f + fabsf(wanted[i])"
            if discrete
            else "resel_reach[i] + 0.1f * fabsf(resel_centre[i])"
        ),
    )
