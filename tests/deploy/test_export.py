"""A trained policy in a folder that needs neither resel nor torch."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from exported import config_of
from gymnasium import spaces
from method_cases import small_learner

from resel import Agent, RESeL
from resel.deploy import TOLERANCE, check_export, find_compiler, open_policy, trained_range
from resel.deploy._export import refuse_foreign
from resel.deploy._vectors import Vectors
from resel.envs import CheckedEnv
from resel.errors import (
    ConfigError,
    DamagedFileError,
    DivergedError,
    MissingDependencyError,
    ReselError,
    RunDirectoryError,
)

FILES = {"policy.onnx", "policy.json", "policy.py", "policy.h", "check.npz"}
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no compiler of C here")


def about(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "policy.json").read_text())
    return found


@pytest.mark.parametrize("name", ["box", "discrete"])
def test_an_export_is_what_the_library_does(folders: dict[str, Path], name: str) -> None:
    without = set() if name == "box" else {"policy.h"}  # which draws nothing
    assert {file.name for file in folders[name].iterdir()} == FILES - without
    found = check_export(folders[name], compiles=False)["ONNX Runtime"]
    assert found is not None and found.worst is not None and found.worst <= TOLERANCE
    assert found.steps >= (1000 if name == "box" else 1500)  # near ties are left out
    with np.load(folders[name] / "check.npz") as vectors:
        start = vectors["start"]
    assert len(start) == 1000 and start[0].all() and 3 < start.sum(0).min() < 1000


@needs_compiler
def test_the_header_is_checked_too(folders: dict[str, Path], tmp_path: Path) -> None:
    found = check_export(folders["box"])["C"]
    assert found is not None and found.good and found.steps == 1000
    assert about(folders["box"])["c"] == {"weights": "float32"}
    assert "without noise" in about(folders["discrete"])["c"]["left_out"]
    folder = tmp_path / "export"
    shutil.copytree(folders["box"], folder)
    header = (folder / "policy.h").read_text()
    other, count = re.subn(r"(resel_reach\[2\] = \{\s*)[^,]+", r"\g<1>2.1f", header)
    assert count == 1
    rewrite(folder, "policy.h", other.encode())
    with pytest.raises(DamagedFileError, match=r"in C does not do|With C, the policy"):
        check_export(folder)


def test_a_machine_without_a_compiler(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resel.deploy._header.find_compiler", lambda: None)
    assert check_export(folders["box"])["C"] is None


def rewrite(folder: Path, name: str, data: bytes) -> None:
    """Put another file into an export, as if it had been written so."""
    told = about(folder)
    told["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / name).write_bytes(data)
    (folder / "policy.json").write_text(json.dumps(told))


def test_the_loader_acts_like_predict(agents: dict[str, RESeL], folders: dict[str, Path]) -> None:
    agent, policy = agents["box"], open_policy(folders["box"])
    rng = np.random.default_rng(0)
    for _ in range(3):
        state, reward = None, 5.0  # which is not read in the first step
        policy.reset()
        for _ in range(20):
            seen = rng.normal(size=3)
            wanted, state = agent.predict(seen, state, reward=None if state is None else reward)
            found = policy.act(seen, reward)
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, atol=3e-5)
            reward = float(rng.normal())


def test_rows_and_noise(agents: dict[str, RESeL], folders: dict[str, Path]) -> None:
    policy = open_policy(folders["discrete"], rows=300, seed=1)
    seen = np.tile(np.float32([0.3, 1, 0]), (300, 1))
    actions = policy.act(seen)
    chances = agents["discrete"].actor.observe(
        seen[:1], np.zeros(1, np.float32), agents["discrete"].actor.initial_state(1)
    )[0]
    counts = np.bincount(actions, minlength=4)[1:] / 300  # of the actions 1, 2 and 3
    np.testing.assert_allclose(counts, chances.log_probs.exp().numpy()[0], atol=0.12)
    kept = policy._h.copy()
    policy.reset(7)
    assert not policy._h[0, 7].any() and np.array_equal(policy._h[0, 8], kept[0, 8])
    with pytest.raises(ValueError, match="2 observations for 300 rows"):
        policy.act(seen[:2])


def test_the_loader_needs_numpy_and_onnxruntime_alone(folders: dict[str, Path]) -> None:
    code = """
