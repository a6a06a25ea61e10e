"""Which device is chosen, and what is said where a GPU is none; the GPUs here are made up."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from resel.config import Config
from resel.errors import ConfigError
from resel.training import GPUFault, choose_device, device, gpu_fault

OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version from the URL: http://www.nvidia.com"
)
NOT_BUILT_FOR = "CUDA error: no kernel image is available for execution on the device\nCUDA kernel"
Fake = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A machine with so many GPUs that torch counts, or a card it cannot use, and what it says."""

    def make(count: int = 0, said: str = "", card: bool = True, cuda: str | None = "13.0") -> None:
        warned: list[str] = []

        def is_available() -> bool:
            if said and not count and not warned:  # torch does so once in a process
                warned.append(said)
                warnings.warn(f"CUDA initialization: {said}", stacklevel=1)
            return count > 0

        def compute(device: torch.device) -> None:
            if said:
                raise RuntimeError(said)

        properties = SimpleNamespace(name="Some GPU", major=5, minor=2, total_memory=8 << 30)
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(torch.version, "hip", None)
        monkeypatch.setattr(torch.cuda, "is_available", is_available)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda card=None: properties)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75", "sm_90"])
        monkeypatch.setattr(device, "_compute", compute)
        monkeypatch.setattr(device.os.path, "exists", lambda at: card and at == "/dev/nvidia0")

    return make


def test_a_gpu_that_computes(machine: Fake) -> None:
    machine(count=2)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"device cuda:2: torch finds 2 GPUs here, from cuda:0"):
        choose_device("cuda:2")


def test_what_it_is_asked_to_compute() -> None:
    device._compute(torch.device("cpu"))
    with pytest.raises((RuntimeError, AssertionError)):
        device._compute(torch.device("cuda", 99))


@pytest.mark.parametrize(
    ("given", "state", "text"),
    [
        ({"cuda": None, "card": False}, "good", "it is built for CPUs"),
        ({"cuda": None}, "note", "this torch is built for CPUs: install one built for it"),
        ({"card": False, "said": "No CUDA GPUs are available"}, "good", "(No CUDA GPUs are"),
        ({"said": "CUDA unknown error - this may be. More"}, "bad", "unknown error - this may be)"),
        ({"said": ""}, "bad", "torch finds no GPU here that it can use"),
        ({"said": OLD_DRIVER}, "bad", "(found version 11040)): update it, or install an older"),
        ({"said": OLD_DRIVER, "card": False}, "note", "the driver is too old for this torch (The"),
    ],
)
def test_why_there_is_no_gpu(
    given: dict[str, Any], state: str, text: str, machine: Fake, recwarn: Any
) -> None:
    machine(**given)
    fault = gpu_fault()
    assert fault is not None and fault.state == state and not fault.passing
    assert text in fault.why and "http" not in fault.why and "\n" not in fault.why
    assert fault == gpu_fault(), "also when torch no longer warns"
    with pytest.raises(ConfigError) as told:
        choose_device("cuda")
    assert str(told.value) == f"device cuda: {fault.why}. Use cpu (--device cpu)."
    assert not recwarn.list, "it is said once, in our words"
    if state != "bad":
        assert choose_device("auto") == torch.device("cpu")
        return
    with pytest.warns(UserWarning, match=r"device auto: .* All runs on the CPU"):
        assert choose_device("auto") == torch.device("cpu")


def test_a_card_that_torch_was_not_built_for(machine: Fake) -> None:
    machine(count=1, said=NOT_BUILT_FOR)
    told = (
        r"Some GPU \(compute capability 5\.2\) is too old or too new for this torch, "
        rf"{torch.__version__.replace('+', '.')}, which is built for sm_75, sm_90: install one"
    )
    with pytest.raises(ConfigError, match=rf"device cuda: {told}.*\. Use cpu \(--device cpu\)\."):
        choose_device("cuda")
    with pytest.warns(UserWarning, match=rf"device auto: {told}"):
        assert choose_device("auto") == torch.device("cpu")


@pytest.mark.parametrize("name", ["auto", "cuda:0"])
def test_a_gpu_that_is_taken_is_no_reason_for_the_cpu(name: str, machine: Fake) -> None:
    """What may be gone the next time must not decide where a run computes."""
    machine(count=1, said="CUDA out of memory. Tried to allocate 2.00 MiB")
    with pytest.raises(ConfigError) as told:
        choose_device(name)
    assert str(told.value) == (
        f"device {name}: the GPU fails in its first operation (CUDA out of memory). "
        "Try again, or use cpu (--device cpu)."
    )
    assert gpu_fault(torch.device("cuda", 0)) == GPUFault(
        "the GPU fails in its first operation (CUDA out of memory)", "bad", passing=True
    )


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda0", "cuda:-1"])
def test_a_device_of_another_name(name: str) -> None:
    with pytest.raises(ConfigError, match="use 'auto', 'cpu', 'cuda' or 'cuda:1'"):
        Config.build("", {"device": name})
