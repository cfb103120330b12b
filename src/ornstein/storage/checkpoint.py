"""Checkpoints: a run kept in a folder as it goes, to resume where it stopped.

``run-0.orn``
    arguments, fingerprint of the data, plan, learned hyperparameters: written once
``draws-0-00001.orn``, ...
    the draws since the file before, and every chain's state after them
``end-0.orn``
    how the run ended
``lock``
    held while a run writes here

Every file is written whole, then renamed into place, and holds its own checksum. Draws are written
once, so a run's checkpoints cost as much as its draws. Where draws are damaged, the run resumes
from the last checkpoint before them. The first number counts restarts after a divergence.
"""

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy.typing as npt

from ornstein._base import checks, multihost
from ornstein._base.errors import CheckpointError, CheckpointWarning, InputError
from ornstein.storage import records
from ornstein.storage.codec import register
from ornstein.storage.folders import claimed, part_of, write_file

COMMAND = "command.orn"
_OURS = re.compile(r"(run-\d+|draws-\d+-\d+|end-\d+|command)\.orn|lock")
_EVERY = 30.0


@register
class Saved(NamedTuple):
    """One chain: segments made, leaves of its state after them, pieces of draws so far.

    And the steps at which it became non-finite and was drawn again.
    """

    at: int
    state: list[npt.NDArray[Any]]
    kept: list[npt.NDArray[Any]]
    redrawn: list[int]


