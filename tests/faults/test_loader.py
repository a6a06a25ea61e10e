"""A loader that trusts nothing: every damaged or hostile checkpoint is refused by name, and the
one before it is taken."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import os
import pickle
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from resel import RESeL
from resel.cli import main
from resel.config import Config
from resel.errors import DamagedFileError, ReselError
from resel.runs import Bundle, ReplayLog, Run, read_bundle, restore_trainer, write_bundle

NEWEST = "checkpoints/step-000000080"


@pytest.fixture(scope="module")
def saved(
    small_config: Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Run, Path]]:
    """A run with checkpoints at 60 and 80 that nobody may change, and its trainer."""
    path = tmp_path_factory.mktemp("saved") / "run"
    run = Run(small_config, path)
    run.trainer.train(60)
    run._save()
    run.trainer.train(20)
    run._save()
    yield run, path
    run.close()


@pytest.fixture
def copied(saved: tuple[Run, Path], tmp_path: Path) -> Path:
    shutil.copytree(saved[1], tmp_path / "run")
    return tmp_path / "run"


def restore(saved: tuple[Run, Path], bundle: Bundle, path: Path | None = None) -> None:
    """What a resume does with a bundle, in a trainer that is there already."""
    run, home = saved
    run._check_origin(bundle, force=False)
    restore_trainer(run.trainer, bundle, ReplayLog((path or home) / "replay"))


def load(saved: tuple[Run, Path], path: Path) -> None:
    restore(saved, read_bundle(path / NEWEST, "checkpoint"), path)


def files_of(path: Path) -> list[Path]:
    """The files the newest checkpoint needs."""
    segments = json.loads((path / NEWEST / "segments.json").read_text())
    names = [f"segment-{s['number']:06d}-{s['sha256'][:16]}.bin" for s in segments]
    return [*sorted((path / NEWEST).iterdir()), *(path / "replay" / name for name in names)]


def reseal(path: Path) -> None:
    """Write the manifest anew, as somebody would who forges a checkpoint."""
    files = {
        f.name: {"size": f.stat().st_size, "sha256": hashlib.sha256(f.read_bytes()).hexdigest()}
        for f in path.iterdir()
        if f.name != "manifest.json"
    }
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "files": files}))


def resumes_at(config: Config, path: Path) -> int | None:
    run = Run(config, path, "auto")
    run.close()
    return run.resumed_at


def tree(path: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(path)): p.read_bytes()
        for p in path.rglob("*")
        if p.is_file() and p.name != ".lock"
    }


# Each item of the state


def _without(value: Any, keys: tuple[Any, ...]) -> Any:
    value = copy.copy(value)
    if len(keys) == 1:
        del value[keys[0]]
    else:
        value[keys[0]] = _without(value[keys[0]], keys[1:])
    return value


def _items(bundle: Bundle) -> list[tuple[str, tuple[Any, ...]]]:
    """Every tensor, document and entry of a document; the config is only compared."""
    found: list[tuple[str, tuple[Any, ...]]] = []
    for group, tensors in bundle.tensors.items():
        found += [("tensors", (group,)), *(("tensors", (group, name)) for name in tensors)]

    def walk(value: Any, keys: tuple[Any, ...]) -> None:
        found.append(("documents", keys))
        if isinstance(value, dict) and keys[0] != "config":
            for key in value:
                walk(value[key], (*keys, key))

    for name, document in bundle.documents.items():
        walk(document, (name,))
    return found


LATER = {("log", "mmer"), ("log", "recent"), ("clock", "cpu_seconds")}
LATER |= {("evaluator", "learning_since"), ("run", "by_steps")}
"""What checkpoints of before do not have."""


def test_each_missing_item_is_named(saved: tuple[Run, Path]) -> None:
    bundle = read_bundle(saved[1] / NEWEST, "checkpoint")
    items = [item for item in _items(bundle) if item[1] not in LATER]
    assert len(items) > 150
    for part, keys in items:
        broken = dataclasses.replace(bundle, **{part: _without(getattr(bundle, part), keys)})
        with pytest.raises(ReselError) as caught:
            restore(saved, broken)
        assert str(keys[-1]) in str(caught.value), (part, keys, caught.value)
    restore(saved, bundle)


def test_each_missing_file_is_named(saved: tuple[Run, Path], copied: Path) -> None:
    for file in files_of(copied):
        data = file.read_bytes()
        file.unlink()
        with pytest.raises(DamagedFileError, match=file.name):
            load(saved, copied)
        file.write_bytes(data)
    load(saved, copied)


BAD_TENSORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "shape": lambda t: torch.cat([t.reshape(-1), t.reshape(-1)[:1]]),
    "dtype": lambda t: t.to(torch.float16) if t.dtype != torch.float16 else t.double(),
    "nan": lambda t: torch.full_like(t, float("nan")),
}


@pytest.mark.parametrize("fault", BAD_TENSORS)
def test_wrong_tensors(saved: tuple[Run, Path], fault: str) -> None:
    """Refused before the policy that is there is touched."""
    bundle = read_bundle(saved[1] / NEWEST, "checkpoint")
    restore(saved, bundle)
    policy = {k: v.clone() for k, v in saved[0].trainer.learner.weights().items()}
    tried = 0
    for group, tensors in bundle.tensors.items():
        for name, tensor in tensors.items():
            moment = name.startswith("optimizer.")
            if (fault == "nan" and not tensor.is_floating_point()) or name == "clamp_bounds":
                continue
            if moment and (fault == "dtype" or tensor.dim() == 0):
                continue  # torch itself brings moments to the type of their parameter
            if tensor.numel() == 0:
                continue
            bad = {**bundle.tensors, group: {**tensors, name: BAD_TENSORS[fault](tensor)}}
            with pytest.raises(DamagedFileError):
                restore(saved, dataclasses.replace(bundle, tensors=bad))
            tried += 1
            now = saved[0].trainer.learner.weights()
            assert all(torch.equal(now[k], policy[k]) for k in policy)
    assert tried > 30
    more = {**bundle.tensors["weights"], "extra": torch.zeros(1)}
    with pytest.raises(DamagedFileError, match="extra is unknown"):
        restore(saved, dataclasses.replace(bundle, tensors={**bundle.tensors, "weights": more}))


# Damage on the disk


def _flip(file: Path, rng: random.Random) -> Callable[[], None]:
    data = bytearray(file.read_bytes())
    at, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
    data[at] ^= bit
    file.write_bytes(data)

    def undo() -> None:
        data[at] ^= bit
        file.write_bytes(data)

    return undo


@pytest.mark.parametrize("flips", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_flipped_bits(saved: tuple[Run, Path], copied: Path, flips: int, tally: Any) -> None:
    rng = random.Random(flips)
    files = files_of(copied)
    detected = 0
    for _ in range(flips):
        undo = _flip(rng.choice(files), rng)
        try:
            load(saved, copied)
        except DamagedFileError:
            detected += 1
        undo()
    assert detected == flips
    load(saved, copied)
    if flips == 1000:
        tally("one flipped bit in a checkpoint or segment, detected", detected, flips)


def test_cut_off_at_many_lengths(saved: tuple[Run, Path], copied: Path, tally: Any) -> None:
    rng = random.Random(5)
    for _ in range(50):
        file = rng.choice(files_of(saved[1]))
        place = copied / file.relative_to(saved[1])
        data = place.read_bytes()
        place.write_bytes(data[: rng.randrange(len(data))])
        with pytest.raises(DamagedFileError, match=place.name):
            load(saved, copied)
        place.write_bytes(data)
    tally("file cut off, detected", 50)


@pytest.mark.parametrize("victim", ["weights.safetensors", "manifest.json", "loop.json", "segment"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_the_one_before_is_taken(
    small_config: Config, copied: Path, victim: str, damage: str
) -> None:
    file = copied / NEWEST / victim
    if victim == "segment":
        older = json.loads((copied / "checkpoints/step-000000060/segments.json").read_text())
        numbers = {entry["number"] for entry in older}
        segments = [f for f in files_of(copied) if f.suffix == ".bin"]
        (file,) = [f for f in segments if int(f.name[8:14]) not in numbers]
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.unlink()
    with pytest.warns(UserWarning, match="Trying the one before"):
        assert resumes_at(small_config, copied) == 60
    assert not (copied / NEWEST).exists()
    assert (copied / "checkpoints/unreadable-step-000000080").is_dir()
    assert resumes_at(small_config, copied) == 60


@pytest.mark.parametrize("damage", ["cut", "no manifest", "no segments", "replaced by files"])
def test_all_are_bad(
    small_config: Config, copied: Path, damage: str, capsys: Any, recwarn: Any
) -> None:
    """No silent restart, and nothing is touched: not even a half line of the metrics."""
    for place in (copied / "checkpoints").iterdir():
        if damage == "cut":
            (place / "learner.safetensors").write_bytes(b"")
        elif damage == "no manifest":
            (place / "manifest.json").unlink()
        elif damage == "replaced by files":
            shutil.rmtree(place)
            place.write_text("x")
    if damage == "no segments":
        shutil.rmtree(copied / "replay")
    with (copied / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 81, "ki')
    before = tree(copied)
    assert main(["resume", str(copied)]) == 2
    told = capsys.readouterr().err
    assert "No checkpoint in" in told and "Traceback" not in told
    assert tree(copied) == before


# Hostile content


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def test_no_pickle_is_ever_run(
    saved: tuple[Run, Path], copied: Path, tmp_path: Path, capsys: Any, tally: Any
) -> None:
    marker = tmp_path / "executed"
    payload = pickle.dumps(Payload(marker))
    pickle.loads(payload)
    assert marker.exists()  # it would have been noticed
    marker.rmdir()
    torch.save(Payload(marker), tmp_path / "torch.bin")
    planted = 0
    for data in (payload, (tmp_path / "torch.bin").read_bytes()):
        for file in files_of(copied):
            original = file.read_bytes()
            manifest = (copied / NEWEST / "manifest.json").read_bytes()
            file.write_bytes(data)
            with pytest.raises(DamagedFileError):
                load(saved, copied)
            planted += 1
            if file.name != "manifest.json" and file.parent.name != "replay":
                reseal(copied / NEWEST)  # now with the right hash
                with pytest.raises(DamagedFileError):
                    load(saved, copied)
                planted += 1
            file.write_bytes(original)
            (copied / NEWEST / "manifest.json").write_bytes(manifest)
        for name in ("config.json", "result.json", "metrics.jsonl", "environment.json"):
            original = (copied / name).read_bytes() if (copied / name).exists() else None
            (copied / name).write_bytes(data)
            assert main(["resume", str(copied), "--steps", "80"]) in (0, 2)
            planted += 1
            (copied / name).unlink()
            if original is not None:
                (copied / name).write_bytes(original)
    assert not marker.exists()
    assert "Traceback" not in capsys.readouterr().err
    tally("malicious file: a pickle in some file's place, not executed", planted)


def _safetensors(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


_ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
_SEGMENT = {"size": 2**62, "sha256": "0" * 64}
HOSTILE: dict[str, tuple[str, bytes]] = {
    "header length": ("weights.safetensors", struct.pack("<Q", 2**62) + b"{}"),
    "header of 90 MB": ("weights.safetensors", struct.pack("<Q", 90_000_000) + b" " * 90_000_000),
    "no header": ("weights.safetensors", b""),
    "shape": ("weights.safetensors", _safetensors({"a": {**_ENTRY, "shape": [2**40]}}, b"1234")),
    "shape with zero": (
        "weights.safetensors",
        _safetensors({"a": {**_ENTRY, "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}}),
    ),
    "negative shape": ("weights.safetensors", _safetensors({"a": {**_ENTRY, "shape": [-1]}})),
    "overlap": ("weights.safetensors", _safetensors({"a": _ENTRY, "b": _ENTRY}, b"1234")),
    "odd dtype": ("weights.safetensors", _safetensors({"a": {**_ENTRY, "dtype": "F4"}}, b"1234")),
    "duplicate tensor": (
        "weights.safetensors",
        _safetensors(
            b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
            b"1",
        ),
    ),
    "many tensors": (
        "weights.safetensors",
        _safetensors(
            {str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(10**5)}
        ),
    ),
    "duplicate key": ("loop.json", b'{"step": 1, "step": 80}'),
    "deep": ("loop.json", b"[" * 1_900_000),
    "deep objects": ("loop.json", b'{"a":' * 300_000),
    "wide": ("loop.json", b"[" + b"0," * 900_000 + b"0]"),
    "too long": ("loop.json", b'"' + b"x" * 3_000_000 + b'"'),
    "long number": ("loop.json", b'{"step": ' + b"9" * 500_000 + b"}"),
    "NaN": ("loop.json", b'{"step": NaN}'),
    "not UTF-8": ("loop.json", b'{"step": "\xff\xfe"}'),
    "many segments": (
        "segments.json",
        json.dumps([{**_SEGMENT, "number": i + 1} for i in range(10**4)]).encode(),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content_takes_no_memory(
    saved: tuple[Run, Path], copied: Path, name: str, tally: Any
) -> None:
    """Each with the right hash, so that nothing but the loader's own care stands in its way."""
    file, content = HOSTILE[name]
    (copied / NEWEST / file).write_bytes(content)
    reseal(copied / NEWEST)
    reader, writer = os.pipe()
    child = os.fork()  # the peak of a child begins at what it was born with
    if child == 0:
        before = _peak()
        try:
            load(saved, copied)
            answer = "accepted"
        except DamagedFileError:
            answer = "refused"
        except BaseException as error:
            answer = repr(error)
        os.write(writer, json.dumps([answer, _peak() - before]).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as stream:
        answer, growth = json.load(stream)
    assert answer == "refused"
    assert growth < 50_000, f"{growth} kB"
    tally("malicious file: huge, deep or contradictory content with the right checksum, refused", 1)


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def test_a_huge_sparse_file_takes_no_memory(saved: tuple[Run, Path], copied: Path) -> None:
    manifest = json.loads((copied / NEWEST / "manifest.json").read_text())
    with (copied / NEWEST / "weights.safetensors").open("wb") as stream:
        stream.truncate(10**13)
    manifest["files"]["weights.safetensors"]["size"] = 10**13
    (copied / NEWEST / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedFileError, match="more than the"):
        load(saved, copied)


@pytest.mark.parametrize(
    ("group", "setting", "value"),
    [
        ("network", "width", 10**6),
        ("network", "head_width", 10**6),
        ("encoder_settings", "n_layers", 10**9),
        ("algorithm", "n_critics", 10**9),
    ],
)
def test_an_agent_that_would_take_all_memory(
    copied: Path, group: str, setting: str, value: int
) -> None:
    path = copied / "agents/last"
    agent = json.loads((path / "agent.json").read_text())
    agent["config"][group][setting] = value
    (path / "agent.json").write_text(json.dumps(agent))
    reseal(path)
    with pytest.raises(DamagedFileError, match="much larger than its weights"):
        RESeL.load(path)


# Whatever comes


def _mutate_json(value: Any, rng: random.Random) -> Any:
    """The same with one thing in it changed."""
    odd = [None, True, -1, 2**70, 1e308, "", "x", [], {}, [[]], {"a": 1}, 0.5, "\x00"]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        kind = rng.random()
        if kind < 0.2:
            return {k: v for k, v in value.items() if k != key}
        if kind < 0.3:
            return {**value, "odd": rng.choice(odd)}
        return {**value, key: _mutate_json(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], _mutate_json(value[at], rng), *value[at + 1 :]]
    return rng.choice(odd)


def _mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(4):
            case 0:
                out[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del out[at : at + rng.randrange(1, 20)]
            case 2:
                out[at:at] = rng.randbytes(rng.randrange(1, 20))
            case 3:
                out[at:at] = rng.choice([b"9" * 30, b"-", b'"', b"{", b"[", b"\\u0000", b"1e999"])
    return bytes(out)


@pytest.mark.parametrize("inputs", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_any_bytes_give_a_typed_error(tmp_path: Path, inputs: int, tally: Any) -> None:
    """Files changed at random, with and without the right hash."""
    path = tmp_path / "agent"
    tensors = {"t": {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor([1, 2])}}
    write_bundle(path, "agent", tensors, {"d": {"a": [1, {"b": 2.5}], "c": "text"}})
    whole = tree(path)
    rng = random.Random(inputs)
    refused = 0
    for _ in range(inputs):
        name = rng.choice(list(whole))
        (path / name).write_bytes(_mutate_bytes(whole[name], rng))
        if rng.random() < 0.7 and name != "manifest.json":
            reseal(path)
        try:
            read_bundle(path, "agent")
        except DamagedFileError:
            refused += 1
        for file in (name, "manifest.json"):
            (path / file).write_bytes(whole[file])
    assert refused > inputs // 2
    tally("random change of a bundle's bytes, refused or harmless", inputs)


@pytest.mark.parametrize("inputs", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_any_documents_give_a_typed_error(saved: tuple[Run, Path], inputs: int, tally: Any) -> None:
    """Well-formed checkpoints with one odd entry: refused, or harmless."""
    bundle = read_bundle(saved[1] / NEWEST, "checkpoint")
    rng = random.Random(inputs)
    refused = 0
    for _ in range(inputs):
        documents = dict(bundle.documents)
        name = rng.choice(list(documents))
        documents[name] = _mutate_json(documents[name], rng)
        try:
            restore(saved, dataclasses.replace(bundle, documents=documents))
        except ReselError:
            refused += 1
    assert refused > inputs // 2
    restore(saved, bundle)
    tally("random change of a checkpoint's documents, refused or harmless", inputs)
