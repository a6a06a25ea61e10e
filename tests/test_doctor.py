"""What `resel doctor` finds, and what it says of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement

from resel import doctor
from resel.cli import main
from resel.doctor import Finding
from resel.networks import kernel_cases, kernel_checks
from resel.tasks import get_task
from resel.training import GPUFault

GOOD = Finding("room", "disk", "good", "much")


def test_this_installation_is_well() -> None:
    parts = (doctor._versions(), doctor._devices(), doctor._room(), doctor._extras())
    findings = [finding for part in parts for finding in part]
    assert not [finding for finding in findings if finding.state == "bad"]
    named = {finding.what for finding in findings}
    assert {"python", "resel", "torch", "cpu", "gpu", "threads", "memory", "disk"} <= named
    assert {"mujoco", "report"} <= named and not {"all", "dev"} & named


def test_every_kernel_is_right_here() -> None:
    checks = list(kernel_checks.check_kernels(torch.device("cpu")))
    assert all(check.good for check in checks), checks
    names = " ".join(check.name for check in checks)
    parts = ("scan", "convolution", "norm", "softplus", "GRU", "mamba")
    newer = ("folded pre-encoders", "critic heads, folded", "feed-forward", "layer on an ELU")
    for part in (*parts, *newer):
        assert part in names
    assert all(check.seconds > 0 for check in checks)


def test_a_wrong_kernel_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernel_cases.rms_norm
    monkeypatch.setattr(kernel_cases, "rms_norm", lambda x, w, eps: right(x, w, eps) * 1.1)

    def fails(*given: Any) -> Any:
        raise RuntimeError("no such instruction\nand a long dump")

    monkeypatch.setattr(kernel_cases, "causal_conv_silu", fails)
    found = {finding.what: finding for finding in doctor._kernels(torch.device("cpu"))}
    assert found["RMS norm"].state == found["causal convolution"].state == "bad"
    assert found["GRU"].state == "good"
    assert "differs from its reference by 1" in found["RMS norm"].text
    assert found["causal convolution"].text.startswith("RuntimeError: no such instruction: do not")


def test_nan_is_not_taken_for_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cases, "rms_norm", lambda x, w, eps: x * w * torch.nan)
    found = {finding.what: finding.state for finding in doctor._kernels(torch.device("cpu"))}
    assert found["RMS norm"] == "bad"


@pytest.mark.parametrize(
    ("needed", "state", "text"),
    [
        ("numpy>=1", "good", "2."),
        ("numpy>=99", "bad", "where >=99 is needed: pip install 'numpy>=99'"),
        ("no-such-package>=1", "bad", "not installed: pip install 'no-such-package>=1'"),
    ],
)
def test_packages(needed: str, state: str, text: str) -> None:
    finding = doctor._package(Requirement(needed), "versions")
    assert finding.state == state and text in finding.text


def test_extras_of_extras_are_looked_at() -> None:
    found = {needed.name for needed in doctor._of_extra("resel", "classic")}
    assert any(name.startswith("pygame") for name in found), found


def test_a_package_of_an_extra_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {finding.what: finding.text for finding in doctor._extras()}
    for extra, text in texts.items():
        words = text.split(": pip install")[0].removeprefix("without ").split(", ")
        assert len(words) == len({word.split()[0] for word in words}), extra
    asked = [Requirement(text) for text in ("numpy>=1", "NumPy>=99", "no-such", "No_Such>=1")]
    monkeypatch.setattr(doctor, "_of_extra", lambda package, extra: asked)
    numpy, absent = doctor._parts("some")
    assert numpy.state == "bad" and ">=99 is needed" in numpy.text
    assert (absent.what, absent.state) == ("no-such", "missing")


@pytest.mark.parametrize("state", ["good", "note", "bad"])
def test_why_there_is_no_gpu(state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "gpu_fault", lambda: GPUFault("torch finds none", state))
    monkeypatch.setattr(doctor, "_cards", lambda: [])
    (finding,) = doctor._gpus()
    words = "none, and none is needed: all runs on the CPU (torch finds none)"
    expected = words if state == "good" else "torch finds none"
    assert finding == Finding("devices", "gpu", state, expected)


def test_cards_that_cannot_be_used_are_no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)  # as the driver counts them
    assert doctor._cards() == [] and doctor._usable_devices() == [torch.device("cpu")]


def test_each_gpu_and_triton_get_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    card = type("Card", (), {"name": "Some GPU", "total_memory": 8 << 30})
    good, other = torch.device("cuda", 0), torch.device("cuda", 1)
    faults = {other: GPUFault("Old GPU is too old for this torch", "bad")}
    monkeypatch.setattr(doctor, "_cards", lambda: [good, other])
    monkeypatch.setattr(doctor, "gpu_fault", lambda card=good: faults.get(card))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: card)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    gpu, old, triton = doctor._gpus()
    assert (gpu.what, gpu.text) == ("cuda:0", "Some GPU, 8.0 GiB")
    assert (old.what, old.state, old.text) == ("cuda:1", "bad", "Old GPU is too old for this torch")
    assert triton.state == "note" and "right but slower. pip install triton" in triton.text
    assert doctor._usable_devices() == [torch.device("cpu"), good], "its kernels tell nothing"


def test_simulators(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [get_task("TMaze-v0"), get_task("popgym-RepeatFirstEasy-v0"), get_task("AntDir-v0")]
    monkeypatch.setattr(doctor, "all_tasks", lambda: tasks)
    monkeypatch.setattr(doctor, "is_installed", lambda task: task.id != "AntDir-v0")
    make = doctor.make_env

    def broken(name: str) -> Any:
        if "popgym" in name:
            raise ZeroDivisionError("inside")
        return make(name)

    monkeypatch.setattr(doctor, "make_env", broken)
    found = [(finding.state, finding.text) for finding in doctor._simulators()]
    assert found == [
        ("good", "TMaze-v0 takes steps"),
        ("bad", "popgym-RepeatFirstEasy-v0 failed (ZeroDivisionError: inside)"),
        ("missing", "AntDir-v0: pip install 'resel[mujoco]'"),
    ]


def test_little_room_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RESEL_CACHE", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(doctor, "available_memory", lambda: 10 << 20)
    memory, _disk, cache = doctor._room()
    assert memory.state == "note" and memory.text.startswith("10.0 MiB free: the replay buffer")
    assert cache.state == "note" and "name another in RESEL_CACHE" in cache.text


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_the_verdict(bad: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    missing = Finding("extras", "ray", "missing", "pip install 'resel[ray]'")
    wrong = [Finding("kernels on cpu", f"[{i}]", "bad", "differs", 61.25) for i in range(bad)]
    monkeypatch.setattr(doctor, "examine", lambda: iter([GOOD, missing, *wrong]))
    assert main(["doctor"]) == (1 if bad else 0)
    said = capsys.readouterr().out
    assert "pip install 'resel[ray]'" in said and ("[0]" in said) == bool(bad)
    verdict = ["All is well", "1 thing is bad", "2 things are bad"][bad]
    took, last = said.splitlines()[-2:]
    assert last.startswith(verdict)
    assert re.fullmatch(rf"It took \d+\.\d seconds, {bad * 61.25:.1f} of them for kernels .*", took)
    assert bool(re.search(r"\[0\] +bad +61\.25 +differs", said)) == bool(bad)
    assert main(["doctor", "--json"]) == (1 if bad else 0)
    findings = json.loads(capsys.readouterr().out)
    assert [finding["seconds"] for finding in findings] == [None, None, *[61.25] * bad]
