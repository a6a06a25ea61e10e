"""A policy as one header of C99: no allocation, nothing but the standard library.

Its state holds what the policy reads of the last observation (as normalised), the last action and
the memory; zeros are the start of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from resel.choices import CWeights
from resel.deploy._c_body import Body
from resel.deploy._c_graph import CannotWriteError, trace
from resel.deploy._c_step import Layout, write_step
from resel.deploy._c_text import functions_for
from resel.deploy._c_vectors import Steps, self_test
from resel.deploy._document import Limits
from resel.deploy._step import Choices, PolicyStep
from resel.envs import ActionSpec
from resel.methods import Learner
from resel.networks import MambaEncoder
from resel.tasks import short_name

_WEIGHTS = {
    "float32": "typedef float resel_weight;\n#define RESEL_WEIGHT(w) (w)\n\n",
    "float16": "typedef uint16_t resel_weight;\n#define RESEL_WEIGHT(w) resel_half(w)\n\n",
}
_HEAD = """\
/* {title}

       static resel_state state;
       resel_reset(&state);                  at the start of every episode
       code = resel_step(&state, obs, {reward_argument}actions);

   obs      {observations} number(s): the flattened observation, in the environment's units
{reward_line}\
   actions  {entries} {actions_line}
   code     RESEL_OK, or why nothing was done; actions are then as they were, and so is the state,
            unless it is RESEL_BAD_STATE: then reset it

   {weights:,} weights of {kind}, {ram:,} bytes of state, about {stack:,} bytes of stack.
   Include it in one file of a program. With RESEL_SELF_TEST defined before, resel_self_test()
   gives 0 where the policy does what it did when it was written. */
#ifndef RESEL_POLICY_H
#define RESEL_POLICY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define RESEL_OBSERVATIONS {observations}
#define RESEL_ACTIONS {entries}
#define RESEL_DISCRETE {discrete}
#define RESEL_READS_REWARD {reads_reward}
{choices}\

enum {{
    RESEL_OK = 0,
    RESEL_NOT_FINITE = 1,  /* NaN or infinity in what was read */
    RESEL_FAR_OUTSIDE = 2, /* something read is far outside of what the policy was trained on */
    RESEL_BAD_STATE = 3    /* no action came out that is a number: reset the state */
}};

/* Zeros are the start of an episode. */
typedef struct {{
{fields}\
    int32_t started;
}} resel_state;

"""
_RESET = """\
static inline void resel_reset(resel_state *state) { memset(state, 0, sizeof *state); }

"""
_LOGITS = """\
/* The log of each action's probability in the last step. */
static inline const float *resel_logits(const resel_state *state) { return state->logits; }

"""
_END = "#endif /* RESEL_POLICY_H */\n"


def c_policy(
    learner: Learner,
    action: ActionSpec,
    limits: Limits,
    steps: Steps,
    weights: CWeights = "float32",
) -> str:
    """The header of a learner's policy.

    What is read beyond the limits is refused. The self test takes `steps`. With float16, matrices
    have 16 bits and all else stays float32. Refused where the network does what has no C here.
    """
    config, half = learner.config, weights == "float16"
    module = PolicyStep(learner, action)  # refused where acting is more than one step
    try:
        graph = trace(learner, (MambaEncoder,))
        layout = Layout.of(learner, graph)
        body = Body(graph, layout.places(), half)
        step = write_step(body, graph, layout, module, limits)
    except CannotWriteError as error:
        encoder = f" with the encoder {config.encoder}" if config.encoder else ""
        raise CannotWriteError(
            f"The policy of {config.method}{encoder} cannot be written as C. {error} mamba, gru, "
            "lstm and mlp on vectors can be; policy.onnx holds every policy."
        ) from None
    with _rounded(body.matrices if half else []):
        test = self_test(learner, module, steps, layout.reward)
    functions = "\n".join(body.functions)
    return "".join(
        [
            _head(learner, module, layout, body, weights),
            _WEIGHTS[weights],
            functions_for(_WEIGHTS[weights] + functions + step),
            "\n",
            *body.arrays,
            "\n",
            functions,
            _RESET,
            _LOGITS if action.discrete else "",
            step,
            test,
            _END,
        ]
    )


def _head(learner: Learner, step: PolicyStep, layout: Layout, body: Body, weights: CWeights) -> str:
    whole, config = step.layout, learner.config
    fields, discrete = layout.fields(whole), whole.discrete
    entries = step.units.table.shape[1] if isinstance(step.units, Choices) else whole.action
    task = short_name(config.task) or "an own environment"
    return _HEAD.format(
        title=f"A policy for {task}, learned by {config.method} and written by resel.",
        reward_argument="reward, " if layout.reward else "",
        observations=whole.observation,
        reward_line="   reward   of the last step; not read in the first of an episode\n"
        if layout.reward
        else "",
        entries=entries,
        actions_line="int(s), as the environment counts them; resel_logits(&state) has more"
        if discrete
        else "number(s), in the environment's units and within its bounds",
        weights=sum(matrix.numel() for matrix in body.matrices),
        kind=weights,
        ram=4 * (sum(fields.values()) + 1),
        stack=4 * body.stack,
        discrete=int(discrete),
        reads_reward=int(layout.reward),
        choices=f"#define RESEL_CHOICES {whole.action}\n" if discrete else "",
        fields="".join(f"    float {name}[{size}];\n" for name, size in fields.items()),
    )


@contextmanager
def _rounded(matrices: Sequence[Tensor]) -> Iterator[None]:
    """The weights as float16 has them, for as long as this lasts."""
    kept = [matrix.detach().clone() for matrix in matrices]
    try:
        with torch.no_grad():
            for matrix in matrices:
                matrix.copy_(matrix.half())
        yield
    finally:
        with torch.no_grad():
            for matrix, before in zip(matrices, kept, strict=True):
                matrix.copy_(before)
