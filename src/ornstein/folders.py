"""Folders written whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from ornstein._check import InputError

Writer: TypeAlias = Callable[[Path], object]
"""Writes one file at a path."""


def write_folder(path: str | Path, files: Mapping[str, Writer], overwrite: bool = False) -> Path:
    """Make a folder that holds these files.

    They are written beside it first and moved into place when all are there, so that a folder of
    that name is complete, or is not. An old folder is replaced if ``overwrite``, as far as it holds
    nothing but files of these names.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as home:
    ...     made = write_folder(f"{home}/run", {"a.txt": lambda path: path.write_text("hello")})
    ...     (made / "a.txt").read_text()
    'hello'
    """
    target = Path(path)
    refuse_occupied(target, tuple(files), overwrite)
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=parent))
    try:
        for name, write in files.items():
            write(beside / name)
            _flush(beside / name)
        beside.chmod(0o755)
        if target.is_dir():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=parent))
            os.replace(target, old / "run")
            os.replace(beside, target)
            shutil.rmtree(old)
        else:
            os.replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return target


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def refuse_occupied(target: Path, names: tuple[str, ...], overwrite: bool) -> None:
    """Raise if a folder can not be made there, or must not be replaced."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; name a folder.")
    found = {entry.name for entry in target.iterdir()} if target.is_dir() else set()
    if found and not overwrite:
        raise InputError(
            f"{target} is not empty; name another folder, or allow it to be overwritten."
        )
    strange = sorted(found - set(names))
    if strange:
        raise InputError(
            f"{target} holds {strange[0]!r}, which is no part of a run, and is left alone; name "
            "another folder."
        )
