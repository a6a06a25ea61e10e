"""The equations of all methods, one pure function each, with its source.

Glossary
    steps are (rows, length); E critic heads; A actions
    y targets, q critic values, V value of the next observation, alpha temperature
    mask marks the steps that count; n is their number

Where an expectation over the policy is exact (Discrete actions), values and log-probabilities have
a last dimension of A, and the distribution's draw takes the expectation (`Draw.expect`).
"""

from resel.losses.actor import forward_policy_term, soft_policy_term
from resel.losses.advantage import (
    advantages,
    clipped_policy_term,
    clipped_value_term,
    continues,
    normalized,
)
from resel.losses.baseline import baseline_features, linear_baseline, standardized, time_of
from resel.losses.context import (
    consistency,
    diversity,
    parameter_error,
    relation,
    task_means,
    transition_error,
)
from resel.losses.elbo import elbo_loss, with_last
from resel.losses.gaussian import gaussian_kl, kl_from_standard, product_of_gaussians
from resel.losses.quantile import quantile_huber_loss, quantile_target, truncated_quantiles
from resel.losses.td import (
    critic_loss,
    lambda_target,
    lap_loss,
    masked_mean,
    next_step,
    soft_value,
    td_target,
)
from resel.losses.temperature import temperature_loss, temperature_loss_exp
from resel.losses.variational import gaussian_log_likelihood

__all__ = [
    "advantages",
    "baseline_features",
    "clipped_policy_term",
    "clipped_value_term",
    "consistency",
    "continues",
    "critic_loss",
    "diversity",
    "elbo_loss",
    "forward_policy_term",
    "gaussian_kl",
    "gaussian_log_likelihood",
    "kl_from_standard",
    "lambda_target",
    "lap_loss",
    "linear_baseline",
    "masked_mean",
    "next_step",
    "normalized",
    "parameter_error",
    "product_of_gaussians",
    "quantile_huber_loss",
    "quantile_target",
    "relation",
    "soft_policy_term",
    "soft_value",
    "standardized",
    "task_means",
    "td_target",
    "temperature_loss",
    "temperature_loss_exp",
    "time_of",
    "transition_error",
    "truncated_quantiles",
    "with_last",
]
