"""A disk that can lose its power, a small run to break, and ways to look at what is left of it."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from processes import children, gone

from resel.config import Config
from resel.data import ReplayBuffer
from resel.errors import DamagedFileError
from resel.runs import ReplayLog, Run, RunDirectory, read_bundle


@dataclass
class File:
    """Content as the process sees it, and what of it a power cut leaves."""

    data: bytes = b""
    durable: bytes = b""


@dataclass
class Folder:
    entries: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)


Event = tuple[str, Path, Any]


class Disk:
    """What calls of the operating system do to a folder, if fsync is the only promise there is."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = self._read(root)

    def _read(self, path: Path) -> File | Folder:
        if path.is_file():
            data = path.read_bytes()
            return File(data, data)
        entries = {entry.name: self._read(entry) for entry in path.iterdir()}
        return Folder(entries, dict(entries))

    def _find(self, path: Path) -> Any:
        node: Any = self._top
        for name in path.relative_to(self._root).parts:
            node = node.entries[name]
        return node

    def apply(self, event: Event) -> None:
        kind, path, more = event
        above = self._find(path.parent).entries if path != self._root else {}
        if kind == "create":
            above.setdefault(path.name, File())
        elif kind == "mkdir":
            above[path.name] = Folder()
        elif kind == "write":
            self._find(path).data += more
        elif kind == "fsync":
            node = self._find(path)
            node.durable = node.data if isinstance(node, File) else dict(node.entries)
        elif kind == "rename":
            self._find(more.parent).entries[more.name] = above.pop(path.name)
        else:
            del above[path.name]

    def leave(self, target: Path, mode: str, rng: random.Random) -> None:
        """Write what could be left: `lost` drops all that was not synced, `hollow` keeps the names
        and loses the content, `kept` is what kill -9 leaves, `mixed` anything between."""
        self._leave(self._top, target, mode, rng)

    def _leave(self, node: File | Folder, target: Path, mode: str, rng: random.Random) -> None:
        chance = mode == "mixed" and rng.random() < 0.5
        if isinstance(node, File):
            data = node.data if mode == "kept" or chance else node.durable
            target.write_bytes(data[: rng.randrange(len(data) + 1)] if chance else data)
            if chance and len(node.durable) == len(node.data):
                target.write_bytes(node.durable)
            return
        target.mkdir()
        names = node.durable if mode == "lost" or chance else node.entries
        for name, below in names.items():
            self._leave(below, target / name, mode, rng)


_CHANGES = ("open", "write", "fsync", "rename", "replace", "unlink", "rmdir", "mkdir")


def _path(name: Any, dir_fd: int | None = None) -> Path:
    if isinstance(name, int):
        return Path(os.readlink(f"/proc/self/fd/{name}"))
    base = Path(os.readlink(f"/proc/self/fd/{dir_fd}")) if dir_fd is not None else Path.cwd()
    return base / name


def _event(name: str, args: tuple[Any, ...], dir_fd: int | None) -> Event | None:
    path = _path(args[0], dir_fd)
    if name == "open":
        return ("create", path, None) if args[1] & os.O_CREAT else None
    if name == "write":
        return ("write", path, bytes(args[1]))
    if name in ("rename", "replace"):
        return ("rename", path, _path(args[1]))
    return (name, path, None)


@contextlib.contextmanager
def watching(see: Callable[[Event], None], after: bool) -> Iterator[None]:
    """Tell of every call that changes a file, before or after it was made."""
    real = {name: getattr(os, name) for name in _CHANGES}

    def watched(name: str) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            event = _event(name, args, more.get("dir_fd"))
            if event is not None and not after:
                see(event)
            result = real[name](*args, **more)
            if event is not None and after:
                see(event)
            return result

        return call

    try:
        for name in _CHANGES:
            setattr(os, name, watched(name))
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


