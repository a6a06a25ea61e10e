"""A trained policy as a folder that needs neither resel nor torch: written whole or not at all.

policy.onnx   one step; see `_step`
policy.json   spaces, layout of the state, versions, and the hashes of the other files
check.npz     steps to run again on another machine
policy.py     a loader for NumPy and ONNX Runtime
policy.h      the same step in C, where there is C for it
"""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import numpy as np

from resel.choices import CWeights
from resel.deploy._check import HEADER, check_export, files_of, is_export
from resel.deploy._document import Batch, Origin, describe_policy, longest_episode, trained_range
from resel.deploy._header import header_of
from resel.deploy._onnx import check_extra, onnx_model
from resel.deploy._step import PolicyStep
from resel.deploy._vectors import STEPS, expected, played
from resel.envs import AnyEnv
from resel.errors import ConfigError, DivergedError, RunDirectoryError
from resel.methods import Learner
from resel.runs import settle, whole_directory, write_file, writing

_ROWS_CHECKED = 2
"""Where any number will do."""


def export_policy(
    path: str | os.PathLike[str],
    learner: Learner,
    env: AnyEnv,
    step: int | None = None,
    *,
    batch: Batch = 1,
    stochastic: bool = False,
    weights: CWeights = "float32",
) -> dict[str, Any]:
    """Write a learner's policy to a folder, and run its check there; what policy.json says.

    The policy plays some episodes in `env`. An export that is already there is replaced. `weights`
    are those of the policy in C.
    """
    if weights not in get_args(CWeights):
        raise ConfigError(f"weights={weights!r} is not known: it is float32 or float16.")
    if batch != "dynamic" and (type(batch) is not int or batch < 1):
        raise ConfigError(f"batch={batch!r} is neither a number of rows, 1 or more, nor 'dynamic'.")
    module = PolicyStep(learner, env.action, stochastic=stochastic)
    check_extra()
    target = Path(path).resolve()
    with writing(f"{target} could not be looked at", "Check its permissions."):
        settle(target, is_export)
    refuse_foreign(target)
    _check_finite(learner)
    origin = Origin(learner, env, step)
    episodes = played(learner, env, STEPS, longest_episode(learner))
    rows = _ROWS_CHECKED if batch == "dynamic" else batch
    vectors = expected(learner, module, episodes, rows)
    seen, rewards = (np.concatenate(each) for each in zip(*episodes, strict=True))
    limits = trained_range(learner, env, seen, rewards)
    header, in_c = header_of(learner, env, vectors, limits, weights)
    document = {**describe_policy(origin, module.layout, batch, limits), "c": in_c}
    files = {
        "policy.onnx": onnx_model(module, batch, document),
        "check.npz": vectors.to_bytes(),
        "policy.py": resources.files("resel.deploy").joinpath("_policy.py").read_bytes(),
    }
    if header is not None:
        files[HEADER] = header.encode()
    with (
        writing(
            f"The policy could not be exported to {target}",
            "Nothing half written is left in its place; check free space and permissions, then "
            "export again.",
        ),
        whole_directory(target) as folder,
    ):
        entries = {name: write_file(folder / name, [data]) for name, data in files.items()}
        hashes = {name: {"size": size, "sha256": sha} for name, (size, sha) in entries.items()}
        whole = {**document, "files": hashes}
        text = json.dumps(whole, indent=1, allow_nan=False) + "\n"
        write_file(folder / "policy.json", [text.encode()])
        check_export(folder, compiles=False)
    return whole


def refuse_foreign(path: Path) -> None:
    """Leave alone whatever is not an export."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    remedy = "Nothing was changed; choose another folder or move it away."
    if not path.is_dir():
        raise RunDirectoryError(f"{path} is a file and will not be replaced by a folder. {remedy}")
    foreign = sorted({entry.name for entry in path.iterdir()} - files_of(path))
    if foreign:
        raise RunDirectoryError(
            f"{path} holds files that are no part of an export ({', '.join(foreign[:3])}) and will "
            f"not be replaced. {remedy}"
        )


def _check_finite(learner: Learner) -> None:
    """Refuse weights that training has spoilt; what they do would depend on the machine."""
    for name, weight in learner.acting_weights().items():
        if not bool(weight.isfinite().all()):
            raise DivergedError(
                f"The policy's weights are not finite ({name}): training has diverged, and there "
                "is nothing to export. Take an earlier agent."
            )