import sys
for name in ("torch", "gymnasium", "resel", "onnx"):
    sys.modules[name] = None
from policy import Policy
policy = Policy()
print(policy.act([0.1, 0.2, 0.3], 1.0).tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folders["box"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert -2 <= first <= 2 and 0 <= second <= 1


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ([0.0, np.nan, 0.0], r"NaN or infinity in observation\[1\]"),
        ([np.inf, 0.0, np.nan], r"NaN or infinity in observation\[0\], observation\[2\]"),
        ([0.0, 0.0, 1e6], r"observation\[2\] far outside of what .* was trained on: 1e\+06, not -"),
        ("abc", r"'abc'.* is not made of numbers"),
        ([0.0, 0.0], r"Shape \[2\] instead of \[3\]"),
    ],
)
def test_bad_sensors_leave_the_memory_alone(
    folders: dict[str, Path], seen: list[float], message: str
) -> None:
    policy, other = (open_policy(folders["box"]) for _ in range(2))
    for each in (policy, other):
        each.act(np.zeros(3))
    with pytest.raises(ValueError, match=message):
        policy.act(np.array(seen))
    with pytest.raises(ValueError, match="NaN or infinity in the reward"):
        policy.act(np.zeros(3), np.nan)
    assert np.array_equal(policy.act(np.ones(3), 1.0), other.act(np.ones(3), 1.0))


class Overflow:
    """A session that gives what it has, with one number that is not finite."""

    def __init__(self, session: Any, output: int) -> None:
        self._session, self._output = session, output

    def run(self, *given: Any) -> Any:
        found = self._session.run(*given)
        found[self._output].flat[-1] = np.nan
        return found


@pytest.mark.parametrize("output", [0, 1])
def test_an_overflow_leaves_the_memory_alone(folders: dict[str, Path], output: int) -> None:
    policy, other = (open_policy(folders["box"]) for _ in range(2))
    for each in (policy, other):
        each.act(np.zeros(3))
    session, policy._session = policy._session, Overflow(policy._session, output)
    with pytest.raises(ValueError, match="overflow: nothing was done"):
        policy.act(np.ones(3), 1.0)
    policy._session = session
    assert np.array_equal(policy.act(np.ones(3), 1.0), other.act(np.ones(3), 1.0))


def test_rewards_have_a_limit(folders: dict[str, Path]) -> None:
    policy, other = (open_policy(folders["box"], strict=strict) for strict in (True, False))
    limit = about(folders["box"])["reward_limit"]
    assert limit >= 1000 and about(folders["discrete"])["reward_limit"] is None
    policy.act(np.zeros(3), 1e30)  # not read at a start
    with pytest.raises(ValueError, match="the reward far outside"):
        policy.act(np.zeros(3), -1.01 * limit)
    policy.act(np.zeros(3), 0.99 * limit)
    other.act(np.zeros(3))
    with pytest.warns(UserWarning, match="the reward far outside"):
        other.act(np.zeros(3), 1.01 * limit)


@pytest.mark.parametrize("value", [np.nan, 1.0, 0.5, np.array([1.0]), "one", None])
def test_choices_are_whole_numbers(value: Any) -> None:
    from resel.deploy._policy import BadObservation, encode

    spaces_told: list[dict[str, Any]] = [
        {"type": "Discrete", "n": 3, "start": 0},
        {"type": "MultiDiscrete", "nvec": [3], "start": [0]},
    ]
    for told in spaces_told:
        with pytest.raises(BadObservation, match="no whole number"):
            encode(told, value)
        assert encode(told, np.array([1])).tolist() == [0, 1, 0]


def test_a_memory_that_amplifies_rounding_is_checked_all_the_same(tmp_path: Path) -> None:
    """Its episodes in the check are short: after some tens of steps two runtimes differ."""
    agent = Agent.load("zoo:pendulum-v")
    agent.export(tmp_path / "out")
    vectors = Vectors.from_bytes((tmp_path / "out/check.npz").read_bytes(), "")
    assert len(vectors.start) == 1000 and 50 < vectors.start.sum() < 400
    outcome = check_export(tmp_path / "out", compiles=False)["ONNX Runtime"]
    assert outcome is not None and outcome.worst is not None and outcome.worst < 1e-5
    agent.close()


