"""Commands that are run to their end: what is told of them, and how they end with us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from resel import _children
from resel.benchmarks import _calls

_WAITS = """
import os, pathlib, signal, sys, time
def leave(*given):
    if sys.argv[2] == "politely":
        pathlib.Path(sys.argv[1], "left").touch()
        sys.exit(143)
    pathlib.Path(sys.argv[1], "asked").touch()
signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGINT, signal.SIG_IGN)
started = pathlib.Path(sys.argv[1], "starting")
started.write_text(f"{os.getpid()} {os.getsid(0)}")
started.rename(started.with_name("started"))
until = time.monotonic() + 120
while time.monotonic() < until:
    time.sleep(0.02)
"""


def waiting(folder: Path, how: str) -> list[str]:
    """A command that waits until it is asked to leave, and does so politely or not at all."""
    return [sys.executable, "-S", "-c", _WAITS, str(folder), how]


def appears(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"no {path.name}"
        time.sleep(0.02)


def interrupt_after(*paths: Path) -> threading.Thread:
    """Ctrl-C for us as each of these appears."""

    def watch() -> None:
        for path in paths:
            appears(path)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def is_gone(folder: Path) -> bool:
    """Whether the command has ended, which was alone in its session."""
    number, session = map(int, (folder / "started").read_text().split())
    assert session == number, "Ctrl-C at a terminal would reach it too"
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_command_is_described() -> None:
    program = "import sys; print('said'); sys.stderr.write('warned'); sum(range(10**6))"
    done = _calls.call([sys.executable, "-c", program])
    assert (done.code, done.said, done.fault) == (0, "said\n", "warned")
    assert done.seconds > 0 and done.processor_seconds > 0
    done = _calls.call([sys.executable, "-c", "import sys; sys.exit('it was so')"])
    assert (done.code, done.fault) == (1, "it was so")
    program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert _calls.call([sys.executable, "-c", program]).fault == "killed by signal 9"


def test_interrupted_it_lets_the_command_leave(tmp_path: Path) -> None:
    thread = interrupt_after(tmp_path / "started")
    with pytest.raises(KeyboardInterrupt):
        _calls.call(waiting(tmp_path, "politely"))
    thread.join()
    assert (tmp_path / "left").exists() and is_gone(tmp_path)


def test_a_command_that_does_not_leave_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_children, "PATIENCE", 0.5)
    thread = interrupt_after(tmp_path / "started")
    with pytest.raises(KeyboardInterrupt):
        _calls.call(waiting(tmp_path, "never"))
    thread.join()
    assert (tmp_path / "asked").exists() and is_gone(tmp_path)


def test_a_second_signal_kills_it_at_once(tmp_path: Path) -> None:
    thread, begin = interrupt_after(tmp_path / "started", tmp_path / "asked"), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _calls.call(waiting(tmp_path, "never"))
    thread.join()
    assert is_gone(tmp_path) and time.monotonic() - begin < _children.PATIENCE / 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells children")
def test_it_ends_with_us_when_we_are_killed(tmp_path: Path) -> None:
    script = f"from resel.benchmarks._calls import call; call({waiting(tmp_path, 'politely')!r})"
    with subprocess.Popen([sys.executable, "-c", script]) as caller:
        appears(tmp_path / "started")
        caller.kill()
    appears(tmp_path / "left")
