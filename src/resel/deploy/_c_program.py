"""A header of C as a program of this machine: compiled, run over steps, and timed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resel.deploy._c_vectors import Steps
from resel.errors import MissingDependencyError, ReselError

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O3")
_LONGEST_COMPILATION = 600

_MAIN = r"""
#define RESEL_SELF_TEST
#include "policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if RESEL_DISCRETE
typedef int resel_number;
#else
typedef float resel_number;
#endif

static resel_state state;

static int act(const float *read, resel_number *actions) {
#if RESEL_READS_REWARD
    return resel_step(&state, read + 2, read[1], actions);
#else
    return resel_step(&state, read + 2, actions);
#endif
}

/* Of each step: whether it begins an episode, the reward, the observation. */
static int answer(void) {
    float read[2 + RESEL_OBSERVATIONS];
    resel_number actions[RESEL_ACTIONS] = {0};
    while (fread(read, sizeof read, 1, stdin) == 1) {
        int code;
        if (read[0] > 0.5f) resel_reset(&state);
        code = act(read, actions);
        fwrite(&code, sizeof code, 1, stdout);
        fwrite(actions, sizeof actions, 1, stdout);
#if RESEL_DISCRETE
        fwrite(resel_logits(&state), sizeof state.logits, 1, stdout);
#endif
    }
    return ferror(stdin) || fflush(stdout);
}

/* Nanoseconds of a step, by all the steps that are given, over and over. */
static int measure(int steps) {
    size_t width = 2 + RESEL_OBSERVATIONS, count = 0, room = 1024;
    float *read = (float *)malloc(room * width * sizeof(float));
    resel_number actions[RESEL_ACTIONS] = {0};
    clock_t begun;
    double sum = 0.0;
    int t;
    while (read && fread(read + count * width, sizeof(float), width, stdin) == width)
        if (++count == room) break;
    if (!read || !count) return 1;
    for (t = 0; t < steps / 10; t++) act(read + (size_t)t % count * width, actions);
    begun = clock();
    for (t = 0; t < steps; t++) {
        act(read + (size_t)t % count * width, actions);
        sum += (double)actions[0];
    }
    printf("%.17g %g\n", (double)(clock() - begun) / CLOCKS_PER_SEC / steps * 1e9, sum);
    free(read);
    return 0;
}

int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "test")) {
        printf("%d\n", resel_self_test());
        return 0;
    }
    return count == 3 ? measure(atoi(words[2])) : answer();
}
"""


class Answers(NamedTuple):
    """What a program did in steps that follow each other, first axis T."""

    codes: NDArray[np.int32]
    """0 where it acted."""
    actions: NDArray[np.float32] | NDArray[np.int32]
    """(T, entries)"""
    logits: NDArray[np.float32] | None
    """(T, A), of Discrete actions"""


@dataclass(frozen=True)
class CProgram:
    """A policy's header, compiled."""

    path: Path
    entries: int
    """Numbers of an action."""
    choices: int
    """Discrete actions; 0 for Box."""

    def run(self, steps: Steps) -> Answers:
        """Act in all steps, one after the other."""
        kind = np.int32 if self.choices else np.float32
        fields = [("code", np.int32), ("actions", kind, (self.entries,))]
        fields += [("logits", np.float32, (self.choices,))] if self.choices else []
        found = np.frombuffer(self._call([], _packed(steps)), np.dtype(fields))
        return Answers(found["code"], found["actions"], found["logits"] if self.choices else None)

    def self_test(self) -> int:
        """0, or the first step in which it does not do what it should."""
        return int(self._call(["test"], b""))

    def seconds_per_step(self, steps: Steps, repeats: int) -> float:
        """Processor time of a step, measured inside."""
        return float(self._call(["time", str(repeats)], _packed(steps)).split()[0]) * 1e-9

    def _call(self, words: Sequence[str], given: bytes) -> bytes:
        done = subprocess.run([str(self.path), *words], input=given, capture_output=True)
        if done.returncode:
            raise ReselError(f"The compiled policy ended with code {done.returncode}.")
        return done.stdout


def find_compiler() -> str | None:
    """A compiler of C on this machine: $CC, which may be a command of several words, or one of the
    usual names."""
    asked = os.environ.get("CC", "").strip()
    if not asked:
        return next(filter(None, map(shutil.which, COMPILERS)), None)
    return asked if shutil.which(_command(asked)[0]) else None


def _command(compiler: str) -> list[str]:
    """Its words, where it is not one file whose name has blanks."""
    if shutil.which(compiler):
        return [compiler]
    try:
        return shlex.split(compiler) or [compiler]
    except ValueError:  # a quotation that does not end
        return [compiler]


@contextmanager
def compiled(
    header: str, compiler: str | None = None, flags: Sequence[str] = FLAGS
) -> Iterator[CProgram]:
    """The header as a program, for as long as this lasts."""
    chosen = compiler or find_compiler()
    if chosen is None:
        raise MissingDependencyError(
            "There is no compiler of C on this machine: install gcc or clang, or name yours in CC."
        )
    with tempfile.TemporaryDirectory(prefix="resel-c-") as folder:
        place = Path(folder)
        (place / "policy.h").write_text(header)
        (place / "main.c").write_text(_MAIN)
        command = [*_command(chosen), *flags, "-o", "policy", "main.c", "-lm"]
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=_LONGEST_COMPILATION
        )
        if done.returncode:
            raise ReselError(
                f"{' '.join(command)} failed on the policy's header:\n{done.stderr[-2000:]}"
            )
        yield CProgram(
            place / "policy", _defined(header, "ACTIONS"), _defined(header, "CHOICES", 0)
        )


def _defined(header: str, name: str, otherwise: int | None = None) -> int:
    """What a header defines a size to be."""
    mark = f"#define RESEL_{name} "
    found = [line for line in header.splitlines() if line.startswith(mark)]
    if not found and otherwise is not None:
        return otherwise
    return int(found[0].removeprefix(mark))


def _packed(steps: Steps) -> bytes:
    """(T, 2 + O) as the program reads them."""
    columns = [steps.start[:, None], steps.reward[:, None], steps.observation]
    return np.concatenate([column.astype(np.float32) for column in columns], 1).tobytes()
