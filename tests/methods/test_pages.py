"""Every method of ours has a page of its own, and the list of methods is the registry's."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from resel.config import Config
from resel.methods import Method, own_methods
from resel.tasks import all_tasks

ROOT = Path(__file__).parents[2]
_SECTIONS = (
    "## Source",
    "## Settings",
    "## Where ours departs",
    "## Where it can act",
    "## Curve",
)
_LEAST_SENTENCES = 3
_PRESETS = ("paper", "released", "small")


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    script = ROOT / "docs" / "write_methods.py"
    spec = importlib.util.spec_from_file_location("write_methods", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_is_the_registrys(writer: ModuleType) -> None:
    written = (writer.FOLDER / "README.md").read_text(encoding="utf-8")
    assert writer.listing() == written, "run `python docs/write_methods.py`"


@pytest.mark.parametrize("method", own_methods(), ids=lambda method: method.name)
def test_a_page_of_every_method(method: Method, writer: ModuleType) -> None:
    text = (writer.FOLDER / writer.page_of(method)).read_text(encoding="utf-8")
    assert f"--method {method.name}" in text or method.name == "resel"
    assert f"resel methods --show {method.name}" in text
    sections = [line for line in text.splitlines() if line.startswith("## ")]
    assert [section for section in sections if section in _SECTIONS] == list(_SECTIONS)
    bodies = dict(zip(sections, re.split(r"^## .*$", text, flags=re.MULTILINE)[1:], strict=True))
    assert not [section for section, body in bodies.items() if not body.strip()]


@pytest.mark.parametrize("method", own_methods(), ids=lambda method: method.name)
def test_a_page_opens_with_what_the_method_is(method: Method, writer: ModuleType) -> None:
    text = (writer.FOLDER / writer.page_of(method)).read_text(encoding="utf-8")
    title, opening, _ = text.split("\n\n", 2)
    assert title.startswith("# ")
    assert len(re.findall(r"[.!?](?=\s|$)", opening)) >= _LEAST_SENTENCES


def _named(page: Path, *, small: bool, linked: bool = False) -> set[str]:
    """What its settings name in the rows of the preset `small`, or in all others.

    A row that leads to the page of another method is all that such rows say there.
    """
    section = re.search(r"^## Settings$(.*?)^## ", page.read_text(encoding="utf-8"), re.M | re.S)
    assert section is not None
    rows = [row for row in section[1].splitlines() if ("preset `small`" in row) == small]
    text = "\n".join(rows)
    others = [] if linked else re.findall(r"\]\(([\w-]+\.md)\)", text)
    names = set(re.findall(r"`(\w+)`", text))
    return names.union(*(_named(page.parent / other, small=small, linked=True) for other in others))


def _set_by_presets(method: Method, *, small: bool) -> set[str]:
    """What `small` sets besides the bare `paper`, or what the others set besides the defaults.

    On small tasks `paper` is `small`. What a task says to every method is on the task's page.
    """
    usual = Config.build("", {"method": method.name}).flat()
    if small:
        usual |= method.preset(None, "paper") or {}
    found = set()
    for task in (None, *all_tasks()):
        hints = task.hints if task is not None else {}
        for name in _PRESETS:
            preset = method.preset(task, name)
            if preset is None or (preset == method.preset(task, "small")) != small:
                continue
            own = {key for key, value in preset.items() if usual.get(key) != value}
            found |= {key for key in own if key not in hints or hints[key] != preset[key]}
    return found


@pytest.mark.parametrize("small", [False, True], ids=["paper", "small"])
@pytest.mark.parametrize("method", own_methods(), ids=lambda method: method.name)
def test_a_page_names_what_the_presets_set(method: Method, small: bool, writer: ModuleType) -> None:
    page = writer.FOLDER / writer.page_of(method)
    left = _set_by_presets(method, small=small) - _named(page, small=small)
    assert not left, f"the settings of {page.name} do not name {', '.join(sorted(left))}"


def test_every_page_is_that_of_one_method(writer: ModuleType) -> None:
    found = {page.name for page in writer.FOLDER.glob("*.md")} - {"README.md"}
    pages = [writer.page_of(method) for method in own_methods()]
    assert len(set(pages)) == len(pages)
    assert found == set(pages)


def test_the_tables_of_the_results_are_those_of_the_data(writer: ModuleType) -> None:
    written = (writer.RESULTS / "README.md").read_text(encoding="utf-8")
    assert "| **RESeL** | -" in written
    assert writer.with_tables(written) == written, "run `python docs/write_methods.py`"


@pytest.mark.parametrize("method", own_methods(), ids=lambda method: method.name)
def test_every_page_has_the_curve_of_the_results(method: Method, writer: ModuleType) -> None:
    page = writer.FOLDER / writer.page_of(method)
    text = page.read_text(encoding="utf-8")
    assert writer.with_curves(text, method) == text, "run `python docs/write_methods.py`"
    pictures = re.findall(r"!\[.*?\]\((curves/.*?)\)", text)
    shown = "It has not been run yet." not in text
    assert len(pictures) == shown
    assert all((writer.FOLDER / picture).is_file() for picture in pictures)
