"""Tensor files: safetensors with limits of our own, and checks of what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from resel.errors import BadInputError, DamagedFileError
from resel.runs._reading import damaged, open_regular

_HEADER_BYTES = 1_000_000
# What torch and safetensors raise at a header that is valid but absurd.
_HOSTILE_HEADER = (
    AssertionError,
    KeyError,
    MemoryError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)


def pack_tensors(name: str, group: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous CPU tensors, copied only if two of them lie in the same memory."""
    if "__metadata__" in group:
        raise BadInputError(f"{name!r} has a tensor named '__metadata__': rename it.")
    result: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for key, value in group.items():
        tensor = value.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        if memory in seen:
            tensor = tensor.clone()
        seen.add(memory)
        result[key] = tensor
    return result


def tensors_to_bytes(group: dict[str, torch.Tensor]) -> bytes:
    """The content of a tensor file."""
    data = save(group)
    if int.from_bytes(data[:8], "little") > _HEADER_BYTES:
        raise BadInputError(f"{len(group)} tensors are too many for one file of a bundle.")
    return data


def check_header(path: Path) -> None:
    """Refuse a file whose header is too long, before it is read."""
    try:
        with open_regular(path) as stream:
            _check_header(path, stream.read(8) or b"")
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror})") from error


def _check_header(path: Path, length: bytes) -> None:
    header = int.from_bytes(length, "little")
    if header > _HEADER_BYTES:
        raise damaged(
            path, f"has a header of {header} bytes, more than the {_HEADER_BYTES} allowed"
        )


def parse_tensors(path: Path, data: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a file, on the CPU and independent of it."""
    _check_header(path, data[:8])
    try:
        return load(data)
    except (SafetensorError, *_HOSTILE_HEADER) as error:
        raise damaged(path, f"is not a valid safetensors file ({error})") from error


def check_tensors(
    given: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], where: str
) -> None:
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
