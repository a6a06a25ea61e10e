"""Targets of the Makefile that decide something, with an environment of stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project_tools import ROOT


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(("device", "tested"), [("cuda", False), ("cpu", True)])
def test_the_tests_of_devices_need_one(device: str, tested: bool, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    # The one Python asks torch; that which runs the tests only says so.
    python = f'case "$*" in *pytest*) echo tested;; *) exec {sys.executable} "$@";; esac'
    for name, does in (("resel", "true"), ("python", python)):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    (tmp_path / ".installed").touch()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "RESEL_TEST_DEVICE": device}
    done = subprocess.run(
        ["make", "-C", str(ROOT), "test-gpu", f"VENV={tmp_path}"],
        env=environment | {"HIP_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert ("\ntested\n" in done.stdout) is (done.returncode == 0) is tested
    assert ("No GPU was found" in done.stderr) is not tested
    assert ("nothing was tested" in done.stderr) is not tested
