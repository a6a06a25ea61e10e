"""`resel tune`: trials are runs that are given up, go on and end in a preset file."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fake_training
import optuna
import pytest
from fake_training import fake_command
from terminal import refused

from resel.agent import configure
from resel.cli import main
from resel.errors import ConfigError
from resel.experiments.engines import local
from resel.methods import Between, get_method, read_preset
from resel.tuning import Search, _trials, parse_budget, without_password
from resel.tuning._clock import Clock
from resel.tuning._study import distributions, open_study

FEW = ["tune", "TMaze-v0", "--encoder", "gru", "--steps", "400", "--workers", "1", "--out", "out"]
TWO = [*FEW, "--search", "gamma=0.9,0.99", "lr_policy"]
GAMMA = "score = 10 * settings['gamma']"
HANGS = "evaluate(100, 1.0)\n(run / 'ready').touch()\nif calls == 1: time.sleep(100)\nscore = 1.0"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, own_folder: None, narrow_terminal: None) -> None:
    monkeypatch.setattr(_trials, "_LOOK", 0.05)
    monkeypatch.setattr(local, "_POLL", 0.02)


def trains(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    monkeypatch.setattr(_trials, "train_command", fake_command(rule))


def table() -> list[dict[str, str]]:
    return list(csv.DictReader(Path("out/trials.csv").read_text().splitlines()))


def runs() -> list[Path]:
    return sorted(Path("out/trials").rglob("seed*"))


def wait_for(found: Any) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.05)
    raise AssertionError("it took too long")


def test_the_best_settings_become_a_preset(monkeypatch: Any, capsys: Any) -> None:
    trains(monkeypatch, f"{GAMMA} + (seed - 100) + calls")
    assert main([*TWO, "--trials", "4", "--seeds", "2", "--workers", "2"]) == 0
    said = capsys.readouterr().out
    rows = table()
    assert [row["status"] for row in rows] == ["complete"] * 4
    # The preset's own settings come first; a score is the mean over seeds.
    assert (float(rows[0]["gamma"]), float(rows[0]["lr_policy"])) == (0.99, 0.001)
    assert [float(row["score"]) for row in rows] == [
        pytest.approx(10 * float(row["gamma"]) + 1.5) for row in rows
    ]
    assert [run.name for run in runs()] == ["seed100", "seed101"] * 4
    found = read_preset("out/preset.json")
    assert (found.task, found.method, found.settings["gamma"]) == ("TMaze-v0", "resel", 0.99)
    assert found.about["score_of_the_preset"] == pytest.approx(11.4)
    config = configure("TMaze-v0", preset="out/preset.json")
    assert (config.encoder, config.training.steps, config.algorithm.gamma) == ("gru", 400, 0.99)
    assert "resel train TMaze-v0 --preset out/preset.json --seed 1" in said
    page = Path("out/tune.html").read_text()
    for words in ("Which settings mattered", "Settings and score of every trial", "--seeds 5"):
        assert words in page
    # Given again, nothing is left to do, and nothing is run again.
    assert main([*TWO, "--trials", "4", "--seeds", "2"]) == 0
    assert table() == rows
    assert all(len((run / "calls").read_text().splitlines()) == 1 for run in runs())
    # More trials go on with the same study.
    assert main([*TWO, "--trials", "5", "--seeds", "2"]) == 0
    assert len(table()) == 5 and table()[:4] == rows


def test_a_folder_belongs_to_one_study(monkeypatch: Any, capsys: Any) -> None:
    trains(monkeypatch, GAMMA)
    assert main([*TWO, "--trials", "1"]) == 0
    kept = {path: path.read_bytes() for path in Path("out").glob("*.*")}
    words = refused(capsys, *TWO, "--trials", "1", "--method", "sac-gru")
    assert "--out out holds the study 'TMaze-v0-gru'" in words and "another --out" in words
    assert {path: path.read_bytes() for path in Path("out").glob("*.*")} == kept
    Path("out/search.json").write_text("{")
    assert "search.json cannot be read" in refused(capsys, *TWO, "--trials", "1")


def test_trials_of_another_machine_are_left_to_it(monkeypatch: Any) -> None:
    """Of the same path there, and without a lock here."""
    trains(monkeypatch, HANGS)
    shared = ["--storage", f"sqlite:///{Path('shared.db').absolute()}"]
    assert main([*TWO, *shared, "--budget", "2s", "--trials", "1"]) == 1
    Path("out").rename("elsewhere")
    assert main([*TWO, *shared, "--budget", "2s", "--trials", "1"]) == 1
    assert not runs(), "it was not begun a second time"
    Path("out").rename("empty")
    Path("elsewhere").rename("out")
    assert main([*TWO, *shared, "--budget", "60s", "--trials", "1"]) == 0


def test_what_was_given_is_not_rounded() -> None:
    def found(task: str, *words: str) -> tuple[Search, dict[str, Any]]:
        search = Search(task, Path("out"), words=words)
        return search, search.settings_of(search.baseline)

    search, settings = found("KeyToDoor-60-v0")
    assert settings["gamma"] == search.config.algorithm.gamma == 0.9999
    search, settings = found("TMaze-v0", "gamma=0.99,0.9975", "lr_policy", "tau=0.9:0.9999")
    assert search.settings_of({"gamma": 0.9975})["gamma"] == 0.9975
    assert search.settings_of({"lr_policy": 0.00123456})["lr_policy"] == 0.00123
    assert search.settings_of({"tau": 0.99987654})["tau"] == 0.999877
    length = found("TMaze-v0", "context_length=16:128")[0].space["context_length"]
    assert length == Between(16, 128) and isinstance(length.low, int)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("Pendulum-P-v0", ()),
        ("TMaze-v0", ("gamma=0.9,0.99", "context_length=16:128", "tau=0.001:0.3333", "lr_alpha")),
        ("TMaze-v0", ("lr_policy=1e-4:1e-2",)),
    ],
)
def test_after_the_preset_come_trials_that_are_close_to_it(task: str, words: Any) -> None:
    search, again = (Search(task, Path("out"), words=words) for _ in range(2))
    assert search.neighbours == again.neighbours
    allowed = distributions(search.space)
    for settings in search.neighbours:
        assert settings.keys() == search.baseline.keys()
        changed = {n for n, value in settings.items() if value != search.baseline[n]}
        assert 1 <= len(changed) <= 3
        for name in changed:
            assert allowed[name]._contains(allowed[name].to_internal_repr(settings[name]))
            if getattr(search.space[name], "log", False):
                assert 1 / 3.01 < settings[name] / search.baseline[name] < 3.01
            elif name == "gamma":
                between = sorted((settings[name], search.baseline[name]))
                assert not any(between[0] < g < between[1] for g in search.space[name].choices)
    changed_at_all = {
        n for settings in search.neighbours for n, v in settings.items() if v != search.baseline[n]
    }
    assert len(changed_at_all) == min(15, len(search.baseline))
    Path("out").mkdir()
    studies = [open_study(search) for _ in range(2)]  # begun twice, each is in it once
    waiting = [trial.system_attrs["fixed_params"] for trial in studies[0].get_trials()]
    assert waiting == [search.baseline, *search.neighbours]


def test_without_the_presets_values_nothing_is_close_to_them() -> None:
    assert Search("TMaze-v0", Path("out"), words=("gamma=0.1,0.2",)).neighbours == []


def test_passwords_are_not_shown() -> None:
    for url, shown in (
        ("postgresql://me:p@ss@host/db", "postgresql://me:***@host/db"),
        ("mysql://host/db?user=me&password=secret", "mysql://host/db?user=me&password=***"),
        ("sqlite:////tmp/a@b.db", "sqlite:////tmp/a@b.db"),
    ):
        assert without_password(url) == shown
        assert without_password(f"--storage={url}") == f"--storage={shown}"


def test_trials_that_do_not_keep_up_are_given_up(monkeypatch: Any, capsys: Any) -> None:
    number = "int(run.parent.name)"
    bad = f"if {number} == 5:\n evaluate(200, -9.0); time.sleep(100)\nscore = float({number})"
    trains(monkeypatch, bad)
    begun = time.monotonic()
    assert main([*TWO, "--trials", "7"]) == 0
    assert time.monotonic() - begun < 60, "its run was ended"
    rows = table()
    assert [row["status"] for row in rows] == ["complete"] * 5 + ["pruned", "complete"]
    assert "given up at step 200 of seed 100: -9" in rows[5]["problem"]
    assert json.loads((runs()[5] / "result.json").read_text())["status"] == "interrupted"
    assert read_preset("out/preset.json").about["trial"] == 6
    assert "Trials: 6 complete, 1 pruned." in capsys.readouterr().out


def test_what_diverges_is_no_best_and_what_fails_is_told(monkeypatch: Any, capsys: Any) -> None:
    rule = "if run.parent.name == '0001': end(99.0, 'diverged', 3)\n" + GAMMA
    trains(monkeypatch, rule)
    assert main([*TWO, "--trials", "2"]) == 0
    assert table()[1]["status"] == "pruned" and "diverged" in table()[1]["problem"]
    assert read_preset("out/preset.json").about["trial"] == 0
    trains(monkeypatch, "print('Error: no such thing.', flush=True); sys.exit(2)")
    words = refused(capsys, *TWO[:-4], "other", *TWO[-3:], "--trials", "9")
    assert "3 trials have failed" in words and "no such thing." in words


def test_time_counts_over_all_starts(monkeypatch: Any, capsys: Any) -> None:
    trains(monkeypatch, HANGS)
    assert main([*TWO, "--budget", "2s", "--trials", "1"]) == 1
    said = capsys.readouterr().out
    assert "Trials: 1 running." in said and "no preset yet" in said
    assert not Path("out/preset.json").exists()
    assert main([*TWO, "--budget", "2s", "--trials", "1"]) == 1, "it is spent"
    assert len((runs()[0] / "calls").read_text().splitlines()) == 1
    assert main([*TWO, "--budget", "60s", "--trials", "1"]) == 0
    assert "Trial 0: is taken up again" in capsys.readouterr().out
    calls = (runs()[0] / "calls").read_text().splitlines()
    assert len(calls) == 2 and calls[0] == calls[1], "with its settings and its run"
    assert [row["status"] for row in table()] == ["complete"]


def test_ctrl_c_ends_it_and_the_same_command_goes_on(monkeypatch: Any, capsys: Any) -> None:
    trains(monkeypatch, HANGS)

    def interrupt() -> None:
        wait_for(lambda: list(Path("out").rglob("ready")))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert main([*TWO, "--trials", "1"]) == 130
    thread.join()
    said = capsys.readouterr().out
    assert "Stopped; all trials are saved. The same command goes on: resel tune TMaze-v0" in said
    assert json.loads((runs()[0] / "result.json").read_text())["status"] == "interrupted"
    assert main([*TWO, "--trials", "1"]) == 0
    assert table()[0]["status"] == "complete"


@pytest.mark.slow
def test_the_trial_of_a_killed_worker_is_taken_up(monkeypatch: Any) -> None:
    argv = [sys.executable, fake_training.__file__, HANGS, *TWO, "--trials", "1"]
    worker = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: list(Path("out").rglob("ready")))
    finally:
        worker.kill()
        worker.wait()
    trains(monkeypatch, HANGS)
    assert main([*TWO, "--trials", "1"]) == 0
    calls = (runs()[0] / "calls").read_text().splitlines()
    assert len(calls) == 2 and calls[0] == calls[1]
    assert [row["status"] for row in table()] == ["complete"]


@pytest.mark.slow
def test_two_commands_work_on_one_study() -> None:
    rule = "(run / 'ready').touch()\nwhile len(list(run.parents[1].rglob('ready'))) < 2: "
    rule += "time.sleep(0.05)\nscore = 1.0"  # the first two trials wait for each other
    argv = [sys.executable, fake_training.__file__, rule, *TWO, "--trials", "5"]
    workers = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for _ in range(2)]
    try:
        assert [worker.wait(120) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
    assert [row["status"] for row in table()] == ["complete"] * 5
    assert len(runs()) == 5, "no trial was made twice or beyond what was asked for"
    assert all(len((run / "calls").read_text().splitlines()) == 1 for run in runs())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own, in whatever release is installed
def test_trials_on_ray(monkeypatch: Any, ray_environment: None) -> None:
    trains(monkeypatch, GAMMA)
    assert main([*TWO, "--trials", "4", "--workers", "2", "--engine", "ray"]) == 0
    assert [row["status"] for row in table()] == ["complete"] * 4
    assert read_preset("out/preset.json").settings["gamma"] == 0.99


def test_a_study_is_about_one_thing(monkeypatch: Any, capsys: Any) -> None:
    trains(monkeypatch, GAMMA)
    assert main([*TWO, "--trials", "1"]) == 0
    before = table()
    own = ["--study", "TMaze-v0-gru", "--trials", "2"]
    for change, words in (
        (["--seeds", "2"], "has seeds [100], and this is seeds [100, 101]"),
        (["--settings", "tau=0.5"], "the setting tau 0.005, and this is the setting tau 0.5"),
        (["--search", "gamma=0.9,0.99"], "lr_policy"),
        (["--search", "gamma=0.9,0.95", "lr_policy"], "has the range of gamma ['one of', 0.9"),
        (["--method", "sac-gru"], "has method resel, and this is method sac-gru"),
    ):
        assert words in refused(capsys, *TWO, *own, *change), change
    task = [w if w != "TMaze-v0" else "Pendulum-V-v0" for w in TWO]
    told = refused(capsys, *task, *own)
    assert "has task TMaze-v0, and this is task Pendulum-V-v0" in told and "--study" in told
    assert main([*TWO, "--trials", "1"]) == 0 and table() == before, "nothing was lost"


def test_a_study_from_when_the_method_had_further_settings(monkeypatch: Any, capsys: Any) -> None:
    trains(monkeypatch, GAMMA)
    assert main([*TWO, "--trials", "1"]) == 0
    study = optuna.load_study(study_name=None, storage="sqlite:///out/study.db")
    about = study.user_attrs["resel"]
    for settings, code in ((get_method("resel").former, 0), ({"alpha_start": 0.5}, 2)):
        study.set_user_attr("resel", {**about, "settings": {**about["settings"], **settings}})
        assert main([*TWO, "--trials", "1"]) == code
    assert "alpha_start=0.5, a setting that this version no longer has" in capsys.readouterr().err


def test_bad_input(monkeypatch: Any, capsys: Any) -> None:
    assert "Say how long" in refused(capsys, *FEW)
    for budget in ("2", "2hours", "-3h", "h", ""):
        assert "30m, 2h, 1h30m" in refused(capsys, *FEW, f"--budget={budget}")
    for budget in ("0s", "9999d"):
        assert "between 1s and 365d" in refused(capsys, *FEW, "--budget", budget)
    assert parse_budget("1h30m") == 5400 and parse_budget("0.5d") == 43200
    trials = [*FEW, "--trials", "1"]
    assert "--trials 0" in refused(capsys, *FEW, "--trials", "0")
    assert "no usual range" in refused(capsys, *trials, "--search", "n_critics")
    assert "no setting named 'nothing'" in refused(capsys, *trials, "--search", "nothing=1,2")
    assert "LOW below HIGH" in refused(capsys, *trials, "--search", "tau=1:0")
    for name in ("steps=100,200", "seed=1,2", "eval_every", "threads=1,2"):
        assert "Fix it for all trials" in refused(capsys, *trials, "--search", name)
    assert "steps" in refused(capsys, "tune", "TMaze-v0", "--trials", "1", "--steps", "0")
    both = refused(capsys, *trials, "--search", "tau", "--settings", "tau=0.1")
    assert "both fixed and searched" in both
    for url in ("nonsense://x", "postgresql://me:secret@localhost:1/x", "sqlite:////no/where/a.db"):
        said = refused(capsys, *trials, "--storage", url)
        assert "cannot be used" in said and "without --storage" in said and "secret" not in said
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install 'resel[tune]'" in refused(capsys, *trials)
    assert not Path("out/trials").exists()


def test_a_clock_counts_once_what_overlaps(tmp_path: Path) -> None:
    clock = Clock(tmp_path, 100.0)
    now = clock._began
    for number, ends in enumerate([(now - 50, now - 30), (now - 40, now - 20), (now - 5, now + 0)]):
        (tmp_path / f"{number}.json").write_text(json.dumps(ends))
    (tmp_path / "half.json").write_text("[1")
    assert clock.spent() == pytest.approx(35, abs=1)
    assert clock.left == pytest.approx(65, abs=1) and not clock.is_over


def test_a_storage_that_fails_on_the_way(monkeypatch: Any, capsys: Any) -> None:
    trains(monkeypatch, "(run.parents[3] / 'study.db').write_bytes(b'x' * 9000)\nscore = 1.0")
    said = refused(capsys, *TWO, "--trials", "2", code=4)
    assert "failed (" in said and "the same command goes on" in said
    assert json.loads((runs()[0] / "result.json").read_text())["status"] == "completed"


def test_a_storage_that_is_no_study_of_ours(capsys: Any) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage="sqlite:///theirs.db", study_name="theirs")
    study.tell(study.ask(), 1.0)
    url = ["--storage", "sqlite:///theirs.db", "--study", "theirs", "--trials", "1"]
    assert "was not made by resel tune" in refused(capsys, *FEW, *url)


@pytest.mark.slow
def test_real_runs(capsys: Any) -> None:
    argv = [*TWO, "--settings", "warmup_steps=50", "batch_steps=84", "--eval-every", "100"]
    assert main([*argv, "--trials", "2", "--size", "tiny"]) == 0
    assert [row["status"] for row in table()] == ["complete"] * 2
    train = ["train", "TMaze-v0", "--preset", "out/preset.json", "--steps", "100"]
    assert main([*train, "--run-dir", "run"]) == 0
    kept = json.loads(Path("run/config.json").read_text())
    assert kept["algorithm"]["gamma"] == read_preset("out/preset.json").settings["gamma"]


def test_searches_without_anything_to_search() -> None:
    from resel.methods import chosen_space, search_space

    config = configure("TMaze-v0", method="resel")
    with pytest.raises(ConfigError, match="name some, as in --search"):
        chosen_space(config, (), search_space(config))
