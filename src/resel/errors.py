"""Every fault `resel` reports on purpose, one type per kind.

The command prints the message of a `ReselError` as one paragraph and leaves with `exit_code`;
anything else is a bug and shows its traceback.
"""


class ReselError(Exception):
    """Base of all faults that a user can meet and mend."""

    exit_code = 2


class ConfigError(ReselError, ValueError):
    """A setting has a value that cannot work."""


class NoPicturesError(ConfigError):
    """An environment is to be filmed that draws nothing."""


class UnknownTaskError(ReselError, ValueError):
    """No environment goes by that name."""


class MissingDependencyError(ReselError, ImportError):
    """An optional package is needed and not installed."""


class UnsupportedSpaceError(ReselError, ValueError):
    """The environment's observation or action space cannot be learned on."""


class BadInputError(ReselError, ValueError):
    """An array handed to `resel` has the wrong shape, dtype or content."""


class EnvironmentFault(ReselError, RuntimeError):
    """The environment raised, or returned something that is not a number."""

    exit_code = 1
    own_traceback = ""
    """Where in its own code it raised, if that was in another process."""


class NotAskedError(EnvironmentFault):
    """The environment does not play the task that it is asked for."""

    exit_code = 2


class RunDirectoryError(ReselError, OSError):
    """A run directory cannot be used as asked."""


class RunInUseError(ReselError, OSError):
    """Another process is writing to the run directory."""

    exit_code = 75


class StorageError(ReselError, OSError):
    """The disk did not take what was written: it is full, read-only or failing."""

    exit_code = 4


class DamagedFileError(ReselError, ValueError):
    """A saved agent or checkpoint is incomplete, altered or of another configuration."""


class DivergedError(ReselError, ArithmeticError):
    """Training produced values that are not finite."""

    exit_code = 3
