"""One writer per run directory, enforced by the operating system."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from resel.errors import RunInUseError

try:
    import fcntl
except ImportError:  # not a POSIX system: runs go unguarded there
    fcntl = None  # type: ignore[assignment]


class Lock:
    """Held from construction to `release`, or until the process ends in whatever way.

    The file stays behind when the lock is gone: removing it would let two processes hold locks
    on two files of the same name.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._acquire(self._descriptor, path)
        except BaseException:
            self.release()
            raise

    def _acquire(self, descriptor: int, path: Path) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return  # some network file systems have no locks; running unguarded beats failing
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            raise RunInUseError(
                f"The run in {path.parent} is in use by another process (pid {holder}). Wait "
                "until it has ended, or end it: Ctrl-C there saves first."
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Give the lock up; may be called again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
