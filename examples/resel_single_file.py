"""RESeL in one file of plain PyTorch, to be read from top to bottom with the paper beside it.

"Efficient Recurrent Off-Policy RL Requires a Context-Encoder-Specific Learning Rate",
https://arxiv.org/abs/2405.15384. RESeL is SAC with the critic ensemble of REDQ. Policy and critic
remember the past with a recurrent context encoder, which learns at a smaller rate than everything
else: a change of its weights moves its outputs more and more along an episode (Section 4.2).

Run it with:  python examples/resel_single_file.py --task Pendulum-V --encoder gru --seed 1
Pendulum-V is the default: swing up a pendulum of which only the angular velocity is seen.

Glossary
    T places of a row      a row is whole episodes one behind the other, without padding
    L steps of an episode  it takes L + 1 places, as the observation after the last step is needed
    N episodes in a row    O observation size       A action size        n_critics heads of a critic
    E embedding size       W width of the encoder   D channels of Mamba  S states per channel
    H width of the heads   K taps of Mamba's convolution                 R rank of its step sizes
    is_first (T,)          the first place of an episode: everything before it is forgotten
    mask (T,)              the place has an action and counts in the losses; off at o_L

The paper writes ô, â, r̂ for the last observation, action and reward and h for the memory; φ, ψ, ψ'
for the weights of policy, critic and target_critic; α for the temperature alpha.
"""

import argparse
import copy
import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Settings:
    """For Pendulum-V; where the paper's differ (Table 2, Appendix D.3), they stand beside."""

    task: str = "Pendulum-V"  # or any Gymnasium id whose observations and actions are vectors
    encoder: str = "gru"  # gru or mamba
    seed: int = 1
    steps: int = 15_000  # of the environment; each is followed by one update
    warmup_steps: int = 1000  # with random actions and without updates; paper: 5000
    buffer_episodes: int = 1000  # the oldest leave first
    batch_size: int = 400  # steps: whole episodes are drawn until it is reached; paper: 1000, 2000
    eval_every: int = 1000
    eval_episodes: int = 10
    lr_context_encoder: float = 3e-4  # LR_CE, of policy and critic; paper: 1e-5, 2e-6
    lr_policy: float = 1e-3  # LR_other of the policy; paper: 3e-4, 6e-5
    lr_critic: float = 3e-3  # LR_other of the critic; paper: 1e-3, 2e-4
    lr_alpha: float = 3e-3  # paper: 1e-4
    gamma: float = 0.96  # paper: 0.99
    tau: float = 0.01  # share of the critic in each soft update of its target; paper: 0.005
    policy_delay: int = 2  # critic updates for one update of policy and temperature
    n_critics: int = 8
    subset_size: int = 2  # heads drawn for the minimum in the target
    target_entropy_scale: float = 1.0  # target entropy = -scale x A
    reward_scale: float = 0.1  # of rewards in the targets; paper: 1
    reward_input: bool = False  # feed the last reward to the context encoder; paper: in meta-RL
    embedding: int = 32  # outputs of each pre-encoder and of the context encoder; paper: 128
    width: int = 64  # of the context encoder; paper: 256
    head_width: int = 64  # of the two hidden layers of policy and critics; paper: 256
    state_size: int = 16  # of Mamba; paper: 64
    conv_kernel: int = 8  # of Mamba


def make_env(task: str) -> gymnasium.Env[Any, Any]:
    """A task with actions from -1 to 1. Pendulum-V shows only the velocity, -P only the angle."""
    masked = {"Pendulum-V": ("Pendulum-v1", [2]), "Pendulum-P": ("Pendulum-v1", [0, 1])}
    name, keep = masked.get(task, (task, None))
    env = gymnasium.make(name)
    if keep is not None:
        seen = gymnasium.spaces.Box(-np.inf, np.inf, (len(keep),))
        env = gymnasium.wrappers.TransformObservation(env, lambda o: o[keep], seen)
    return gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))


class Row(NamedTuple):
    """One or more episodes: the stacked batch of Appendix C.2 and Figure 11, in a single row."""

    observation: Tensor  # (T, O), o_0 .. o_L of each episode, as Eq. (16) extends them
    action: Tensor  # (T, A), zero where mask is off
    reward: Tensor  # (T,), zero where mask is off
    terminated: Tensor  # (T,), 1 at the last step of an episode whose world ended
    is_first: Tensor  # (T,) of bool
    mask: Tensor  # (T,) of bool


