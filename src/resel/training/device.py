"""Where networks compute, and in words why a GPU is none of the places."""

from __future__ import annotations

import os
import warnings
from typing import Literal, NamedTuple

import torch

from resel.errors import ConfigError

_GPU = torch.device("cuda")
_CARDS = ("/dev/nvidia0", "/dev/kfd")
_NOT_BUILT_FOR = ("no kernel image", "invalid device function")
"""What torch says of a card that its kernels were not compiled for."""


class GPUFault(NamedTuple):
    """Why a GPU cannot be used."""

    why: str
    state: Literal["good", "note", "bad"]
    """good: there is none to use; note: one might be had; bad: one that is there cannot be used."""
    passing: bool = False
    """Whether it may be gone the next time, as memory that others have taken."""


def choose_device(name: str) -> torch.device:
    """`auto` takes a GPU if torch has one it can use; any other is refused if it cannot compute."""
    device = _GPU if name == "auto" else torch.device(name)
    fault = gpu_fault(device) if device.type == "cuda" else None
    if fault is None:
        return device
    if name != "auto" or fault.passing:
        again = "Try again, or use" if fault.passing else "Use"
        raise ConfigError(f"device {name}: {fault.why}. {again} cpu (--device cpu).")
    if fault.state == "bad":
        warnings.warn(
            f"device auto: {fault.why}. All runs on the CPU (--device cpu says that it is to).",
            stacklevel=2,
        )
    return torch.device("cpu")


def gpu_fault(device: torch.device = _GPU) -> GPUFault | None:
    """Why a GPU cannot be used, found out by letting it compute; None if it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch warns of once, it says below as an error
        if not torch.cuda.is_available():
            return _why_there_is_none()
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            return GPUFault(
                f"torch finds {count} GPU{'s'[: count > 1]} here, from cuda:0 on", "bad"
            )
        try:
            _compute(device)
        except Exception as error:  # whatever a driver raises
            return _in_words(str(error), device)
    return None


def _compute(device: torch.device) -> None:
    """A small operation, waited for: only then is it known whether the kernels fit the card."""
    ones = torch.ones(2, 2, device=device)
    (ones @ ones).sum().item()


def _why_there_is_none() -> GPUFault:
    card = any(map(os.path.exists, _CARDS))
    if torch.version.cuda is None and torch.version.hip is None:
        if card:
            why = "there is one, but this torch is built for CPUs: install one built for it"
            return GPUFault(f"torch finds no GPU here: {why}", "note")
        return GPUFault("torch finds no GPU here: it is built for CPUs", "good")
    said = ""
    try:
        _compute(_GPU)
    except Exception as error:
        said = _first_sentence(str(error))
    if "driver" in said and "old" in said:
        why = f"the driver is too old for this torch ({said}): update it, or install an older torch"
        return GPUFault(why, "bad" if card else "note")
    told = f" ({said})" if said else ""
    return GPUFault(f"torch finds no GPU here that it can use{told}", "bad" if card else "good")


def _in_words(said: str, device: torch.device) -> GPUFault:
    if not any(part in said for part in _NOT_BUILT_FOR):
        why = f"the GPU fails in its first operation ({_first_sentence(said)})"
        return GPUFault(why, "bad", passing=True)
    major, minor = torch.cuda.get_device_capability(device)
    why = (
        f"{torch.cuda.get_device_name(device)} (compute capability {major}.{minor}) is too old or "
        f"too new for this torch, {torch.__version__}, which is built for "
        f"{', '.join(torch.cuda.get_arch_list())}: install one that is built for this card"
    )
    return GPUFault(why, "bad")


def _first_sentence(said: str) -> str:
    return said.strip().partition("\n")[0].partition(". ")[0].removesuffix(".")
