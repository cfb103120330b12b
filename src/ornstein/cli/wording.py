"""Errors in the words of the command line: options, where the library names arguments."""

import ast
import errno
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from ornstein.cli.root import app

if TYPE_CHECKING:
    from ornstein.results.answers import Answer
    from ornstein.results.diagnosis import Diagnosis

_NAMES = {"key": "--seed", "methods": "--method", "family": "--family", "model": "--model"}
"""Of arguments whose options have other names."""

_VALUE = r"\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,;:()]*[^\s,;:().]"
_OPTION = r"--(?:'[^']*'|[^()'])*"
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
    >>> in_options("use student_t (--family student_t), or drop=['a (b)'] (--drop 'a (b)')")
    "use --family student_t, or --drop 'a (b)'"
    >>> in_options("Leave out more: drop=['a b', 'c'], or use model='linear'.")
    "Leave out more: --drop 'a b' --drop c, or use --model linear."
    >>> in_options("batch_size must be a whole number.")
    '--batch-size must be a whole number.'
    """
    options = _options()
    names = "|".join(sorted(options, key=len, reverse=True))
    both = rf"\b({names})(=(?:{_VALUE}))? \(({_OPTION})\)"
    message = re.sub(both, partial(_of_both, options), message)
    message = re.sub(r"\b(\w+) \((--\w[\w-]* \1)\)", r"\2", message)
    message = re.sub(rf"\((?:{names})=(?:{_VALUE}), (--[^()]*)\)", r"(\1)", message)
    given = rf"(?<!['\"\w-])({names})=({_VALUE})"
    message = re.sub(given, partial(_written, options), message)
    plain = "|".join(name for name in options if "_" in name)  # no words of English
    stated = rf"(?<!['\"\w-])((?:{names})(?= must\b)|(?:{plain})(?![\w'\"=]))"
    return re.sub(stated, lambda found: options[found[1]], message)


def answer_in_options(answer: "Answer") -> "Answer":
    """An answer whose remedies name options; its figures stay as they are.

    >>> from ornstein.results.answers import Answer
    >>> from ornstein.results.diagnosis import Point
    >>> point = Point("warn", "method='x' is a name in a table.", "method='nuts' (--method nuts)")
    >>> answer_in_options(Answer("fit", "warn", "No.", [point])).points[0].remedy
    '--method nuts'
    """
    points = [replace(point, remedy=in_options(point.remedy)) for point in answer.points]
    return replace(answer, sentence=in_options(answer.sentence), points=points)


def diagnosis_in_options(diagnosis: "Diagnosis") -> "Diagnosis":
    """A diagnosis whose remedies name options."""
    checks = [replace(check, remedy=in_options(check.remedy)) for check in diagnosis]
    return replace(diagnosis, checks=tuple(checks))


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Warnings are a sentence on standard error, without the place in the code."""

    def show(message: Warning | str, *where: object, **how: object) -> None:
        del where, how
        said = f"ornstein: {in_options(str(message))}"
        Console(stderr=True).print(said, style="yellow", markup=False, soft_wrap=True)

    usual = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


def _of_both(options: Mapping[str, str], found: re.Match[str]) -> str:
    """The option alone, unless a word before it only seems to be an argument."""
    return found[3] if found[2] or found[3].split()[0] == options[found[1]] else found[0]


def _written(options: Mapping[str, str], found: re.Match[str]) -> str:
    """An option with a value, or one for each of a list's."""
    option, value = options[found[1]], found[2]
    if value[0] == "[" and len(value) > 2:
        with suppress(ValueError, SyntaxError):
            return " ".join(f"{option} {shlex.quote(str(v))}" for v in ast.literal_eval(value))
    quoted = value[:1] in ("'", '"') and " " not in value and len(value) > 2
    return f"{option} {value[1:-1] if quoted else value}"


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
