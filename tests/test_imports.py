"""The graph of imports in the documentation is that of the code."""

import ast
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


SOURCE = Path(__file__).parents[1] / "src" / "resel"
SIDE_DOORS = {
    # What is needed without all that the room's own door would bring in.
    *(f"resel.analysis.{name}" for name in ("paper", "plots", "published", "runs", "statistics")),
    *("resel.training.threads", "resel.training.video", "resel.reports.curves"),
    # Benchmarks take kernels apart; an import contract names them.
    *(f"resel.networks.ops.{name}" for name in ("recurrent", "reference", "scan")),
    "resel.networks.ops._scan_inputs",
}


def test_rooms_are_entered_by_their_doors() -> None:
    wrong = []
    for file in SOURCE.rglob("*.py"):
        here = file.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("resel."):
                continue
            _, room, *deeper = str(node.module).split(".")
            if deeper and room != here and node.module not in SIDE_DOORS:
                wrong.append(f"{file.relative_to(SOURCE)}: {node.module}")
    assert not wrong
