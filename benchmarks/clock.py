"""Clocks that tell compilation from running."""

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import jax

_SHORT = 0.5  # seconds
_AGAIN = 60.0  # seconds; what takes longer is not run twice

T = TypeVar("T")


class Timed(NamedTuple):
    """A call's result, its seconds, and those of compilation (None where they are part of it)."""

    result: Any
    seconds: float
    compile_seconds: float | None


def once(call: Callable[[], T]) -> tuple[T, float]:
    """Result and seconds."""
    began = perf_counter()
    result = jax.block_until_ready(call())
    return result, perf_counter() - began


def twice(call: Callable[[], Any]) -> Timed:
    """Call twice: the second time is the call's, the difference compilation's.

    A short call runs several times more; the result is that of the median run.
    """
    result, cold = once(call)
    if cold > _AGAIN:
        return Timed(result, cold, None)
    result, warm = once(call)
    if warm < _SHORT:
        again = [(result, warm), *(once(call) for _ in range(4))]
        result, warm = sorted(again, key=lambda timed: timed[1])[len(again) // 2]
    return Timed(result, warm, max(0.0, cold - warm))


def median_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Median seconds of a compiled call."""
    once(call)
    return median(once(call)[1] for _ in range(repeats))
