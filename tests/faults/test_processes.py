"""Real processes: a second one in the same run, signals, and runs that go on elsewhere."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from command import start
from terminal import pretend_machine

from resel.cli import main
from resel.runs import RunDirectory, read_bundle, read_metrics

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture(scope="module")
def flags(tiny_flags: list[str]) -> list[str]:
    often = ["--checkpoint-every", "1000", "--eval-every", "1000", "--threads", "1"]
    return ["train", "TMaze-v0", *tiny_flags, *often, "--run-dir"]


def wait_for_lines(process: subprocess.Popen[str], run: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "metrics.jsonl").exists() and len(read_metrics(run / "metrics.jsonl")) >= count:
            return
        time.sleep(0.02)
    pytest.fail(f"no {count} lines: {process.communicate(timeout=10)}")


def result(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "result.json").read_text()))


def test_a_run_in_use(flags: list[str], tmp_path: Path, capsys: Any) -> None:
    assert main([*flags, "run", "--steps", "40"]) == 0
    with RunDirectory.open(tmp_path / "run"):
        assert main(["resume", "run", "--steps", "50"]) == 75
    assert "is in use by another process" in capsys.readouterr().err
    assert main(["resume", "run", "--steps", "50"]) == 0


@pytest.mark.slow
def test_a_second_process_is_refused(flags: list[str], tmp_path: Path, capsys: Any) -> None:
    process = start(*flags, "run", "--steps", "1e6")
    try:
        wait_for_lines(process, tmp_path / "run", 3)
        for argv in (["resume", "run"], [*flags, "run", "--steps", "1e6", "--resume", "auto"]):
            assert main(argv) == 75
            told = capsys.readouterr().err
            assert f"in use by another process (pid {process.pid})" in told
            assert told.startswith("Error: ") and told.count("\n") == 1
    finally:
        process.kill()  # the system takes the lock away from the dead
        process.communicate()
    assert main([*flags, "run", "--steps", "40", "--resume", "auto"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_a_resume_is_exact(
    flags: list[str], tmp_path: Path, number: int, code: int
) -> None:
    process = start(*flags, "run", "--steps", "1e6")
    wait_for_lines(process, tmp_path / "run", 4)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err and "Go on with: resel resume run" in out
    steps = result(tmp_path / "run")["steps"] + 25
    assert main(["resume", "run", "--steps", str(steps)]) == 0
    assert main([*flags, "whole", "--steps", str(steps)]) == 0
    found, wanted = result(tmp_path / "run"), result(tmp_path / "whole")
    clocks = {"wall_seconds": 0, "cpu_seconds": 0}
    assert found | clocks == wanted | clocks and found["exact"] is True
    one, other = (
        read_bundle(p / "agents/last", "agent").tensors["weights"]
        for p in (tmp_path / "run", tmp_path / "whole")
    )
    assert all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.slow
def test_two_signals_end_it_at_once(flags: list[str], tmp_path: Path) -> None:
    process = start(*flags, "run", "--steps", "1e6")
    wait_for_lines(process, tmp_path / "run", 4)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    if list((tmp_path / "run").glob("checkpoints/step-*")):  # the first one was quick enough
        assert main(["resume", "run", "--steps", str(result(tmp_path / "run")["steps"])]) == 0


# The verb


def test_resume_goes_on_with_the_runs_own_settings(
    flags: list[str], tmp_path: Path, capsys: Any
) -> None:
    assert main([*flags, "run", "--steps", "40", "--gamma", "0.9"]) == 0
    capsys.readouterr()
    assert main(["resume", "run", "--steps", "60"]) == 0
    assert "Going on from step 40." in capsys.readouterr().out
    assert json.loads((tmp_path / "run/config.json").read_text())["training"]["steps"] == 60
    assert main([*flags, "whole", "--steps", "60", "--gamma", "0.9"]) == 0
    one, other = (
        read_bundle(p / "agents/last", "agent").tensors["weights"]
        for p in (tmp_path / "run", tmp_path / "whole")
    )
    assert all(torch.equal(one[k], other[k]) for k in one)


def test_settings_that_may_change_and_others(flags: list[str], tmp_path: Path, capsys: Any) -> None:
    assert main([*flags, "run", "--steps", "40", "--gamma", "0.9"]) == 0
    patient = ["--env-timeout", "7", "--env-restarts", "3", "--disk-tries", "2", "--disk-wait", "1"]
    assert main(["resume", "run", "--steps", "60", "--checkpoint-every", "50", *patient]) == 0
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["algorithm"]["gamma"] == 0.9
    expected = {"env_timeout": 7.0, "env_restarts": 3, "disk_tries": 2, "disk_wait": 1.0}
    expected |= {"steps": 60, "checkpoint_every": 50, "eval_every": 1000}
    assert {name: config["training"][name] for name in expected} == expected
    assert (tmp_path / "run/checkpoints/step-000000050").is_dir()

    capsys.readouterr()
    assert main(["resume", "run", "--gamma", "0.8", "--seed", "5", "--env-timeout", "9"]) == 2
    told = capsys.readouterr().err
    assert "gamma: 0.9 there, 0.8 asked" in told and "seed: 1 there, 5 asked" in told
    assert "env_timeout:" not in told
    assert "may change on the way is steps, eval_every" in told
    assert json.loads((tmp_path / "run/config.json").read_text()) == config

    with pytest.raises(SystemExit) as left:
        main(["resume", "run", "--help-all"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert left.value.code == 0 and "(default: 0.9)" in shown and "(default: 7)" in shown


def test_a_finished_run_says_so(flags: list[str], tmp_path: Path, capsys: Any) -> None:
    command = [*flags, "run", "--steps", "35"]
    assert main(command) == 0
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")}
    resume = ["resume", "run"]
    for argv in (resume, [*command, "--resume", "auto"], [*resume, "--steps", "9"]):
        capsys.readouterr()
        assert main(argv) == 0
        told = capsys.readouterr()
        assert told.out.startswith("run is finished. Completed: 35 steps") and told.err == ""
        assert told.out.count("\n") == 1
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")} == before


def _damage(folder: Path) -> None:
    """One bit of a saved bundle's weights."""
    file = folder / "weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.filterwarnings("default")
