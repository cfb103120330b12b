"""Contestants timed in turn, so that a busy moment of the machine meets all of them."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from benchmarks.clock import once

Contestant: TypeAlias = Callable[[], float]
"""Runs once and returns its rate in steps per second."""


def interleave(contestants: Mapping[str, Contestant], repeats: int) -> dict[str, dict[str, float]]:
    """Median and quartiles of every contestant's rate over ``repeats`` rounds.

    Each is called once before the rounds begin; ``compile_seconds`` is what that call took beyond
    a later one.
    """
    first = {name: once(run)[1] for name, run in contestants.items()}
    rounds = [{name: once(run) for name, run in contestants.items()} for _ in range(repeats)]
    table = {}
    for name in contestants:
        rates, seconds = np.transpose([each[name] for each in rounds])
        low, median, high = np.quantile(rates, [0.25, 0.5, 0.75])
        table[name] = {
            "median": float(median),
            "low": float(low),
            "high": float(high),
            "compile_seconds": max(0.0, first[name] - float(np.median(seconds))),
        }
    return table
