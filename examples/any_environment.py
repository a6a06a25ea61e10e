"""Train on an environment of your own, save the agent, load it and act with it.

No setting but the length of the training is given: the preset `auto` finds the rest.

Run with: python examples/any_environment.py
"""

import gymnasium

from resel import RESeL


def make_env() -> gymnasium.Env:
    """Acrobot that does not see its velocities: put your own environment here."""
    env = gymnasium.make("Acrobot-v1")
    keep = [0, 1, 2, 3]
    return gymnasium.wrappers.TransformObservation(
        env,
        lambda observation: observation[keep],
        gymnasium.spaces.Box(-1.0, 1.0, (len(keep),)),
    )


if __name__ == "__main__":
    steps = 20_000
    agent = RESeL(make_env, seed=1, steps=steps)
    agent.learn(steps, progress_bar=True)
    agent.save("acrobot-agent")

    agent = RESeL.load("acrobot-agent", env=make_env)
    mean, deviation = agent.evaluate(20, seed=7)
    print(f"return over 20 episodes: {mean:.0f} ± {deviation:.0f}")

    env = make_env()
    observation, _ = env.reset(seed=7)
    state, done, total = None, False, 0.0
    while not done:
        action, state = agent.predict(observation, state)  # state is all the memory there is
        observation, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        done = terminated or truncated
    print(f"return of one episode, step by step: {total:.0f}")
