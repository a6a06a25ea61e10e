"""Ray on one machine: the same ledger, and workers that die."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_runs import SAVES_WHEN_ASKED, Choosy, fake_job, write_run

from resel.errors import ConfigError, MissingDependencyError
from resel.experiments.engines import Ledger, _ledger, run_ray
from resel.experiments.engines import ray as engine
from resel.runs import RunDirectory, is_in_use


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, ray_environment: None) -> None:
    monkeypatch.setattr(_ledger, "_WAITS", (0.0,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own, in whatever release is installed
def test_one_machine(tmp_path: Path) -> None:
    good = fake_job(tmp_path, "good")
    nan = fake_job(tmp_path, "nan", "end('diverged', 3)")
    # The parent of a run is Ray's worker: killing it is what a machine that is lost looks like.
    lost = fake_job(
        tmp_path, "lost", "end('completed', 0) if calls == 2 else os.kill(os.getppid(), 9)"
    )
    hopeless = fake_job(tmp_path, "hopeless", "print('Error: never'); sys.exit(2)")
    wide = fake_job(tmp_path, "wide", threads=8, memory=10**15)  # planned for elsewhere
    ledger = Ledger.of([good, nan, lost, hopeless, wide], attempts=2)
    run_ray(ledger, lambda: None, slots=2, address=None)
    found = {run.name: entry.status for run, entry in ledger.entries.items()}
    assert found == {
        "good": "completed",
        "nan": "diverged",
        "lost": "completed",
        "hopeless": "failed",
        "wide": "completed",
    }
    assert ledger.entries[hopeless.run].problem == "exit code 2: never"
    assert len((lost.run / "calls").read_text().splitlines()) == 2
    again = Ledger.of([good, nan, lost])
    assert not again.waiting()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_runs_that_nobody_needs_any_more_save_and_leave(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run", SAVES_WHEN_ASKED)
    ledger = Choosy.of([job], attempts=1)
    run_ray(ledger, lambda: None, slots=1, address=None)
    deadline = time.monotonic() + 30
    while not (job.run / "ends").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert json.loads((job.run / "result.json").read_text())["status"] == "interrupted"


def test_an_interrupted_sweep_lets_its_runs_save(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run")
    write_run(job.run, [], status=None)
    last_breath = RunDirectory.open(job.run)
    ledger = Ledger.of([job])
    ledger.started(job)
    closing = threading.Timer(0.2, last_breath.close)
    closing.start()
    engine._let_save([job], ledger)
    assert not closing.is_alive() and not is_in_use(job.run)
    assert ledger.entries[job.run].status == "waiting"


def test_a_cluster_without_a_machine_that_is_large_enough() -> None:
    machines = [
        {"Alive": True, "Resources": {"CPU": 4.0, "memory": 8e9}},
        {"Alive": False, "Resources": {"CPU": 64.0, "memory": 99e9}},
    ]
    ray = SimpleNamespace(nodes=lambda: machines)
    small = {"CPU": 4, "GPU": 0, "memory": 8 * 10**9}
    assert engine._has_place(ray, small)
    assert not engine._has_place(ray, {**small, "CPU": 5})
    large = {**small, "GPU": 1, "memory": 9 * 10**9}
    assert not engine._has_place(ray, large)
    assert engine._words(large) == "4 CPUs, 1 GPU, 9.0 GB of memory"


def test_a_full_cluster_is_given_no_more(tmp_path: Path) -> None:
    one, two = fake_job(tmp_path, "one", threads=1), fake_job(tmp_path, "two", threads=2)
    assert not engine._is_full({"CPU": 3.0}, [one], two, gpus=0)
    assert engine._is_full({"CPU": 2.0}, [one], two, gpus=0)
    assert not engine._is_full({}, [], two, gpus=0), "Ray waits for a machine, and it is told"
    assert engine._is_full({"CPU": 9.0, "GPU": 1.0}, [one], two, gpus=1)
    assert not engine._is_full({"CPU": 9.0, "GPU": 2.0}, [one], two, gpus=1)


def test_an_address_is_a_host_and_a_port(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        run_ray(Ledger.of([fake_job(tmp_path, "a")]), lambda: None, slots=1, address="somewhere")


def test_nothing_to_do_needs_no_cluster(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run")
    write_run(job.run, [])
    run_ray(Ledger.of([job]), lambda: None, slots=1, address="nowhere")
    assert not (job.run / "calls").exists()


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(engine.importlib, "import_module", absent)
    with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[ray\]'"):
        run_ray(Ledger.of([fake_job(tmp_path, "a")]), lambda: None, slots=1, address=None)
