"""Numbers that JSON does not have: NaN and the infinities become "nan", "inf" and "-inf"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from resel.errors import BadInputError

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(value: Any) -> Any:
    """Plain data that `json` can write; NumPy scalars become Python's own numbers."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    raise BadInputError(
        f"A {type(value).__name__} cannot be written as JSON ({value!r:.80}): give numbers, "
        "strings, lists, dicts or None."
    )


def from_json(value: Any) -> Any:
    """The numbers back from what `to_json` made of them."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return value
