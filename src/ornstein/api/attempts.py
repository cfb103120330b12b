"""A run's start, and its attempts: what ``sample`` repeats until chains stay finite."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from ornstein._base import errors
from ornstein._base.progress import bar, phase
from ornstein._base.types import Vector
from ornstein.api.drawing import UNSETTLED, anchored
from ornstein.api.pilots import piloted
from ornstein.api.planning import TOLERANCE, checked_tolerance
from ornstein.api.request import Asked, as_run
from ornstein.api.resuming import Start
from ornstein.hyper import Draw, LearningOptions, ascend
from ornstein.models.hyper_targets import HyperTarget
from ornstein.models.posterior import Posterior
from ornstein.planning import planner
from ornstein.planning.planner import fitting
from ornstein.planning.plans import Plan
from ornstein.sampling.engines import ENGINES
from ornstein.sampling.run import run_chains
from ornstein.sampling.settings import Goal, OpenProgress, Run, Settings
from ornstein.storage.checkpoint import Checkpoint

_FEWEST = 8  # draws a chain of a round to learn from
_SETTLING = 2  # draws before a round that starts where it is expected to end
_FRESH = 2**31  # keys beyond those of chains: learning, then restarts


def first_start(
    asked: Asked,
    post: Posterior,
    plan: Plan | None,
    learn_hyper: bool | Mapping[str, Any],
    plan_options: Mapping[str, Any],
    target: HyperTarget | None,
) -> Start:
    """Plan, or learn and plan, where no plan is given."""
    learning, beside, options = None, None, dict(plan_options)
    tolerance = checked_tolerance(options.pop("tolerance", TOLERANCE))
    made = plan is None
    if learn_hyper is not False:
        chosen = LearningOptions.checked(learn_hyper if isinstance(learn_hyper, Mapping) else {})
        wanted = asked.draws if isinstance(asked.draws, int) else None
        with phase("learning the hyperparameters", asked.progress):
            post, plan, learning = ascend(post, options, chosen, _rounds(asked), wanted)
    elif plan is None:
        with phase("planning", asked.progress):
            plan = planner.plan(post, **options)
    if target is not None and learning is not None and plan is not None:
        key = jax.random.fold_in(asked.key, _FRESH - 1)
        run = asked.chains, asked.dtype, key, asked.progress, tolerance
        wanted = asked.draws if isinstance(asked.draws, int) else None
        post, plan, beside = anchored(post, plan, options, learning, target, *run, wanted)
        plan = replace(plan, dispersion=1.0)
        if asked.dispersion is not None:
            beside = beside.spread()
            plan = replace(plan, warmup=max(plan.warmup, UNSETTLED * beside.thin))
    post = fitting(post, plan)
    if made and beside is None:
        with phase("testing the plan on a short run", asked.progress):
            how = asked.dtype, asked.mesh is not None, True
            plan = piloted(post, plan, tolerance, options, *how)
    dispersion = plan.dispersion if asked.dispersion is None else asked.dispersion
    return Start(post, plan, learning, dispersion, beside=beside)


def attempt(
    asked: Asked,
    start: Start,
    shown: OpenProgress,
    folder: Checkpoint | None,
    target: HyperTarget | None,
) -> tuple[Plan, Settings, Goal | None, Run]:
    """One run by the plan's own engine, and what it was; restarts have keys of their own."""
    plan, settings, goal = asked.settled(start)
    post, key, attempt = start.post, asked.key, len(start.restarts)
    if plan.is_chain:
        key = jax.random.fold_in(key, _FRESH + attempt) if attempt else key
        drawn = starts = None
        if start.beside is not None and target is not None:
            drawn, starts = start.beside.drawn(target), start.beside.starts
            if asked.thin is None:
                settings = replace(settings, thin=start.beside.thin)
        done = run_chains(post, plan, key, settings, shown, goal, starts, folder, asked.mesh, drawn)
        return plan, settings, goal, done
    ended = None if folder is None else folder.ended()
    if ended is not None and isinstance(ended["done"], Run):
        return plan, settings, goal, ended["done"]
    done = ENGINES[plan.engine](post, plan, key, settings, shown)
    if folder is not None:
        folder.end({"done": done})
    return plan, settings, goal, done


def with_restarts(done: Run, start: Start) -> Run:
    """The run, with a status that says how often it was started again."""
    if not start.restarts:
        return done
    times = f"after {len(start.restarts)} restart{'s' if len(start.restarts) > 1 else ''}"
    story = "; ".join(f"non-finite at step {step}, then {how}" for how, step in start.restarts)
    message = f"{done.status.message} {times if done.status.ok else f'This was {times}'}: {story}"
    status = replace(done.status, message=message)
    steps = np.array([step for _, step in start.restarts], float)
    return done._replace(status=status, path={**done.path, "restarts": steps})


def _rounds(asked: Asked) -> Draw:
    """Short runs to learn from, each starting where the last one ended."""
    shown, keys = bar("learning", asked.progress), jax.random.fold_in(asked.key, _FRESH)

    def draw(post: Posterior, plan: Plan, number: int, wanted: int, last: Vector | None) -> Vector:
        each = max(_FEWEST, -(-wanted // asked.chains))
        draws = min(plan.draws, _FEWEST * -(-each // _FEWEST))  # few lengths, so few compilations
        warmup = min(plan.warmup, _SETTLING * plan.thin)
        settings = Settings(asked.chains, draws, plan.thin, warmup, 1.0, asked.dtype, None)
        fresh = jax.random.fold_in(keys, number)
        if plan.is_chain:
            planned = as_run(plan, settings)
            done = run_chains(post, planned, fresh, settings, shown, starts=last, mesh=asked.mesh)
        else:
            done = ENGINES[plan.engine](post, plan, fresh, settings, shown)
        if done.status.kind == "interrupted":
            raise KeyboardInterrupt("interrupted while learning: nothing has been drawn yet.")
        if not done.status.ok:
            raise errors.UnstablePlanError(f"while learning, {done.status.message}")
        return done.flat

    return draw
