"""How many CPU threads learning and acting use, and the caller's number put back afterwards.

Networks below the paper's width have too little to do at a time to be shared between cores, and
threads that wait for each other beside simulators and other runs cost many times what they bring.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from resel.config import Config

PAPER_WIDTH = 256


def suitable_threads(threads: int, width: int) -> int | None:
    """Those asked for, one for a narrow network, or None: as many as torch has now."""
    return threads or (1 if width < PAPER_WIDTH else None)


def width_of(config: Config) -> int:
    """The width that decides; a network without memory has little to share at any."""
    return int(getattr(config.network, "width", 0))


@contextmanager
def threads_for(config: Config) -> Iterator[None]:
    """Torch with the threads that suit a config, and as it was afterwards."""
    wanted, before = suitable_threads(config.training.threads, width_of(config)), None
    if wanted is not None and wanted != torch.get_num_threads():
        before = torch.get_num_threads()
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        if before is not None:
            torch.set_num_threads(before)
