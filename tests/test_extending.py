"""Methods and encoders of one's own: the page's example as a package, and what can go wrong."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from command import COMMAND

import resel
from resel import Agent, Config, registry
from resel.cli import main
from resel.errors import ConfigError
from resel.methods import get_method, methods
from resel.networks import encoders
from resel.registry import ENCODERS, METHODS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "examples" / "own_method"
PAGE = ROOT / "docs" / "extending.md"
FILES = ("own_encoder.py", "own_method.py", "pyproject.toml")
QUICK = ["--steps", "300", "--warmup-steps", "280", "--batch-steps", "60", "--eval-every", "0"]


def in_process(*argv: str, path: Path) -> subprocess.CompletedProcess[str]:
    """A program that finds the packages in a folder, and resel where these tests find it."""
    source = str(Path(resel.__file__).parents[1])
    return subprocess.run(
        argv,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(path), source]),
            "OMP_NUM_THREADS": "1",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed by pip into a folder of its own."""
    copied = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("own") / "own_method")
    target = tmp_path_factory.mktemp("target")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(target), str(copied)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """The modules of the example, registered as a program would do it."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    method, encoder = (importlib.import_module(name) for name in ("own_method", "own_encoder"))
    resel.register_method(method.METHOD)
    resel.register_encoder(encoder.ENCODER)
    yield method, encoder
    METHODS.remove(method.METHOD.name)
    ENCODERS.remove(encoder.ENCODER.name)


Offer = Callable[..., None]
_COPY = """
import dataclasses
import resel
from resel.registry import METHODS
OFFERED = dataclasses.replace(METHODS._items[METHODS.first], name={name!r})
"""
"""The first method under another name."""


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Installs a package that offers one thing, for the time of a test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []
    modules: list[str] = []

    def install(package: str, name: str, code: str, group: str = "resel.methods") -> None:
        module = f"{package.replace('-', '_')}_module"
        (tmp_path / f"{module}.py").write_text(code)
        about = tmp_path / f"{package.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:OFFERED\n")
        importlib.invalidate_caches()
        registry._entry_points.cache_clear()
        names.append(name)
        modules.append(module)

    first = METHODS.first
    yield install
    registry._entry_points.cache_clear()
    for name in names:
        if name != first:
            METHODS.remove(name)
            ENCODERS.remove(name)
    for module in modules:
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", FILES)
def test_the_page_shows_the_files_as_they_are(name: str) -> None:
    blocks = re.findall(rf'```\w+ title="{re.escape(name)}"\n(.*?)```', PAGE.read_text(), re.S)
    assert blocks
    shown, held = ("\n\n".join(blocks), (PACKAGE / name).read_text())
    assert re.sub(r"\n{2,}", "\n\n", shown) == re.sub(r"\n{2,}", "\n\n", held)


def test_an_installed_method_trains_with_an_installed_encoder(
    installed: Path, tmp_path: Path
) -> None:
    chosen = ["--method", "own-cautious", "--encoder", "own-averages"]
    flags = [*chosen, "--caution", "0.5", "--longest-span", "20", "--run-dir", str(tmp_path / "r")]
    done = in_process(
        COMMAND, "train", "TMaze-v0", "--size", "tiny", *QUICK, *flags, path=installed
    )
    assert done.returncode == 0, done.stderr
    program = f"""
from resel import Agent
from resel.methods import methods
from resel.networks import encoders

