"""The whole way in one call."""

import math
import warnings
from collections.abc import Mapping
from inspect import signature
from typing import Any, Literal

import jax

from ornstein import _check
from ornstein._check import DivergenceWarning, InputError, TargetWarning, UnstablePlanError
from ornstein._types import Key, Vector
from ornstein.engines import ENGINES
from ornstein.hyper import Options, ascend
from ornstein.hyper.ascent import Draw
from ornstein.measure import measured_kl, min_ess
from ornstein.operators import as_matrix
from ornstein.plan import Plan
from ornstein.planning import fitting
from ornstein.planning import plan as make_plan
from ornstein.posterior import Posterior
from ornstein.prediction import predict_decreasing
from ornstein.progress import bar
from ornstein.result import Result
from ornstein.runner import Goal, Settings, check_dtype, run

_MOST_NUMBERS = 2**28  # kept by a run whose length is not given: 2 GiB
_FEWEST = 8  # draws a chain of a round to learn from
_SETTLING = 3  # draws before a round that starts where it is expected to end
_LONG = "longer strides never end; a plan that asks for one does not mix"


def sample(
    post: Posterior,
    plan: Plan | None = None,
    key: Key = 0,
    chains: int = 4,
    draws: int | Literal["auto"] | None = None,
    thin: int | None = None,
    warmup: int | None = None,
    dispersion: float = 2.0,
    dtype: str | None = None,
    progress: bool | None = None,
    chunk: int | None = None,
    target_ess: float = 1000.0,
    target_kl_error: float | None = None,
    learn_hyper: bool | Mapping[str, Any] = False,
    **plan_options: Any,
) -> Result:
    """Draw from a posterior.

    Parameters
    ----------
    post
        The posterior.
    plan
        From :func:`ornstein.plan`; made with ``plan_options`` if not given.
    key
        An integer or a JAX key; the same key gives the same draws, whatever the chunking.
    chains
        Independent chains, spread over the machine's cores.
    draws
        Kept draws per chain; the plan's suggestion by default. ``"auto"`` goes on, doubling, until
        the targets below are met.
    thin
        Steps per kept draw; the plan's suggestion by default.
    warmup
        Steps to discard first (rounded up to whole segments); the plan's suggestion by default.
    dispersion
        Chains start this many predicted standard deviations wide: above 1 over-dispersed, 1 in
        stationarity, 0 at the optimum.
    dtype
        ``float32`` or ``float64``; JAX's own default if not given.
    progress
        Show a progress bar; on terminals only if not given.
    chunk
        Segments per dispatch; affects progress reports, never the draws.
    target_ess
        With ``draws="auto"``: the bulk effective sample size every parameter is to have.
    target_kl_error
        With ``draws="auto"``: what Monte-Carlo error alone may add to a measured KL, in nats.
    learn_hyper
        Learn the posterior's hyperparameters first, then sample at the learned values: see
        :func:`ornstein.learn`, whose options may be given by name. ``result.learning`` says how.
    **plan_options
        Passed to :func:`ornstein.plan` where no plan is given.

    Returns
    -------
    Result
        Draws, summary, diagnosis. A chain that becomes non-finite stops the run: see
        ``result.status``.

    Examples
    --------
    >>> import numpy as np
    >>> import ornstein as orn
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> result = orn.sample(orn.models.linear(X, X[:, 0]), batch_size=20, draws=50)
    >>> result
    Result(chains=4, draws=50, parameters=1)
    >>> result.draws["coef"].shape
    (4, 50, 1)
    """
    learning = None
    dtype = check_dtype(dtype)
    if learn_hyper is not False:
        given = learn_hyper if isinstance(learn_hyper, Mapping) else {}
        if plan is not None:
            raise InputError(
                "a plan holds for one value of the hyperparameters: leave plan out, and give its "
                "options, to learn them."
            )
        draw = _rounds(key, _check.whole("chains", chains), dtype, progress)
        post, plan, learning = ascend(post, plan_options, Options.checked(given), draw)
    elif plan is None:
        plan = make_plan(post, **plan_options)
    elif plan_options:
        unknown = sorted(plan_options)[0]
        if unknown in signature(make_plan).parameters:
            raise InputError(f"{unknown!r} belongs to plan, but a plan was given.")
        near = _check.nearest(unknown, signature(sample).parameters)
        raise InputError(f"sample has no argument {unknown!r}.{near}")
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be made by ornstein.plan, found {type(plan).__name__}.")
    post = fitting(post, plan)
    chains = _check.whole("chains", chains)
    if not plan.is_chain and (thin is not None or warmup is not None):
        raise InputError(
            f"thin and warmup are for chains of SGD; method={plan.method!r} has none. Leave them "
            "out."
        )
    goal = None
    if draws == "auto":
        if not plan.is_chain or plan.decay is not None:
            raise InputError("draws='auto' is for chains with a constant step; give a number.")
        goal, draws = _goal(plan, chains, target_ess, target_kl_error)
    settings = Settings(
        chains=chains,
        draws=plan.draws if draws is None else _check.whole("draws", draws),
        thin=_check.whole("thin", plan.thin if thin is None else thin, high=2**30, why=_LONG),
        warmup=plan.warmup if warmup is None else _check.whole("warmup", warmup, low=0),
        dispersion=_check.non_negative("dispersion", dispersion),
        dtype=dtype,
        chunk=None if chunk is None else _check.whole("chunk", chunk),
    )
    plan = _as_run(plan, settings)
    opened = bar("sampling", progress)
    if plan.is_chain:
        done = run(post, plan, _check.random_key(key), settings, opened, goal)
    else:
        done = ENGINES[plan.engine](post, plan, _check.random_key(key), settings, opened)
    if not done.status.ok:
        warnings.warn(done.status.message, DivergenceWarning, stacklevel=2)
    elif goal is not None and done.flat.shape[1] >= goal.most and not goal.reached(done.flat):
        warnings.warn(
            f"{goal.most:,} draws a chain did not reach the targets, and more would not fit "
            "memory: raise thin, or lower the targets.",
            TargetWarning,
            stacklevel=2,
        )
    return Result(
        done.flat, done.status, plan, post, settings, done.steps, done.seconds, done.path, learning
    )


