"""Runs that are stopped after some checkpoints, and folders to look into."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ornstein as orn
from ornstein.storage.checkpoint import Checkpoint


class StoppedError(Exception):
    """What a killed process would not even raise."""


def stop_after(monkeypatch: pytest.MonkeyPatch, saves: int) -> None:
    """Let so many checkpoints be made, and break off before the next."""
    made, save = [0], Checkpoint.save

    def counted(self: Checkpoint, *arguments: Any) -> None:
        if made[0] == saves:
            raise StoppedError
        made[0] += 1
        save(self, *arguments)

    monkeypatch.setattr(Checkpoint, "save", counted)


def stop(call: Callable[[], orn.Result], saves: int) -> None:
    """Call, and break off after so many checkpoints."""
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, saves)
        with pytest.raises(StoppedError):
            call()


def resumed(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], orn.Result], saves: int = 2
) -> tuple[orn.Result, int]:
    """Call again and again, each time stopped after some checkpoints; how often it took."""
    for times in range(1, 100):
        with monkeypatch.context() as patch:
            stop_after(patch, saves)
            try:
                return call(), times
            except StoppedError:
                continue
    raise AssertionError("it never ends")


def contents(folder: Path) -> dict[str, str]:
    """Every file by name, and a digest of what is in it."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != "lock"
    }
