"""A value that is linear in observation and time, fitted to the returns it is compared with.

Duan et al. 2016, Benchmarking Deep Reinforcement Learning for Continuous Control; used by ProMP.

Glossary
    K tasks, N steps of each, F features
"""

from __future__ import annotations

import torch
from torch import Tensor

_LARGEST = 10.0
_TIME = 100.0


def time_of(is_first: Tensor) -> Tensor:
    """Steps since the start of the episode at every slot of (rows, length)."""
    at = torch.arange(is_first.shape[1], device=is_first.device).expand_as(is_first)
    return at - torch.where(is_first, at, torch.zeros_like(at)).cummax(1).values


def baseline_features(observation: Tensor, time: Tensor) -> Tensor:
    """(o, o^2, t, t^2, t^3, 1) with o cut at 10 and t in hundreds of steps. (..., F)"""
    o = observation.clamp(-_LARGEST, _LARGEST)
    t = (time.to(o.dtype) / _TIME)[..., None]
    return torch.cat([o, o.square(), t, t.square(), t**3, torch.ones_like(t)], -1)


def linear_baseline(features: Tensor, target: Tensor, mask: Tensor, ridge: float) -> Tensor:
    """Values (K, N) of the least-squares fit, for each task alone, to the steps that count.

    In double precision: the features of quiet observations are nearly dependent.
    """
    x = torch.where(mask[..., None], features, torch.zeros_like(features)).double()  # (K, N, F)
    y = torch.where(mask, target, torch.zeros_like(target)).double()[..., None]
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    both = x.transpose(1, 2)
    weights, _ = torch.linalg.solve_ex(both @ x + ridge * eye, both @ y)  # (K, F, 1)
    value: Tensor = (x @ weights).squeeze(-1)
    return value.to(target.dtype)


def standardized(advantage: Tensor, mask: Tensor) -> Tensor:
    """Advantages less their mean, over their deviation, each task (a row) for itself."""
    zero = torch.zeros_like(advantage)
    n = mask.sum(1, keepdim=True).clamp(min=1)
    centred = advantage - torch.where(mask, advantage, zero).sum(1, keepdim=True) / n
    variance = torch.where(mask, centred, zero).square().sum(1, keepdim=True) / n
    return torch.where(mask, centred / (variance.sqrt() + 1e-8), zero)