@pytest.fixture
def record() -> Callable[[Callable[[], Any]], list[Event]]:
    """The events of a function."""

    def run(action: Callable[[], Any]) -> list[Event]:
        events: list[Event] = []
        with watching(events.append, after=True):
            action()
        return events

    return run


@pytest.fixture
def killed_at() -> Callable[[Callable[[], Any], int], bool]:
    """Do something in a child that is killed by SIGKILL before its n-th event; True if it was."""

    def run(action: Callable[[], Any], number: int) -> bool:
        child = os.fork()
        if child == 0:
            count = 0

            def see(event: Event) -> None:
                nonlocal count
                count += 1
                if count == number:
                    os.kill(os.getpid(), 9)

            with contextlib.suppress(BaseException), watching(see, after=False):
                action()
            os._exit(0)
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])

    return run


@pytest.fixture(scope="session")
def small_config(tiny: dict[str, Any]) -> Config:
    """A run that writes nothing but what a test saves."""
    quiet = {"log_every": 10**6, "eval_every": 0, "steps": 10**6, "num_envs": 2}
    return Config.build("toy/Box-v0", tiny, quiet, {"buffer_steps": 60, "warmup_steps": 40})


def state_of(run: Run) -> Any:
    tensors, documents = run.trainer.checkpoint()
    blocks = [b.tobytes() for p in run.trainer.buffer for b in run.trainer.buffer.blocks(p)]
    weights = {name: tensor.clone() for name, tensor in tensors["weights"].items()}
    return weights, documents["loop"]["step"], blocks


@dataclass
class Going:
    """A run with one checkpoint at step 60 and twenty more steps that are not saved yet."""

    run: Run
    path: Path
    states: dict[int, Any]

    def advance(self, steps: int) -> None:
        self.run.trainer.train(steps)
        self.states[self.run.trainer.step] = state_of(self.run)

    def save(self) -> None:
        self.run._write_checkpoint()

    def step_left_in(self, path: Path) -> int:
        """The step a resume would go on from; all that belongs to it must be as it was."""
        with RunDirectory.open(path) as directory:
            settings = self.run.config.training
            for place in reversed(directory.checkpoints()):
                buffer = ReplayBuffer(settings.buffer_steps, 3, 2)
                try:
                    bundle = read_bundle(place, "checkpoint")
                    index = {name: t.numpy() for name, t in bundle.tensors["buffer"].items()}
                    ReplayLog(directory.replay_path).load(
                        bundle.documents["segments"], index, buffer
                    )
                except DamagedFileError:
                    continue
                step = int(bundle.documents["loop"]["step"])
                weights, saved_step, blocks = self.states[step]
                assert saved_step == step
                assert [b.tobytes() for p in buffer for b in buffer.blocks(p)] == blocks
                assert all(
                    bool((bundle.tensors["weights"][n] == weights[n]).all()) for n in weights
                )
                return step
        return 0


@pytest.fixture
def going(small_config: Config, tmp_path: Path) -> Iterator[Going]:
    run = Run(small_config, tmp_path / "run")
    going = Going(run, tmp_path / "run", {})
    going.advance(60)
    going.save()
    going.advance(20)
    yield going
    run.close()


@pytest.fixture
def replace_tree() -> Callable[[Path, Path], None]:
    """Put a copy of a folder in the place of another."""

    def replace(source: Path, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)

    return replace


@pytest.fixture(scope="session")
def disk() -> type[Disk]:
    return Disk


@pytest.fixture(scope="module")
def importable() -> Iterator[None]:
    """What lies here, for us and, as the path is handed on, for the processes that are started."""
    here = str(Path(__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(here)
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join([here, *filter(None, [inherited])]))
        yield


@pytest.fixture
def nobody_is_left() -> Iterator[None]:
    """No process that a test started outlives it."""
    before = set(children(os.getpid()))
    yield
    gone(lambda: set(children(os.getpid())) - before)


@pytest.fixture
def world(importable: None) -> Any:
    from failing_worlds import World  # type: ignore[import-not-found]

    return World
