"""How much memory this process may still take: the machine's and that of its control group."""

from __future__ import annotations

from pathlib import Path


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that can be had without swapping, or None where the system does not tell."""
    limits = [_of_machine(root), *_of_groups(root)]
    known = [limit for limit in limits if limit is not None]
    return max(min(known), 0) if known else None


def format_bytes(count: int) -> str:
    """A size for people."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 2**10:.1f} KiB"


def _of_machine(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        name, _, rest = line.partition(":")
        if name == "MemAvailable" and rest.split():
            return _number(rest.split()[0], 1024)
    return None


def _of_groups(root: Path) -> list[int | None]:
    """What each control group above this process leaves; versions 1 and 2 differ in the names."""
    left: list[int | None] = []
    for line in _lines(root / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            top, limit, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
            cache = "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit, used = (
                root / "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
            cache = "total_inactive_file"
        else:
            continue
        folder = top / path.strip("/")
        # Inside a container the group's own folder is the top one, whatever its path says.
        for place in (folder, *folder.parents):
            left.append(_left(place, limit, used, cache))
            if place == top:
                break
    return left


def _left(group: Path, limit: str, used: str, cache: str) -> int | None:
    most, taken = (_first(_lines(group / name)) for name in (limit, used))
    if most is None or taken is None:
        return None
    freed = 0  # cached files, which the system gives up when memory is short
    for line in _lines(group / "memory.stat"):
        name, _, value = line.partition(" ")
        if name == cache:
            freed = _number(value) or 0
    return most - taken + freed


def _first(lines: list[str]) -> int | None:
    return _number(lines[0]) if lines else None


def _number(text: str, unit: int = 1) -> int | None:
    return int(text) * unit if text.strip().isdigit() else None  # "max" is no limit


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
