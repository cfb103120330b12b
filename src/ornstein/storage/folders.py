"""Folders and files written whole or not at all, and kept from two writers at once."""

import errno
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from ornstein._base.errors import InputError

Writer: TypeAlias = Callable[[Path], object]
"""Writes one file at a path."""

_PATIENCE = 0.1  # seconds to wait for a lock that its holder is just removing


def write_folder(
    path: str | Path,
    files: Mapping[str, Writer],
    overwrite: bool = False,
    known: tuple[str, ...] = (),
) -> Path:
    """Make a folder that holds these files.

    They are written beside it first and moved into place when all are there, so that a folder of
    that name is complete, or is not. An old folder is replaced if ``overwrite``, as far as it holds
    nothing but files of these names and the ``known`` ones.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as home:
    ...     made = write_folder(f"{home}/run", {"a.txt": lambda path: path.write_text("hello")})
    ...     (made / "a.txt").read_text()
    'hello'
    """
    target = Path(path)
    refuse_occupied(target, (*files, *known), overwrite)
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


def remove_leftovers(target: Path, names: tuple[str, ...]) -> None:
    """Remove what processes that were killed while they wrote a folder left beside it.

    Only for who holds the folder: see :func:`claimed_beside`.
    """
    for entry in target.absolute().parent.glob(f".{glob.escape(target.name)}-*"):
        if entry.is_dir() and {one.name for one in entry.iterdir()} <= {*names, "run"}:
            shutil.rmtree(entry, ignore_errors=True)


def part_of(name: str) -> str:
    """The name under which a file is written before it is whole."""
    return f".{name}.part"


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file that is there whole and on the disk, or as it was before.

    One writer at a time: see :func:`claimed`.
    """
    beside = path.with_name(part_of(path.name))
    try:
        with beside.open("wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def _flush(path: Path) -> None:
    """Put a file, or the names in a folder, where a loss of power does not reach them."""
    folder = path.is_dir()
    if folder and sys.platform == "win32":  # has no such call
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:  # some systems cannot flush folders
        if not folder or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(number)


@contextmanager
def claimed(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file; where another process does, an error says that ``what`` is in use.

    The system frees it when its process ends, in whichever way. The file is removed when done.
    """
    from filelock import FileLock, Timeout  # brings asyncio, which takes long to import

    lock = FileLock(path, timeout=_PATIENCE, poll_interval=_PATIENCE / 4, mode=0o644)
    try:
        lock.acquire()
    except (Timeout, RuntimeError):  # another process, or another lock of this one
        if not path.exists():
            raise OSError(f"{what} cannot be written to; name another one.") from None
        holder = ""
        with suppress(OSError):
            holder = path.read_text(errors="replace")
        by = f" by process {holder}" if holder.isdigit() else ""
        raise InputError(
            f"{what} is in use{by}. Wait until that run ends, or name another folder."
        ) from None
    try:
        with suppress(OSError):  # a courtesy, which a full disk may not grant
            path.write_text(str(os.getpid()))
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


@contextmanager
def claimed_beside(target: Path) -> Iterator[None]:
    """Hold a lock on a folder that is yet to be made, by a hidden file beside it."""
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    lock = target.absolute().with_name(f".{target.name}.lock")
    with claimed(lock, f"the folder {target}"):
        yield


def refuse_occupied(target: Path, names: tuple[str, ...], overwrite: bool) -> None:
    """Raise if a folder cannot be made there, or must not be replaced."""
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
            f"{target} holds {strange[0]!r}, which is not part of a run, and is left alone; name "
            "another folder."
        )
