"""The test that a header of C carries: some steps, and what the policy did in them.

Glossary
    T steps, O observation, A action
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resel.deploy._c_text import array
from resel.envs import ActionSpec
from resel.methods import Learner
from resel.networks import Categorical
from resel.training import Actor

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


class Acted(NamedTuple):
    """What it does in them."""

    actions: NDArray[np.float64]  # (T, entries), in the environment's units
    logits: NDArray[np.float32] | None  # (T, A), of Discrete actions


def acted(learner: Learner, action: ActionSpec, steps: Steps) -> Acted:
    """The policy as the library runs it."""
    actor = Actor(learner)
    state, actions, logits = actor.initial_state(1), [], []
    for t, begins in enumerate(steps.start):
        state = state.reset(np.array([begins]))
        reward = np.where(begins, np.float32(0), steps.reward[t : t + 1])
        policy, state = actor.observe(steps.observation[t : t + 1], reward, state)
        chosen = actor.choose(policy, None)
        state = actor.remember(state, chosen)
        native = action.to_env(int(chosen[0, 0]) if action.discrete else chosen[0])
        actions.append(np.asarray(native, np.float64).reshape(-1))
        if isinstance(policy, Categorical):
            logits.append(policy.log_probs[0].float().cpu().numpy())
    return Acted(np.stack(actions), np.stack(logits) if logits else None)


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


def self_test(learner: Learner, action: ActionSpec, steps: Steps, reads_reward: bool) -> str:
    """The test as C."""
    found = acted(learner, action, steps)
    kept = comparable(steps, found.logits)
    wanted = found.actions if found.logits is None else found.logits
    arrays = [
        array("int", "resel_test_start", steps.start[kept].astype(np.int64)),
        array("float", "resel_test_obs", steps.observation[kept]),
        array("float", "resel_test_reward", steps.reward[kept]) if reads_reward else "",
        array("float", "resel_test_wanted", wanted[kept]),
    ]
    return _TEST.format(
        arrays="".join(arrays),
        kind="int" if action.discrete else "float",
        T=int(kept.sum()),
        O=steps.observation.shape[1],
        N=wanted.shape[1],
        reward="resel_test_reward[t], " if reads_reward else "",
        found="state.logits[i]" if action.discrete else "actions[i]",
        scale=(
            "1.0f + fabsf(wanted[i])"
            if action.discrete
            else "resel_reach[i] + 0.1f * fabsf(resel_centre[i])"
        ),
    )