class Checkpoint:
    """A folder that is this process's own while it is open: see :func:`opened`.

    Of the processes of one run the first ``writes``; the others read what it wrote before.
    """

    def __init__(self, folder: Path, every: float, writes: bool = True) -> None:
        self.folder, self.every, self.writes = folder, every, writes
        self.attempt, self.number = 0, 0
        self._run = ""
        self._written: list[tuple[int, int]] = []  # every chain's segments and pieces of draws
        self._last = monotonic()

    # What a run began with

    def begun(self) -> dict[str, Any] | None:
        """The record of the newest attempt; None in an empty folder."""
        attempts = sorted(self._numbers(r"run-(\d+)\.orn"), reverse=True)
        for attempt in attempts:
            self.attempt = attempt
            try:
                return self._read(self._path("run"), "arguments", "start")
            except CheckpointError as error:
                if attempt == attempts[-1]:
                    raise CheckpointError(
                        f"{error}. Without it the draws in {self.folder} cannot be used; to start "
                        "again, remove the folder or name another."
                    ) from None
                warnings.warn(f"{error}. Resuming the attempt before.", CheckpointWarning, 4)
        if self._numbers(r"draws-\d+-(\d+)\.orn"):
            raise CheckpointError(
                f"{self.folder} holds draws, but not what they began with (run-0.orn). To start "
                "again, remove the folder or name another."
            )
        return None

    def begin(self, record: Mapping[str, Any], attempt: int = 0) -> None:
        """Keep what an attempt begins with."""
        self.attempt, self.number, self._written = attempt, 0, []
        self._write(self._path("run"), record)

    # Draws

    def restore(self, like: Sequence[Saved]) -> tuple[list[Saved], float] | None:
        """What was kept of chains like these, and seconds of sampling; None at the beginning.

        Damaged draws, and any after them, are dropped with a warning.
        """
        chains = [Saved(one.at, one.state, [], []) for one in like]
        seconds, found = 0.0, sorted(self._numbers(rf"draws-{self.attempt}-(\d+)\.orn"))
        for number in range(1, max(found, default=0) + 1):
            path = self._path("draws", number)
            try:
                block = self._read(path, "chains", "seconds")
                chains = [
                    _joined(path, before, after, example)
                    for before, after, example in zip(chains, block["chains"], like, strict=True)
                ]
                seconds = float(block["seconds"])
            except (CheckpointError, TypeError, ValueError, KeyError, AttributeError) as error:
                reason = str(error) if isinstance(error, CheckpointError) else f"{path}: {error}"
                last = "the beginning" if number == 1 else f"checkpoint {number - 1}"
                warnings.warn(f"{reason}. Resuming from {last}.", CheckpointWarning, 5)
                break
            self.number = number
        if self.writes and self.number < max(found, default=1):
            self._path("end").unlink(missing_ok=True)
            for number in reversed(found):  # what is left never has a gap
                if number > self.number:
                    self._path("draws", number).unlink(missing_ok=True)
        self._note(chains)
        return (chains, seconds) if self.number else None

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is long enough ago."""
        return monotonic() - self._last >= self.every

    def save(self, chains: Sequence[Saved], seconds: float) -> None:
        """Keep what is new, and the chains' states."""
        written = self._written or [(0, 0)] * len(chains)
        if self.number and [chain.at for chain in chains] == [at for at, _ in written]:
            return
        pairs = zip(chains, written, strict=True)
        new = [chain._replace(kept=chain.kept[old:]) for chain, (_, old) in pairs]
        block = {"run": self._run, "seconds": seconds, "chains": new}
        self._write(self._path("draws", self.number + 1), block)
        self.number += 1
        self._note(chains)

    def _note(self, chains: Sequence[Saved]) -> None:
        self._written = [(chain.at, len(chain.kept)) for chain in chains]
        self._last = monotonic()

    # The end

    def ended(self) -> dict[str, Any] | None:
        """How the run ended; None if it did not."""
        path = self._path("end")
        if not path.exists():
            return None
        try:
            return self._read(path, "done")
        except CheckpointError as error:
            warnings.warn(f"{error}. Resuming from the draws.", CheckpointWarning, 5)
            return None

    def end(self, record: Mapping[str, Any]) -> None:
        """Keep how the run ended."""
        self._write(self._path("end"), {"run": self._run, **record})

    # Files

    def _path(self, kind: str, number: int | None = None) -> Path:
        suffix = "" if number is None else f"-{number:05d}"
        return self.folder / f"{kind}-{self.attempt}{suffix}.orn"

    def _numbers(self, pattern: str) -> list[int]:
        found = (re.fullmatch(pattern, entry.name) for entry in self.folder.iterdir())
        return [int(match.group(1)) for match in found if match]

    def _read(self, path: Path, *names: str) -> dict[str, Any]:
        record, digest = _load(path, names)
        if path == self._path("run"):
            self._run = digest
        elif record.get("run") != self._run:
            raise CheckpointError(f"{path} belongs to another run")
        return record

    def _write(self, path: Path, record: Mapping[str, Any]) -> None:
        pieces = records.pieces(record)
        last = f"checkpoint {self.number}" if self.number else "the beginning"
        intact = f"What was kept is intact: solve that, and the same call resumes from {last}."
        if self.writes:
            with _explained(f"{path} could not be written", f". {intact}"):
                write_file(path, pieces)
        if path == self._path("run"):
            self._run = records.digest(*pieces)


@contextmanager
def opened(folder: str | Path | None, every: float | None = None) -> Iterator[Checkpoint | None]:
    """A folder to keep a run in, made if need be and locked while open; None for none.

    It is an InputError if the folder holds something else or another process writes there, and a
    CheckpointError if it cannot be made or written to.
    """
    seconds = _EVERY if every is None else checks.non_negative("checkpoint_every", every)
    if folder is None:
        if every is not None:
            raise InputError("checkpoint_every is for checkpoints: give checkpoint=, a folder.")
        yield None
        return
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"checkpoint must be the path of a folder, found {checks.shown(folder)}.")
    place = Path(folder)
    with ExitStack() as stack:
        with multihost.first_alone(InputError, CheckpointError) as writes:
            if writes:
                with _explained(f"checkpoint: {place} cannot be written to", "."):
                    _make(place)
                    stack.enter_context(claimed(place / "lock", f"the checkpoint {place}"))
        yield Checkpoint(place, seconds, writes)


