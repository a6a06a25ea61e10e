"""Methods: what is learned from a batch, one file each.

A method of one's own is registered with `resel.register_method`, or named as an entry point of the
group `resel.methods` by the package that has it.
"""

from resel.methods import (
    a2c_gru,
    epi,
    escp,
    gpide_ess,
    mf_gpt,
    mf_lstm,
    mf_rnn,
    osi,
    pearl,
    ppo_gru,
    promp,
    resel,
    rl2,
    sac,
    sac_gru,
    sac_mlp,
    sac_transformer,
    td3,
    td3_mlp,
    td3_ofe,
    td7,
    tqc,
    varibad,
    varibad_off,
    vrm,
)
from resel.methods._encoder_rate import EncoderRate
from resel.methods.adaptation import Adaptation, Phase
from resel.methods.auto import STEPS as AUTO_STEPS
from resel.methods.auto import Choice, World, auto_choices, not_overruled
from resel.methods.base import Learner, Metrics
from resel.methods.limits import check_episodes, check_learned
from resel.methods.preset_files import PresetFile, is_preset_file, preset_method, read_preset
from resel.methods.registry import (
    Method,
    build_learner,
    default_method,
    get_method,
    methods,
    own_methods,
    preset_settings,
    reads_rewards,
    register_method,
    run_label,
    smallest_size,
)
from resel.methods.remedy import remedy
from resel.methods.search import Between, OneOf, Range, chosen_space, search_space

for _module in (
    resel,
    sac,
    sac_mlp,
    td3,
    td3_mlp,
    tqc,
    td3_ofe,
    td7,
    sac_gru,
    mf_rnn,
    sac_transformer,
    gpide_ess,
    mf_gpt,
    mf_lstm,
    vrm,
    ppo_gru,
    a2c_gru,
    escp,
    osi,
    epi,
    pearl,
    promp,
    rl2,
    varibad,
    varibad_off,
):
    register_method(_module.METHOD)

__all__ = [
    "AUTO_STEPS",
    "Adaptation",
    "Between",
    "Choice",
    "EncoderRate",
    "Learner",
    "Method",
    "Metrics",
    "OneOf",
    "Phase",
    "PresetFile",
    "Range",
    "World",
    "auto_choices",
    "build_learner",
    "check_episodes",
    "check_learned",
    "chosen_space",
    "default_method",
    "get_method",
    "is_preset_file",
    "methods",
    "not_overruled",
    "own_methods",
    "preset_method",
    "preset_settings",
    "read_preset",
    "reads_rewards",
    "register_method",
    "remedy",
    "run_label",
    "search_space",
    "smallest_size",
]
