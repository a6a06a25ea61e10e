"""Settings as typed keywords, for editors and type checkers.

Written by `python docs/write_keywords.py` from the dataclasses, which are the source: a test
compares. The meaning of each is there, and in `resel methods --show NAME`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict


class LoopKeywords(TypedDict, total=False):
    """Settings of the loop, which all methods have."""

    steps: int
    """Environment steps in all."""
    seed: int
    """Seed of every random stream of the run."""
    init_from: str | None
    """Begin with the weights of this run or saved agent, as far as they fit; all else is new."""
    warmup_steps: int
    """Steps with uniformly random actions before learning starts."""
    updates_per_step: float
    """Updates for each environment step, a fraction or above 1."""
    lr_final_scale: float
    """From the middle of the training on, the learning rates of the networks fall in a straight
    line, to this share of themselves at its end."""
    exploration_epsilon: float
    """Discrete actions: each exploring episode draws a strength between 0 and this, and begins a
    random action with that probability at each of its steps, to be held as `noise_hold` says."""
    deviation_episodes: float
    """Discrete actions: the share of exploring episodes that are greedy but for one random action,
    at a step drawn from the length of the episode before."""
    critic_episodes: float
    """Discrete actions: the share of exploring episodes that follow one head of the critic, drawn
    for the episode, in the place of the policy: exp(Q / alpha), which the policy learns to be."""
    exploration_fraction: float | None
    """Share of the training in which exploration falls to nothing: a growing share of the episodes
    is greedy, and from there on all are. None explores to the end."""
    noise_hold: int
    """Exploration noise of Box actions, and all random actions, are kept for 1 to this many steps,
    n of them with a probability in proportion to 1 / n."""
    buffer_steps: int
    """Capacity of the replay buffer; the oldest whole episodes leave first."""
    num_envs: int
    """Environments stepped together; updates are due for the steps of each."""
    env_kwargs: dict[str, Any]
    """Arguments of the environment, as in `length=40`; the word seed stands for the run's seed."""
    max_episode_steps: int | None
    """Cut episodes (as truncation) after this many steps; None keeps the environment's own limit,
    or cuts after 10,000 where it has none, and never lets one outgrow the buffer."""
    env_workers: bool
    """Run every environment in a process of its own, all of them stepping at the same time; one
    that crashes or hangs is then noticed. The results are the same."""
    env_vector: bool
    """Step all environments at once, in the vectorised version that the task is registered with
    (vector_entry_point). Its episodes have no seeds of their own, so a resumed run is not exact."""
    env_timeout: float
    """With env_workers, and in evaluations with eval_parallel: seconds that a reset or step may
    take."""
    env_restarts: int
    """How many times in a run an environment that failed is made anew, dropping its unfinished
    episode, before the run stops."""
    eval_every: int
    """Environment steps between evaluations; 0 evaluates only at the end."""
    eval_episodes: int
    """Episodes per evaluation, with the deterministic policy and fixed seeds."""
    eval_parallel: bool
    """Play evaluations in a process of its own while learning goes on; pays with a core to spare.
    The results are the same."""
    stop_return: float | None
    """End the training once three evaluations in a row reach this return."""
    checkpoint_every: int
    """Environment steps between checkpoints; 0 leaves it to checkpoint_minutes and the end."""
    checkpoint_minutes: float
    """Minutes after which a checkpoint is due in any case; 0 leaves it to checkpoint_every. The
    results do not depend on it."""
    log_every: int
    """Environment steps between `train` lines in metrics.jsonl."""
    on_divergence: Literal["stop", "rollback"]
    """What a run does that has diverged: stop, which is a result as in the paper, or go back to its
    last good checkpoint and draw other batches from there, twice at most."""
    device: str
    """auto, cpu or cuda (cuda:1 and so on)."""
    threads: int
    """CPU threads; 0 takes one below the paper's width, all cores from there on. A run that goes on
    keeps the number it has."""
    disk_tries: int
    """Tries of a write that the disk refuses, as when it is full, before the run gives up."""
    disk_wait: float
    """Seconds before the second of these tries; each further pause is twice as long."""


