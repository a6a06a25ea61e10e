"""What the command says without torch: `python docs/write_help.py` writes cli/kept.json.

Methods, encoders and benchmarks stand beside their code, which needs torch; their names, settings
and sentences are written down from there, so that help and lists come at once.
"""

from __future__ import annotations

import json

from resel.cli import bench, methods, resume, train
from resel.cli._kept import FILE


def kept_help() -> str:
    """The whole file."""
    found = {
        "train": train.plain_help()._asdict(),
        "resume": resume.plain_help()._asdict(),
        "methods": methods.every_method(),
        "bench": bench.parts(),
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(kept_help(), encoding="utf-8")
