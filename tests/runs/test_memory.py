"""Free memory as the kernel tells it, on machines and in containers of several kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from resel.runs import available_memory, format_bytes

MEMINFO = "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:     800 kB\nSwapFree: 9 kB\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def group(path: str, limit: str, used: str, cached: int = 0) -> dict[str, str]:
    """A control group of version 2."""
    return {
        f"sys/fs/cgroup/{path}memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{path}memory.current": f"{used}\n",
        f"sys/fs/cgroup/{path}memory.stat": f"anon 5\ninactive_file {cached}\n",
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/meminfo": MEMINFO}, 819_200),
        ({"proc/meminfo": "nonsense"}, None),
        ({"proc/self/cgroup": "0::/a/b\n", **group("a/b/", "900", "100", 50)}, 850),
        ({"proc/self/cgroup": "0::/a/b\n", **group("a/b/", "900", "950")}, 0),
        # The one above is tighter.
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                **group("a/b/", "900", "100"),
                **group("a/", "400", "100"),
            },
            300,
        ),
        ({"proc/self/cgroup": "0::/a\n", **group("a/", "max", "100")}, None),
        # In a container the group is mounted at the top, whatever its path is outside.
        ({"proc/self/cgroup": "0::/docker/123\n", **group("", "700", "200")}, 500),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "5:cpu,memory:/x\n1:cpu:/y\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "5000\n",
                "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "1000\n",
                "sys/fs/cgroup/memory/x/memory.stat": "total_inactive_file 200\n",
            },
            4200,
        ),
    ],
)
def test_available(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    write(tmp_path, files)
    assert available_memory(tmp_path) == expected


def test_here() -> None:
    found = available_memory()
    assert found is None or 2**20 < found < 2**50


def test_sizes_for_people() -> None:
    assert format_bytes(3 * 2**29) == "1.5 GiB"
    assert format_bytes(3 * 2**19) == "1.5 MiB"
    assert format_bytes(3 * 2**9) == "1.5 KiB"
