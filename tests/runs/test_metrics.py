"""Metrics survive crashes, resumes and numbers that are none."""

from __future__ import annotations

import json
import math
import sys
import tracemalloc
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.errors import (
    BadInputError,
    DamagedFileError,
    MissingDependencyError,
    RunDirectoryError,
    StorageError,
)
from resel.runs import MetricsLog, RunDirectory, read_metrics
from resel.runs.metrics import each_metric


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return read_metrics(folder / "metrics.jsonl")


def test_lines(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", {}) as run:
        with MetricsLog(run, tensorboard=False) as log:
            log.write("train", 500, {"loss": 0.5, "note": "a\nb", "none": None})
            log.write("eval", 1000, {"return": np.float32(2.5), "n": np.int64(3), "ok": True})
        assert run.metrics_path.read_text().count("\n") == 2
        assert lines_of(run.path) == [
            {"step": 500, "kind": "train", "loss": 0.5, "note": "a\nb", "none": None},
            {"step": 1000, "kind": "eval", "return": 2.5, "n": 3, "ok": True},
        ]


def test_lines_are_there_before_close(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write("train", 1, {"loss": 1.0})
        assert lines_of(tmp_path) == [{"step": 1, "kind": "train", "loss": 1.0}]


def test_numbers_json_does_not_have(tmp_path: Path) -> None:
    values = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": np.float32("nan")}
    with MetricsLog(tmp_path) as log:
        log.write("train", 1, values)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    raw = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse)
    assert [raw[name] for name in "abcd"] == ["nan", "inf", "-inf", "nan"]
    read = lines_of(tmp_path)[0]
    assert math.isnan(read["a"])
    assert (read["b"], read["c"]) == (math.inf, -math.inf)


@pytest.mark.parametrize("name", ["step", "kind"])
def test_names_that_are_taken(tmp_path: Path, name: str) -> None:
    with MetricsLog(tmp_path, tensorboard=False) as log, pytest.raises(BadInputError, match=name):
        log.write("train", 1, {name: 1})


def test_values_that_are_no_metrics(tmp_path: Path) -> None:
    bad: Any = {"x": np.ones(3)}
    with MetricsLog(tmp_path, tensorboard=False) as log:
        with pytest.raises(BadInputError, match="ndarray"):
            log.write("train", 1, bad)
        assert log.position() == 0


@settings(max_examples=40, deadline=None)
@given(notes=st.lists(st.text(), min_size=1, max_size=4), data=st.data())
def test_cut_at_any_byte(
    tmp_path_factory: pytest.TempPathFactory, notes: list[str], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    with MetricsLog(folder, tensorboard=False) as log:
        for step, note in enumerate(notes):
            log.write("train", step, {"note": note})
    whole = lines_of(folder)
    file = folder / "metrics.jsonl"
    content = file.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    file.write_bytes(content[:cut])
    left = content[:cut].count(b"\n")
    assert lines_of(folder) == whole[:left]
    with MetricsLog(folder, tensorboard=False) as log:
        log.write("train", 99, {})
    assert lines_of(folder) == [*whole[:left], {"step": 99, "kind": "train"}]


def test_a_long_cut_line_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 1, "kind": "x"}\n{"step": 2, "note": "' + b"y" * 20_000)
    MetricsLog(tmp_path, tensorboard=False).close()
    assert file.read_bytes() == b'{"step": 1, "kind": "x"}\n'


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"{}", b'{"step": "1"}', b"\xff"])
def test_damage_in_the_middle_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 3}\n')
    with pytest.raises(DamagedFileError, match="line 2"):
        read_metrics(file)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="cannot be read"):
        read_metrics(tmp_path / "metrics.jsonl")
    with pytest.raises(RunDirectoryError, match="cannot be written to"):
        MetricsLog(tmp_path / "nothing")


def test_truncate_to_a_position(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write("train", 1, {"x": 1})
        position = log.position()
        assert position == (tmp_path / "metrics.jsonl").stat().st_size
        log.write("train", 2, {"x": 2})
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.truncate_to(position)
        assert [line["step"] for line in lines_of(tmp_path)] == [1]
        log.write("train", 3, {"x": 3})
        assert [line["step"] for line in lines_of(tmp_path)] == [1, 3]
        size = log.position()
        log.truncate_to(size + 1000)  # lines lost with the power: the file must not grow
        assert log.position() == size
        log.truncate_to(position + 3)  # not the end of a line
        assert log.position() == position
        log.truncate_to(0)
        assert log.position() == 0
        with pytest.raises(BadInputError, match="-1"):
            log.truncate_to(-1)


def test_a_full_disk_does_not_glue_lines(tmp_path: Path) -> None:
    class Full:
        """A stream that takes half of what it is given, as the system does on a full disk."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __getattr__(self, name: str) -> Any:
            return getattr(self._stream, name)

        def write(self, data: bytes) -> int:
            return int(self._stream.write(data[: len(data) // 2]))

    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write("train", 1, {})
        stream: Any = log._stream
        full: Any = Full(stream)
        log._stream = full
        with pytest.raises(StorageError, match="No space left"):
            log.write("train", 2, {})
        log._stream = stream
        log.write("train", 3, {})
    assert [line["step"] for line in lines_of(tmp_path)] == [1, 3]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    names = events.Tags()["scalars"]
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in names}


def test_tensorboard_after_a_resume(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write("train", 1, {"loss": 1.0, "note": "x", "bad": math.nan})
        position = log.position()
        log.write("train", 2, {"loss": 2.0})
        log.truncate_to(position)
        log.write("train", 2, {"loss": 20.0})
        log.write("eval", 2, {"return": 5})
    assert scalars(tmp_path) == {"train/loss": [(1, 1.0), (2, 20.0)], "eval/return": [(2, 5.0)]}


def test_no_tensorboard_unless_asked(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write("train", 1, {"loss": 1.0})
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_wandb_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[wandb\]'"):
        MetricsLog(tmp_path, wandb=True)


def test_wandb_gets_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    run = types.SimpleNamespace(
        log=lambda values, step: calls.append((step, values)), finish=lambda: calls.append("end")
    )
    fake: Any = types.ModuleType("wandb")
    fake.init = lambda **options: calls.append(options) or run
    monkeypatch.setitem(sys.modules, "wandb", fake)
    with MetricsLog(tmp_path, tensorboard=False, wandb=True) as log:
        log.write("train", 3, {"loss": 1.5, "bad": math.nan, "note": "x"})
    assert calls[0]["id"] == calls[0]["name"] == tmp_path.name
    assert calls[1:] == [(3, {"train/loss": 1.5}), "end"]


def test_lines_after_a_place(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write("train", 1, {"loss": 0.5})
        position = log.position()
        log.write("train", 2, {"loss": math.nan})
        log.write("event", 3, {"event": "x"})
    with log.path.open("ab") as file:
        file.write(b'{"step": 4, "kind": "tr')
    later = list(each_metric(log.path, after=position))
    assert [line["step"] for line in later] == [2, 3] and math.isnan(later[0]["loss"])
    assert list(each_metric(log.path, after=10_000)) == []


def test_going_on_takes_no_more_memory_for_a_longer_file(tmp_path: Path) -> None:
    line = json.dumps({"step": 7, "kind": "train", **{f"value/{i}": i / 7 for i in range(20)}})
    peaks = []
    for count in (1000, 10_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "metrics.jsonl").write_text(f"{line}\n" * count)
        with MetricsLog(folder, tensorboard=False) as log:
            tracemalloc.start()
            log.truncate_to(len(line) * count)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 50_000, peaks
