"""Act in several environments at once; `episode_start` resets the memory of single rows.

Run with: python examples/many_environments.py
"""

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from resel import RESeL

if __name__ == "__main__":
    agent = RESeL("CartPole-V-v0", encoder="gru", warmup_steps=200, eval_every=0)
    agent.learn(600)

    envs = gymnasium.make_vec(
        "resel/CartPole-V-v0",
        num_envs=4,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    observations, _ = envs.reset(seed=1)
    state, starts = None, np.ones(4, dtype=bool)
    falls = np.zeros(4, dtype=int)
    for _ in range(200):
        actions, state = agent.predict(observations, state, starts)
        observations, _, terminated, truncated, _ = envs.step(actions)
        falls += terminated
        starts = terminated | truncated  # these rows already show their next episode
    print("falls in 200 steps of each environment:", falls)
