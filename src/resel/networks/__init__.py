"""Functions with weights: encoders, heads, policy and critic, and the scan behind Mamba."""

from resel.networks.actor_critic import ContextInputs, Critic, Dimensions, Policy
from resel.networks.distributions import Categorical, PolicyDistribution, SquashedGaussian
from resel.networks.encoders import Encoder, State, build_encoder
from resel.networks.normalizer import ObservationNormalizer

__all__ = [
    "Categorical",
    "ContextInputs",
    "Critic",
    "Dimensions",
    "Encoder",
    "ObservationNormalizer",
    "Policy",
    "PolicyDistribution",
    "SquashedGaussian",
    "State",
    "build_encoder",
    "kernels_are_compiled",
]


def kernels_are_compiled() -> bool:
    """Whether an earlier process has left the CPU kernels of this version on disk."""
    from resel.networks.ops.cpu import numba_math  # Numba is slow to import

    return numba_math.kernels_are_compiled()
