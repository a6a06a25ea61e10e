"""Policies at their bounds: nothing is advised where nothing can be seen."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resel.analysis import diagnose
from resel.analysis._picture import _caption
from resel.analysis.saturation import Saturation, saturation_of
from resel.cli import main

MakeRun = Callable[..., Path]


def test_shares_by_hand() -> None:
    free, bound = [0.5, 0.9], [-1.0, 0.9995]
    episodes = [np.array([bound, free, free, bound]), np.array([free, free, bound, free, bound])]
    assert saturation_of(episodes, False, steps=4, last=2) == Saturation(0.5, 0.5)
    # Where one probability is about 1 the other's being 0 is not counted as well.
    chances = [np.array([[0.0001, 0.9999], [0.5, 0.5]]), np.array([[1.0, 0.0], [0.0, 1.0]])]
    assert saturation_of(chances, True, steps=2, last=1) == Saturation(1.0, 0.5)
    assert Saturation(1.0, 0.89).doubt() is None and Saturation(1.0, 0.89).at_first
    assert "91% of what it puts out" in str(Saturation(0.0, 0.91).doubt())


# At 30 actions are 1 to the last bit; at 8 they still move a little.
@pytest.mark.parametrize("certainty", [30.0, 8.0])
def test_a_saturated_policy_gets_no_advice(
    certainty: float, make_run: MakeRun, tmp_path: Path, capsys: Any
) -> None:
    path = make_run(certainty=certainty)
    assert main(["diagnose", str(path), "--episodes", "2", "--out", str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "The policy is saturated: 100% of what it puts out" in told
    assert "times as much" not in told and "--lr-ce" not in told and "balance" not in told
    printed = json.loads((tmp_path / "diagnosis.json").read_text())
    assert printed["doubt"].startswith("The policy is saturated") and printed["words"][-1]
    assert printed["balanced_lr"] is printed["factor"] is None
    measured = printed["amplification"]
    assert measured["saturation"] == {"first": 1.0, "converged": 1.0}
    assert {v["factor"] for v in measured["variations"]} == {None}


def test_a_certain_choice_gets_no_advice(make_run: MakeRun) -> None:
    found = diagnose(make_run("toy/LongDiscrete-v0", certainty=30.0), episodes=3)
    assert "The policy is saturated" in str(found.doubt) and found.words()[-1] == found.doubt
    assert "The policy is saturated" in _caption(found.amplification, None, width=100)


def test_variations_that_are_rounding_get_no_advice(make_run: MakeRun) -> None:
    found = diagnose(make_run(lr_policy=1e-12, lr_context_encoder=1e-12), episodes=3)
    assert found.amplification.saturation.doubt() is None
    assert found.balanced_lr is None and found.to_json()["factor"] is None
    assert (
        "moves the policy's output by 0 in the end" in str(found.doubt)
        and "rounding" in found.words()[-1]
    )
    assert "rounding" in _caption(found.amplification, None, width=100)


def test_saturated_first_steps_leave_the_advice_but_no_factors(make_run: MakeRun) -> None:
    found = diagnose(make_run(), episodes=3)
    assert found.doubt is None and found.to_json()["factor"] > 0
    assert "\n" not in _caption(found.amplification, found.doubt, width=100)
    begun = dataclasses.replace(found.amplification, saturation=Saturation(0.95, 0.2))
    changed = dataclasses.replace(found, amplification=begun)
    assert changed.doubt is None and changed.to_json()["factor"] is None
    findings, advice = changed.words()
    assert "first actions of the policy are saturated" in findings and "times as" not in findings
    assert advice == found.words()[1]
