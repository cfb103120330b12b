"""The library as a contestant, through its public functions."""

import warnings
from typing import Any

import ornstein as orn
from benchmarks.clock import twice
from benchmarks.fit import Fit
from benchmarks.problems import Problem
from benchmarks.score import Record, Settings, finished, mark

_FIRST = 32  # draws a chain of the first run


def ours(problem: Problem, fit: Fit, settings: Settings) -> Record:
    """Gradients with control variates, in batches the library chooses."""
    return _run(problem.post, fit, settings, control_variates=True)


def ours_plain(problem: Problem, fit: Fit, settings: Settings) -> Record:
    """Plain minibatch gradients."""
    return _run(
        problem.post, fit, settings, control_variates=False, batch_size=problem.plain_batch_size
    )


def _run(post: orn.Posterior, fit: Fit, settings: Settings, **plan_options: Any) -> Record:
    """Plan once, then sample anew in doubling lengths; every length runs twice, to compile apart.

    Warm-up, and whatever ``sample`` does outside its loop, count as setup.
    """
    plan, planning, compiling = twice(lambda: orn.plan(post, **plan_options))
    record = Record(compile=compiling)
    record.details |= {
        "planning_seconds": planning,
        "batch_size": plan.batch_size,
        "batches": plan.batches.scheme,
        "relaxation_steps": plan.relaxation_steps,
        "thin": plan.thin,
        "predicted_kl": plan.predicted_kl,
        "warnings": list(plan.warnings),
    }
    length = _FIRST
    while True:

        def run(length: int = length) -> orn.Result:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", orn.DivergenceWarning)
                return orn.sample(
                    post,
                    plan,
                    key=settings.key,
                    chains=settings.chains,
                    draws=length,
                    dtype="float32",
                    progress=False,
                )

        result, wall, compiling = twice(run)
        _note(record, result, planning, wall, compiling)
        mark(record, fit)
        if not result.status.ok or finished(record, settings) or 2 * wall > settings.budget:
            break
        length *= 2
    if not result.status.ok:
        record.details["note"] = result.status.message
    return record


def _note(
    record: Record, result: orn.Result, planning: float, wall: float, compiling: float | None
) -> None:
    """Seconds of a run: the share of the loop that made kept draws is sampling, all else setup."""
    plan, chains = result.plan, result.settings.chains
    kept = min(1.0, result.flat.shape[1] * result.settings.thin / result.steps)
    record.draws = result.flat
    record.sampling = kept * result.seconds
    record.setup = planning + wall - record.sampling
    if compiling is not None and record.compile is not None:
        record.compile = max(record.compile, compiling)
    record.gradients = int(chains * result.steps * kept)
    record.rows = record.gradients * plan.batch_size
