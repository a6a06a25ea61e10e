"""Kernels that are compiled beside the warm-up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_cases import every_case, small_config

from resel.config import Config
from resel.methods import Method, build_learner
from resel.networks import Dimensions, encoders, is_compiling, kernels_are_compiled
from resel.networks.ops.cpu import kernels, numba_math, scan
from resel.training import Trainer, compile_kernels, compiled_beside, compiling, compiling_note

MakeTrainer = Callable[..., Trainer]


@pytest.fixture
def first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing were compiled yet, on a machine with two cores."""
    kernels_are_compiled()  # from now on it can be seen what is compiled
    monkeypatch.setattr(compiling, "kernels_are_compiled", lambda networks: False)
    monkeypatch.setattr(compiling, "_cores", lambda: 2)


def stand_in(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """A process that does something else instead of compiling."""
    monkeypatch.setattr(compiling, "_COMMAND", (sys.executable, "-c", program))


def test_the_first_update_waits_and_the_warm_up_does_not(
    make_trainer: MakeTrainer, first_time: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go, seen = tmp_path / "go", tmp_path / "seen"
    stand_in(
        monkeypatch,
        "import pathlib, sys, time\n"
        f"pathlib.Path({str(seen)!r}).write_bytes(sys.stdin.buffer.readline())\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\n",
    )
    trainer = make_trainer(warmup_steps=20)
    told: list[tuple[int, int, bool]] = []

    def release() -> None:
        while trainer.step < 19:
            time.sleep(0.01)
        time.sleep(0.3)
        told.append((trainer.step, trainer.learner.updates, is_compiling()))
        go.touch()

    thread = threading.Thread(target=release)
    thread.start()
    with compiled_beside(trainer) as wait:
        trainer.train(30, wait)
    thread.join()
    assert told == [(19, 0, True)] and trainer.step == 30 and trainer.learner.updates > 0
    assert '"discrete": false' in seen.read_text() and '"method": "resel"' in seen.read_text()


def test_a_machine_that_starts_no_process_compiles_by_itself(
    make_trainer: MakeTrainer, first_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_COMMAND", ("/no/such/python",))
    with compiled_beside(make_trainer()) as wait:
        assert wait == []


@pytest.mark.parametrize("program", ["raise SystemExit(1)", "import os; os.close(0)"])
def test_a_process_that_fails_is_nobodys_trouble(
    program: str, make_trainer: MakeTrainer, first_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, program)
    trainer = make_trainer()
    with compiled_beside(trainer) as wait:
        assert trainer.train(40, wait) and trainer.learner.updates > 0


def test_a_run_that_is_stopped_waits_no_longer(
    make_trainer: MakeTrainer, first_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "import time; time.sleep(600)")
    trainer = make_trainer()
    timer = threading.Timer(0.5, trainer.request_stop)
    timer.start()
    with compiled_beside(trainer) as wait:
        assert not trainer.train(40, wait)
        (waiting,) = wait
    assert trainer.step == 29 and trainer.learner.updates == 0
    process: subprocess.Popen[bytes] = waiting._process  # type: ignore[attr-defined]
    assert process.returncode is not None, "nothing is left behind"
    timer.join()


def test_results_do_not_depend_on_it(
    make_trainer: MakeTrainer, first_time: None, everything: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "import time; time.sleep(0.2)")
    beside, alone = make_trainer(), make_trainer()
    with compiled_beside(beside) as wait:
        beside.train(40, wait)
    alone.train(40)
    assert everything(beside) == everything(alone)


def test_it_is_left_where_it_brings_nothing(
    make_trainer: MakeTrainer, first_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "")
    trainer = make_trainer()
    assert compiling.compiles_beside(trainer)
    trainer.train(30)
    assert not compiling.compiles_beside(trainer), "the warm-up is over"
    trainer = make_trainer()
    monkeypatch.setattr(compiling, "_cores", lambda: 1)
    assert not compiling.compiles_beside(trainer)
    monkeypatch.setattr(compiling, "_cores", lambda: 2)
    monkeypatch.setattr(compiling, "kernels_are_compiled", lambda networks: True)
    assert not compiling.compiles_beside(trainer)
    with compiled_beside(trainer) as wait:
        assert wait == []


def test_what_is_said_of_it(
    make_trainer: MakeTrainer, first_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer()
    told = compiling_note(trainer)
    assert told == (
        "Compiling kernels for this machine while the warm-up plays: about a minute, once."
    )
    monkeypatch.setattr(compiling, "_cores", lambda: 1)
    assert compiling_note(trainer) == "Compiling kernels for this machine: about a minute, once."
    monkeypatch.setattr(compiling, "kernels_are_compiled", lambda networks: True)
    assert compiling_note(trainer) is None


def needed_and_used(
    config: Config, discrete: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[set[str], set[str]]:
    """The first kernels that networks ask for, and those that an update calls."""
    asked, called = set[str](), set[str]()
    dims = Dimensions(3, 2, discrete=discrete)
    learner = build_learner(config, dims, torch.device("cpu"))
    with monkeypatch.context() as patch:
        patch.setattr(numba_math, "is_compiled", lambda name: asked.add(name) or True)
        assert kernels_are_compiled(learner.networks.values())
        for file, module, name in (
            ("kernels", kernels, "bias_elu"),
            ("kernels", kernels, "gru_forward"),
            ("scan", scan, "forward"),
        ):
            patch.setattr(module, name, _noted(getattr(module, name), f"{file}.{name}", called))
        compile_kernels(config, dims)
    return asked, called


def _noted(function: Callable[..., Any], name: str, called: set[str]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        called.add(name)
        return function(*arguments)

    return call


@every_case
def test_networks_ask_for_the_kernels_they_use(
    method: Method, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One too many would be announced for ever, and one too few compiled without a word."""
    asked, used = needed_and_used(small_config(method), space == "Discrete", monkeypatch)
    assert asked == used


@pytest.mark.parametrize("encoder", [spec.name for spec in encoders()[0]])
def test_so_do_encoders(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.build("", {"encoder": encoder, "device": "cpu"})
    asked, used = needed_and_used(config, False, monkeypatch)
    assert asked == used


def test_kernels_of_another_encoder_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere:
        cache_path = str(tmp_path)

    monkeypatch.setattr(kernels.bias_elu, "_cache", Elsewhere)
    dims, cpu = Dimensions(3, 2, discrete=False), torch.device("cpu")
    gru, mamba, plain = (
        build_learner(Config.build("", given), dims, cpu).networks.values()
        for given in ({"encoder": "gru"}, {"encoder": "mamba"}, {"method": "sac-mlp"})
    )
    digest = numba_math._helper_digest()
    assert not kernels_are_compiled() and not kernels_are_compiled(gru)
    assert kernels_are_compiled(plain), "torch does it all"
    for name in ("kernels.bias_elu", "kernels.gru_forward"):
        (tmp_path / f"{name}_{digest}-39.py311.nbi").touch()
    assert kernels_are_compiled() and kernels_are_compiled(gru)
    assert not kernels_are_compiled(mamba)
    (tmp_path / "scan.forward_0123456789ab-48.py311.nbi").touch()  # of another version
    assert not kernels_are_compiled(mamba)
    (tmp_path / f"scan.forward_{digest}-48.py311.nbi").touch()
    assert kernels_are_compiled(mamba)


@pytest.mark.slow
def test_the_process_leaves_kernels_on_the_disk(
    make_trainer: MakeTrainer, first_time: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    trainer = make_trainer()
    with compiled_beside(trainer) as (waiting,):
        assert waiting._process.wait(300) == 0  # type: ignore[attr-defined]
    assert list(tmp_path.rglob("*.nbi"))


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {_WATCHED!r}], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    number, limit = int(done.stdout), time.monotonic() + 60
    while _runs(number):
        assert time.monotonic() < limit
        time.sleep(0.02)


_WATCHED = (
    "import threading, time\n"
    "from resel.training.compiling import _leave_with_parent\n"
    "threading.Thread(target=_leave_with_parent, daemon=True).start()\n"
    "time.sleep(600)\n"
)


def _runs(number: int) -> bool:
    try:
        os.kill(number, 0)
        return Path(f"/proc/{number}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
