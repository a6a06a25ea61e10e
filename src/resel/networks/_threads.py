"""Work shared between CPU threads, without a second thread pool fighting torch's settings.

Kernels release the interpreter lock, take `(group, groups)` and do their share; which share that
is depends only on the number of groups, so results are the same for the same thread count.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_SMALL_WORK = 200_000
"""Below this many inner-loop steps, waking a second thread costs more than it brings."""

_pool: ThreadPoolExecutor | None = None
_pool_key = (0, 0)


def group_count(work: int, most: int) -> int:
    """How many threads to use for `work` inner-loop steps that split into `most` parts."""
    if work < _SMALL_WORK:
        return 1
    return max(1, min(torch.get_num_threads(), most))


def run_groups(kernel: Callable[[int, int], object], groups: int) -> None:
    """Call `kernel(group, groups)` for every group; the caller's thread takes the first."""
    if groups == 1:
        kernel(0, 1)
        return
    global _pool, _pool_key
    key = (os.getpid(), groups)
    if _pool is None or _pool_key[0] != key[0] or _pool_key[1] < groups:
        _pool, _pool_key = ThreadPoolExecutor(groups - 1, thread_name_prefix="resel"), key
    rest = [_pool.submit(kernel, group, groups) for group in range(1, groups)]
    kernel(0, groups)
    for future in rest:
        future.result()
