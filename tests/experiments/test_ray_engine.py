"""Ray on one machine: the same ledger, and workers that die."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from fake_runs import fake_job

from resel.errors import ConfigError, MissingDependencyError
from resel.experiments.engines import Ledger, _ledger, run_ray
from resel.experiments.engines import ray as engine


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
    ledger = Ledger.of([good, nan, lost, hopeless], attempts=2)
    run_ray(ledger, lambda: None, slots=2, address=None)
    found = {run.name: entry.status for run, entry in ledger.entries.items()}
    expected = {"good": "completed", "nan": "diverged", "lost": "completed", "hopeless": "failed"}
    assert found == expected
    assert ledger.entries[hopeless.run].problem == "exit code 2: never"
    assert len((lost.run / "calls").read_text().splitlines()) == 2
    again = Ledger.of([good, nan, lost])
    assert not again.waiting()


def test_a_cluster_that_is_not_there() -> None:
    with socket.socket() as taken:  # bound but not listening: nobody answers
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"Nobody answers at --ray-address {address}"):
            run_ray(Ledger.of([]), lambda: None, slots=1, address=address)
    with pytest.raises(ConfigError, match="HOST:PORT"):
        run_ray(Ledger.of([]), lambda: None, slots=1, address="somewhere")


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(engine.importlib, "import_module", absent)
    with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[ray\]'"):
        run_ray(Ledger.of([]), lambda: None, slots=1, address=None)
