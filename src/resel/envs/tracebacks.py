"""Where in its own code an environment raised."""

from __future__ import annotations

import traceback
from pathlib import Path

import gymnasium

from resel.errors import EnvironmentFault

_NOT_ITS_OWN = (str(Path(__file__).parents[1]), str(Path(gymnasium.__file__).parent))


def own_traceback(error: BaseException) -> str:
    """The traceback of what an environment raised, without the frames of those who called it.

    Empty if the environment raised nothing, as where it returned something that cannot be used.
    """
    if isinstance(error, EnvironmentFault):
        if error.own_traceback or error.__cause__ is None:
            return error.own_traceback
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_ITS_OWN)]
    if not own:
        return ""
    lines = ["Traceback of the environment:\n", *traceback.format_list(own)]
    return "".join([*lines, *traceback.format_exception_only(error)])
