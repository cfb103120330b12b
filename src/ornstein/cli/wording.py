"""Errors in the words of the command line: options, where the library names arguments."""

import errno
import re
from collections.abc import Mapping
from functools import partial

from ornstein.cli.root import app

_NAMES = {"key": "--seed", "methods": "--method"}  # of arguments whose options have others
_VALUE = r"\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,;:()]*[^\s,;:().]"
_REASONS = {
    errno.ENOENT: "there is no such file or folder",
    errno.EEXIST: "a file is in the way where a folder is needed",
    errno.ENOTDIR: "a part of it is a file, and no folder",
    errno.EISDIR: "it is a folder, and a file is needed",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the disk can only be read",
    errno.ENOSPC: "the disk is full",
}


def in_options(message: str) -> str:
    """A message of the library with options in place of arguments.

    >>> in_options("method='exakt' is not known. Did you mean 'exact'?")
    "--method exakt is not known. Did you mean 'exact'?"
    >>> in_options("Fill them in with missing='impute' (--missing impute).")
    'Fill them in with --missing impute.'
    >>> in_options("batch_size must be a whole number.")
    '--batch-size must be a whole number.'
    """
    options = _options()
    names = "|".join(sorted(options, key=len, reverse=True))
    both = rf"\b(?:{names})(?:=(?:{_VALUE}))? \((--[^()]*)\)"
    message = re.sub(both, r"\1", message)
    message = re.sub(rf"\((?:{names})=(?:{_VALUE}), (--[^()]*)\)", r"(\1)", message)
    given = rf"(?<!['\"\w-])({names})=({_VALUE})"
    message = re.sub(given, partial(_written, options), message)
    plain = "|".join(name for name in options if "_" in name)  # no words of English
    stated = rf"(?<!['\"\w-])((?:{names})(?= must\b)|(?:{plain})(?![\w'\"=]))"
    return re.sub(stated, lambda found: options[found[1]], message)


def _written(options: Mapping[str, str], found: re.Match[str]) -> str:
    value = found[2]
    quoted = value[:1] in ("'", '"') and " " not in value and len(value) > 2
    return f"{options[found[1]]} {value[1:-1] if quoted else value}"


def _options() -> dict[str, str]:
    """Of every command, by the name of the argument."""
    from typer.main import get_command

    found = dict(_NAMES)
    for command in getattr(get_command(app), "commands", {}).values():
        for one in command.params:
            long = next((name for name in one.opts if name.startswith("--")), None)
            if long is not None and one.name is not None:
                found.setdefault(one.name, long)
    return found


def of_the_system(error: OSError) -> str:
    """What a file or a folder lacks, in words."""
    reason = _REASONS.get(error.errno or 0)
    if reason is None or error.filename is None:
        return str(error)
    place = error.filename2 or error.filename
    return f"{place} cannot be used: {reason}."