def _rounds(key: Key, chains: int, dtype: str, progress: bool | None) -> Draw:
    """Short runs to learn from, each going on from the last one's ends."""
    opened, keys = bar("learning", progress), jax.random.fold_in(_check.random_key(key), 2**31)

    def draw(post: Posterior, plan: Plan, number: int, wanted: int, last: Vector | None) -> Vector:
        each = max(_FEWEST, -(-wanted // chains))
        draws = min(plan.draws, 2 ** (each - 1).bit_length())  # few lengths, so few compilations
        warmup = min(plan.warmup, _SETTLING * plan.thin)
        settings = Settings(chains, draws, plan.thin, warmup, 1.0, dtype, None)
        fresh = jax.random.fold_in(keys, number)
        if plan.is_chain:
            done = run(post, _as_run(plan, settings), fresh, settings, opened, starts=last)
        else:
            done = ENGINES[plan.engine](post, plan, fresh, settings, opened)
        if not done.status.ok:
            raise UnstablePlanError(f"while learning, {done.status.message}")
        return done.flat

    return draw


def _as_run(plan: Plan, settings: Settings) -> Plan:
    """The plan for these settings: a decreasing step's prediction depends on the run's length."""
    if settings.thin < plan.window:
        raise InputError(
            f"thin must be at least {plan.window}: a draw is the mean of {plan.window} iterates; "
            f"found {settings.thin}. Plan with a smaller window to keep more draws."
        )
    if plan.decay is None:
        return plan
    steps = settings.warmup, settings.warmup + settings.draws * settings.thin
    return predict_decreasing(plan, *steps)


def _goal(
    plan: Plan, chains: int, target_ess: float, target_kl_error: float | None
) -> tuple[Goal, int]:
    """When to stop, and the draws a chain after which to look first."""
    ess = _check.positive("target_ess", target_ess)
    error = None if target_kl_error is None else _check.positive("target_kl_error", target_kl_error)
    if error is not None:
        plan.refuse_matrices("target_kl_error")

    def reached(flat: Vector) -> bool:
        if error is not None:
            whitened_error = measured_kl(flat, plan.center, as_matrix(plan.predicted_cov)).floor
            if not whitened_error <= error:
                return False
        return bool(min_ess(flat) >= ess)

    most = max(16, _MOST_NUMBERS // (chains * plan.dim))
    needed = ess / chains
    if error is not None:  # independent draws' floor is D (D + 3) / 4 n
        needed = max(needed, plan.dim * (plan.dim + 3) / (4 * error * chains))
    return Goal(reached, most), min(most, max(16, math.ceil(1.25 * needed)))
