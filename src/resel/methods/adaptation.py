"""What a method says that adapts to a task over several episodes: how these follow each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """Episodes of one task that all begin with what the phases before them have taught.

    It ends after so many episodes, or after so many steps, which cut the last episode.
    """

    episodes: int | None = None
    steps: int | None = None
    longest: int | None = None
    """Its episodes are cut after this many steps."""
    sampled: bool = False
    """Whether evaluations sample its actions; training always does."""
    keeps: bool = False
    """Whether all its episodes begin with the memory of the first, or each is given another."""

    def cuts(self, length: int, steps: int) -> bool:
        """Whether an episode is cut at this length, after so many steps of the phase."""
        return (self.longest is not None and length >= self.longest) or self.over(0, steps)

    def most_steps(self, longest: int) -> int:
        """Of a phase of a task whose episodes have at most `longest` steps."""
        if self.steps is not None:
            return self.steps
        assert self.episodes is not None
        return self.episodes * min(longest, self.longest or longest)

    def over(self, episodes: int, steps: int) -> bool:
        """Whether the phase has ended after so many episodes and steps."""
        if self.steps is not None:
            return steps >= self.steps
        assert self.episodes is not None
        return episodes >= self.episodes


@dataclass(frozen=True)
class Adaptation:
    """A trial is some episodes of one task: while training these phases, over and over.

    An evaluation plays its own phases, which do not count, and then the one episode that does.
    """

    training: tuple[Phase, ...]
    evaluation: tuple[Phase, ...]