class Episode:
    """An episode under way in its environment, and all that has happened in it."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int | None = None) -> None:
        self.env, self.state, self.done, self.terminated = env, None, False, False
        self.observations = [env.reset(seed=seed)[0]]
        self.actions, self.rewards = [0 * env.action_space.sample()], [0.0]  # none yet at o_0

    def step(self, action: Any) -> None:
        observation, reward, self.terminated, truncated, _ = self.env.step(action)
        self.done = self.terminated or truncated
        self.observations.append(observation)
        self.actions[-1:], self.rewards[-1:] = [action, 0 * action], [float(reward), 0.0]

    def row(self, last: int = 0) -> Row:
        """All L + 1 places, or the last ones. A truncated episode is not terminated."""
        L, place = len(self.rewards) - 1, torch.arange(len(self.rewards))[-last:]
        return Row(
            torch.tensor(np.array(self.observations[-last:], np.float32)),
            torch.tensor(np.array(self.actions[-last:], np.float32)),
            torch.tensor(self.rewards[-last:]),
            terminated=(place == L - 1) * float(self.terminated),
            is_first=place == 0,
            mask=place < L,
        )


def sample_row(buffer: deque[Row], batch_size: int, rng: torch.Generator) -> Row:
    """Different random episodes until they hold `batch_size` steps; T is the sum of L + 1."""
    chosen: list[Row] = []
    for index in torch.randperm(len(buffer), generator=rng).tolist():
        if sum(int(episode.mask.sum()) for episode in chosen) < batch_size:
            chosen.append(buffer[index])
    return Row(*(torch.cat(parts) for parts in zip(*chosen, strict=True)))


# Recurrent blocks: x (T, W) to (T, W), with no memory across is_first. A row goes on from `state`:
# when acting, T is 1 and the state carries the memory from step to step.
class GRU(nn.Module):
    """torch's GRU; `with_gradients` goes back through time twice as fast as autograd would."""

    def __init__(self, cfg: Settings) -> None:
        super().__init__()
        self.gru = nn.GRU(cfg.width, cfg.width)

    def forward(self, x: Tensor, is_first: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        lengths = np.diff(sorted({0, *is_first.nonzero().flatten().tolist(), len(x)})).tolist()
        h = x.new_zeros(1, len(lengths), x.shape[1])  # (1, N, W)
        if state is not None and not is_first[0]:
            h[0, 0] = state
        with torch.no_grad():  # all states, with the episodes side by side
            y, _ = self.gru(nn.utils.rnn.pad_sequence([*torch.split(x, lengths)]), h)
            y = torch.cat([y[:length, n] for n, length in enumerate(lengths)])  # (T, W)
        return (self.with_gradients(x, y, is_first) if torch.is_grad_enabled() else y), y[-1]

    def with_gradients(self, x: Tensor, y: Tensor, is_first: Tensor) -> Tensor:
        """y of all places of a batch at once, each from the state before it, for its gradients."""
        w_x, w_h, b_x, b_h = self.gru.all_weights[0]
        h = y.roll(1, 0).masked_fill(is_first[:, None], 0)  # (T, W), the state before
        gates_x, gates_h = F.linear(x, w_x, b_x), F.linear(h, w_h, b_h)  # (T, 3W) each
        (x_r, x_z, x_n), (h_r, h_z, h_n) = gates_x.chunk(3, -1), gates_h.chunk(3, -1)  # (T, W)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        y = (1 - z) * torch.tanh(x_n + r * h_n) + z * h
        # A channel of y depends on its own gates only, so that the sum gives all slopes at once.
        slopes = torch.autograd.grad(y.sum(), gates_h, retain_graph=True)[0]  # (T, 3W)

        def through_time(grad: Tensor) -> Tensor:  # (T, W); y_{t-1} acts on y_t, too: as its state
            g, s, c, w = (v.detach().numpy() for v in (grad.clone(), slopes, z, w_h))
            for t in (~is_first).nonzero().flatten().flip(0).tolist():
                g[t - 1] += c[t] * g[t] + (np.tile(g[t], 3) * s[t]) @ w
            return torch.from_numpy(g)

        y.register_hook(through_time)  # type: ignore[no-untyped-call]
        return y


class Mamba(nn.Module):
    """Mamba and the feed-forward network behind it, Appendix D.3."""

    def __init__(self, cfg: Settings) -> None:
        super().__init__()
        W, D, S, R = cfg.width, 2 * cfg.width, cfg.state_size, math.ceil(cfg.width / 16)
        self.K, self.sizes = cfg.conv_kernel, [R, S, S]
        self.norm, self.post_norm = nn.RMSNorm(W, eps=1e-8), nn.LayerNorm(W, eps=1e-8)
        self.in_proj, self.out_proj = nn.Linear(W, 2 * D, bias=False), nn.Linear(D, W, bias=False)
        self.conv1d = nn.Linear(self.K, D)  # holds the K taps of each channel
        self.x_proj, self.dt_proj = nn.Linear(D, R + 2 * S, bias=False), nn.Linear(R, D)
        self.A_log = nn.Parameter(torch.arange(1.0, S + 1).log().repeat(D, 1))
        self.D = nn.Parameter(torch.ones(D))
        self.up, self.down = nn.Linear(W, W), nn.Linear(W, W)
        delta = 0.001 * 100 ** torch.rand(D)  # log-uniform from 0.001 to 0.1
        self.dt_proj.bias.data = delta + torch.log(-torch.expm1(-delta))  # softplus gives delta

    def forward(self, x: Tensor, is_first: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        K, place = self.K, torch.arange(len(x))
        past, h = state or (x.new_zeros(K - 1, len(self.D)), self.A_log * 0)  # (K - 1, D), (D, S)
        u, z = self.in_proj(self.norm(x)).chunk(2, -1)  # (T, D) each
        # The convolution; other episodes do not enter, which the paper achieves with zeros between.
        window = torch.cat([past, u]).unfold(0, K, 1)  # (T, D, K), the newest last
        age = place - torch.where(is_first, place, -K).cummax(0).values  # (T,), since is_first
        window = window * (age[:, None, None] >= torch.arange(K).flip(0))
        u = F.silu((window * self.conv1d.weight).sum(-1) + self.conv1d.bias)  # (T, D)
        # Eq. (23); delta, B and C depend on the input. B-bar is delta B, as in Mamba's own code.
        rank, B, C = self.x_proj(u).split(self.sizes, -1)  # (T, R), (T, S), (T, S)
        delta = F.softplus(self.dt_proj(rank))  # (T, D)
        A_bar = torch.exp(delta[..., None] * -self.A_log.exp())  # (T, D, S)
        B_bar_u = (delta * u)[..., None] * B[:, None]  # (T, D, S)
        hs = []
        for first, a, b in zip(is_first.tolist(), A_bar, B_bar_u, strict=True):
            hs.append(h := b if first else a * h + b)  # (D, S)
        y = (torch.stack(hs) * C[:, None]).sum(-1) + self.D * u  # (T, D)
        x = x + self.out_proj(y * F.silu(z))  # (T, W)
        x = self.post_norm(x + self.down(F.gelu(self.up(x))))
        return x, (window[-1, :, 1:].t(), h)


class EnsembleMLP(nn.Module):
    """n MLPs of two hidden layers, computed together: (T, inputs) to (n, T, outputs)."""

    def __init__(self, n: int, inputs: int, H: int, outputs: int) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for i, o in ((inputs, H), (H, H), (H, outputs)):
            self.weights.append(math.sqrt(6 / (i + o)) * (2 * torch.rand(n, i, o) - 1))  # Xavier
            self.biases.append(torch.zeros(n, 1, o))

    def forward(self, x: Tensor) -> Any:
        (w1, w2, w3), (b1, b2, b3) = self.weights, self.biases
        return F.elu(F.elu(x @ w1 + b1) @ w2 + b2) @ w3 + b3


class Recurrent(nn.Module):
    """The parts that policy and critic both have (Section 4.1, Figure 2 and Appendix D.3)."""

    def __init__(self, obs_dim: int, act_dim: int, cfg: Settings) -> None:
        super().__init__()
        E, W = cfg.embedding, cfg.width
        sizes = [obs_dim, obs_dim, act_dim, 1][: 4 if cfg.reward_input else 3]
        self.pre_encoders = nn.ModuleList(nn.Linear(size, E) for size in sizes)
        rnn = {"gru": GRU, "mamba": Mamba}[cfg.encoder](cfg)
        self.context_encoder = nn.ModuleList([nn.Linear(len(sizes) * E, W), rnn, nn.Linear(W, E)])
        self.observation = nn.Linear(obs_dim, E)  # a second embedding of o, beside the context

    def context(self, inputs: list[Tensor], is_first: Tensor, state: Any = None) -> tuple[Any, Any]:
        parts = [encode(x) for encode, x in zip(self.pre_encoders, inputs, strict=False)]
        before, rnn, after = self.context_encoder
        x = F.elu(before(torch.cat(parts, -1)))  # (T, 3E or 4E) to (T, W)
        y, state = rnn(x, is_first, state)
        return after(F.elu(y)), state  # (T, E)


class Policy(Recurrent):
    """Mean and log deviation of a Gaussian; an action is the tanh of a draw from it."""

    def __init__(self, obs_dim: int, act_dim: int, cfg: Settings) -> None:
        super().__init__(obs_dim, act_dim, cfg)
        self.head = EnsembleMLP(1, 2 * cfg.embedding, cfg.head_width, 2 * act_dim)

    def forward(self, inputs: list[Tensor], is_first: Tensor, state: Any = None) -> tuple[Any, ...]:
        context, state = self.context(inputs, is_first, state)
        x = torch.cat([self.observation(inputs[0]), context], -1)  # (T, 2E)
        log_std, mean = self.head(x)[0].chunk(2, -1)  # (T, A) each
        return mean, log_std.clamp(-20, 2), state


def sample_action(mean: Tensor, log_std: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """An action and its log probability, Eq. (12)."""
    noise = torch.randn(mean.shape, generator=rng, dtype=mean.dtype)
    raw = mean + log_std.exp() * noise
    log_normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    log_slope = 2 * (math.log(2) - raw - F.softplus(-2 * raw))  # of tanh: log(1 - tanh(raw)^2)
    return torch.tanh(raw), (log_normal - log_slope).sum(-1)  # (T, A), (T,)


class Critic(Recurrent):
    """n_critics values of an action, Eq. (14)."""

    def __init__(self, obs_dim: int, act_dim: int, cfg: Settings) -> None:
        super().__init__(obs_dim, act_dim, cfg)
        self.action = nn.Linear(act_dim, cfg.embedding)
        self.heads = EnsembleMLP(cfg.n_critics, 3 * cfg.embedding, cfg.head_width, 1)

    def forward(self, inputs: list[Tensor], action: Tensor, context: Tensor) -> Any:
        parts = [self.observation(inputs[0]), self.action(action), context]
        return self.heads(torch.cat(parts, -1))[..., 0]  # (T, 3E) to (n_critics, T)


def make_optimizer(network: Recurrent, lr_ce: float, lr_other: float) -> torch.optim.AdamW:
    """The context-encoder-specific one of line 1: pre-encoders and heads learn at LR_other."""
    encoder = set(network.context_encoder.parameters())
    other = [p for p in network.parameters() if p not in encoder]
    groups = [{"params": [*encoder], "lr": lr_ce}, {"params": other, "lr": lr_other}]
    return torch.optim.AdamW(groups, weight_decay=0.0)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


class Agent(nn.Module):
    """Networks, optimizers and temperature; the lines named below are those of Algorithm 1."""

    def __init__(self, obs_dim: int, act_dim: int, cfg: Settings) -> None:
        super().__init__()
        self.cfg, self.updates, self.rng = cfg, 0, torch.Generator().manual_seed(cfg.seed)
        self.policy, self.critic = Policy(obs_dim, act_dim, cfg), Critic(obs_dim, act_dim, cfg)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.zeros(()))
        self.target_entropy = -cfg.target_entropy_scale * act_dim
        self.policy_optimizer = make_optimizer(self.policy, cfg.lr_context_encoder, cfg.lr_policy)
        self.critic_optimizer = make_optimizer(self.critic, cfg.lr_context_encoder, cfg.lr_critic)
        self.alpha_optimizer = torch.optim.AdamW([self.log_alpha], cfg.lr_alpha, weight_decay=0.0)
        self.mean, self.std = torch.zeros(obs_dim), torch.ones(obs_dim)  # of observations

    def inputs(self, row: Row) -> list[Tensor]:
        """o (T, O), ô (T, O), â (T, A), r̂ (T, 1); without a past, at is_first, the last are 0."""
        o = ((row.observation - self.mean) / (self.std + 1e-6)).clamp(-10, 10)
        past = [x.roll(1, 0) for x in (o, row.action, row.reward[:, None])]  # x_{t-1} at place t
        return [o, *(x.masked_fill(row.is_first[:, None], 0) for x in past)]

    def update(self, row: Row) -> None:
        """Learn once from a row, lines 20 to 26."""
        cfg, critic, target_critic = self.cfg, self.critic, self.target_critic
        inputs, alpha = self.inputs(row), self.log_alpha.detach().exp()
        mask, n = row.mask, row.mask.sum()  # (mask * x).sum() / n is mask_mean of Appendix C.2
        learns_policy = self.updates % cfg.policy_delay == 0
        self.updates += 1
        with torch.set_grad_enabled(learns_policy):  # for the target and for the policy's loss
            mean, log_std, _ = self.policy(inputs, row.is_first)  # (T, A) each

        with torch.no_grad():  # the target y, Eq. (17) and (18)
            subset = torch.randperm(cfg.n_critics, generator=self.rng)[: cfg.subset_size]
            action, log_prob = sample_action(mean, log_std, self.rng)
            context, _ = target_critic.context(inputs, row.is_first)
            q = target_critic(inputs, action, context)[subset]  # (subset_size, T)
            value = (q.min(0).values - alpha * log_prob).roll(-1)  # (T,), of the next place
            y = cfg.reward_scale * row.reward + cfg.gamma * (1 - row.terminated) * value

        context, _ = critic.context(inputs, row.is_first)
        q = critic(inputs, row.action, context)  # (n_critics, T)
        descend(self.critic_optimizer, (mask * (q - y).square()).sum() / n)  # Eq. (19)
        with torch.no_grad():
            for old, new in zip(target_critic.parameters(), critic.parameters(), strict=True):
                old.lerp_(new, cfg.tau)

        if learns_policy:
            with torch.no_grad():  # the context does not depend on the action
                context, _ = critic.context(inputs, row.is_first)
            action, log_prob = sample_action(mean, log_std, self.rng)
            q = critic(inputs, action, context).mean(0)  # (T,)
            descend(self.policy_optimizer, (mask * (alpha * log_prob - q)).sum() / n)  # Eq. (20)
            entropy = -(mask * log_prob.detach()).sum() / n
            descend(self.alpha_optimizer, self.log_alpha * (entropy - self.target_entropy))

    @torch.no_grad()
    def act(self, episode: Episode, *, explore: bool) -> Any:
        """The next action of an episode, whose state moves on (line 8)."""
        row = episode.row(last=2)
        inputs = [x[-1:] for x in self.inputs(row)]  # T = 1
        mean, log_std, episode.state = self.policy(inputs, row.is_first[-1:], episode.state)
        action = sample_action(mean, log_std, self.rng)[0] if explore else torch.tanh(mean)
        return action[0].numpy()  # (A,)


def evaluate(agent: Agent, env: gymnasium.Env[Any, Any], episodes: int) -> float:
    """Mean return of the policy without noise; each evaluation plays the same episodes."""
    total = 0.0
    for number in range(episodes):
        episode = Episode(env, seed=10_000 + number)
        while not episode.done:
            episode.step(agent.act(episode, explore=False))
        total += sum(episode.rewards)
    return total / episodes


def train(cfg: Settings) -> list[float]:
    """Algorithm 1; returns the evaluations."""
    torch.manual_seed(cfg.seed)  # of the first weights
    env, eval_env = make_env(cfg.task), make_env(cfg.task)
    env.action_space.seed(cfg.seed)
    episode, buffer = Episode(env, cfg.seed), deque[Row](maxlen=cfg.buffer_episodes)
    agent = Agent(len(episode.observations[0]), len(episode.actions[0]), cfg)
    evaluations, begun = [], time.monotonic()
    for step in range(1, cfg.steps + 1):
        action = agent.act(episode, explore=True)
        episode.step(action if step > cfg.warmup_steps else env.action_space.sample())
        if episode.done:  # lines 13 to 18
            buffer.append(episode.row())
            seen = torch.cat([row.observation for row in buffer])  # (places in all, O)
            agent.mean, agent.std = seen.mean(0), seen.std(0, correction=0)
            episode = Episode(env)
        if step >= cfg.warmup_steps and buffer:
            agent.update(sample_row(buffer, cfg.batch_size, agent.rng))  # line 19
        if step % cfg.eval_every == 0:
            evaluations.append(evaluate(agent, eval_env, cfg.eval_episodes))
            minutes = (time.monotonic() - begun) / 60
            print(f"step {step}  minutes {minutes:.1f}  return {evaluations[-1]:.1f}", flush=True)
    return evaluations


if __name__ == "__main__":
    torch.set_num_threads(1)  # networks this small gain nothing from more
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    for name in ("task", "encoder", "steps", "seed"):
        parser.add_argument(f"--{name}", type=type(getattr(Settings, name)))
    train(Settings(**vars(parser.parse_args())))
