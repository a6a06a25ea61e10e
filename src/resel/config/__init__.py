"""All settings of a run, composed; each dataclass checks itself when it is built."""

from resel.config._checks import at_least, between, finite, one_of, positive, positive_or
from resel.config._compose import (
    GROUPS,
    SIZES,
    Config,
    SizeName,
    field_names,
    owners,
    without_former,
)
from resel.config._kinds import (
    Count,
    EnvKwargs,
    actions_of,
    only_for,
    parse_count,
    scaled,
)
from resel.config._other_names import OTHER_NAMES
from resel.config._training import MOST_STEPS, OnDivergence, TrainingConfig

__all__ = [
    "GROUPS",
    "MOST_STEPS",
    "OTHER_NAMES",
    "SIZES",
    "Config",
    "Count",
    "EnvKwargs",
    "OnDivergence",
    "SizeName",
    "TrainingConfig",
    "actions_of",
    "at_least",
    "between",
    "field_names",
    "finite",
    "one_of",
    "only_for",
    "owners",
    "parse_count",
    "positive",
    "positive_or",
    "scaled",
    "without_former",
]
