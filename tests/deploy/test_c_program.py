"""The header in a program: what it refuses, its small functions, other compilers, its speed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from c_policies import STRICT, compiler, header_of, small_learner, some_steps
from numpy.typing import NDArray

from resel.deploy import Steps, compiled, find_compiler
from resel.deploy._c_text import functions_for
from resel.errors import MissingDependencyError, ReselError

FAST = ("-std=c99", "-O3", "-ffast-math", "-Wall", "-Wextra", "-Werror", "-pedantic")


def spoilt(steps: Steps, at: int, observation: float | None, reward: float = 0.0) -> Steps:
    """The same with one step more, which must be refused."""
    bad = steps.observation[at].copy()
    if observation is not None:
        bad[1] = observation
    return Steps(
        np.insert(steps.start, at, False),
        np.insert(steps.observation, at, bad, 0),
        np.insert(steps.reward, at, np.float32(reward)),
    )


@pytest.mark.parametrize(("name", "space"), [("gcc", "Box"), ("clang", "Discrete")])
def test_bad_sensors_are_told_and_leave_the_state_as_it_was(name: str, space: str) -> None:
    learner = small_learner(space, encoder="mamba", reward_input=True)
    steps = some_steps(60)
    steps = steps._replace(start=np.arange(60) == 0)
    negative_nan = float(np.array(0xFFC00001, np.uint32).view(np.float32))
    cases = [
        (np.nan, 0.0, 1),
        (negative_nan, 0.0, 1),
        (np.inf, 0.0, 1),
        (-np.inf, 0.0, 1),
        (50.1, 0.0, 2),
        (-3e38, 0.0, 2),
        (None, np.nan, 1),
        (None, -np.inf, 1),
        (None, 501.0, 2),
        (None, -3e38, 2),
    ]
    with compiled(header_of(learner, space), compiler(name), FAST) as program:
        assert program.self_test() == 0
        good = program.run(steps)
        assert not good.codes.any()
        for observation, reward, code in cases:
            found = program.run(spoilt(steps, 30, observation, reward))
            assert found.codes.tolist() == [0] * 30 + [code] + [0] * 30
            assert np.array_equal(found.actions[30], found.actions[29])  # left alone
            assert np.array_equal(np.delete(found.actions, 30, 0), good.actions)


def test_no_reward_is_read_at_a_start() -> None:
    learner = small_learner("Box", encoder="gru", reward_input=True)
    steps = some_steps(5)._replace(start=np.array([True, False, True, False, False]))
    with compiled(header_of(learner, "Box"), compiler("gcc"), STRICT) as program:
        reward = np.where(steps.start, np.float32(np.nan), steps.reward)
        found = program.run(steps._replace(reward=reward))
        assert not found.codes.any()
        assert np.array_equal(found.actions, program.run(steps).actions)


OWN_MAIN = """
#define RESEL_SELF_TEST
#include "policy.h"
#include <stdio.h>

int main() {
    static resel_state zeros, reset;
    float obs[RESEL_OBSERVATIONS] = {0.5f}, first[RESEL_ACTIONS], second[RESEL_ACTIONS];
    int test = resel_self_test(), code;
    memset(&reset, 0x7f, sizeof reset);
    resel_reset(&reset);
    if (resel_step(&zeros, obs, first) || resel_step(&reset, obs, second)) return 1;
    if (memcmp(first, second, sizeof first)) return 2;
    memset(&zeros, 0xff, sizeof zeros); /* NaNs */
    code = resel_step(&zeros, obs, first);
    if (memcmp(first, second, sizeof first)) return 3;
    printf("%d %d\\n", test, code);
    return 0;
}
"""


@pytest.mark.parametrize("name", ["g++", "clang++"])
def test_a_program_of_c_plus_plus_and_a_spoilt_state(name: str, tmp_path: Path) -> None:
    (tmp_path / "policy.h").write_text(header_of(small_learner("Box", encoder="lstm"), "Box"))
    (tmp_path / "main.cpp").write_text(OWN_MAIN)
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-ffast-math"]
    command = [compiler(name), *strict, "-o", "main", "main.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "3"]


def of_each(call: str, given: NDArray[np.generic], kind: str, folder: Path) -> NDArray[np.float32]:
    """What one of the small functions makes of numbers, compiled to be fast and loose."""
    text = f"""#include <math.h>
#include <stdint.h>
#include <string.h>
#include <stdio.h>
{functions_for(call)}
int main(void) {{
    {kind} x;
    while (fread(&x, sizeof x, 1, stdin) == 1) {{
        float y = {call}(x);
        fwrite(&y, sizeof y, 1, stdout);
    }}
    return 0;
}}
"""
    (folder / "each.c").write_text(text)
    subprocess.run([compiler("gcc"), *FAST, "-o", "each", "each.c", "-lm"], cwd=folder, check=True)
    done = subprocess.run([folder / "each"], input=given.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32)


def test_every_number_of_16_bits_is_read_exactly(tmp_path: Path) -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    found = of_each("resel_half", halves, "uint16_t", tmp_path)
    assert np.array_equal(found, halves.astype(np.float32))


def test_decays_are_exponentials(tmp_path: Path) -> None:
    x = np.concatenate([-np.logspace(-9, 2, 4000), [0.0, -0.0, -87.5, -3e38]]).astype(np.float32)
    found = of_each("resel_decay", x, "float", tmp_path)
    assert found == pytest.approx(np.exp(x.astype(np.float64)), rel=1e-5, abs=2e-38)


def test_the_time_of_a_step_is_measured_inside() -> None:
    with compiled(header_of(small_learner("Box", encoder="gru"), "Box")) as program:
        assert 1e-9 < program.seconds_per_step(some_steps(50), 2000) < 1e-3


def test_a_machine_without_a_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert find_compiler() is None
    with pytest.raises(MissingDependencyError, match="install gcc or clang"), compiled(""):
        pass


def test_a_compiler_of_several_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"env {compiler('gcc')} -O1")
    header = header_of(small_learner("Box", encoder="mlp"), "Box")
    with compiled(header) as program:
        assert program.self_test() == 0
    for wrong in ("no-such-cache gcc", "'gcc"):
        monkeypatch.setenv("CC", wrong)
        assert find_compiler() is None


def test_a_header_that_was_altered_is_not_compiled() -> None:
    with pytest.raises(ReselError, match="failed on the policy's header"), compiled("int"):
        pass
