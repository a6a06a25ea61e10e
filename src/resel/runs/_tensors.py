"""Tensor files: safetensors with limits of our own, and checks of what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from resel.errors import BadInputError
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
