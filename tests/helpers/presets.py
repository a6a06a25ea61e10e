"""What the default method's presets set for a task."""

from __future__ import annotations

from typing import Any

from resel.methods import default_method, get_method, preset_settings


def task_settings(task: str, preset: str = "paper") -> dict[str, Any]:
    """The settings a preset brings; `size` may be among them."""
    return preset_settings(get_method(default_method()), task, preset)
