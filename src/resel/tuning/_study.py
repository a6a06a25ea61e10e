"""The study of Optuna behind a search: opened, and refused where it is about something else."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from resel.config import without_former
from resel.errors import ConfigError, MissingDependencyError, ReselError, StorageError
from resel.methods import Between, Range
from resel.tuning._search import Search

_ABOUT = "resel"
"""The attribute of a study that says what it is about."""
_PATIENCE = 60.0
_PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts to begin a study that another worker begins too."""
_FIRST = 5
"""Trials after which those that are done say which are next."""
_COMPARED = 3
"""Trials that are brought to their end before any is measured against them."""
_PRUNE_AFTER = 0.5
"""Share of a run before which nothing is given up: before that, good and bad are mostly alike."""


def optuna() -> Any:
    """The package, or which extra brings it."""
    try:
        return importlib.import_module("optuna")
    except ImportError as error:
        raise MissingDependencyError(
            "resel tune needs the package optuna: pip install 'resel[tune]'."
        ) from error


def open_study(search: Search) -> Any:
    """The study in its storage, begun if it is not there; refused if it is of another search."""
    library = optuna()
    library.logging.set_verbosity(library.logging.ERROR)
    try:
        study = _begun(library, search)
        _check(study, search)
        known = study.get_trials(deepcopy=False)
        if not known:  # what is known to work comes first, then what is close to it
            for settings in (search.baseline, *search.neighbours):
                study.enqueue_trial(settings, skip_if_exists=True)
        return study
    except ReselError:
        raise
    except Exception as error:  # drivers of databases have errors of their own
        raise ConfigError(
            f"The storage {search.shown_storage} cannot be used ({type(error).__name__}: "
            f"{_first_line(error, search)}). Check the URL, that its database runs and can be "
            "reached, and that its driver is installed; without --storage the study is a file in "
            "--out."
        ) from error


def _begun(library: Any, search: Search) -> Any:
    """The study; of two that make the tables of a new storage at once, one finds them made."""
    for pause in _PAUSES:
        try:
            return _created(library, search)
        except Exception as error:
            if type(error).__name__ != "IntegrityError" and "already exists" not in str(error):
                raise
            time.sleep(pause)
    return _created(library, search)


def _created(library: Any, search: Search) -> Any:
    return library.create_study(
        storage=_storage(library, search.storage_url),
        study_name=search.study,
        direction="maximize",
        load_if_exists=True,
        # Without a seed: workers that share one would all try the same.
        sampler=library.samplers.TPESampler(n_startup_trials=_FIRST, multivariate=True),
        pruner=_pruner(library, search),
    )


def _storage(library: Any, url: str) -> Any:
    """Several workers may write to one file: each waits for its turn."""
    if not url.startswith("sqlite"):
        return url
    waits = {"connect_args": {"timeout": _PATIENCE}}
    return library.storages.RDBStorage(url, engine_kwargs=waits)


@contextmanager
def told_if_lost(search: Search) -> Iterator[None]:
    """A storage that fails on the way is no end of the search."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("optuna", "sqlalchemy"):
            raise
        raise StorageError(
            f"The storage {search.shown_storage} failed ({type(error).__name__}: "
            f"{_first_line(error, search)}). The runs in {search.folder} are saved; once it works "
            "again, the same command goes on."
        ) from error


def _pruner(library: Any, search: Search) -> Any:
    kinds = library.pruners
    warmup = int(_PRUNE_AFTER * search.steps)
    if search.pruner == "none":
        return kinds.NopPruner()
    if search.pruner == "asha":
        return kinds.SuccessiveHalvingPruner(min_resource=max(1, warmup), reduction_factor=2)
    return kinds.MedianPruner(n_startup_trials=_COMPARED, n_warmup_steps=warmup)


def _first_line(error: Exception, search: Search) -> str:
    """What a driver says, without a password."""
    text = (str(error).strip().splitlines() or [""])[0]
    return text.replace(search.storage_url, search.shown_storage)


def _check(study: Any, search: Search) -> None:
    """Compare what the study is about with what is asked; a new one is told."""
    wanted = json.loads(json.dumps(search.about))  # as it comes back
    found = study.user_attrs.get(_ABOUT)
    if found is None and study.get_trials(deepcopy=False):
        raise ConfigError(
            f"The study {search.study!r} in {search.shown_storage} was not made by resel tune: "
            "give another --study."
        )
    if found is None:
        study.set_user_attr(_ABOUT, wanted)
        return
    if found["method"] == wanted["method"]:
        found = {**found, "settings": without_former(wanted["method"], found["settings"])}
    for name, (before, now) in _differences(found, wanted).items():
        raise ConfigError(
            f"The study {search.study!r} in {search.shown_storage} has {name} {before}, and this "
            f"is {name} {now}: its trials could not be compared with these. Nothing was changed; "
            "give another --study or --out."
        )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What two studies differ in, the most telling first."""
    found = {n: (before.get(n), now[n]) for n in now if before.get(n) != now[n]}
    for part in ("settings", "search"):
        if part in found:
            one, other = (dict(side or {}) for side in found.pop(part))
            names = [n for n in {**one, **other} if one.get(n) != other.get(n)]
            word = "the setting" if part == "settings" else "the range of"
            found |= {f"{word} {n}": (one.get(n), other.get(n)) for n in names}
    return found


def begun(study: Any) -> list[Any]:
    """Its trials, but for those that only wait for their turn."""
    waiting = optuna().trial.TrialState.WAITING
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state != waiting]


def distributions(space: Mapping[str, Range]) -> dict[str, Any]:
    """A search space in Optuna's words."""
    kinds = optuna().distributions
    found = {}
    for name, values in space.items():
        if not isinstance(values, Between):
            found[name] = kinds.CategoricalDistribution(values.choices)
        elif isinstance(values.low, int) and isinstance(values.high, int):
            found[name] = kinds.IntDistribution(values.low, values.high, log=values.log)
        else:
            found[name] = kinds.FloatDistribution(values.low, values.high, log=values.log)
    return found