class RESeLKeywords(LoopKeywords, total=False):
    """Settings of RESeL with any encoder."""

    encoder: str | None
    """The context encoder, by name; None for a method without one."""
    lr_context_encoder: float | Literal["auto"] | None
    """Learning rate of the context encoders (LR_CE) of policy and critic; `auto` steers it until
    steps of the encoders alone move the outputs as much as steps of the other layers, None takes
    LR_other."""
    auto_lr_start: float | None
    """Where an automatic LR_CE starts; None takes 0.03 of that of the other layers."""
    lr_scope: Literal["encoder", "rnn"]
    """What LR_CE covers: the whole context encoder, or its recurrent layers alone."""
    critic_observations: Callable[[Any], Any] | str | None
    """What the critic alone reads at each step, beside the history: entries of `info` (hidden), of
    a Dict observation (obs:velocity, which the policy then does not see), several with commas;
    `task` takes what a task of ours names. In Python also a function of the environment."""
    lr_policy: float
    """Learning rate of everything else in the policy (LR_other)."""
    lr_critic: float
    """Learning rate of everything else in the critic (LR_other)."""
    lr_alpha: float
    """Learning rate of log alpha."""
    batch_steps: int
    """Whole trajectories are drawn until a batch holds at least this many steps."""
    context_length: int | None
    """Train on random windows of this many steps instead of whole trajectories."""
    gamma: float
    """Discount."""
    target_entropy_scale: float | None
    """Target entropy = -scale x action size (Box) or scale x log(actions) (Discrete); None means 1
    for Box and 0.2 for Discrete."""
    entropy_half_life: int | None
    """Discrete: updates in which the target entropy falls to a half, again and again; None keeps
    it."""
    critic_entropy: bool
    """Whether the policy's entropy is part of the critic's target; it always is of the policy's
    loss."""
    policy_kl: Literal["reverse", "forward"]
    """Discrete: how the policy is drawn towards softmax(Q / alpha): SAC's own divergence, or the
    forward one, from which an action that the policy has given up can come back."""
    alpha: float | None
    """Keep the temperature at this value; None tunes it to the target entropy."""
    td_lambda: float
    """How much of what came after an action its target heeds: 0 the next value alone, near 1 the
    whole rest of the trajectory. What is far away is then learned in fewer updates."""
    n_critics: int
    """Critic heads in the ensemble."""
    subset_size: int
    """Critic heads drawn for the minimum in the target."""
    tau: float
    """Share of the critic that its target takes over at each soft update."""
    policy_delay: int
    """Critic updates per update of policy and temperature."""
    reward_scale: float
    """Rewards are multiplied by this in the targets; reported returns are not."""
    normalize_rewards: bool
    """Also divide them by the running deviation of discounted returns."""
    normalize_observations: bool
    """Scale observations by their running mean and deviation, saved with the agent."""
    clamp_target_values: bool
    """Keep the next value inside the slowly moving range of past targets (the released code's
    QValueGuard, which the paper does not mention but whose numbers were made with it)."""
    released_details: bool
    """Do as the released code where the paper is silent: decay and cap of log alpha, the rule by
    which a batch is full, the first bounds of the clamp, a random first state when exploring."""
    image_channels: int
    """Observations that are images: channels of the first of two convolutions, of which the second
    has twice as many; 0 reads an image as a vector."""
    image_kernel: int
    """Observations that are images: height and width of a convolution; 0, with image_stride=0,
    suits the size of each image."""
    image_stride: int
    """Observations that are images: pixels from one place of a convolution to the next."""
    image_features: int
    """Observations that are images: what is made of one, in the place of a vector."""
    embedding: int
    """Outputs of each pre-encoder and of the context encoder."""
    width: int
    """Width of the context encoder."""
    input_layers: int
    """Linear + ELU layers in front of the recurrent block."""
    head_width: int
    """Width of the hidden layers of the policy and critic MLPs."""
    head_layers: int
    """Hidden layers of the policy and critic MLPs."""
    reward_input: bool
    """Feed the last reward to the context encoder, as meta-RL tasks need it."""
    probability_floor: float
    """Discrete: added to the probability of each action, so that none is given up for good (the
    released code adds 0.01)."""
    n_layers: int
    """Blocks on top of each other."""
    state_size: int
    """States per channel."""
    conv_kernel: int
    """Taps of the causal convolution; 0 leaves it out."""
    expansion: int
    """Channels of the scan per unit of width."""
    feed_forward: bool
    """Position-wise feed-forward part after the last block; without it a norm and a linear map."""
    initialisation: Literal["torch", "xavier", "orthogonal"]
    """First weights: torch's own, Xavier-uniform or orthogonal, the last two with zero biases."""
    n_heads: int
    """Heads of attention, which share the width."""
    window: int | None
    """Newest steps that it sees while acting, and the most it can learn from at once; None for
    whole trajectories."""
    longest_episode: int
    """Without a window: steps of the longest episode; keys and values of all are kept."""
    dropout: float
    """Share of inputs, attention and outputs of a block's parts that is left out while learning."""
    smoothing_width: int
    """Outputs of each of the six heads."""