def test_damage_to_a_finished_run_is_told(flags: list[str], tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    assert main([*flags, "run", "--steps", "40", "--checkpoint-every", "30"]) == 0
    weights = read_bundle(run / "agents/last", "agent").tensors["weights"]

    def resume() -> Any:
        capsys.readouterr()
        assert main(["resume", "run"]) == 0
        again = read_bundle(run / "agents/last", "agent").tensors["weights"]
        assert all(torch.equal(again[name], weights[name]) for name in weights)
        assert result(run)["status"] == "completed" and result(run)["steps"] == 40
        return capsys.readouterr()

    _damage(run / "agents/best")
    _damage(run / "checkpoints/step-000000040")
    told = resume()  # finished all the same: nothing is written
    assert told.out.startswith("run is finished") and told.err.count("Warning: ") == 2
    assert "last agent of the run is good" in told.err and "from an earlier checkpoint" in told.err

    _damage(run / "agents/last")
    told = resume()  # both are lost, so the last ten steps are taken once more
    assert "makes it anew from its checkpoints" in told.err
    assert "Going on from step 30." in told.out

    (run / "agents/last/manifest.json").write_text("{")
    told = resume()
    assert "makes it anew" in told.err and "Going on from step 40." in told.out
    assert (run / "agents/unreadable-last").is_dir()


def test_resume_without_a_run(capsys: Any) -> None:
    assert main(["resume", "nowhere"]) == 2
    assert "There is no run in" in capsys.readouterr().err


# Exactness


@pytest.mark.filterwarnings("default")
def test_another_machine_is_refused_unless_forced(
    flags: list[str], tmp_path: Path, capsys: Any
) -> None:
    run = tmp_path / "run"
    assert main([*flags, "run", "--steps", "40"]) == 0
    pretend_machine(run, processor="Abacus 9", torch="1.0", mujoco="0.5")
    before = (run / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert main(["resume", "run", "--steps", "60"]) == 2
    told = capsys.readouterr().err
    assert (
        "processor: Abacus 9 then" in told and f"torch: 1.0 then, {torch.__version__} now" in told
    )
    assert "mujoco: 0.5 then" in told and "--force" in told and "numpy" not in told
    assert (run / "metrics.jsonl").read_bytes() == before

    assert main(["resume", "run", "--steps", "60", "--force"]) == 0
    assert "not exact" in capsys.readouterr().out
    ended = result(run)
    assert ended["exact"] is False and len(ended["inexact_because"]) == 3
    (line,) = [ln for ln in read_metrics(run / "metrics.jsonl") if ln["kind"] == "resume"]
    assert line["step"] == 40 and line["exact"] is False and "Abacus 9" in line["reasons"]

    assert main(["resume", "run", "--steps", "70"]) == 0  # the same machine now: not refused
    assert result(run)["exact"] is False  # but never exact again


def test_other_threads_are_another_machine(flags: list[str], tmp_path: Path, capsys: Any) -> None:
    assert main([*flags, "run", "--steps", "40"]) == 0
    assert result(tmp_path / "run")["exact"] is True
    more = [*flags, "run", "--steps", "60", "--threads", "2", "--resume", "auto"]
    assert main(more) == 2
    assert "threads: 1 then, 2 now" in capsys.readouterr().err
    assert main([*more, "--force"]) == 0
    assert result(tmp_path / "run")["inexact_because"] == ["threads: 1 then, 2 now"]


def test_an_agent_does_not_care(flags: list[str], tmp_path: Path) -> None:
    assert main([*flags, "run", "--steps", "40"]) == 0
    pretend_machine(tmp_path / "run", processor="Abacus 9")
    assert main(["eval", "run", "--episodes", "1"]) == 0
