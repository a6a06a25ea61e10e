"""A trained policy without its trainer: needs NumPy and ONNX Runtime, and the files beside it.

    policy = Policy("folder")
    policy.reset()                      # at the start of every episode
    action = policy.act(observation)    # reward=... too, where policy.json says so

Observations and actions are the environment's own. An observation with a NaN, or far outside of
what the policy was trained on, raises BadObservation and leaves the memory as it was, as does one
that leads to a NaN; Policy("folder", strict=False) only warns of what is far, and acts. A model of
several rows takes as many observations and gives as many actions; reset(row) starts an episode in
one of them.
"""

import hashlib
import json
import math
import pathlib
import warnings
from typing import Any

import numpy as np
import onnxruntime

FORMAT, VERSION = "resel-export", 1


class BadObservation(ValueError):
    """An observation, or a reward, that the policy must not act on."""


class Policy:
    """One step at a time; remembers what has been seen since `reset`."""

    def __init__(
        self,
        folder: Any = pathlib.Path(__file__).parent,
        *,
        rows: int = 1,
        strict: bool = True,
        seed: int | None = None,
    ) -> None:
        folder = pathlib.Path(folder)
        for name in ("policy.json", "policy.onnx"):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"No {name} in {folder}: give a folder of `resel export`.")
        try:
            text = (folder / "policy.json").read_text(encoding="utf-8")
            self.about = about = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{folder / 'policy.json'} was altered or cut off: {error}") from None
        if (about.get("format"), about.get("version")) != (FORMAT, VERSION):
            raise ValueError(
                f"{folder} is not an export of version {VERSION}, which this file reads: use the "
                "policy.py that was written with it, or export again."
            )
        model = (folder / "policy.onnx").read_bytes()
        told, files = dict(about), about.get("files")
        listed = files.get("policy.onnx") if isinstance(files, dict) else None
        if not isinstance(listed, dict):
            raise ValueError(f"{folder / 'policy.json'} does not list its files: it was altered.")
        if hashlib.sha256(model).hexdigest() != listed.get("sha256"):
            raise ValueError(f"{folder / 'policy.onnx'} was altered or cut off: copy it again.")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        del told["files"]
        if self._session.get_modelmeta().custom_metadata_map.get("resel") != json.dumps(told):
            raise ValueError(
                f"{folder / 'policy.json'} is not what policy.onnx says of itself: it was altered, "
                "or the files are of two exports. Copy both again."
            )
        self.rows = rows if about["batch"] == "dynamic" else about["batch"]
        self._strict, self._random = strict, np.random.default_rng(seed)
        limits, end = about["observation"], float(np.finfo(np.float32).max)
        self._low = np.array([-end if x is None else x for x in limits["trained_low"]], np.float32)
        self._high = np.array([end if x is None else x for x in limits["trained_high"]], np.float32)
        largest = about.get("reward_limit")
        self._largest = end if largest is None else largest
        self._observation, self._action = about["observation"]["space"], about["action"]["space"]
        if self._action["type"] == "Box":
            ends = (self._action[end] for end in ("low", "high"))
            self._bounds = [np.array(end, self._action["dtype"]) for end in ends]
        self.reset()

    def reset(self, row: int | None = None) -> None:
        """The start of an episode, in one row or in all."""
        if row is None:
            size = self.about["state"]
            self._h = np.zeros((1, self.rows, size["h_size"]), np.float32)
            self._c = np.zeros((1, self.rows, size["c_size"]), np.float32)
            self._steps = np.zeros(self.rows, np.int64)
            return
        for part in (self._h[0], self._c[0], self._steps):
            part[row] = 0

    def act(self, observation: Any, reward: Any = 0.0) -> Any:
        """The action for an observation; `reward` is that of the last step."""
        about, one = self.about, self.about["batch"] == 1
        if one:
            obs = encode(self._observation, observation)[None]
        elif len(observation) == self.rows:
            obs = np.stack([encode(self._observation, each) for each in observation])
        else:
            raise BadObservation(f"{len(observation)} observations for {self.rows} rows.")
        feed = {"obs": obs, "h_in": self._h}
        if about["state"]["c_size"]:
            feed["c_in"] = self._c
        if "reward" in about["inputs"]:
            last = np.array(reward, np.float32).reshape(-1, 1) * np.ones((self.rows, 1), np.float32)
            feed["reward"] = np.where(self._steps[:, None] > 0, last, np.float32(0))
        self._check(obs, feed.get("reward"))
        if "noise" in about["inputs"]:
            draw = getattr(self._random, about["noise"])
            feed["noise"] = draw(size=(self.rows, about["action"]["size"])).astype(np.float32)
        found = dict(zip(about["outputs"], self._session.run(None, feed), strict=True))
        squares = [float(np.vdot(each, each)) for each in found.values()]
        if not math.isfinite(sum(squares)):  # nor is it with a NaN, or a number above 1e19
            raise BadObservation("This makes the policy's numbers overflow: nothing was done.")
        self._h, self._c = found["h_out"], found.get("c_out", self._c)
        self._steps += 1
        actions = [self._decode(each) for each in found["actions"]]
        return actions[0] if one else np.stack(actions)

    def _check(self, obs: Any, reward: Any) -> None:
        """Refuse what must not reach the memory."""
        far = ~((obs >= self._low) & (obs <= self._high))  # NaN is neither
        wrong = reward is not None and not (np.abs(reward) <= self._largest).all()
        if wrong or far.any():
            if not (np.isfinite(obs).all() and (not wrong or np.isfinite(reward).all())):
                raise BadObservation(
                    f"NaN or infinity in {self._names(~np.isfinite(obs)) or 'the reward'}."
                )
            which, limits = self._names(far) or "the reward", f"up to {self._largest:g}"
            value = np.max(np.abs(reward)) if wrong else 0.0
            for row, i in np.argwhere(far)[:1]:
                value, limits = obs[row, i], f"{self._low[i]:g} to {self._high[i]:g}"
            text = f"{which} far outside of what the policy was trained on: {value:g}, not {limits}"
            if self._strict:
                raise BadObservation(f"{text}. Policy(..., strict=False) acts all the same.")
            warnings.warn(text, stacklevel=3)
        longest = self.about["longest_episode"]
        if longest is not None and self._steps.max() >= longest:
            raise BadObservation(
                f"The policy remembers episodes of {longest} steps at most: reset() it."
            )

    def _decode(self, action: Any) -> Any:
        """The policy's numbers as the environment takes an action."""
        space = self._action
        if space["type"] == "Discrete":
            return int(action[0])
        value = action.astype(space["dtype"]).reshape(space["shape"])
        if space["type"] == "MultiDiscrete":
            return value
        return np.minimum(np.maximum(value, self._bounds[0]), self._bounds[1])

    def _names(self, bad: Any) -> str:
        """The first few of the entries that are bad in some row."""
        known, where = self.about["observation"]["names"], np.flatnonzero(bad.any(0))
        names = [f"obs[{i}]" if known is None else known[i] for i in where]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def encode(space: Any, value: Any) -> Any:
    """An observation as a flat float32 vector: choices one-hot, Tuple and Dict joined in order."""
    kind = space["type"]
    if kind == "Tuple":
        parts = zip(space["spaces"], value, strict=True)
        return np.concatenate([encode(part, each) for part, each in parts])
    if kind == "Dict":
        return np.concatenate([encode(part, value[key]) for key, part in space["spaces"]])
    if kind in ("Discrete", "MultiDiscrete"):
        counts = np.array(space["n"] if kind == "Discrete" else space["nvec"]).reshape(-1)
        given = np.asarray(value)
        if given.dtype.kind not in "iub":
            raise BadObservation(f"{value!r} is no whole number, as {space} has them.")
        index = (given - np.array(space["start"])).reshape(-1)
        if index.shape != counts.shape or (index < 0).any() or (index >= counts).any():
            raise BadObservation(f"{value!r} is not one of the choices of {space}.")
        pairs = zip(counts, index, strict=True)
        return np.concatenate([np.eye(n, dtype=np.float32)[i] for n, i in pairs])
    try:
        array = np.array(value, np.float32)
    except (ValueError, TypeError) as error:
        raise BadObservation(f"{value!r} is not made of numbers: {error}") from None
    if list(array.shape) != space["shape"]:
        raise BadObservation(f"Shape {list(array.shape)} instead of {space['shape']}.")
    return array.reshape(-1)
