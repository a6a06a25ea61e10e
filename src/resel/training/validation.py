"""Checks of saved state before it is taken over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from resel.errors import DamagedFileError, ReselError

_ANY_LENGTH = re.compile(r"episode\.\d+\.actions|evaluations")
"""Tensors with as many rows as there happened to be."""


@contextmanager
def damaged_if_wrong() -> Iterator[None]:
    """Turn what absurd data brings about into the error that says the checkpoint is damaged."""
    try:
        yield
    except ReselError:
        raise
    except KeyError as error:
        raise DamagedFileError(f"The checkpoint lacks {error}: it cannot be used.") from error
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as e:
        raise DamagedFileError(f"The checkpoint cannot be used: {e}") from e


def check_parts(given: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not, by name, form and type, like those of a fresh start."""
    for name in [*expected, *given]:
        if name not in given:
            raise DamagedFileError(f"The checkpoint lacks {name!r}: it cannot be used.")
        if name not in expected:
            raise DamagedFileError(f"The checkpoint holds {name!r}, which is not known.")
        has, wants = given[name], expected[name]
        first = 1 if _ANY_LENGTH.fullmatch(name) else 0
        same = has.dim() == wants.dim() and has.shape[first:] == wants.shape[first:]
        if not same or has.dtype != wants.dtype:
            raise DamagedFileError(
                f"The checkpoint's {name} is {has.dtype} of shape {tuple(has.shape)}, expected "
                f"{wants.dtype} of shape {tuple(wants.shape)}."
            )
        if has.is_floating_point() and not bool(torch.isfinite(has).all()):
            raise DamagedFileError(f"The checkpoint's {name} holds values that are not finite.")


def whole(document: Mapping[str, Any], name: str) -> int:
    """A count from a document."""
    value = document[name]
    if type(value) is not int or value < 0:
        raise DamagedFileError(f"The checkpoint's {name} is {value!r}, not a count.")
    return value


def flag(document: Mapping[str, Any], name: str) -> bool:
    """A yes or no from a document."""
    value = document[name]
    if type(value) is not bool:
        raise DamagedFileError(f"The checkpoint's {name} is {value!r}, neither true nor false.")
    return value


def maybe(document: Mapping[str, Any], name: str) -> float | None:
    """A number from a document, or None."""
    value = document[name]
    return None if value is None else float(value)


def check_tensors(given: Mapping[str, Tensor], expected: Mapping[str, Tensor], where: str) -> None:
    """Refuse tensors whose names, shapes or dtypes are not those expected, or that hold NaN.

    Call it before anything is replaced by `given`. `expected` may live on the meta device.
    """
    faults = [f"{name} is missing" for name in expected if name not in given]
    faults += [f"{name} is unknown" for name in given if name not in expected]
    for name in (name for name in expected if name in given):
        has, wants = given[name], expected[name]
        if has.shape != wants.shape:
            faults.append(f"{name} has shape {tuple(has.shape)}, expected {tuple(wants.shape)}")
        elif has.dtype != wants.dtype:
            faults.append(f"{name} has dtype {has.dtype}, expected {wants.dtype}")
        elif not bool(torch.isfinite(has).all()):
            faults.append(f"{name} holds values that are not finite")
    if faults:
        more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise DamagedFileError(
            f"The tensors of {where} do not fit: {'; '.join(faults[:3])}{more}. Load it with the "
            "settings it was saved with, or use an earlier copy. Nothing was changed."
        )
