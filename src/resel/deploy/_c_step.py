"""The function of C that is one step: what it refuses, computes, gives out and remembers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from resel.deploy._c_body import Body, bracketed
from resel.deploy._c_graph import CannotWriteError, Graph, Read
from resel.deploy._c_operations import write_operation
from resel.deploy._c_text import array, number
from resel.deploy._document import Limits
from resel.deploy._step import Bounds, Choices, PolicyStep, StepLayout
from resel.methods import Learner

_OBSERVATION, _LAST_OBSERVATION, _LAST_ACTION, _REWARD, _MEMORY = range(5)
"""What a step reads, by the number of its operation; the parts of the memory come last."""

_CHECKS = """\
int i;
for (i = 0; i < RESEL_OBSERVATIONS; i++)
    if (resel_not_finite(obs[i])) return RESEL_NOT_FINITE;
for (i = 0; i < RESEL_OBSERVATIONS; i++)
    if (obs[i] < resel_lowest[i] || obs[i] > resel_highest[i]) return RESEL_FAR_OUTSIDE;
"""
_REWARD_CHECK = """\
float last_reward[1] = {{0.0f}}; /* there is none at the start of an episode */
if (state->started) {{
    if (resel_not_finite(reward)) return RESEL_NOT_FINITE;
    if (fabsf(reward) > {largest}) return RESEL_FAR_OUTSIDE;
    last_reward[0] = reward;
}}
"""
_BOX = """\
for (i = 0; i < RESEL_ACTIONS; i++)
    actions[i] = resel_clamp(resel_centre[i] + resel_reach[i] * {source}[i], resel_least[i],
                             resel_most[i]);
"""
_DISCRETE = """\
int best = 0;
for (i = 1; i < RESEL_CHOICES; i++)
    if ({source}[i] > {source}[best]) best = i;
for (i = 0; i < RESEL_ACTIONS; i++) actions[i] = resel_choices[best * RESEL_ACTIONS + i];
memcpy(state->logits, {source}, sizeof state->logits);
"""
_ONE_HOT = "for (i = 0; i < RESEL_CHOICES; i++) state->action[i] = i == best ? 1.0f : 0.0f;\n"


@dataclass(frozen=True)
class Layout:
    """What a policy reads, and so what its state has to hold."""

    observation: bool
    """Whether the last one is read."""
    action: bool
    reward: bool
    memory: tuple[int, ...]
    """Sizes of its parts."""

    @classmethod
    def of(cls, learner: Learner, graph: Graph) -> Layout:
        """That of a policy's step."""
        read = {number for x in graph.needed() for r in x.reads() for number in r.operations()}
        parts = tuple(part[0].numel() for part in learner.evaluation_policy.initial_state(1))
        return cls(_LAST_OBSERVATION in read, _LAST_ACTION in read, _REWARD in read, parts)

    def places(self) -> dict[int, str]:
        """What is read, as C names it, by operation."""
        found = {
            _OBSERVATION: "obs",
            _LAST_OBSERVATION: "state->observation",
            _LAST_ACTION: "state->action",
            _REWARD: "last_reward",
        }
        for part in range(len(self.memory)):
            found[_MEMORY + part] = self.place(part)
        return found

    def place(self, part: int) -> str:
        """Where a part of the memory is."""
        at = sum(self.memory[:part])
        return f"state->memory + {at}" if at else "state->memory"

    def fields(self, whole: StepLayout) -> dict[str, int]:
        """What the state holds: names and sizes."""
        found = {
            "observation": whole.observation if self.observation else 0,
            "action": whole.action if self.action else 0,
            "memory": sum(self.memory),
            "logits": whole.action if whole.discrete else 0,
        }
        return {name: size for name, size in found.items() if size}


def write_step(body: Body, graph: Graph, layout: Layout, step: PolicyStep, limits: Limits) -> str:
    """The whole function; its arrays and functions are left in `body`."""
    discrete = step.layout.discrete
    _units(body, step, limits)
    for operation in graph.needed():
        write_operation(body, operation)
    after = _remembered(body, graph, layout)
    source = bracketed(body.operand(graph.action))
    bad = f"if (resel_not_finite({source}[i])) return RESEL_BAD_STATE;"
    body.loop(step.layout.action, bad)
    ending = (_DISCRETE if discrete else _BOX).format(source=source)
    if layout.action:
        copied = f"memcpy(state->action, {source}, sizeof state->action);\n"
        ending += _ONE_HOT if discrete else copied
    check = _REWARD_CHECK.format(largest=number(limits.reward)) if layout.reward else ""
    lines = check + "\n".join(body.lines) + "\n" + ending
    lines = _CHECKS + lines + "".join(after) + "state->started = 1;\nreturn RESEL_OK;\n"
    kind = "int" if discrete else "float"
    given = "float reward, " if layout.reward else ""
    return (
        "static inline int resel_step(resel_state *state, const float obs[RESEL_OBSERVATIONS],\n"
        f"                             {given}{kind} actions[RESEL_ACTIONS]) {{\n"
        + "".join(f"    {line}\n" for line in lines.splitlines())
        + "}\n\n"
    )


def _units(body: Body, step: PolicyStep, limits: Limits) -> None:
    """What is refused below and above, and the environment's own actions."""
    for name, limit in zip(("resel_lowest", "resel_highest"), limits[:2], strict=True):
        body.arrays.append(array("float", name, np.nan_to_num(np.asarray(limit, np.float32))))
    units = step.units
    if isinstance(units, Choices):
        body.arrays.append(array("int", "resel_choices", units.table.cpu().numpy()))
        return
    assert isinstance(units, Bounds)
    named = {
        "resel_least": units.low,
        "resel_most": units.high,
        "resel_centre": units.centre,
        "resel_reach": units.reach,
    }
    body.arrays += [array("float", name, x.cpu().numpy()) for name, x in named.items()]


def _remembered(body: Body, graph: Graph, layout: Layout) -> list[str]:
    """Statements that put the memory in its place, after all is computed."""
    pairs = list(enumerate(graph.state))
    moved = [(part, read) for part, read in pairs if not _stays(graph, part, read)]
    # All of it is gathered before any of it is written.
    sources = [body.apart(read) for _, read in moved]
    found = [
        f"memcpy({layout.place(part)}, {source}, {layout.memory[part]} * sizeof(float));\n"
        for (part, _), source in zip(moved, sources, strict=True)
    ]
    if layout.observation:
        source = body.apart(graph.observation)
        found.append(f"memcpy(state->observation, {source}, sizeof state->observation);\n")
    return found


def _stays(graph: Graph, part: int, read: object) -> bool:
    """Whether an encoder has put a part of the memory in its place already."""
    if not isinstance(read, Read):
        return False
    runs = read.runs()
    if not runs:
        return True
    writers = [op for op in graph.operations if op.name == "encoder" and op.number == runs[0][0]]
    if not writers:
        return False
    (writer,) = writers
    own = [x for x in writer.args[1:] if x.runs() == [(_MEMORY + part, 0, read.size)]]
    others = [r for x in graph.needed() if x is not writer for r in x.reads()]
    looked_at = [
        number == _MEMORY + part or (number == writer.number and first >= writer.sizes[0])
        for r in (*others, graph.action, graph.observation)
        for number, first, _ in r.runs()
    ]
    if len(own) != 1 or any(looked_at):
        raise CannotWriteError("Something else reads the memory of its encoder, which has no C.")
    return True