def keep_command(folder: str | Path, options: Mapping[str, Any], places: Mapping[str, Any]) -> None:
    """Keep a command beside its checkpoints: options must stay the same, places may change."""
    with opened(folder):
        path = Path(folder) / COMMAND
        if path.exists():
            kept = {name: kept_command(folder).get(name) for name in options}
            others = records.differences(kept, options)
            if others:
                raise InputError(
                    f"checkpoint: {folder} holds another command: {'; '.join(others)}. Give the "
                    "same options, or name another folder."
                )
        with _explained(f"{path} could not be written", "."):
            write_file(path, records.pieces({**options, **places}))


def keep_answer(folder: str | Path, name: str, answer: Any) -> None:
    """Keep what an option turned out to be, so that a command that resumes does not ask again."""
    command = kept_command(folder)
    if command.get(name) != answer:
        path = Path(folder) / COMMAND
        with opened(folder), _explained(f"{path} could not be written", "."):
            write_file(path, records.pieces({**command, name: answer}))


def kept_command(folder: str | Path) -> dict[str, Any]:
    """What :func:`keep_command` kept."""
    path = Path(folder) / COMMAND
    if not path.is_file():
        place = path.parent
        if place.is_dir() and not any(_is_kept(entry.name) for entry in place.iterdir()):
            raise InputError(
                f"{folder} has nothing to resume. If the command was stopped before it kept "
                "anything, run it again. Else name the folder that was given as --checkpoint."
            )
        raise InputError(
            f"{folder} is not a checkpoint of a command: it has no {COMMAND}. Name the folder that "
            "was given as --checkpoint."
        )
    return _load(path)[0]


def _make(place: Path) -> None:
    """Make a folder, or refuse one that holds anything but a checkpoint."""
    if place.exists() and not place.is_dir():
        raise InputError(f"checkpoint: {place} is a file; name a folder.")
    place.mkdir(parents=True, exist_ok=True)
    for name in sorted(entry.name for entry in place.iterdir()):
        if not _is_ours(name):
            raise InputError(
                f"checkpoint: {place} holds {name!r}, which is not part of a checkpoint; name "
                "another folder."
            )


def _is_kept(name: str) -> bool:
    """Whether a file holds anything: the lock does not, nor one that was being written."""
    return name != "lock" and not (name.endswith(".part") and _is_ours(name))


def _is_ours(name: str) -> bool:
    """Whether a file is one of a checkpoint, or of one that was being written."""
    whole = name.removeprefix(".").removesuffix(".part")
    return bool(_OURS.fullmatch(name) or (_OURS.fullmatch(whole) and name == part_of(whole)))


@contextmanager
def _explained(failure: str, after: str = "") -> Iterator[None]:
    """Turn errors of the system into those of a checkpoint."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{failure}: {error.strerror or error}{after}") from error


def _load(path: Path, names: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
    """A record that has these names, and its checksum."""
    with _explained(f"{path} cannot be read"):
        content = path.read_bytes()
    try:
        record = records.unpack(content)
    except CheckpointError as error:
        raise CheckpointError(f"{path} is unreadable: {error}") from None
    if not isinstance(record, dict) or not set(names) <= set(record):
        raise CheckpointError(f"{path} does not hold a record of {', '.join(names) or 'a command'}")
    return record, records.digest(content)


def _joined(path: Path, before: Saved, after: Any, like: Saved) -> Saved:
    """A chain with a block's draws added; its state must be like the example's."""
    fits = (
        isinstance(after, Saved)
        and after.at >= before.at
        and [(leaf.shape, leaf.dtype) for leaf in after.state]
        == [(leaf.shape, leaf.dtype) for leaf in like.state]
        and all(
            (piece.shape[1:], piece.dtype) == (example.shape[1:], example.dtype) and piece.ndim == 2
            for piece in after.kept
            for example in like.kept
        )
    )
    if not fits:
        raise CheckpointError(f"{path} does not fit this run")
    return after._replace(kept=[*before.kept, *after.kept])
