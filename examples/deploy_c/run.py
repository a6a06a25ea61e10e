"""Drive an environment from C: train, export, compile, and play over a pipe.

Run with: python examples/deploy_c/run.py            # trains for some minutes
          python examples/deploy_c/run.py RUN        # takes a run, or a saved agent
It plays the same episodes as `resel eval --episodes 3`, and their return is the same.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from resel import Agent, RESeL
from resel.training import evaluate, evaluation_seeds

HERE = Path(__file__).parent
EPISODES = 3


class PolicyInC:
    """The compiled policy, in a process of its own."""

    def __init__(self, export: Path, program: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            sys.exit("There is no compiler of C here: install gcc or clang.")
        flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-pedantic", f"-I{export}"]
        subprocess.run([compiler, *flags, "-o", program, HERE / "drive.c", "-lm"], check=True)
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def reset(self) -> None:
        """At the start of every episode."""
        self._send("reset")

    def act(self, observation: Any, reward: float) -> list[float]:
        """The action, as the environment takes it."""
        numbers = [*np.asarray(observation, np.float32).reshape(-1).tolist(), reward]
        self._send(" ".join(map(repr, numbers)))
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if answer.startswith("refused") or not answer:
            raise ValueError(f"The policy does not act on {observation}: {answer}")
        return [float(word) for word in answer.split()]

    def close(self) -> None:
        """End the process, as its input ends."""
        self._process.communicate()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def play(env: Any, policy: PolicyInC, seed: int) -> float:
    """The return of one episode."""
    observation, _ = env.reset(seed=seed)
    policy.reset()
    total, reward, ended = 0.0, 0.0, False
    while not ended:
        action = policy.act(observation, reward)
        if isinstance(env.action_space, gymnasium.spaces.Discrete):
            given: Any = int(action[0])
        else:
            given = np.asarray(action, env.action_space.dtype).reshape(env.action_space.shape)
        observation, reward, terminated, truncated, _ = env.step(given)
        reward, ended = float(reward), terminated or truncated
        total += reward
    return total


def compare(agent: Agent, folder: Path) -> tuple[float, float]:
    """The mean return in C, and that of the library in the same episodes."""
    seeds = evaluation_seeds(1, EPISODES)
    agent.export(folder / "policy")
    policy = PolicyInC(folder / "policy", folder / "drive")
    checked = agent.make_evaluation_env()  # with the task's arguments
    try:
        in_c = [play(checked.env, policy, seed) for seed in seeds]
        return float(np.mean(in_c)), evaluate(agent.actor, checked, seeds).return_mean
    finally:
        policy.close()
        checked.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        trained = Agent.load(sys.argv[1])
    else:
        trained = RESeL("Pendulum-V-v0", size="tiny", eval_every=0)
        trained.learn(6_000, progress_bar=True)
    with tempfile.TemporaryDirectory() as place:
        in_c, in_library = compare(trained, Path(place))
    print(f"return over {EPISODES} episodes: {in_c:.4f} in C, {in_library:.4f} in the library")
