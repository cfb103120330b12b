"""What scripts that fit mixed models share: rows from a file, clocks, an answer as JSON."""

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, TypeAlias

import numpy as np


class MixedTask(NamedTuple):
    """Rows of a model with an intercept for every group."""

    X: Any
    y: Any
    g: Any
    family: str


Fit: TypeAlias = Callable[[MixedTask], dict[str, Any]]
"""Fits the rows and says what it found; ``sd`` is that of the groups."""


def load(path: Path) -> MixedTask:
    """Rows as :func:`save` writes them."""
    with np.load(path) as file:
        return MixedTask(file["X"], file["y"], file["g"], str(file["family"]))


def save(path: Path, task: MixedTask) -> None:
    """Write rows for a script."""
    np.savez(path, **task._asdict())


def clocked(fit: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a fit found, with its seconds by the clock and of all processors."""
    wall, own = perf_counter(), process_time()
    found = fit()
    return found | {"seconds": perf_counter() - wall, "processor": process_time() - own}


def peak_gib() -> float:
    """The largest memory of the process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def main(fit: Fit) -> None:
    """Fit the rows of the file that is named first, and print the answer."""
    task = load(Path(sys.argv[1]))
    print(json.dumps(clocked(lambda: fit(task)) | {"gib": peak_gib()}))
