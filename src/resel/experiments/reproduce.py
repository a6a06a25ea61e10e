"""From names of figures to their files: plan, run, write down, draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from resel.benchmarks import KeptCosts
from resel.choices import EngineName, Scale
from resel.errors import ConfigError, ReselError
from resel.experiments._plan_words import plan_summary, plan_table
from resel.experiments._settings import MEASURE_AGENTS, Experiment
from resel.experiments.archive import archive_run
from resel.experiments.engines import (
    FINISHED,
    Ledger,
    check_reachable,
    is_finished,
    run_local,
    run_ray,
    slurm_script,
)
from resel.experiments.outcomes import Evaluations, make_outcome
from resel.experiments.plan import (
    Plan,
    check_out,
    check_room,
    default_slots,
    make_plan,
    surely_fits,
    threads_for,
)
from resel.experiments.progress import SweepTable
from resel.experiments.record import check_folder, write_record
from resel.networks import kernels_are_compiled
from resel.runs import available_memory


@dataclass(frozen=True)
class Sweep:
    """What to reproduce and how."""

    experiments: Sequence[Experiment]
    scale: Scale
    out: Path
    command: str
    """As it was typed, to be written down."""
    engine: EngineName = "local"
    jobs: int = 0
    """Runs side by side; 0 chooses."""
    attempts: int = 3
    ray_address: str | None = None
    write: Path | None = None
    """Slurm: the file to write."""
    dry_run: bool = False
    measure_again: bool = False
    """Not to take what an update took here before."""
    archive: Path | None = None
    """Where the numbers of finished runs are kept, and taken from."""
    draw: bool = False
    """Whether to make outcomes of what is there, and no run."""

    @property
    def papers(self) -> bool:
        """Whether it is about experiments that come in scales, as the catalogue's do."""
        return all(len(experiment.studies) > 1 for experiment in self.experiments)

    @property
    def at_scale(self) -> str:
        """Which scale, where there is a choice."""
        return f" at scale {self.scale}" if self.papers else ""

    @property
    def smaller(self) -> str:
        """How to ask for less."""
        less = "fewer experiments or a smaller --scale" if self.papers else "fewer --methods"
        return f"ask for {less}"

    @property
    def here(self) -> bool:
        """Whether all runs go on on this machine."""
        return self.engine != "slurm" and self.ray_address is None

    @property
    def starts_here(self) -> bool:
        """Whether runs are started on this machine."""
        return self.here and not self.dry_run and not self.draw

    @property
    def estimates(self) -> bool:
        """Whether estimates will do: what others are asked for, as memory, is measured."""
        return not self.measure_again and (self.here or self.dry_run or self.draw)

    def __post_init__(self) -> None:
        if (self.engine == "slurm") != (self.write is not None):
            raise ConfigError("--engine slurm and --write FILE belong together: give both.")
        if self.draw and (self.engine != "local" or self.dry_run):
            raise ConfigError("--draw starts nothing: leave --engine, --write and --dry-run out.")
        if self.ray_address is not None and self.engine != "ray":
            raise ConfigError("--ray-address belongs to --engine ray.")
        for name, value, lowest in (("jobs", self.jobs, 0), ("attempts", self.attempts, 1)):
            if value < lowest:
                raise ConfigError(f"--{name} {value} is too small: it must be at least {lowest}.")


def reproduce(sweep: Sweep, console: Console) -> int:
    """Bring every run to its end and write every outcome; the exit code of the command."""
    check_out(sweep.out)
    if sweep.archive is not None and sweep.archive.exists() and not sweep.archive.is_dir():
        raise ConfigError(f"--archive {sweep.archive} is a file: name a folder.")
    for experiment in sweep.experiments:
        check_folder(sweep.out / experiment.name, experiment, sweep.scale)
    if sweep.ray_address is not None and not sweep.dry_run:
        check_reachable(sweep.ray_address)  # before minutes of planning, and before any file
    gpus = torch.cuda.device_count()
    slots = sweep.jobs or default_slots(gpus)
    kept, tell = KeptCosts(sweep.measure_again), partial(_tell_measuring, console)
    threads, out = threads_for(slots), sweep.out.absolute()
    archive = None if sweep.archive is None else sweep.archive.absolute()
    planned = partial(make_plan, sweep.experiments, sweep.scale, out, threads, kept, tell, archive)
    plan = planned(sweep.estimates)
    left = plan.left(is_finished)
    guessed = sweep.starts_here and any(job.estimated for job in left)
    if guessed and not surely_fits(left, slots, sweep.out):  # nothing is refused by an estimate
        plan = planned(False)
        left = plan.left(is_finished)
    console.print(plan_table(sweep, plan, left))
    console.print(plan_summary(left, slots), soft_wrap=True)
    if sweep.draw and plan.jobs and len(left) == len(plan.jobs):
        searched = " or in ".join(map(str, filter(None, (sweep.out, sweep.archive))))
        raise ConfigError(
            f"There is nothing to draw: none of these runs has come to its end in {searched}. "
            "Leave --draw out to make them."
        )
    if sweep.here and not sweep.draw:
        try:
            asked = slots if sweep.engine == "ray" else sweep.jobs
            check_room(left, asked, sweep.out, sweep.smaller)
        except ConfigError as error:
            if not sweep.dry_run:
                raise
            by = "By these estimates this" if any(job.estimated for job in left) else "This"
            console.print(f"{by} would be refused: {error}", soft_wrap=True, markup=False)
    if sweep.dry_run:
        return 0
    if sweep.write is not None:
        if not left:
            console.print("Nothing was written: there is nothing to submit.")
            return 0
        name = sweep.experiments[0].name if len(sweep.experiments) == 1 else "resel"
        _write_script(sweep.write, slurm_script(left, f"{name}-{sweep.scale}"))
        console.print(
            f"Written: {sweep.write}. Activate the environment of resel and submit it with sbatch; "
            "when all runs have ended, the same command without --engine and --write draws the "
            "figures.",
            soft_wrap=True,
        )
        return 0
    ledger = Ledger.of(plan.jobs, sweep.attempts)
    _write_records(sweep, plan, ledger)
    keeper = _Keeper(archive)
    try:
        with SweepTable(ledger, console) as table:

            def tick() -> None:
                table.tick()
                keeper.keep(ledger)

            if sweep.draw:
                tick()
            elif sweep.engine == "ray":
                places = slots if sweep.here else sweep.jobs
                run_ray(ledger, tick, slots=places, address=sweep.ray_address)
            else:
                run_local(ledger, tick, slots=slots, gpus=gpus, memory=available_memory())
    finally:
        _write_records(sweep, plan, ledger)
    keeper.keep(ledger)
    return _finish(sweep, plan, ledger, console, keeper)


