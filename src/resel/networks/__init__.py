"""Functions with weights: encoders, distributions, policies and critics, and their kernels."""

from resel.networks.actor_critic import ActorCritic, ActorCriticNetwork
from resel.networks.base import CriticNetwork, LrScope, Network, PolicyNetwork
from resel.networks.context import ContextCritic, ContextNetwork, ContextPolicy
from resel.networks.distributions import (
    Categorical,
    Deterministic,
    Draw,
    Gaussian,
    LikelihoodPolicy,
    PolicyDistribution,
    SquashedGaussian,
    StochasticPolicy,
)
from resel.networks.encoders import (
    Encoder,
    EncoderSpec,
    State,
    build_encoder,
    encoder_spec,
    encoders,
    register_encoder,
)
from resel.networks.heads import ActivatedHeads, Activation, Initialisation, activated_mlp
from resel.networks.inputs import ContextInputs, Dimensions, sequence_inputs
from resel.networks.normalizer import ObservationNormalizer, RewardScale
from resel.networks.plain import PlainCritic, PlainNetwork, PlainPolicy
from resel.networks.sequence import SequenceCritic, SequenceNetwork, SequencePolicy

__all__ = [
    "ActivatedHeads",
    "Activation",
    "ActorCritic",
    "ActorCriticNetwork",
    "Categorical",
    "ContextCritic",
    "ContextInputs",
    "ContextNetwork",
    "ContextPolicy",
    "CriticNetwork",
    "Deterministic",
    "Dimensions",
    "Draw",
    "Encoder",
    "EncoderSpec",
    "Gaussian",
    "Initialisation",
    "LikelihoodPolicy",
    "LrScope",
    "Network",
    "ObservationNormalizer",
    "PlainCritic",
    "PlainNetwork",
    "PlainPolicy",
    "PolicyDistribution",
    "PolicyNetwork",
    "RewardScale",
    "SequenceCritic",
    "SequenceNetwork",
    "SequencePolicy",
    "SquashedGaussian",
    "State",
    "StochasticPolicy",
    "activated_mlp",
    "build_encoder",
    "encoder_spec",
    "encoders",
    "kernels_are_compiled",
    "register_encoder",
    "sequence_inputs",
]


def kernels_are_compiled() -> bool:
    """Whether an earlier process has left the CPU kernels of this version on disk."""
    from resel.networks.ops.cpu import numba_math  # Numba is slow to import

    return numba_math.kernels_are_compiled()
