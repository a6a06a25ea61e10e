"""The public names: loaded when they are asked for, and Gymnasium knows our tasks all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import resel

HEAVY = "{'torch', 'numba', 'gymnasium', 'matplotlib', 'numpy'}"


def run(program: str) -> str:
    """What a program in a fresh process prints."""
    env = {**os.environ, "PYTHONPATH": str(Path(resel.__file__).parents[1])}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "program",
    [
        "import resel",
        "from resel import ReselError",
        "from resel.cli import main; main(['--help'])",
        "from resel.cli import main; main(['--version'])",
        "from resel.cli import main; main(['trian'])",
    ],
)
def test_what_needs_no_torch_loads_none(program: str) -> None:
    assert run(
        f"{program}\nimport sys; print('loaded', sorted({HEAVY} & {{*sys.modules}}))"
    ).endswith("loaded []\n")


_ANSWERS = """
import sys
from resel.cli import main
from resel.cli._entry import VERBS

asked = [[verb, "--help"] for verb in VERBS]
asked += [[verb, "--help-all"] for verb in ("train", "resume")]
asked += [["tasks"], ["methods"], ["methods", "--json"], ["zoo", "list"], ["zoo", "get", "--help"]]
asked += [["bench", "updaet"], ["zoo", "nosuch"]]
asked += [[verb, "--nosuch"] for verb in VERBS if verb not in ("train", "resume")]
for words in asked:
    try:
        code = main(words)
    except SystemExit as left:  # how the parser ends
        code = left.code
    loaded = {"torch", "numba", "matplotlib", "optuna", "plotly", "scipy"} & {*sys.modules}
    wrong = "--nosuch" in words or words[-1] in ("nosuch", "updaet")
    if loaded or bool(code) is not wrong:
        raise AssertionError(f"{words}: {code}, loaded: {loaded}")
"""


def test_help_lists_and_wrong_words_load_no_torch() -> None:
    assert "resel train TASK --help-all" in run(_ANSWERS)


def test_every_public_name_is_there() -> None:
    assert set(resel.__all__) <= set(dir(resel))
    for name in resel.__all__:
        assert getattr(resel, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        getattr(resel, "Agnet")  # noqa: B009


def test_a_config_that_is_named_first_knows_the_methods() -> None:
    assert run("from resel import Config; print(Config.build('', {'method': 'td3'}).method)") == (
        "td3\n"
    )


@pytest.mark.parametrize(
    "imports",
    [
        "import resel, gymnasium",
        "import gymnasium, resel",
        "import resel, gymnasium.spaces",
        "import resel.tasks, gymnasium",
        "from resel import AutoresetHelper; import gymnasium",
        "import importlib, resel, gymnasium; importlib.reload(gymnasium)",
        "import importlib.util, resel; importlib.util.find_spec('gymnasium'); import gymnasium",
    ],
)
def test_gymnasium_knows_our_tasks_in_whatever_order(imports: str) -> None:
    assert run(f"{imports}\nprint('resel/TMaze-v0' in gymnasium.registry)") == "True\n"


def test_without_gymnasium_the_import_fails_as_it_always_did() -> None:
    program = """
import importlib.util, sys
import resel
sys.path = [place for place in sys.path if 'site-packages' not in place]
sys.path_importer_cache.clear()
print(importlib.util.find_spec('gymnasium'))
try:
    import gymnasium
except ModuleNotFoundError as error:
    print(error)
"""
    assert run(program) == "None\nNo module named 'gymnasium'\n"
