"""Tasks in tests: those whose simulator is not installed are skipped."""

from __future__ import annotations

from typing import Any

import pytest

from resel.tasks import TaskSpec, get_task, is_installed


def installed(task: str | TaskSpec) -> Any:
    """A mark for a test of this task."""
    spec = get_task(task) if isinstance(task, str) else task
    assert spec is not None, task
    return pytest.mark.skipif(not is_installed(spec), reason=f"{spec.id} needs {spec.needs}")
