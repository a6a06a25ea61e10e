"""Work shared between CPU threads, on torch's own threads where that can be had.

Kernels release the interpreter lock, take `(thread, threads)` and do their share; which share that
is depends only on the number of threads, so results are the same for the same thread count.

Torch's OpenMP threads keep spinning for a while after each of its operations, and a second pool
beside them would fight for the same cores. With GNU's OpenMP (torch's wheels for Linux) the work is
therefore handed to that very team, elsewhere to a pool.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

_SMALL_WORK = 200_000
"""Below this many inner-loop steps, waking a second thread costs more than it brings."""

Kernel = Callable[[int, int], object]
_Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def thread_count(work: int, most: int) -> int:
    """How many threads to use for `work` inner-loop steps that split into `most` parts."""
    if work < _SMALL_WORK:
        return 1
    return max(1, min(torch.get_num_threads(), most))


def run_threads(kernel: Kernel, threads: int) -> None:
    """Call `kernel(thread, threads)` for every thread, at the same time."""
    if threads == 1:
        kernel(0, 1)
        return
    team = _torch_team()
    if team is None:
        _run_in_pool(kernel, threads)
    else:
        _run_in_team(team, kernel, threads)


def _run_in_team(team: Any, kernel: Kernel, threads: int) -> None:
    errors: list[BaseException] = []

    def body(_data: object) -> None:
        try:
            for thread in range(team.omp_get_thread_num(), threads, team.omp_get_num_threads()):
                kernel(thread, threads)
        except BaseException as error:  # must not cross the C frames in between
            errors.append(error)

    team.GOMP_parallel(_Body(body), None, threads, 0)
    if errors:
        raise errors[0]


def _run_in_pool(kernel: Kernel, threads: int) -> None:
    """The caller's thread takes the first thread."""
    key = (os.getpid(), threads)
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(threads - 1, thread_name_prefix="resel")
    rest = [_pools[key].submit(kernel, thread, threads) for thread in range(1, threads)]
    kernel(0, threads)
    for future in rest:
        future.result()


@functools.cache
def _torch_team() -> Any:
    """GNU's OpenMP as torch has loaded it, or None."""
    path = _loaded_gomp()
    if path is None or "ATen parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return None
    try:
        library = ctypes.CDLL(path)
        library.GOMP_parallel.argtypes = [_Body, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        library.GOMP_parallel.restype = None
        library.omp_get_thread_num.restype = library.omp_get_num_threads.restype = ctypes.c_int
    except (OSError, AttributeError):
        return None
    return library


def _loaded_gomp() -> str | None:
    """The one copy in this process; with several there is no telling which is torch's."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "libgomp" in line}
    except OSError:
        return None
    return paths.pop() if len(paths) == 1 else None