print(*(method.name for method in methods()[0]), *(spec.name for spec in encoders()[0]))
agent = Agent.load({str(tmp_path / "r")!r})
print(agent.config.method, agent.config.encoder, agent.config.algorithm.caution)
"""
    told = in_process(sys.executable, "-c", program, path=installed)
    assert told.returncode == 0, told.stderr
    names, config = told.stdout.splitlines()
    assert {"own-cautious", "own-averages", METHODS.first} <= {*names.split()}
    assert config == "own-cautious own-averages 0.5"


def test_an_installed_encoder_serves_the_methods_that_were_there(
    installed: Path, tmp_path: Path
) -> None:
    flags = ["--encoder", "own-averages", "--run-dir", str(tmp_path / "r")]
    done = in_process(
        COMMAND, "train", "TMaze-v0", "--size", "tiny", *QUICK, *flags, path=installed
    )
    assert done.returncode == 0, done.stderr


def test_an_installed_method_is_held_to_the_contract(installed: Path) -> None:
    tests = ["tests/methods/test_contract.py", "-k", "own-cautious", "-p", "no:cacheprovider"]
    done = in_process(sys.executable, "-m", "pytest", "-q", *tests, path=installed)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout and "skipped" not in done.stdout


def test_a_program_can_register_its_own(example: tuple[ModuleType, ModuleType]) -> None:
    sizes = {"embedding": 8, "width": 8, "head_width": 8, "warmup_steps": 20, "eval_every": 0}
    agent = Agent("toy/Box-v0", "own-cautious", encoder="own-averages", device="cpu", **sizes)
    agent.learn(40)
    # TMaze has an encoder of its own in its preset: what is asked for wins.
    assert resel.configure("TMaze-v0", encoder="own-averages").encoder == "own-averages"
    assert agent.learner.updates == 21
    assert isinstance(agent.learner, example[0].CautiousLearner)
    assert any(isinstance(part, example[1].Averages) for part in agent.learner.policy.modules())


def test_what_a_program_registers_twice_is_refused(
    example: tuple[ModuleType, ModuleType],
) -> None:
    with pytest.raises(ConfigError, match="method named 'own-cautious' already"):
        resel.register_method(example[0].METHOD)
    with pytest.raises(ConfigError, match="encoder named 'own-averages' already"):
        resel.register_encoder(example[1].ENCODER)


def test_the_encoder_is_the_same_function_packed_alone_and_step_by_step(
    example: tuple[ModuleType, ModuleType],
) -> None:
    torch.manual_seed(0)
    encoder = example[1].ENCODER.build(example[1].AveragesSettings(), 6).double()
    x, is_first = torch.randn(2, 9, 6).double(), torch.zeros(2, 9, dtype=torch.bool)
    is_first[0, 4] = is_first[1, [2, 3]] = True
    with torch.no_grad():
        packed = encoder(x, is_first)
        state = encoder.initial_state(2)
        for t in range(9):
            state = tuple(part.masked_fill(is_first[:, t, None], 0) for part in state)
            y, state = encoder.step(x[:, t], state)
            torch.testing.assert_close(packed[:, t], y)
        torch.testing.assert_close(packed[:1, 4:], encoder(x[:1, 4:], is_first[:1, 4:]))


def test_unknown_names_are_answered_with_near_ones(
    example: tuple[ModuleType, ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"no method 'own-causious'. Did you mean own-cautious"):
        get_method("own-causious")
    with pytest.raises(ConfigError, match=r"no encoder 'own-average'. Did you mean own-averages"):
        Config.build("", {"encoder": "own-average"})
    with pytest.raises(ConfigError, match=f"Choose one of {METHODS.first}, .*own-cautious"):
        get_method("zzz")
    assert main(["train", "TMaze-v0", "--method", "own-causious"]) == 2
    assert "own-cautious" in capsys.readouterr().err


def test_a_package_that_cannot_be_imported_is_named(
    offer: Offer, capsys: pytest.CaptureFixture[str]
) -> None:
    offer("their-package", "theirs", "import a_module_that_is_missing")
    assert main(["train", "TMaze-v0", "--method", "theirs"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "method 'theirs' of the package their-package cannot be imported" in said
    assert "a_module_that_is_missing" in said and "Traceback" not in said
    found, faults = methods()
    assert METHODS.first in [method.name for method in found]
    assert list(faults) == ["theirs"] and "their-package" in faults["theirs"]


def test_an_encoder_that_cannot_be_imported_is_named(
    offer: Offer, capsys: pytest.CaptureFixture[str]
) -> None:
    offer("their-package", "theirs", "1 / 0", group="resel.encoders")
    assert main(["train", "TMaze-v0", "--encoder", "theirs"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "encoder 'theirs' of the package their-package cannot be imported (ZeroDiv" in said
    assert list(encoders()[1]) == ["theirs"]


def test_a_package_cannot_take_a_name_that_is_taken(
    offer: Offer, capsys: pytest.CaptureFixture[str]
) -> None:
    offer("their-package", METHODS.first, _COPY.format(name=METHODS.first))
    assert main(["train", "TMaze-v0"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"'{METHODS.first}' of the package their-package takes a name that is taken" in said


def test_two_packages_cannot_share_a_name(offer: Offer) -> None:
    for package in ("one-package", "other-package"):
        offer(package, "shared", "OFFERED = 1")
    with pytest.raises(ConfigError, match=r"offered by the package o.* and by the package o"):
        get_method("shared")


def test_an_offer_of_another_kind_is_refused(offer: Offer) -> None:
    offer("their-package", "theirs", "OFFERED = 'a word'")
    with pytest.raises(ConfigError, match="their-package is 'a word': it must be a Method"):
        get_method("theirs")


def test_an_offer_under_another_name_is_refused(
    offer: Offer, example: tuple[ModuleType, ModuleType]
) -> None:
    offer("their-package", "theirs", "from own_method import METHOD as OFFERED")
    with pytest.raises(ConfigError, match="calls itself 'own-cautious'"):
        get_method("theirs")


def test_a_module_may_itself_register_what_its_package_offers(offer: Offer) -> None:
    code = _COPY.format(name="theirs") + "resel.register_method(OFFERED)\n"
    offer("their-package", "theirs", code)
    assert get_method("theirs") is get_method("theirs")
    METHODS.remove("theirs")


@dataclasses.dataclass(frozen=True)
class WithoutDefault:
    """A setting that nobody sets."""

    gamma: float


@dataclasses.dataclass(frozen=True)
class Twice:
    """A setting that the method has as well."""

    gamma: float = 0.5


def test_settings_that_could_not_be_used_are_refused() -> None:
    first = methods()[0][0]
    spec = encoders()[0][0]
    with pytest.raises(ConfigError, match="setting 'gamma' without a default"):
        resel.register_method(dataclasses.replace(first, name="bad", settings=WithoutDefault))
    with pytest.raises(ConfigError, match="must be a dataclass"):
        resel.register_encoder(dataclasses.replace(spec, name="bad", settings=dict))
    resel.register_encoder(dataclasses.replace(spec, name="bad", settings=Twice))
    try:
        for make in (
            lambda: Config.build("", {"encoder": "bad"}),
            lambda: Config.build().replace(encoder="bad"),
        ):
            with pytest.raises(ConfigError, match="'gamma' exists twice"):
                make()
    finally:
        ENCODERS.remove("bad")
