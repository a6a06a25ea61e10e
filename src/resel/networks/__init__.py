"""Functions with weights: encoders, distributions, policies and critics, and their kernels."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

from resel.networks.actor_critic import ActorCritic, ActorCriticNetwork, ValuedPolicy
from resel.networks.adaptable import AdaptableNetwork, AdaptablePolicy
from resel.networks.base import CriticNetwork, LrScope, Network, PolicyNetwork, Shared
from resel.networks.batch_norm import BatchNorm, batch_norms, by_running_statistics
from resel.networks.belief_policies import (
    BeliefActorCritic,
    BeliefActorCriticNetwork,
    BeliefCritic,
    BeliefNetwork,
    BeliefPolicy,
)
from resel.networks.beliefs import BeliefVAE, Decoded
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
from resel.networks.dropout import Dropout, dropouts
from resel.networks.encoders import (
    Encoder,
    EncoderSpec,
    FeedForward,
    Longest,
    MambaEncoder,
    MambaMixer,
    State,
    build_encoder,
    encoder_spec,
    encoders,
    register_encoder,
)
from resel.networks.heads import ActivatedHeads, Activation, Initialisation, activated_mlp
from resel.networks.images import (
    ImageReader,
    ImageSizes,
    behind_images,
    fitting_convolutions,
    image_reader,
    sees_images,
)
from resel.networks.inputs import ContextInputs, Dimensions, previous, sequence_inputs
from resel.networks.kernel_checks import KernelCheck, check_kernels
from resel.networks.latent import (
    LatentCritic,
    LatentNetwork,
    LatentPolicy,
    RecentNetwork,
    RecentTrunk,
    TransitionModel,
)
from resel.networks.normalizer import ObservationNormalizer, RewardScale
from resel.networks.ofe import Features, OFECritic, OFENetwork, OFEPolicy
from resel.networks.pearl import PearlCritic, PearlNetwork, PearlPolicy, PearlValue
from resel.networks.plain import PlainCritic, PlainNetwork, PlainPolicy
from resel.networks.sale import Embeddings, SALECritic, SALENetwork, SALEPolicy
from resel.networks.sequence import SequenceCritic, SequenceNetwork, SequencePolicy
from resel.networks.shared import SharedCritic, SharedNetwork, SharedPolicy
from resel.networks.tokens import Normalized, TokenNetwork
from resel.networks.variational import SequenceModel
from resel.networks.vrm import Memories, VRMCritic, VRMNetwork, VRMPolicy, VRMValue

__all__ = [
    "ActivatedHeads",
    "Activation",
    "ActorCritic",
    "ActorCriticNetwork",
    "AdaptableNetwork",
    "AdaptablePolicy",
    "BatchNorm",
    "BeliefActorCritic",
    "BeliefActorCriticNetwork",
    "BeliefCritic",
    "BeliefNetwork",
    "BeliefPolicy",
    "BeliefVAE",
    "Categorical",
    "ContextCritic",
    "ContextInputs",
    "ContextNetwork",
    "ContextPolicy",
    "CriticNetwork",
    "Decoded",
    "Deterministic",
    "Dimensions",
    "Draw",
    "Dropout",
    "Embeddings",
    "Encoder",
    "EncoderSpec",
    "Features",
    "FeedForward",
    "Gaussian",
    "ImageReader",
    "ImageSizes",
    "Initialisation",
    "KernelCheck",
    "LatentCritic",
    "LatentNetwork",
    "LatentPolicy",
    "LikelihoodPolicy",
    "Longest",
    "LrScope",
    "MambaEncoder",
    "MambaMixer",
    "Memories",
    "Network",
    "Normalized",
    "OFECritic",
    "OFENetwork",
    "OFEPolicy",
    "ObservationNormalizer",
    "PearlCritic",
    "PearlNetwork",
    "PearlPolicy",
    "PearlValue",
    "PlainCritic",
    "PlainNetwork",
    "PlainPolicy",
    "PolicyDistribution",
    "PolicyNetwork",
    "RecentNetwork",
    "RecentTrunk",
    "RewardScale",
    "SALECritic",
    "SALENetwork",
    "SALEPolicy",
    "SequenceCritic",
    "SequenceModel",
    "SequenceNetwork",
    "SequencePolicy",
    "Shared",
    "SharedCritic",
    "SharedNetwork",
    "SharedPolicy",
    "SquashedGaussian",
    "State",
    "StochasticPolicy",
    "TokenNetwork",
    "TransitionModel",
    "VRMCritic",
    "VRMNetwork",
    "VRMPolicy",
    "VRMValue",
    "ValuedPolicy",
    "activated_mlp",
    "batch_norms",
    "behind_images",
    "build_encoder",
    "by_running_statistics",
    "check_kernels",
    "compiling_elsewhere",
    "dropouts",
    "encoder_spec",
    "encoders",
    "fitting_convolutions",
    "image_reader",
    "is_compiling",
    "kernels_are_compiled",
    "previous",
    "register_encoder",
    "sees_images",
    "sequence_inputs",
]


def kernels_are_compiled(networks: Iterable[nn.Module] | None = None) -> bool:
    """Whether an earlier process has left the CPU kernels of this version on disk: those that
    these networks need, or any where none are given."""
    if networks is None:
        names = {"*"}
    else:
        inside = (module for network in networks for module in network.modules())
        names = {getattr(module, "cpu_kernel", "") for module in inside} - {""}
    if not names:
        return True
    from resel.networks.ops.cpu import numba_math  # Numba is slow to import

    return all(map(numba_math.is_compiled, names))


@contextmanager
def compiling_elsewhere() -> Iterator[None]:
    """Another process compiles kernels that this one waits for."""
    from resel.networks.ops.cpu import compilation

    with compilation.elsewhere():
        yield


def is_compiling() -> bool:
    """Whether kernels are being compiled at this moment."""
    kernels = sys.modules.get("resel.networks.ops.cpu.numba_math")
    if kernels is None or getattr(kernels.__spec__, "_initializing", False):
        return False  # nobody is made to wait for Numba's import
    from resel.networks.ops.cpu import compilation

    return compilation.is_compiling()