class AgentKeywords(LoopKeywords, total=False):
    """Settings of all methods that come with resel; each has some of them."""

    encoder: str | None
    """The context encoder, by name; None for a method without one."""
    lr_context_encoder: float | Literal["auto"] | None
    """Learning rate of the context encoders (LR_CE) of policy and critic; `auto` steers it until
    steps of the encoders alone move the outputs as much as steps of the other layers, None takes
    LR_other."""
    auto_lr_start: float | None
    """Where an automatic LR_CE starts; None takes 0.03 of that of the other layers."""
    lr_scope: Literal["encoder", "rnn"]
    """What LR_CE covers: the whole context encoder, or its recurrent layers alone."""
    critic_observations: Callable[[Any], Any] | str | None
    """What the critic alone reads at each step, beside the history: entries of `info` (hidden), of
    a Dict observation (obs:velocity, which the policy then does not see), several with commas;
    `task` takes what a task of ours names. In Python also a function of the environment."""
    lr_policy: float
    """Learning rate of everything else in the policy (LR_other)."""
    lr_critic: float
    """Learning rate of everything else in the critic (LR_other)."""
    lr_alpha: float
    """Learning rate of log alpha."""
    batch_steps: int
    """Whole trajectories are drawn until a batch holds at least this many steps."""
    context_length: int | None
    """Train on random windows of this many steps instead of whole trajectories."""
    gamma: float
    """Discount."""
    target_entropy_scale: float | None
    """Target entropy = -scale x action size (Box) or scale x log(actions) (Discrete); None means 1
    for Box and 0.2 for Discrete."""
    entropy_half_life: int | None
    """Discrete: updates in which the target entropy falls to a half, again and again; None keeps
    it."""
    critic_entropy: bool
    """Whether the policy's entropy is part of the critic's target; it always is of the policy's
    loss."""
    policy_kl: Literal["reverse", "forward"]
    """Discrete: how the policy is drawn towards softmax(Q / alpha): SAC's own divergence, or the
    forward one, from which an action that the policy has given up can come back."""
    alpha: float | None
    """Keep the temperature at this value; None tunes it to the target entropy."""
    td_lambda: float
    """How much of what came after an action its target heeds: 0 the next value alone, near 1 the
    whole rest of the trajectory. What is far away is then learned in fewer updates."""
    n_critics: int
    """Critic heads in the ensemble."""
    subset_size: int
    """Critic heads drawn for the minimum in the target."""
    tau: float
    """Share of the critic that its target takes over at each soft update."""
    policy_delay: int
    """Critic updates per update of policy and temperature."""
    reward_scale: float
    """Rewards are multiplied by this in the targets; reported returns are not."""
    normalize_rewards: bool
    """Also divide them by the running deviation of discounted returns."""
    normalize_observations: bool
    """Scale observations by their running mean and deviation, saved with the agent."""
    clamp_target_values: bool
    """Keep the next value inside the slowly moving range of past targets (the released code's
    QValueGuard, which the paper does not mention but whose numbers were made with it)."""
    released_details: bool
    """Do as the released code where the paper is silent: decay and cap of log alpha, the rule by
    which a batch is full, the first bounds of the clamp, a random first state when exploring."""
    image_channels: int
    """Observations that are images: channels of the first of two convolutions, of which the second
    has twice as many; 0 reads an image as a vector."""
    image_kernel: int
    """Observations that are images: height and width of a convolution; 0, with image_stride=0,
    suits the size of each image."""
    image_stride: int
    """Observations that are images: pixels from one place of a convolution to the next."""
    image_features: int
    """Observations that are images: what is made of one, in the place of a vector."""
    embedding: int
    """Outputs of each pre-encoder and of the context encoder."""
    width: int
    """Width of the context encoder."""
    input_layers: int
    """Linear + ELU layers in front of the recurrent block."""
    head_width: int
    """Width of the hidden layers of the policy and critic MLPs."""
    head_layers: int
    """Hidden layers of the policy and critic MLPs."""
    reward_input: bool
    """Feed the last reward to the context encoder, as meta-RL tasks need it."""
    probability_floor: float
    """Discrete: added to the probability of each action, so that none is given up for good (the
    released code adds 0.01)."""
    alpha_start: float
    """Where a tuned temperature starts."""
    alpha_max: float | None
    """A tuned temperature is kept below this; None leaves it free."""
    alpha_loss: Literal["log", "exp"]
    """What the temperature descends on: log alpha, or alpha itself (through exp), times how far the
    entropy is above its target."""
    learn_after: int
    """No update before this many environment steps; those after warmup_steps act by the policy."""
    batch_transitions: int
    """Single steps in a batch, drawn uniformly."""
    last_width: int | None
    """Width of the last hidden layer; None makes it as wide as the others."""
    critic_width: int | None
    """Width of the critic's hidden layers; None takes the policy's sizes."""
    critic_layers: int | None
    """Hidden layers of the critic; None takes the policy's."""
    activation: Literal["relu", "leaky_relu", "elu", "tanh"]
    """What follows a hidden layer: relu, leaky_relu or elu."""
    initialisation: (
        Literal["torch", "fan_out", "orthogonal", "normc"]
        | Literal["torch", "xavier", "orthogonal"]
    )
    """First weights: torch's own, or fan_out, near zero in the last layer (pomdp-baselines)."""
    log_std_min: float
    """Box, stochastic: the log of the standard deviation is kept above this."""
    exploration_noise: float
    """Standard deviation of the noise on actions while exploring, in the range [-1, 1]."""
    target_noise: float
    """Standard deviation of the noise on the next action in the target."""
    target_noise_clip: float
    """That noise is cut off here."""
    policy_loss: Literal["q1", "min"]
    """What the policy climbs: the first critic, or the smaller of both."""
    quantiles: int
    """Quantiles of each critic."""
    dropped_quantiles: int
    """How many of these, counted for each critic, the target leaves out at the top."""
    lr_features: float
    """Learning rate of the features."""
    pretraining_updates: int
    """Updates of the features alone before anything else learns."""
    feature_units: int
    """Units that are added to an observation, and once more to its features and the action."""
    feature_layers: int
    """Layers that share these units, each time."""
    predicted_size: int | None
    """How many numbers of the next observation the features foretell, from the first on; None takes
    all."""
    lr_embeddings: float
    """Learning rate of the embeddings."""
    priority_exponent: float
    """A step's priority is max(|error|, 1) to this power; 0 draws all steps alike."""
    target_every: int
    """Updates between two copies into the targets."""
    assessment_episodes: int
    """Episodes after which a policy that was never worse than the one kept is kept instead."""
    assessment_after: int
    """Updates before which a single episode is enough for that; 0 never lets one be enough."""
    assessment_share: float
    """What is to be reached falls to this share when more episodes begin to be asked for."""
    batch_windows: int
    """Windows in a batch, drawn uniformly over all steps at which one can begin."""
    observation_embedding: int
    """Outputs of the layer that embeds o_t for the context encoder."""
    action_embedding: int
    """Outputs of the layer that embeds the last action."""
    reward_embedding: int
    """Outputs of the layer that embeds the last reward; 0 leaves the reward out."""
    joint_embedding: bool
    """One layer for all inputs, as wide as these together, and part of the context encoder."""
    context_size: int
    """Outputs of a linear layer with tanh behind the encoder; 0 leaves it out."""
    policy_shortcut: int
    """Outputs of the layer that embeds o_t for the policy's head; 0 hands over o_t itself."""
    critic_shortcut: int
    """Outputs of the layer that embeds [o_t, a_t] for the critic's heads; 0 hands over both."""
    encoder_per_critic: bool
    """Give every critic head embeddings, a context encoder and a shortcut of its own."""
    head_initialisation: Literal["torch", "fan_out", "orthogonal", "normc"]
    """First weights of the heads: torch's own, or fan_out: within 1/sqrt(outputs), near zero in the
    last layer."""
    difference_embedding: int
    """Outputs of the layer that embeds o_t - o_{t-1}."""
    batch_norm: Literal["none", "difference", "all"]
    """Inputs of the context encoder that go through batch normalisation: none, the difference, or
    all."""
    batch_episodes: int
    """Whole episodes in a batch, or all there are."""
    lr_value: float
    """Learning rate of the value network."""
    lr_first_model: float
    """Learning rate of the model that learns first."""
    lr_model: float
    """Learning rate of the model that keeps learning."""
    burn_in: int
    """Steps before a window, as far as there are any, that fill the memories and do not count."""
    model_every: int
    """Updates per update of the model that keeps learning."""
    action_penalty: float
    """Weight of the squares of mean and deviation of actions, before tanh, in the policy's loss,
    half of which is taken."""
    latents: int
    """Random variables of a model at each step."""
    model_width: int
    """Width of the hidden layers of the models."""
    gae_lambda: float
    """How far advantages look ahead before they rely on the value: 0 one step, 1 all."""
    rollout_steps: int
    """Steps of each environment that are learned from at a time."""
    epochs: int
    """Passes over a rollout."""
    minibatches: int
    """Parts of a pass, each some of the environments."""
    value_coefficient: float
    """Weight of the value's loss."""
    entropy_coefficient: float
    """Weight of the policy's entropy."""
    max_gradient_norm: float
    """Gradients are made this long at most."""
    bootstrap_truncated: bool
    """Whether an episode that was cut counts on with the value of its last observation; else that
    step teaches nothing, as in the source."""
    clip: float
    """How far the probability ratio, and the value, may move in the losses of one rollout."""
    value_loss: Literal["squared", "huber"]
    """Errors of the value count squared, or from 1 on by their size (huber)."""
    log_std_start: float
    """Box: the log of the standard deviation at the start."""
    n_tasks: int
    """Tasks to train on: their numbers, told by info["task"] of a reset, are below this."""
    relation_after: int
    """Steps of finished episodes before which the context does not learn."""
    consistency_weight: float
    """Weight of the distance of contexts from the mean of their task."""
    diversity_weight: float
    """Weight of the nearness of the means of different tasks."""
    diversity_below: float
    """That nearness counts while the distance is below this."""
    kernel_sharpness: float
    """How fast nearness falls with the squared difference of two means."""
    mean_tau: float
    """Share of a batch's mean of a task that the moving one takes over at each update."""
    context_noise: float
    """Standard deviation of the noise on the context that the policy learns with."""
    lr_transition: float
    """Learning rate of the transition model."""
    batch_tasks: int
    """Tasks in a batch."""
    batch_context: int
    """Steps of each task that the belief is made of."""
    prior_episodes: int
    """Episodes of a trial with beliefs from the prior, the newest of which contexts are made of."""
    posterior_episodes: int
    """Episodes of a trial with beliefs from the posterior, after those."""
    test_prior_episodes: int
    """Episodes with beliefs from the prior in each evaluation, before the one that counts."""
    kl_weight: float
    """Weight of the divergence of beliefs from the prior."""
    mean_penalty: float
    """Weight of the squares of the policy's means, before they are squashed."""
    deviation_penalty: float
    """Weight of the squares of the logs of the policy's deviations."""
    latent_size: int
    """Entries of the belief about the task."""
    encoder_width: int
    """Width of the hidden layers of the encoder."""
    encoder_layers: int
    """Hidden layers of the encoder."""
    next_observation_input: bool
    """Whether the encoder reads the next observation, for tasks that differ in their dynamics; it
    may be left out where they differ in their rewards alone."""
    inner_step: float
    """Length of the gradient step that adapts it."""
    phase_steps: int
    """Steps of each task before the policy adapts, and again after it; as many at a test before."""
    episode_steps: int
    """Episodes are cut after this many steps, but for those that count in evaluations."""
    action_scale: float
    """Actions are the network's outputs times this; the environment cuts them at -1 and 1."""
    lr_vae: float
    """Learning rate of the encoder of beliefs and of its decoder."""
    decodes: Literal["reward", "observation"]
    """What beliefs foretell: the reward of a step, or the observation after it."""
    elbo_terms: int | None
    """Beliefs of a trial, drawn at random, that foretell it; None takes all."""
    decoded_steps: int | None
    """Steps of a trial, drawn at random, that each of them foretells; None takes all."""
    normalize_beliefs: bool
    """Scale what the policy reads, observation and belief, by its running mean and deviation; the
    encoder of beliefs reads observations as they are."""
    batch_trials: int
    """Whole trials in a batch for the beliefs, drawn from all that the replay buffer holds."""
    vae_updates: int
    """Updates of the beliefs after each rollout."""
    vae_after: int
    """None of them before finished trials have had this many steps."""
    max_vae_gradient_norm: float
    """Gradients of the encoder of beliefs, and of its decoder, are made this long at most."""
    decoder_width: int
    """Width of the decoder's first hidden layer."""
    decoder_last_width: int
    """Width of its second and last one."""
    policy_embedding: int
    """Outputs of the layer that embeds o_t for policy and value, and of that for the belief."""
    bounded_mean: bool
    """Box: keep the mean of the policy within the bounds of actions, by tanh."""
    vae_every: int
    """Updates of SAC for each of the beliefs, which learn from the trials of the same batch."""
    n_layers: int
    """Blocks on top of each other."""
    state_size: int
    """States per channel."""
    conv_kernel: int
    """Taps of the causal convolution; 0 leaves it out."""
    expansion: int
    """Channels of the scan per unit of width."""
    feed_forward: bool
    """Position-wise feed-forward part after the last block; without it a norm and a linear map."""
    n_heads: int
    """Heads of attention, which share the width."""
    window: int | None
    """Newest steps that it sees while acting, and the most it can learn from at once; None for
    whole trajectories."""
    longest_episode: int
    """Without a window: steps of the longest episode; keys and values of all are kept."""
    dropout: float
    """Share of inputs, attention and outputs of a block's parts that is left out while learning."""
    smoothing_width: int
    """Outputs of each of the six heads."""
