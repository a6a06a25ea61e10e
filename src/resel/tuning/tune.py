"""From a task to a preset file: trials until the time or the number asked for is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from rich.console import Console

from resel.errors import ConfigError, StorageError
from resel.experiments import (
    check_out,
    check_reachable,
    default_slots,
    run_local,
    run_ray,
    threads_for,
)
from resel.runs import available_memory
from resel.training import duration
from resel.training.threads import suitable_threads, width_of
from resel.tuning._clock import Clock
from resel.tuning._folder import own_folder
from resel.tuning._progress import Progress
from resel.tuning._search import Search
from resel.tuning._study import open_study, told_if_lost
from resel.tuning._summary import Summary, summarize
from resel.tuning._trials import Trials

PRESET = "preset.json"
_TABLE = "trials.csv"


@dataclass(frozen=True)
class Place:
    """Where the trials run, and for how long."""

    budget: float | None = None
    """Seconds by the clock, over all starts."""
    trials: int | None = None
    """In all, over all starts and machines."""
    workers: int = 0
    """Runs side by side; 0 chooses."""
    engine: Literal["local", "ray"] = "local"
    ray_address: str | None = None
    attempts: int = 3

    def __post_init__(self) -> None:
        if self.budget is None and self.trials is None:
            raise ConfigError("Say how long to search: --budget 2h, --trials 30, or both.")
        lowest = {"trials": 1, "workers": 0, "attempts": 1}
        for name, least in lowest.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"--{name} {value} is too small: it must be at least {least}.")
        if self.ray_address is not None and self.engine != "ray":
            raise ConfigError("--ray-address belongs to --engine ray.")


def tune(
    search: Search,
    place: Place,
    console: Console,
    finish: Callable[[Summary], None],
    check: Callable[[], None] = lambda: None,
) -> Summary:
    """Search, and write what was found, also when it is stopped: the same call goes on.

    `check` is called now and then, where nothing is half done; what it raises ends the search.
    """
    space = search.space  # whatever is wrong with the settings is told before anything is made
    check_out(search.out)
    if place.ray_address is not None:
        check_reachable(place.ray_address)
    origin = own_folder(search)
    study = open_study(search)
    gpus = torch.cuda.device_count()
    slots = place.workers or default_slots(gpus)
    clock = Clock(search.out / "clock", place.budget)
    small = suitable_threads(0, width_of(search.config)) == 1
    trials = Trials(
        {},
        place.attempts,
        search=search,
        study=study,
        origin=origin,
        slots=slots,
        threads=1 if small else threads_for(slots),
        is_over=lambda: clock.is_over,
        limit=place.trials,
        scored=lambda: _keep(summarize(search, study)),
    )
    console.print(_plan(search, place, slots, clock, len(space)), soft_wrap=True, markup=False)
    with told_if_lost(search):
        try:
            with Progress(trials, clock, console, check) as progress:
                if place.engine == "ray":
                    run_ray(trials, progress.tick, slots=slots, address=place.ray_address)
                else:
                    memory = available_memory()
                    run_local(trials, progress.tick, slots=slots, gpus=gpus, memory=memory)
        finally:
            trials.close()
            clock.tick(now=True)
            summary = summarize(search, study)
            _keep(summary)
            finish(summary)
    return summary


def _keep(summary: Summary) -> None:
    """What was found so far, for whoever looks, or if nothing more comes."""
    out = summary.search.out
    try:
        summary.write_table(out / _TABLE)
        summary.write_preset(out / PRESET)
    except OSError as error:
        raise StorageError(
            f"{out} cannot be written to ({error.strerror}): make room. The trials are safe, and "
            "the same command goes on."
        ) from error


def _plan(search: Search, place: Place, slots: int, clock: Clock, count: int) -> str:
    """What is about to happen."""
    config, about = search.config, search.about
    spent = clock.spent()
    words = [
        f"{config.task} with {config.method}: {count} settings are searched, a trial is "
        f"{search.seeds} x {search.steps:,} steps (seeds {about['seeds'][0]} up), "
        f"{slots} side by side."
    ]
    if place.budget is not None:
        used = f", of which {duration(spent)} are spent" if spent > 1 else ""
        words.append(f"Time: {duration(place.budget)}{used}.")
    if place.trials is not None:
        words.append(f"Trials: up to {place.trials}.")
    words.append(f"Study {search.study!r} in {search.shown_storage}.")
    words.append("Searched: " + ", ".join(f"{n} {_range(r)}" for n, r in search.space.items()))
    return "\n".join(words)


def _range(values: object) -> str:
    low, high = getattr(values, "low", None), getattr(values, "high", None)
    if low is None:
        return "{" + ", ".join(map(str, getattr(values, "choices", ()))) + "}"
    return f"{low:.3g} to {high:.3g}"
