"""RESeL's numbers stay what they are: bit for bit where they were recorded, else to rounding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import digests
import numpy as np
import pytest
import torch

_RECORDED: dict[str, Any] = json.loads(digests.RECORDED.read_text())


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _check(name: str, found: dict[str, Any]) -> None:
    recorded = _RECORDED["cases"][name]
    np.testing.assert_allclose(found["norms"], recorded["norms"], rtol=2e-3)
    if digests.machine() == _RECORDED["machine"]:
        assert found["bits"] == recorded["bits"]


def test_every_case_is_recorded() -> None:
    assert {*digests.update_cases(), *digests.run_cases()} == {*_RECORDED["cases"]}


@pytest.mark.parametrize("name", digests.update_cases())
def test_updates(name: str) -> None:
    _check(name, digests.digest(digests.updated(digests.update_cases()[name])))


@pytest.mark.parametrize("name", digests.run_cases())
def test_short_runs(name: str) -> None:
    _check(name, digests.digest(digests.trained(digests.run_cases()[name])))
