"""Every part of `resel bench` through the command, at sizes that take no time."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from method_cases import every_method, small_config, told_env
from PIL import Image
from terminal import refused

from resel import Agent
from resel.benchmarks import PARTS as EVERY_PART
from resel.benchmarks import methods, startup, update
from resel.cli import main
from resel.methods import Method, get_method
from resel.optim import MEASURE_EVERY

PARTS: dict[str, list[str]] = {
    "scan": ["--rows", "2", "--length", "9", "--channels", "20", "--states", "3"],
    "update": ["--size", "tiny", "--batch-steps", "3e1"],
    "step": ["--size", "tiny", "--steps", "20"],
    "export": ["--steps", "20", "--encoder", "mlp"],
    "scaling": ["--size", "tiny", "--quick", "--encoders", "mlp"],
    "buffer": ["--steps", "2e4"],
    "startup": [],
}


pytestmark = pytest.mark.usefixtures("own_folder", "narrow_terminal")


def measured(capsys: Any, part: str, *more: str) -> dict[str, Any]:
    """The JSON object that is all of the standard output."""
    capsys.readouterr()
    argv = ["bench", part, *PARTS[part], "--threads", "1", "--repetitions", "2", "--json", *more]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    result = json.loads(out)
    assert result["bench"] == part and result["threads"] == 1 and result["dtype"] == "float32"
    assert result["torch"] == torch.__version__
    assert result["machine"]["versions"]["torch"] and result["machine"]["cores"]
    assert result["settings"]["repetitions"] == 2 and "json" not in result["settings"]
    _check_spreads(result)
    return result


def _check_spreads(figures: dict[str, Any]) -> None:
    """Medians lie between the percentiles beside them, and are finite."""
    for name, value in figures.items():
        if isinstance(value, float):
            assert math.isfinite(value)
        if f"{name}_p10" in figures:
            assert 0 < figures[f"{name}_p10"] <= value <= figures[f"{name}_p90"]


@pytest.mark.slow
def test_export(capsys: Any) -> None:
    result = measured(capsys, "export")
    for size in ("tiny", "paper"):
        assert result[f"onnx_{size}_ms"] > 0 and result[f"predict_{size}_ms"] > 0
        assert result.get(f"c_{size}_ms", 1.0) > 0
    assert result["onnx_tiny_bytes"] < result["onnx_paper_bytes"]


def test_scan(capsys: Any) -> None:
    result = measured(capsys, "scan")
    assert result["settings"]["channels"] == 20
    for name in ("scan", "gru", "chunked", "fused_gru", "small_gru"):
        parts = result[f"{name}_forward_ms"] + result[f"{name}_backward_ms"]
        assert result[f"{name}_ms"] == pytest.approx(parts)  # of two repetitions, median is mean
    assert result["gru_ratio"] == result["scan_ms"] / result["gru_ms"]
    assert result["fused_gru_speedup"] == result["small_gru_ms"] / result["fused_gru_ms"]
    assert result["extra_memory_mb"] >= 0


@pytest.mark.parametrize("encoder", ["mamba", "gru", "lstm", "mlp"])
def test_update(encoder: str, capsys: Any) -> None:
    result = measured(capsys, "update", "--encoder", encoder)
    assert result["valid_steps"] == 30 and result["places"] == 31
    assert (result["observation_size"], result["action_size"]) == (17, 6)
    config = result["config"]
    assert config["encoder"] == encoder and config["network"]["width"] == 64
    assert result["ratio"] == result["update_ms"] / result["limit_ms"]
    products = result["products"]
    alone = sum(product["per_update"] * product["ms"] for product in products)
    assert result["limit_ms"] == pytest.approx(alone)
    flops = sum(
        2 * math.prod(product["left"]) * product["right"][-1] * product["per_update"]
        for product in products
    )
    assert result["flops_per_update"] == pytest.approx(flops)
    assert (result["fused_flops_per_update"] > 0) == (encoder in ("gru", "lstm"))
    share = result["sampling_ms"] / (result["sampling_ms"] + result["update_ms"])
    assert result["sampling_share"] == share
    assert result["peak_memory_mb"] > max(10, result["update_memory_mb"])
    assert "profile" not in result and "gpu_memory_mb" not in result
    assert result["device"] == result["machine"]["device"] == "cpu"


@pytest.mark.parametrize(
    ("task", "sizes", "length", "steps"),
    [("TMaze-v0", (3, 4), 21, 42), ("toy/Box-v0", (3, 2), 100, 100)],
)
def test_update_of_a_task(
    task: str, sizes: tuple[int, int], length: int, steps: int, capsys: Any
) -> None:
    result = measured(capsys, "update", "--task", task)
    assert (result["observation_size"], result["action_size"]) == sizes
    assert (result["trajectory_length"], result["valid_steps"]) == (length, steps)
    assert result["config"]["task"] == task


@pytest.mark.parametrize("encoder", ["mamba", "gru"])
def test_what_an_automatic_rate_costs(encoder: str, capsys: Any) -> None:
    result = measured(capsys, "update", "--encoder", encoder, "--lr-ce-auto")
    assert result["config"]["algorithm"]["lr_context_encoder"] == "auto"
    assert result["auto_lr_share"] == result["auto_lr_ms"] / (MEASURE_EVERY * result["update_ms"])
    argv = ["bench", "update", *PARTS["update"], "--encoder", encoder, "--repetitions", "1"]
    assert main([*argv, "--lr-ce-auto"]) == 0
    assert f"once in {MEASURE_EVERY} updates" in " ".join(capsys.readouterr().out.split())


def test_an_encoder_without_a_rate_of_its_own_has_none_to_measure(capsys: Any) -> None:
    said = refused(capsys, "bench", "update", "--encoder", "mlp", "--lr-ce-auto")
    assert "needs a memory" in said


def test_update_on_a_busy_machine(capsys: Any) -> None:
    result = measured(capsys, "update", "--encoder", "mlp", "--busy", "2")
    assert result["doubts"] == ["the machine was kept busy, as was asked (--busy 2)"]
    assert result["update_cpu_ms"] > 0 and result["settings"]["busy"] == 2


@pytest.fixture
def made_up_gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """All that is to be done on a GPU is done on the CPU instead."""
    gpu, build, clock = torch.device("cuda", 1), update.Workload.build, update.ProductClock.build
    cpu = torch.device("cpu")
    on_cpu = SimpleNamespace(build=lambda *given: build(*given[:-1], cpu))
    monkeypatch.setattr(update, "choose_device", lambda name: {"cuda:1": gpu}.get(name, cpu))
    monkeypatch.setattr(update, "Workload", on_cpu)
    monkeypatch.setattr(
        update, "ProductClock", SimpleNamespace(build=lambda given, device: clock(given, cpu))
    )
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 7e6)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Card of {device}")
    return gpu


@pytest.mark.parametrize(("encoder", "hidden"), [("mamba", False), ("gru", True)])
def test_update_on_a_gpu(
    encoder: str, hidden: bool, made_up_gpu: torch.device, capsys: Any
) -> None:
    words = ["bench", "update", *PARTS["update"], "--encoder", encoder, "--device", "cuda:1"]
    assert main([*words, "--repetitions", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    _check_spreads(result)
    assert result["device"] == result["machine"]["device"] == "cuda:1"
    assert result["machine"]["gpu"] == "Card of cuda:1" and result["gpu_memory_mb"] == 7
    assert result["update_ms"] > 0 and result["sampling_share"] > 0
    assert ({"ratio", "limit_ms", "flops_per_update", "products"} & set(result) == set()) == hidden
    assert main([*words, "--repetitions", "1"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"\bdevice +cuda:1, Card of cuda:1\n", said)
    assert bool(re.search("matrix products alone +not all seen on a GPU", said)) == hidden


@pytest.mark.parametrize("more", [["--profile"], ["--busy", "1"], ["--threads", "2"]])
def test_what_only_a_cpu_has_is_refused_first(
    more: list[str], made_up_gpu: torch.device, capsys: Any, tmp_path: Path
) -> None:
    words = ["bench", "update", "--device", "cuda:1", "--out", "here", *more]
    told = refused(capsys, *words)
    assert f"{more[0]} cannot be had with --device cuda:1" in told
    assert "with --device cpu only" in told and not (tmp_path / "here").exists()
    both = refused(capsys, *words, "--profile", "--busy", "3")
    assert "--profile and --busy cannot be had" in " ".join(both.split())


def test_update_without_a_gpu(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "finds no GPU" in refused(capsys, "bench", "update", "--device", "cuda", "--json")
    assert "use 'auto', 'cpu', 'cuda'" in refused(capsys, "bench", "update", "--device", "tpu")


def test_where_the_time_goes(capsys: Any) -> None:
    profile = measured(capsys, "update", "--profile")["profile"]
    assert all(entry["self_ms"] >= 0 and entry["calls"] > 0 for entry in profile)
    assert {"aten::mm", "aten::addmm"} & {entry["operation"] for entry in profile}
    argv = ["bench", "update", *PARTS["update"], "--profile", "--repetitions", "1"]
    assert main(argv) == 0
    assert re.search(r"\(31 x 64\) \(64 x \d+\)T? +[\d.]+ ", capsys.readouterr().out)


def test_step(capsys: Any) -> None:
    result = measured(capsys, "step")
    assert result["episode_steps"] == 20
    assert result["predict_1_ms"] > 0 and result["predict_16_ms"] > 0
    for rows, name in ((1, "late_over_early"), (16, "late_over_early_16")):
        late, early = (result[f"predict_{rows}_{when}_ms"] for when in ("late", "early"))
        assert result[name] == late / early


def test_scaling(capsys: Any, tmp_path: Path) -> None:
    result = measured(capsys, "scaling", "--out", "figures")
    points = {(p["blocks"], p["trajectories"], p["length"]): p for p in result["points"]}
    assert {(1, 10, 100), (1, 1, 1000), (1, 20, 50), (1, 1, 2000), (2, 1, 1000)} <= set(points)
    assert points[1, 1, 1000]["sweeps"] == ["length", "batch", "blocks", "cut"]
    for point in result["points"]:
        assert point["steps"] == point["trajectories"] * point["length"] >= 1000
        assert point["encoder"] == "mlp" and point["memory_mb"] >= 0
        _check_spreads(point)
    whole = points[1, 1, 1000]["update_ms"]
    assert result["cut_ratio"] == {"mlp": whole / points[1, 20, 50]["update_ms"]}
    assert result["doubling_ratio"] == {"mlp": points[1, 1, 2000]["update_ms"] / whole}
    with (tmp_path / "figures/scaling.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["update_ms"]) for row in rows] == [
        point["update_ms"] for point in result["points"]
    ]
    with Image.open(tmp_path / "figures/scaling.png") as picture:
        assert min(picture.size) > 500


def test_buffer(capsys: Any) -> None:
    result = measured(capsys, "buffer")
    assert result["plain_bytes_per_step"] == 4 * (376 + 17 + 1)
    for length in (1000, 25):
        assert 0.9 * 20_000 <= result[f"held_steps_{length}"] <= 20_000
        ratio = result[f"bytes_per_step_{length}"] / result["plain_bytes_per_step"]
        assert result[f"overhead_{length}"] == ratio > 0.5
        assert result[f"sample_ms_{length}"] > 0 and result[f"add_us_{length}"] > 0
    assert result["overhead"] == max(result["overhead_1000"], result["overhead_25"])


@pytest.mark.parametrize("part", ["scan", "update", "step", "buffer"])
def test_tables_and_files(part: str, capsys: Any, tmp_path: Path) -> None:
    argv = ["bench", part, *PARTS[part], "--repetitions", "1", "--out", "a/b"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert f"Written: a/b/{part}.json" in out
    assert max(map(len, out.splitlines())) <= 80
    written = json.loads((tmp_path / f"a/b/{part}.json").read_text())
    assert written["bench"] == part and written["machine"]["cores"]


def test_help_of_every_part(capsys: Any) -> None:
    for part in PARTS:
        with pytest.raises(SystemExit) as left:
            main(["bench", part, "--help"])
        assert left.value.code == 0
        text = capsys.readouterr().out
        assert text.startswith(f"usage: resel bench {part} ") and "--out" in text
        assert max(map(len, text.splitlines()[1:])) <= 80


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["scan", "--rows", "0"], "--rows 0 is too small"),
        (["scan", "--length", "1.5"], "not a whole number"),
        (["scan", "--repetitions", "0"], "--repetitions 0 is too small"),
        (["update", "--threads", "-1"], "--threads -1 is too small"),
        (["update", "--batch-steps", "0"], "--batch-steps 0 is too small"),
        (["update", "--encoder", "perceiver"], "perceiver"),
        (["update", "--size", "huge"], "huge"),
        (["step", "--steps", "5"], "--steps 5 is too small"),
        (["buffer", "--steps", "10"], "--steps 10 holds no episode"),
        (["scaling", "--encoders"], "--encoders"),
        (["speed"], "speed"),
        ([], "scan"),
    ],
)
def test_values_that_cannot_work(argv: list[str], told: str, capsys: Any) -> None:
    try:
        code: Any = main(["bench", *argv])
    except SystemExit as left:
        code = left.code
    assert code == 2
    said = capsys.readouterr()
    assert said.out == "" and told in " ".join(re.sub("[│\n]", " ", said.err).split())


def test_an_unknown_task(capsys: Any) -> None:
    assert main(["bench", "update", "--task", "TMaze"]) == 2
    assert "Did you mean TMaze-v0" in capsys.readouterr().err


def test_a_file_where_the_folder_should_be(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    assert main(["bench", "scan", "--out", "taken"]) == 2
    assert "--out taken: the folder cannot be made" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_no_room_for_the_buffer(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resel.benchmarks.buffer.available_memory", lambda: 1_000_000_000)
    assert main(["bench", "buffer", "--json"]) == 2
    said = capsys.readouterr()
    assert "needs 1.8 GB" in said.err and "1.0 GB free; try --steps 500000." in said.err
    assert said.out == ""
    monkeypatch.setattr("resel.benchmarks.buffer.available_memory", lambda: 1_000_000)
    assert main(["bench", "buffer"]) == 2
    assert "free some memory first" in capsys.readouterr().err


def test_no_room_for_a_long_trajectory(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resel.benchmarks.scaling.available_memory", lambda: 1000)
    result = measured(capsys, "scaling")
    kept, left_out = (
        {(point["steps"], point["length"], point["blocks"]) for point in result[name]}
        for name in ("points", "left_out")
    )
    assert left_out and not kept & left_out and {(1000, 1000, 1), (1000, 50, 1)} <= kept
    assert all(point["needed_gb"] > 0 for point in result["left_out"])
    assert main(["bench", "scaling", *PARTS["scaling"], "--repetitions", "1"]) == 0
    assert "Left out: more memory than is free" in capsys.readouterr().out


def test_make_bench_runs_all_parts_but_those_it_names() -> None:
    root = Path(__file__).resolve().parents[2]
    target = (root / "Makefile").read_text().partition("\nbench:")[2].partition("\n\n")[0]
    (listed,) = re.findall(r"for part in (.*);", target)
    run = {*listed.split(), *re.findall(r"resel bench ([a-z]+)", target)}
    text = (root / "docs" / "performance.md").read_text()
    (left_out,) = re.findall(r"`make bench` runs those of minutes \(all but (.*?),? which", text)
    page = (root / "docs" / "results" / "performance" / "README.md").read_text()
    (also,) = re.findall(r"`make bench` runs all parts but (.*?)\)", page, re.DOTALL)
    names = {part.name for part in EVERY_PART}
    assert set(re.findall("`([a-z]+)`", left_out)) == names - run
    assert set(re.findall("`([a-z]+)`", also)) == names - run


def test_startup(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = dict.fromkeys(startup.PROGRAMS, "pass") | {"first_update": "print(sum(range(10**6)))"}
    monkeypatch.setattr(startup, "PROGRAMS", quick)
    result = measured(capsys, "startup")
    assert all(result[f"{name}_wall_s"] > 0 for name in quick)
    beyond = result["first_update_cpu_s"] - result["import_torch_cpu_s"]
    assert result["beyond_torch_s"] == beyond > 0
    assert main(["bench", "startup", "--repetitions", "1"]) == 0
    assert "train help" in capsys.readouterr().out
    assert "nope" in refused(capsys, "bench", "startup", "--encoder", "nope")


@pytest.mark.slow
@pytest.mark.parametrize("name", startup.PROGRAMS)
def test_what_startup_times_runs(name: str) -> None:
    wall, processor = startup._run(startup.PROGRAMS[name].format("gru"))
    assert wall > 0 and processor > 0


def test_a_busy_machine_is_told(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (7.0, 7.0, 7.0))
    argv = ["bench", "step", *PARTS["step"], "--repetitions", "1", "--json"]
    assert main(argv) == 0
    said = capsys.readouterr()
    assert "Warning: the machine is busy: its load is 7.0" in said.err
    assert any("its load is 7.0" in doubt for doubt in json.loads(said.out)["doubts"])


@pytest.mark.parametrize(
    "ways", [["sync", "vector", "envpool"], pytest.param([], marks=pytest.mark.slow)]
)
def test_collecting(ways: list[str], tmp_path: Path, capsys: Any) -> None:
    words = ["--num-envs", "2", "--steps", "20", "--repetitions", "1"]
    words += ["--ways", *ways] if ways else []
    assert main(["bench", "collect", *words, "--json", "--out", str(tmp_path)]) == 0
    result = json.loads(capsys.readouterr().out)
    rows = {row["way"]: row for row in result["ways"]}
    assert {"single", *(ways[:1] or ["workers", "sync", "async"])} <= set(rows)
    assert set(rows) | set(result["left_out"]) >= {"vector", "envpool"}
    assert "no vectorised version" in result["left_out"]["vector"]
    assert rows["single"]["over_single"] == 1
    for row in rows.values():
        assert row["alone_ms"] > 0 and row["collect_ms"] > 0
        assert row["collect_steps_per_s"] == 1e3 / row["collect_ms"]
    assert (tmp_path / "collect.csv").read_text().startswith("way,alone_ms,")
    words = ["--num-envs", "2", "--steps", "5", "--repetitions", "1", "--task", "CartPole-v1"]
    assert main(["bench", "collect", *words, "--ways", "vector"]) == 0
    assert "env_vector: the task's own version" in capsys.readouterr().out
    assert main(["bench", "collect", "--task", "Nowhere-v0"]) == 2


def test_steps_of_methods(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "_PART", 20)
    monkeypatch.setattr(methods, "_WARMUP", 100)
    words = ["--methods", "resel", "sac-mlp", "a2c-gru", "--repetitions", "1", "--task", "TMaze-v0"]
    assert main(["bench", "methods", *words, "--json", "--out", str(tmp_path)]) == 0
    result = json.loads(capsys.readouterr().out)
    rows = {row["method"]: row for row in result["methods"]}
    assert list(rows) == ["resel", "sac-mlp", "a2c-gru"] and rows["resel"]["over_resel"] == 1
    assert rows["sac-mlp"]["updates_per_step"] == 1 > rows["a2c-gru"]["updates_per_step"] > 0
    assert 0 < rows["sac-mlp"]["step_ms"] < rows["resel"]["step_ms"]
    assert (tmp_path / "methods.csv").read_text().startswith("method,title,step_ms")
    assert main(["bench", "methods", "--methods", "td3", "--task", "TMaze-v0"]) == 2
    assert "Box spaces only" in capsys.readouterr().err


@every_method
def test_a_step_of_every_method_has_its_share_of_updates(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "_PART", 20)
    config = small_config(method, warmup_steps=30, eval_every=0)
    fewer = {"learn_after": 40, "pretraining_updates": 40, "rollout_steps": 8}
    config = config.replace(**{n: v for n, v in fewer.items() if n in config.flat()})
    agent = Agent(told_env(method, f"toy/{method.spaces[0]}-v0"), config=config)
    laps = methods._steps(agent, config)()
    agent.close()
    assert laps[f"{method.name}_step_ms"] > 0 and laps[f"{method.name}_updates"] > 0


@pytest.mark.parametrize("needed", [1, 3, 4])
def test_bursts_of_updates_are_timed_whole(
    needed: int, toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes of six steps, and updates for all of them after so many."""
    monkeypatch.setattr(methods, "_PART", 20)
    monkeypatch.setattr(methods, "get_task", lambda name: SimpleNamespace(horizon=6))
    own = {"assessment_after": 0, "assessment_episodes": needed, "warmup_steps": 30}
    config = small_config(get_method("td7"), eval_every=0, **own)
    agent = Agent(lambda: toy(length=6, spread=0), config=config)
    play = methods._steps(agent, config)
    assert [play()["td7_updates"] for _ in range(3)] == [1, 1, 1]
    agent.close()
