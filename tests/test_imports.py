"""The graph of imports in the documentation is that of the code."""

import importlib.util
import json
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_list_of_imports_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("draw_imports", DOCS / "draw_imports.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    held = json.loads((DOCS / "imports.json").read_text())
    assert module.read_imports() == held, (
        "run `python docs/draw_imports.py` and look at the picture"
    )
