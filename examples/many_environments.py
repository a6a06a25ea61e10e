"""Act in several environments at once; `AutoresetHelper` says where episodes begin.

Run with: python examples/many_environments.py
"""

import gymnasium
import numpy as np

from resel import AutoresetHelper, RESeL

if __name__ == "__main__":
    agent = RESeL("CartPole-V-v0", encoder="gru", warmup_steps=200, eval_every=0)
    agent.learn(600)

    # Any autoreset mode will do; this is Gymnasium's default.
    envs = gymnasium.make_vec("resel/CartPole-V-v0", num_envs=4, vectorization_mode="sync")
    play = AutoresetHelper(envs)
    observations, state = play.reset(seed=1), None
    falls = np.zeros(4, dtype=int)
    for _ in range(200):
        actions, state = agent.predict(observations, state, play.starts)
        observations, _, terminated, _, _ = play.step(actions)
        falls += terminated
    print("falls in 200 steps of each environment:", falls)