class _Keeper:
    """Archives runs as soon as they have come to their end; what it cannot archive, it tells."""

    def __init__(self, archive: Path | None) -> None:
        self._archive, self._seen = archive, set[Path]()
        self.problems: dict[Path, str] = {}

    def keep(self, ledger: Ledger) -> None:
        """Those that have ended since the last time."""
        for run, entry in ledger.entries.items():
            if entry.status in FINISHED and run not in self._seen:
                self._seen.add(run)
                self.add(run)

    def add(self, run: Path, measured: Mapping[str, Any] | None = None) -> None:
        """A finished run, with what was measured of its agents."""
        if self._archive is None:
            return
        try:
            archive_run(run, self._archive, measured)
            self.problems.pop(run, None)
        except (ReselError, OSError) as error:
            self.problems[run] = str(error)


def _tell_measuring(console: Console, what: str) -> None:
    """Why a plan takes its time."""
    first = "" if kernels_are_compiled() else "; kernels are compiled first, about a minute"
    console.print(f"{what}{first}.", soft_wrap=True, markup=False)


def _write_script(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--write {path} cannot be written ({error.strerror}).") from error


def _write_records(sweep: Sweep, plan: Plan, ledger: Ledger) -> None:
    for experiment in sweep.experiments:
        write_record(
            sweep.out / experiment.name,
            experiment,
            sweep.scale,
            plan.members[experiment.name],
            ledger.entries,
            sweep.command,
        )


def _finish(sweep: Sweep, plan: Plan, ledger: Ledger, console: Console, keeper: _Keeper) -> int:
    """Outcomes from whatever runs there are; a fault of one does not cost the others."""
    status = {run: entry.status for run, entry in ledger.entries.items()}
    code = 0 if ledger.count("failed") == 0 else 1
    for experiment in sweep.experiments:
        members, folder = plan.members[experiment.name], sweep.out / experiment.name
        notes = [
            f"{m.run.name}: {ledger.entries[m.run].problem or 'has not been made'}"
            for m in members
            if status[m.run] not in FINISHED
        ]
        files: list[str] = []
        try:
            there = [m for m in members if not sweep.draw or status[m.run] in FINISHED]
            if members and not there:
                raise ConfigError("none of its runs has come to its end.")
            files = make_outcome(experiment, sweep.scale, there, status, folder)
            if experiment.kind in MEASURE_AGENTS:
                known = Evaluations(folder)
                for member in members:
                    if status[member.run] in FINISHED:
                        keeper.add(member.run, known.about(member.run))
        except (ReselError, OSError) as error:
            notes.append(f"No outcome: {error}")
            code = code or (error.exit_code if isinstance(error, ReselError) else 1)
        write_record(
            folder,
            experiment,
            sweep.scale,
            members,
            ledger.entries,
            sweep.command,
            files,
            notes,
        )
        console.print(f"[bold]{experiment.name}[/bold]: {folder}", soft_wrap=True)
        for note in notes:
            console.print(f"  {note}", soft_wrap=True, markup=False)
    for problem in keeper.problems.values():
        console.print(problem, soft_wrap=True, markup=False)
        code = code or 1
    diverged = ledger.count("diverged")
    console.print(
        f"{ledger.count('completed')} runs completed, {diverged} diverged (a result, counted in "
        f"the figures), {ledger.count('failed')} failed."
    )
    return code
