"""How long should random actions be held in an environment? Play it at random and see.

Prints how many episodes end by themselves (in Acrobot: at the goal), and their mean return, for
several values of `noise_hold`: a random action is held for n steps, 1 to that many, as often as
1 / n.

Run with: python examples/held_actions.py
"""

import gymnasium
import numpy as np

EPISODES = 60


def play(env: gymnasium.Env, longest: int, rng: np.random.Generator) -> tuple[bool, float]:
    """One episode of held random actions: whether it ended by itself, and its return."""
    lengths = np.arange(1, longest + 1)
    chances = (1 / lengths) / (1 / lengths).sum()
    env.reset(seed=int(rng.integers(2**31)))
    env.action_space.seed(int(rng.integers(2**31)))
    total = 0.0
    while True:
        action = env.action_space.sample()
        for _ in range(rng.choice(lengths, p=chances)):
            _, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            if terminated or truncated:
                return terminated, total


if __name__ == "__main__":
    env = gymnasium.make("Acrobot-v1")  # put your own environment here
    for longest in (1, 4, 8, 16, 32, 64):
        rng = np.random.default_rng(100)
        ended, returns = zip(*(play(env, longest, rng) for _ in range(EPISODES)), strict=True)
        print(
            f"noise_hold={longest:2}: {sum(ended):2} of {EPISODES} episodes end by themselves, "
            f"mean return {np.mean(returns):.0f}"
        )