def test_far_observations_may_be_acted_on(folders: dict[str, Path]) -> None:
    policy = open_policy(folders["box"], strict=False)
    with pytest.warns(UserWarning, match=r"observation\[2\] far outside"):
        assert np.isfinite(policy.act(np.array([0.0, 0.0, 1e6]))).all()


def test_what_is_told(agents: dict[str, RESeL], folders: dict[str, Path]) -> None:
    import onnx

    told = about(folders["box"])
    assert told["task"] == "toy/Box-v0" and told["step"] == 45 and told["encoder"] == "mamba"
    assert told["inputs"] == {"obs": [1, 3], "h_in": [1, 1, 181], "reward": [1, 1]}
    assert told["outputs"] == ["actions", "h_out"] and told["noise"] is None
    assert [p["offset"] for p in told["state"]["h"]] == [0, 3, 5, 117]
    assert told["action"]["space"]["low"] == [-2.0, 0.0]
    mean, spread = (getattr(agents["box"].learner.normalizer, n) for n in ("mean", "deviation"))
    np.testing.assert_allclose(
        told["observation"]["trained_high"], mean + 10 * (spread + 1e-6), rtol=1e-5
    )
    model = onnx.load(folders["box"] / "policy.onnx")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(metadata["resel"]) == {k: v for k, v in told.items() if k != "files"}
    assert metadata["observation_names"] == "observation[0],observation[1],observation[2]"
    assert [(o.domain, o.version) for o in model.opset_import if not o.domain] == [("", 18)]
    other = about(folders["discrete"])
    assert other["inputs"]["obs"] == ["batch", 3] and other["noise"] == "gumbel"
    assert other["outputs"] == ["actions", "h_out", "logits"]
    raw = (folders["box"] / "policy.onnx").read_bytes()
    assert str(Path(__file__).parents[2]).encode() not in raw  # of whoever exported it


def test_nothing_but_the_policy_is_in_the_model(
    agents: dict[str, RESeL], folders: dict[str, Path]
) -> None:
    import onnx

    model = onnx.load(folders["box"] / "policy.onnx")
    numbers = sum(int(np.prod(weight.dims)) for weight in model.graph.initializer)
    assert numbers <= 1.1 * sum(p.numel() for p in agents["box"].learner.policy.parameters())


@pytest.fixture
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resel.deploy._export.STEPS", 60)


