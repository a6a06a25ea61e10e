"""Advice on the rate of the context encoder, and the command that gives it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from resel.analysis import Diagnosis, Rates, diagnose
from resel.analysis.diagnosis import crossing
from resel.cli import main

MakeRun = Callable[..., Path]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """The command sets the threads of its process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("start", [1e-5, 1e-4, 0.01])
def test_bisection_finds_the_crossing(start: float) -> None:
    asked: list[float] = []

    def variation(rate: float) -> float:
        asked.append(rate)
        return 3 * rate**1.5

    found = crossing(variation, target=3 * 4e-4**1.5, start=start)
    assert found == pytest.approx(4e-4, rel=0.02)
    assert len(asked) == len(set(asked)) < 20


def test_a_target_out_of_reach_has_no_crossing() -> None:
    assert crossing(lambda rate: min(rate, 0.5), target=0.6, start=0.1) is None
    assert crossing(lambda rate: 0.7 + rate, target=0.6, start=0.1) is None


@pytest.mark.parametrize("encoder", ["gru", "mamba"])
def test_the_balanced_rate_balances(encoder: str, make_run: MakeRun) -> None:
    found = diagnose(make_run(encoder=encoder), episodes=5)
    assert found.lr_context_encoder == 1e-3 and found.lr_other == 3e-4
    assert found.balanced_lr is not None
    balanced = found.amplification.of(Rates(found.balanced_lr, 0.0))
    assert balanced.converged == pytest.approx(found.others.converged, rel=0.05)
    assert found.own.rates == (1e-3, 0.0) and found.same_rate.rates == (3e-4, 0.0)


def test_a_rate_that_steers_itself_is_the_one_it_has_now(make_run: MakeRun) -> None:
    found = diagnose(make_run(lr_context_encoder="auto"), episodes=5)
    assert 0 < found.lr_context_encoder < found.lr_other


def test_the_advice_in_words(make_run: MakeRun) -> None:
    found = diagnose(make_run(), episodes=3)
    assert found.balanced_lr is not None

    def words(own: float, balanced: float | None) -> str:
        changed = dataclasses.replace(found, lr_context_encoder=own, balanced_lr=balanced)
        return " ".join(changed.words())

    unstable, safe, good = words(1e-3, 1e-4), words(1e-5, 1e-4), words(1e-4, 1e-4)
    assert "10 times that" in unstable and "lower --lr-ce to about 0.0001" in unstable
    assert "10 times smaller than that: safe" in safe and "room up to --lr-ce 0.0001" in safe
    assert "3 times smaller than LR_other" in good
    assert "This run uses LR_CE = 0.0001, about the same as that: in balance" in good
    assert "at LR_CE = 0.00031, about the same as LR_other" in words(1e-4, 3.1e-4)
    assert "nothing to balance" in words(1e-4, None)


@pytest.mark.parametrize(
    ("memory", "others", "said"),
    [
        (13.0, 5.2, "The context encoder's factor is 2.5 times larger."),
        (2.1, 5.2, "The context encoder's factor is 2.5 times smaller."),
        (5.4, 5.2, "Both grow by about the same factor."),
    ],
)
def test_the_growth_in_words(memory: float, others: float, said: str, make_run: MakeRun) -> None:
    found = diagnose(make_run(), episodes=3)
    factors = {found.same_rate.rates: memory, found.others.rates: others}
    variations = [
        dataclasses.replace(v, first=0.1, converged=0.1 * factors.get(v.rates, 1.0))
        for v in found.amplification.variations
    ]
    grown = dataclasses.replace(found.amplification, variations=tuple(variations))
    assert said in dataclasses.replace(found, amplification=grown).words()[0]


def test_few_updates_are_a_caveat(make_run: MakeRun) -> None:
    found = diagnose(make_run(), episodes=3)
    assert found.amplification.updates < 150
    told = found.words()[0]
    assert told.startswith(f"After only {found.amplification.updates} updates all of this may")
    later = dataclasses.replace(found.amplification, updates=1000)
    assert dataclasses.replace(found, amplification=later).words()[0].startswith("At LR_CE")


def test_rates_that_are_equal_are_measured_once(make_run: MakeRun) -> None:
    path = make_run(lr_context_encoder=3e-4, lr_policy=3e-4)
    pairs = [v.rates for v in diagnose(path, episodes=2).amplification.variations]
    assert len(pairs) == len(set(pairs)) == 4


# The command


def test_the_command(make_run: MakeRun, tmp_path: Path, capsys: Any) -> None:
    path, out = make_run(), tmp_path / "new" / "folder"
    assert main(["diagnose", str(path), "--episodes", "4", "--out", str(out)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "toy/LongBox-v0 with gru at step 150" in told and "effective values" in told
    assert "LR_CE = LR_other = 0.0003" in told and "This run uses LR_CE = 0.001" in told
    assert {file.name for file in out.iterdir()} == {"diagnosis.json", "diagnosis.png"}
    with Image.open(out / "diagnosis.png") as picture:
        assert picture.width > 800 and len(picture.convert("RGB").getcolors(1 << 20) or []) > 20
    written = json.loads((out / "diagnosis.json").read_text())

    assert main(["diagnose", str(path), "--episodes", "4", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == written
    assert printed["balanced_lr"] > 0 and printed["factor"] > 0
    assert printed["amplification"]["task"] == "toy/LongBox-v0"
    effective = printed["effective"]
    assert 0 <= effective["K_h"] < 1 and effective["K_y"] >= 0 and effective["epsilon"] >= 0


def test_the_picture_of_long_and_of_unchanged_episodes(make_run: MakeRun, tmp_path: Path) -> None:
    found: Diagnosis = diagnose(make_run(), episodes=2)
    longer = [
        dataclasses.replace(
            v,
            mean=v.mean * 4,
            standard_error=v.standard_error * 4,
            running_mean=v.running_mean * 4,
            bound=v.bound * 4,
        )
        for v in found.amplification.variations
    ]
    wide = dataclasses.replace(
        found,
        amplification=dataclasses.replace(found.amplification, variations=tuple(longer)),
    )
    (_, narrow_file), (_, wide_file) = found.write(tmp_path / "a"), wide.write(tmp_path / "b")
    with Image.open(narrow_file) as narrow, Image.open(wide_file) as three_panels:
        assert three_panels.width > narrow.width


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"encoder": "mlp"}, "no recurrence"), ({"until": 20}, "learning had not begun")],
)
def test_runs_the_command_refuses(
    settings: dict[str, Any], message: str, make_run: MakeRun, capsys: Any
) -> None:
    path = make_run(**settings)
    capsys.readouterr()
    assert main(["diagnose", str(path)]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("Error: ") and message in told.err and told.err.count("\n") == 1


def test_paths_the_command_refuses(make_run: MakeRun, tmp_path: Path, capsys: Any) -> None:
    for path, message in (
        (tmp_path / "nowhere", "There is no run in"),
        (make_run() / "agents" / "last", "There is no run in"),
    ):
        assert main(["diagnose", str(path)]) == 2
        assert message in capsys.readouterr().err
    assert main(["diagnose", str(make_run()), "--episodes", "1"]) == 2
    assert "episodes=1 is too small" in capsys.readouterr().err


def test_places_the_command_cannot_write_to(make_run: MakeRun, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").touch()
    command = ["diagnose", str(make_run()), "--episodes", "2", "--out"]
    assert main([*command, str(tmp_path / "file")]) == 2
    assert "is a file: give a folder" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written to" in capsys.readouterr().err
