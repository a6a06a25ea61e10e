"""What several verbs share: kinds of arguments, and settings as flags.

`train` and `resume` take every setting of a config as a flag. The classes of the settings depend on
the method and the encoder, so a config is made first and the parser is built for what it holds.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro

from resel.cli._help import (
    Help,
    Page,
    asks_for_help,
    help_of,
    nearest_flags,
    print_help,
    without_help,
)
from resel.config import GROUPS, OTHER_NAMES, Config, field_names, owners
from resel.errors import ConfigError

RunPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
PLAIN = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
"""Plain flags, `--json` and `--csv PATH`: only settings need a way back to a default."""


def word(metavar: str) -> Any:
    """What stands for the value of a flag that is not set if nobody says so."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=_unless_none)


def _unless_none(default: str) -> str:
    return "" if default == "None" else f"(default: {default})"


def positive(name: str, value: int) -> int:
    """The value of a flag that counts something."""
    if value < 1:
        raise ConfigError(f"--{name} {value} is too small: it must be at least 1.")
    return value


def names_in(flag: str, text: str) -> list[str]:
    """Names that stand behind a flag, with commas between them."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise ConfigError(f"--{flag} {text!r}: write names with commas between them.")
    return found


@contextmanager
def writing(flag: str, path: Path) -> Iterator[None]:
    """A file that cannot be written is the user's to choose again."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{flag} {path} cannot be written ({error.strerror or error}): choose another place."
        ) from error


def value_of(flag: str, argv: Sequence[str]) -> str | None:
    """What a command line gives a flag, as `--flag value` or `--flag=value`; the last wins."""
    found = None
    for word, following in zip(argv, [*argv[1:], "-"], strict=True):
        if word == flag and not following.startswith("-"):
            found = following
        elif word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
    return found


def parse_settings(
    kind: Any, own: Mapping[str, Any], config: Config, argv: Sequence[str], prog: str, page: Page
) -> Any:
    """Arguments of a class that is generic in the groups of settings, of which `config` has the
    defaults; `own` are the defaults of its other fields. `page` is for whoever asks for help."""
    typed, defaults = _typed(kind, own, config)
    _refuse_foreign(_known(kind, config), config, without_help(argv))
    if asks_for_help(argv):
        print_help(help_of(defaults, config, page), argv)
        raise SystemExit(0)
    for flag in unknown_flags(kind, config, argv):
        near = nearest_flags(flag, defaults, config, page)
        raise ConfigError(f"There is no flag {flag}. {near}`resel {page.usage} --help` lists them.")
    with _our_words():
        return tyro.cli(
            typed,
            args=argv,
            default=defaults,
            prog=prog,
            config=(tyro.conf.OmitArgPrefixes,),
        )


def settings_help(kind: Any, own: Mapping[str, Any], config: Config, page: Page) -> Help:
    """The help that `parse_settings` prints."""
    return help_of(_typed(kind, own, config)[1], config, page)


def _typed(kind: Any, own: Mapping[str, Any], config: Config) -> tuple[Any, Any]:
    """The class with the types of the config's groups, and an instance with the defaults."""
    groups = {name: getattr(config, name) for name in GROUPS}
    typed = kind[tuple(type(groups[name]) for name in GROUPS[:-1])]
    return typed, typed(**own, **groups)


def _known(kind: Any, config: Config) -> set[str]:
    groups = (getattr(config, name) for name in GROUPS)
    return {*field_names(kind), *config.flat()}.union(*map(_aliases, groups))


def unknown_flags(kind: Any, config: Config, argv: Sequence[str]) -> list[str]:
    """The flags of a command line that nobody has, here or elsewhere."""
    known = _known(kind, config)
    flags = [word.partition("=")[0] for word in without_help(argv) if word.startswith("--")]
    names = {flag: _setting(flag) for flag in flags}
    return [f for f, n in names.items() if n not in known | OTHER_NAMES.keys() and not owners(n)]


def without_flags(flags: Sequence[str], argv: Sequence[str]) -> list[str]:
    """The words without some flags and the values that follow them."""
    kept, follows = [], False
    for word in argv:
        if word.partition("=")[0] in flags:
            follows = "=" not in word
        elif not follows or word.startswith("-"):
            kept.append(word)
            follows = False
        else:
            follows = False
    return kept


def _aliases(settings: object) -> set[str]:
    """Second names that the fields of a dataclass have on the command line."""
    hints = get_type_hints(type(settings), include_extras=True).values()
    extras = [extra for hint in hints for extra in getattr(hint, "__metadata__", ())]
    flags = [flag for extra in extras for flag in getattr(extra, "aliases", None) or ()]
    return {_setting(flag) for flag in flags}


def _setting(flag: str) -> str:
    return flag.removeprefix("--").removeprefix("no-").replace("-", "_")


def _refuse_foreign(known: set[str], config: Config, argv: Sequence[str]) -> None:
    """Refuse settings of other methods, encoders and libraries, which the parser cannot explain."""
    for word in argv:
        name = _setting(word.partition("=")[0])
        if not word.startswith("--") or name in known:
            continue
        if name in OTHER_NAMES or owners(name):
            config.replace(**{name: None})  # raises, with the reason


@contextmanager
def _our_words() -> Iterator[None]:
    """A value that a config refuses is told as the config tells it.

    The parser would put the name of the group in front, which is no flag of anybody's.
    """
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            yield
    except SystemExit as left:
        cause: BaseException | None = left
        while cause is not None and not isinstance(cause, ConfigError):
            cause = cause.__context__
        if cause is not None:
            said.truncate(0)
            raise cause from None
        raise
    finally:
        sys.stderr.write(said.getvalue())
