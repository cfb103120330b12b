"""What the public call adds to its compiled loop, and what a second call costs."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from typing import Any
from unittest import mock

import numpy as np

import ornstein as orn
from benchmarks.clock import once
from benchmarks.workloads import THIN, Workload
from ornstein.sampling import loop, threads

CHAINS = 2


def overhead(work: Workload, plan: orn.Plan, steps: int, rounds: int) -> dict[str, float]:
    """Seconds of ``sample`` with a progress bar over those of its bare loop, in turn.

    ``steps`` are those of one chain. The clock of ``sample`` runs around the whole call.
    """
    post = work.posterior

    def sample() -> orn.Result:
        with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
            return orn.sample(
                post,
                plan,
                chains=CHAINS,
                draws=steps // THIN,
                thin=THIN,
                warmup=0,
                dtype="float32",
                progress=True,
            )

    result, bare, bare_steps = _bare_loop(sample)
    pairs = [(once(sample)[1], once(bare)[1]) for _ in range(rounds)]
    seconds, bare_seconds = np.median(pairs, axis=0)
    return {
        "steps": CHAINS * result.steps,
        "bare_steps": bare_steps,
        "sample_seconds": float(seconds),
        "bare_seconds": float(bare_seconds),
        "ratio": float(np.median([whole / alone for whole, alone in pairs])),
    }


def second_call(work: Workload, plan: orn.Plan) -> dict[str, float]:
    """Milliseconds a second call takes beyond its loop, with a plan and with planning."""
    post = work.posterior
    calls: dict[str, Callable[[], orn.Result]] = {
        "with_plan": lambda: orn.sample(post, plan, dtype="float32"),
        "with_planning": lambda: orn.sample(post, dtype="float32"),
    }
    record = {}
    for name, call in calls.items():
        call()
        result, seconds = once(call)
        record[f"{name}_ms"] = 1000 * (seconds - result.seconds)
        record[f"{name}_loop_ms"] = 1000 * result.seconds
    return record


def _bare_loop(sample: Callable[[], orn.Result]) -> tuple[orn.Result, Callable[[], None], int]:
    """The result of ``sample``, and its compiled loop alone: one thread a chain, nothing between.

    Every dispatch repeats the chain's first: the same work, on permutations that are ready.
    """
    first: list[tuple[Any, ...]] = []
    dispatches = 0

    def recorded(*arguments: Any) -> Any:
        nonlocal dispatches
        dispatches += 1
        if arguments[-1].number[0] == 0:  # the run's first segment
            first.append(arguments)
        return loop.advance(*arguments)

    with mock.patch.object(threads, "advance", recorded):
        result = sample()

    def chain(arguments: tuple[Any, ...]) -> None:
        for _ in range(dispatches // CHAINS):
            np.asarray(loop.advance(*arguments)[1])

    def bare() -> None:
        with ThreadPoolExecutor(CHAINS) as pool:
            list(pool.map(chain, first))

    steps = sum(len(one[-1].number) * one[0].segment_steps for one in first)
    return result, bare, steps * (dispatches // CHAINS)
