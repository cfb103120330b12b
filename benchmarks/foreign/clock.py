"""What the foreign scripts share: rows from files, a clock, rates as JSON. Needs NumPy only."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

SECONDS = 0.4
"""A timed run lasts at least this long."""


@dataclass(frozen=True)
class Task:
    """A workload as the driver has written it; see ``benchmarks.workloads``."""

    family: str
    X: Any
    y: Any
    batch_size: int
    step_size: float
    outputs: int


Build: TypeAlias = Callable[[Task], Callable[[int], Any]]
"""Makes what runs a number of steps and returns the kept iterates."""


def save(path: Path, task: Task) -> None:
    """Write a workload for a foreign script."""
    np.savez(path, **vars(task))


def main(build: Build) -> None:
    """Print the rate of every workload in the folder named first, over the repeats named second."""
    folder, repeats = Path(sys.argv[1]), int(sys.argv[2])
    rates = {path.stem: _rate(build(_load(path)), repeats) for path in sorted(folder.glob("*.npz"))}
    print(json.dumps(rates))


def _load(path: Path) -> Task:
    with np.load(path) as file:
        return Task(**{name: file[name] if file[name].ndim else file[name].item() for name in file})


def _rate(run: Callable[[int], Any], repeats: int) -> float:
    steps = 100
    run(steps)
    while (seconds := _timed(run, steps)) < SECONDS:
        steps = 10 * max(steps // 5, int(0.12 * steps / seconds))
    return steps / median([seconds, *(_timed(run, steps) for _ in range(repeats - 1))])


def _timed(run: Callable[[int], Any], steps: int) -> float:
    began = perf_counter()
    kept = np.asarray(run(steps))
    seconds = perf_counter() - began
    if not np.isfinite(kept).all():
        raise FloatingPointError("the chain diverged")
    return seconds