@pytest.mark.usefixtures("_few_steps")
def test_an_agent_goes_on_after_an_export(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (RESeL("toy/Box-v0", **tiny).learn(40) for _ in range(2))
    layers = one.learner.policy.trunk.context_encoder.rnn.layers  # type: ignore[union-attr]
    weights = list(layers._flat_weights)
    one.export(tmp_path / "export")
    assert all(a is b for a, b in zip(layers._flat_weights, weights, strict=True))
    seen = np.ones(3, np.float32)
    assert np.array_equal(one.predict(seen)[0], other.predict(seen)[0])
    for agent in (one, other):
        agent.learn(20)
    ours, theirs = one.learner.weights(), other.learner.weights()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    monkeypatch.setattr("resel.deploy._export.onnx_model", lambda *_: b"a model")
    monkeypatch.setattr("resel.deploy._export.check_export", lambda *_, **__: {})
    one.export(tmp_path / "export")  # in the place of the old one
    assert about(tmp_path / "export")["step"] == 60


def _truncated(folder: Path) -> None:
    data = (folder / "policy.onnx").read_bytes()
    (folder / "policy.onnx").write_bytes(data[: len(data) // 2])


def _flipped(folder: Path) -> None:
    data = bytearray((folder / "check.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "check.npz").write_bytes(data)


def _told(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "policy.json").write_text(json.dumps({**about(folder), **changes}))

    return change


@pytest.mark.parametrize(
    ("damage", "message", "loads"),
    [
        (_truncated, r"policy.onnx has \d+ bytes instead of", False),
        (_flipped, "check.npz does not match its SHA-256", True),
        (lambda folder: (folder / "policy.onnx").unlink(), "policy.onnx is missing", False),
        (lambda folder: (folder / "policy.json").unlink(), "has no policy.json", False),
        (lambda folder: (folder / "policy.json").write_text("{"), "cannot be read as JSON", False),
        (_told(version=99), "was exported in version 99, but this resel reads 1", False),
        (_told(format="other"), "does not describe a policy that resel exported", False),
        (_told(files={}), "does not list the files of an export", False),
        (_told(noise="gumbel"), "is not what policy.onnx says of itself", False),
    ],
)
def test_damaged_exports(
    folders: dict[str, Path],
    tmp_path: Path,
    damage: Callable[[Path], None],
    message: str,
    loads: bool,
) -> None:
    folder = tmp_path / "export"
    shutil.copytree(folders["box"], folder)
    damage(folder)
    with pytest.raises(ReselError, match=message):
        check_export(folder)
    if not loads:
        with pytest.raises((ValueError, OSError)):
            open_policy(folder)


def test_the_loader_says_what_was_altered(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "export"
    shutil.copytree(folders["box"], folder)
    whole = about(folder)
    limits = {**whole["observation"], "trained_high": [1e9] * 3}
    _told(observation=limits)(folder)
    with pytest.raises(ValueError, match=r"is not what policy.onnx says of itself"):
        open_policy(folder)
    for files in ({}, None, {"policy.onnx": "none"}):
        _told(**{**whole, "files": files})(folder)
        with pytest.raises(ValueError, match="does not list its files"):
            open_policy(folder)
    (folder / "policy.json").write_text("{")
    with pytest.raises(ValueError, match=r"policy.json was altered or cut off"):
        open_policy(folder)


def test_another_policy_is_found_out(folders: dict[str, Path], tmp_path: Path) -> None:
    """As if the runtime of this machine computed something else."""
    folder = tmp_path / "export"
    shutil.copytree(folders["box"], folder)
    with np.load(folder / "check.npz") as file:
        arrays = dict(file)
    arrays["expected_actions"][700] += 1e-3
    np.savez(folder / "check.npz", **arrays)
    rewrite(folder, "check.npz", (folder / "check.npz").read_bytes())
    with pytest.raises(DamagedFileError, match="does not do what it was exported to do"):
        check_export(folder)


def test_a_damaged_export_may_be_replaced_and_nothing_else(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    shutil.copytree(folders["box"], folder)
    told = about(folder)
    (folder / "policy.rs").write_text("")  # of a version to come
    files = {**told["files"], "policy.rs": {}}
    for text in (json.dumps({**told, "version": 99, "files": files}), "{", json.dumps(told)):
        (folder / "policy.json").write_text(text)
        if text == "{":
            (folder / "policy.rs").unlink()
        refuse_foreign(folder)
    (folder / "policy.json").write_text('{"format": "mine"}')
    with pytest.raises(RunDirectoryError, match="no part of an export"):
        refuse_foreign(folder)
    (folder / "policy.json").write_text("{")
    (folder / "check.npz").unlink()
    with pytest.raises(RunDirectoryError, match="no part of an export"):
        refuse_foreign(folder)


def test_what_a_kill_left_is_put_in_order(
    agents: dict[str, RESeL], folders: dict[str, Path], tmp_path: Path, monkeypatch: Any
) -> None:
    shutil.copytree(folders["box"], tmp_path / ".old-there")  # between the two renames
    for name in (".tmp-there-0a1b2c3d", ".tmp-.old-there-0a1b2c3d", ".tmp-other-0a1b2c3d"):
        (tmp_path / name).mkdir()

    def fails(*_: Any) -> None:
        raise DamagedFileError("Later.")

    monkeypatch.setattr("resel.deploy._export._check_finite", fails)
    for _ in range(2):  # a second time with both: the new one was in its place
        with pytest.raises(DamagedFileError, match="Later"):
            agents["box"].export(tmp_path / "there")
        assert {entry.name for entry in tmp_path.iterdir()} == {"there", ".tmp-other-0a1b2c3d"}
        assert about(tmp_path / "there") == about(folders["box"])
        shutil.copytree(folders["discrete"], tmp_path / ".old-there")
    (tmp_path / ".old-there" / "policy.json").unlink()  # whatever it is, no export
    with pytest.raises(DamagedFileError, match="Later"):
        agents["box"].export(tmp_path / "there")
    assert (tmp_path / ".old-there").is_dir()


@pytest.mark.usefixtures("_few_steps")
def test_the_whole_export_or_nothing(
    agents: dict[str, RESeL], folders: dict[str, Path], tmp_path: Path, monkeypatch: Any
) -> None:
    def fails(folder: Path, compiles: bool) -> None:
        assert (folder / "policy.onnx").is_file()
        raise DamagedFileError("It acts differently.")

    monkeypatch.setattr("resel.deploy._export.check_export", fails)
    monkeypatch.setattr("resel.deploy._export.onnx_model", lambda *_: b"a model")
    shutil.copytree(folders["box"], tmp_path / "there")
    before = (tmp_path / "there" / "policy.onnx").read_bytes()
    for name in ("new", "there"):
        with pytest.raises(DamagedFileError, match="differently"):
            agents["box"].export(tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there" / "policy.onnx").read_bytes() == before


def test_what_cannot_be_exported(
    agents: dict[str, RESeL], tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    agent = agents["discrete"]
    with pytest.raises(ConfigError, match="weights='int8' is not known"):
        agent.export(tmp_path / "out", weights="int8")  # type: ignore[arg-type]
    for batch in (0, "many", 1.5, True):
        with pytest.raises(ConfigError, match="neither a number of rows"):
            agent.export(tmp_path / "out", batch=batch)  # type: ignore[arg-type]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(RunDirectoryError, match=r"no part of an export \(thesis.tex\)"):
        agent.export(tmp_path / "mine")
    with pytest.raises(RunDirectoryError, match="is a file"):
        agent.export(tmp_path / "mine" / "thesis.tex")
    broken = RESeL("toy/Box-v0", **tiny)
    next(broken.learner.policy.parameters()).data[0] = torch.nan
    with pytest.raises(DivergedError, match="weights are not finite"):
        broken.export(tmp_path / "out")
    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name == "onnxscript":
            raise ImportError("No module named 'onnxscript'")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(MissingDependencyError, match=r"onnxscript.*pip install 'resel\[export\]'"):
        agent.export(tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


@pytest.mark.usefixtures("_few_steps")
def test_an_agent_of_one_environment_plays_in_it(
    toy: Any, tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("resel.deploy._export.onnx_model", lambda *_: b"a model")
    monkeypatch.setattr("resel.deploy._export.check_export", lambda *_, **__: {})
    agent = RESeL(toy(), **tiny).learn(20)
    agent.export(tmp_path / "export")
    assert about(tmp_path / "export")["task"] is None
    agent.learn(20)  # in a new episode

    def fails(*_: Any) -> None:
        raise DamagedFileError("It cannot be done.")

    monkeypatch.setattr("resel.deploy._export.onnx_model", fails)
    before = len(agent._trainer.buffer)
    with pytest.raises(DamagedFileError, match="cannot be done"):
        agent.export(tmp_path / "export")
    agent.learn(20)
    buffer = agent._trainer.buffer
    assert len(buffer) > before
    for piece in buffer:  # the second number is the time in an episode
        times = buffer.blocks(piece)[0][:, 1]
        assert times.tolist() == list(range(len(times)))


WORLD = """
import gymnasium
from gymnasium import spaces

class World(gymnasium.Env):
    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        self.time += 1
        return self.observation_space.sample() * 0, 0.0, False, self.time == 5, {}
"""


@pytest.mark.usefixtures("_few_steps")
def test_nothing_tells_where_it_was_exported(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    import onnxruntime

    def unknown(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", unknown)  # as of onnxruntime-gpu
    monkeypatch.setattr(
        "resel.deploy._export.onnx_model", lambda *given: json.dumps(given[2]).encode()
    )
    monkeypatch.setattr("resel.deploy._export.check_export", lambda *_, **__: {})
    (tmp_path / "world.py").write_text(WORLD)
    RESeL(f"{tmp_path / 'world.py'}:World", **tiny).export(tmp_path / "export")
    told = about(tmp_path / "export")
    assert told["task"] == "world.py:World"
    assert told["versions"]["onnxruntime"] == onnxruntime.__version__
    for file in (tmp_path / "export").iterdir():
        assert str(tmp_path).encode() not in file.read_bytes(), file


def test_the_versions_of_loader_and_export_agree(folders: dict[str, Path]) -> None:
    from resel.deploy import _document, _policy

    assert (_document.FORMAT, _document.VERSION) == (_policy.FORMAT, _policy.VERSION)


class Camera(gymnasium.Env[Any, Any]):
    """Noise, for nine steps."""

    observation_space = spaces.Box(0, 255, (6, 5, 3), np.uint8)
    action_space = spaces.Box(-1, 1, (1,), np.float64)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return self.observation_space.sample(), 0.0, False, self.time == 9, {}


@pytest.mark.slow
def test_images(tiny: dict[str, Any], tmp_path: Path) -> None:
    agent = RESeL(Camera, **tiny, image_channels=2).learn(45)
    agent.export(tmp_path / "export")
    policy, state = open_policy(tmp_path / "export"), None
    for _ in range(9):
        image = Camera.observation_space.sample()
        wanted, state = agent.predict(image, state)
        found = policy.act(image)
        assert found.dtype == wanted.dtype == np.float64
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_what_is_far() -> None:
    learner, actions = small_learner(config_of("resel", "mlp"), "Discrete"), spaces.Discrete(3)
    assert not learner.normalizer.enabled
    low, high = np.float32([-1, 0, -np.inf]), np.float32([1, 3.4e38, np.inf])
    env = CheckedEnv(World(spaces.Box(low, high), actions))
    seen = np.float32([[0.5, 200, 7], [-1.5, 0, 0]])
    found = trained_range(learner, env, seen, np.float32([0.5, -3]))
    assert found.reward == 3000
    np.testing.assert_allclose(found[0], [-1.5, -200, -70], rtol=1e-6)  # -1.2, but it was seen
    np.testing.assert_allclose(found[1], [1.2, 2000, 70], rtol=1e-6)
    free = CheckedEnv(World(spaces.Box(-np.inf, np.inf, (3,)), actions))
    found = trained_range(learner, free, seen / 100, np.zeros(2, np.float32))
    assert found.high.tolist() == [10.0, 20.0, 10.0] and found.reward == 1000


def test_what_was_trained_on_is_not_far_with_a_normaliser() -> None:
    config = config_of("resel", "mlp", normalize_observations=True)
    learner = small_learner(config, "Discrete")
    often = np.zeros((5000, 3), np.float32)
    often[0, 0] = 1  # a choice that is rare, beside one that was never made, and a wide number
    often[:, 2] = np.linspace(-4, 4, 5000)
    learner.normalizer.count.zero_()
    learner.normalizer.update(often)
    low, high = np.float32([0, 0, -np.inf]), np.float32([1, 1, 3.4e38])
    env = CheckedEnv(World(spaces.Box(low, high), spaces.Discrete(3)))
    found = trained_range(learner, env, often[1:2], np.zeros(1, np.float32))
    cuts = learner.normalizer.limits()
    assert cuts[1][0] < 1 and cuts[1][1] < 1
    assert found.low[1] <= 0 and found.high[:2].tolist() == [1, 1]
    assert (found.low[2], found.high[2]) == (cuts[0][2], cuts[1][2])
    free = CheckedEnv(World(spaces.Box(-np.inf, np.inf, (3,)), spaces.Discrete(3)))
    alone = trained_range(learner, free, often[:1], np.zeros(1, np.float32))
    assert alone.high[0] == 1 and alone.high[1] == cuts[1][1]


class World(gymnasium.Env[Any, Any]):
    """Spaces, and nothing else."""

    def __init__(self, observation: spaces.Box, action: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation, action
