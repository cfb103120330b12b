"""Every method on one posterior: how far its draws are off, and what they cost."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError, OrnsteinError, UnstablePlanError
from ornstein._base.progress import each
from ornstein._base.types import Key, Vector
from ornstein.api.sampling import sample_whole
from ornstein.models.posterior import Posterior
from ornstein.planning.methods import find
from ornstein.planning.planner import plan as make_plan
from ornstein.planning.plans import Plan
from ornstein.results.accuracy import measure
from ornstein.results.comparison import Comparison, Entry
from ornstein.results.measure import kl_error, measured_kl, min_ess
from ornstein.results.result import Result
from ornstein.theory import modes

_MOST_ROWS = 6e9  # row visits of all chains together; beyond, a run is cut short
_FEWEST_DRAWS = 250  # a chain, of a run that is cut short
_MANY_CHAINS = 2000  # started in stationarity, where even that is too long
_SHORT_RUN = 20_000  # steps of each, at most
_WORK = 1e9  # multiplications to measure a method's draws by
_RELAXED = 3  # relaxation times after which a direction has forgotten its start


DEFAULT = (
    *(
        "sgd-scalar",
        "sgd-diagonal",
        "sgd-dense",
        "sgd-sqrt",
        "exact-plain",
        "exact",
        "rotation",
        "momentum",
    ),
    *("averaged", "sgld", "sgfs-diagonal", "sgfs-dense", "sghmc", "bbvi", "bbvi-dense", "laplace"),
)
"""What is compared unless it is said."""


def compare(
    post: Posterior,
    methods: Iterable[str] = DEFAULT,
    batch_size: int | None = None,
    draws: int = 1000,
    chains: int = 4,
    reference: str = "laplace",
    key: Key = 0,
    dtype: str | None = None,
    progress: bool | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Run several methods on one posterior, and recommend one by the error of its draws and time.

    Draws are judged by the posterior itself (X12), as :func:`ornstein.check` does, not by a
    Gaussian: Laplace's approximation is judged like all others. ``print`` shows a table, why a
    method was not run, and which to take.

    A run that would visit too many rows keeps fewer draws; where even 250 a chain are too many,
    2,000 chains are started from the predicted covariance and run up to 20,000 steps each:
    directions that relax in that time are tested, the note says how many.

    Parameters
    ----------
    post
        The posterior.
    methods
        Names out of ``ornstein.VARIANTS``, such as ``exact`` or ``sgd-diagonal``.
    batch_size
        Rows per minibatch; every method's own default if not given.
    draws, chains
        Kept draws per chain, and chains.
    reference
        What divergences are measured from, which decide nothing: ``laplace``, the Gaussian at the
        optimum (exact for linear regression), or ``nuts``, a Gaussian of its draws' mean and
        covariance (needs the extra ``reference``).
    key, dtype, progress
        As for :func:`ornstein.sample`.
    options
        Further options of :func:`ornstein.plan` by method name.

    Examples
    --------
    >>> import ornstein as orn
    >>> X = np.linspace(-1, 1, 500)[:, None]
    >>> post = orn.models.linear(X, np.sin(X[:, 0]))
    >>> found = orn.compare(post, methods=["exact", "laplace"], batch_size=20)
    >>> [(entry.method, entry.verdict) for entry in found.entries]
    [('exact', 'ok'), ('laplace', 'ok')]
    >>> found.recommendation.method
    'laplace'
    """
    names = checked_request(methods, reference)
    for name in options or {}:
        checks.choice("options", name, tuple(names))
    draws, chains = checks.whole("draws", draws, low=8), checks.whole("chains", chains)
    target = _reference(post, reference, key, progress)
    entries, results = [], {}
    with each("comparing", len(names), progress) as ready:
        for name in names:
            ready(name)
            given = {"batch_size": batch_size, **(options or {}).get(name, {})}
            entry, result = run_one(post, name, given, target, draws, chains, key, dtype)
            entries.append(entry if result is None else _judged(post, entry, result))
            if result is not None:
                results[name] = result
    return Comparison(tuple(entries), target.name, results)


def checked_request(methods: Iterable[str], reference: str) -> list[str]:
    """Names of methods, each known and named once; the reference is known, too."""
    names = [methods] if isinstance(methods, str) else list(methods)
    if not names:
        raise InputError("methods is empty; name some, or leave it out for all.")
    for name in names:
        find(name)
    if len(set(names)) < len(names):
        raise InputError("methods names one method twice.")
    checks.choice("reference", reference, ("laplace", "nuts"))
    return names


def _judged(post: Posterior, entry: Entry, result: Result) -> Entry:
    """The entry with the error of its draws; where they cannot be judged, the note says why."""
    if not result.status.ok:
        return replace(entry, verdict="fail")
    try:
        found = measure(post, result.flat, _WORK)
    except InputError as error:
        return replace(entry, note="; ".join(filter(None, [entry.note, str(error)])))
    mean, sd = (float(np.abs(part).max()) for part in (found.mean_error, found.sd_error))
    entry = replace(entry, verdict=found.verdict)
    if not np.isfinite([mean, sd]).all():  # no peak, or too few draws to see one
        return replace(entry, note=" ".join(filter(None, [entry.note, found.sentence])))
    spread = max((abs(one.error) for one in found.spreads), default=None)
    return replace(entry, mean_error=mean, sd_error=sd, spread_error=spread)


class Reference(NamedTuple):
    """A Gaussian to measure divergences from."""

    name: str
    center: Vector
    cov: Vector


def _reference(post: Posterior, kind: str, key: Key, progress: bool | None) -> Reference:
    plan = make_plan(post, "nuts" if kind == "nuts" else "laplace")
    if kind == "nuts":
        flat = sample_whole(post, plan, key=key, draws=1000, progress=progress).flat
        flat = flat.reshape(-1, plan.dim)
        return Reference("NUTS", flat.mean(axis=0), np.atleast_2d(np.cov(flat, rowvar=False)))
    return laplace_reference(post, plan)


def laplace_reference(post: Posterior, plan: Plan) -> Reference:
    """The Gaussian at a plan's optimum: the posterior itself where the loss is quadratic."""
    plan.refuse_matrices("compare")
    name = "the exact posterior" if post.quadratic else "the Gaussian at the optimum"
    return Reference(name, plan.center, np.linalg.inv(plan.geometry.precision.dense(plan.dim)))


def run_one(
    post: Posterior,
    name: str,
    given: Mapping[str, Any],
    target: Reference,
    draws: int,
    chains: int,
    key: Key,
    dtype: str | None,
) -> tuple[Entry, Result | None]:
    """Plan and run one method; what cannot be planned or run is said in the note."""
    began = perf_counter()
    try:
        plan = make_plan(post, name, **given)
    except OrnsteinError as error:
        return Entry(name, note=_why_not(error), seconds=perf_counter() - began), None
    planning = perf_counter() - began
    settings, note = affordable(plan, draws, chains)
    try:
        result = sample_whole(post, plan, key=key, dtype=dtype, progress=False, **settings)
    except OrnsteinError as error:
        seconds = perf_counter() - began
        return Entry(name, plan.predicted_kl, note=_why_not(error), seconds=seconds), None
    chains, kept, _ = result.flat.shape
    enough = chains * kept > 2 * plan.dim

    def told(value: float) -> float | None:
        return float(value) if enough and math.isfinite(value) else None

    own, own_floor = measured_kl(
        result.flat, plan.center, result.plan.predicted.dense(result.plan.dim)
    )
    ess = min_ess(result.flat) if kept >= 8 else math.nan
    rate = ess / result.seconds if result.seconds > 0 else math.nan
    visited = {"nuts": plan.num_data, "laplace": 0}.get(plan.engine, plan.batch_size)
    per_chain = 1 if plan.engine == "bbvi" else chains
    entry = Entry(
        method=name,
        predicted_kl=result.plan.predicted_kl,
        measured_kl=told(measured_kl(result.flat, target.center, target.cov).value),
        mc_error=told(kl_error(result.flat, target.center, target.cov)),
        divergence_from_prediction=told(own),
        prediction_floor=told(own_floor),
        draws=chains * kept,
        chains=chains,
        steps=result.steps,
        seconds=planning + result.seconds,
        planning_seconds=planning,
        ess_per_second=rate if math.isfinite(rate) else None,
        gradient_evaluations=int(per_chain * result.steps * visited),
        note=note if result.status.ok else result.status.message,
    )
    return entry, result


def _why_not(error: OrnsteinError) -> str:
    return error.reason if isinstance(error, UnstablePlanError) else str(error)


def affordable(plan: Plan, draws: int, chains: int) -> tuple[dict[str, Any], str]:
    """Settings of a run that visits no more rows than one can wait for, and what to say of it."""
    if not plan.is_chain:
        return {"draws": draws, "chains": chains}, ""
    row = max(1.0, plan.dim / 10)  # a row's cost, in those of ten columns
    most = _MOST_ROWS / (chains * plan.thin * plan.batch_size * row)
    if most >= min(draws, _FEWEST_DRAWS):
        return {"draws": min(draws, int(most)), "chains": chains}, ""
    short = _MOST_ROWS / (2 * _MANY_CHAINS * plan.batch_size * row)
    steps = max(plan.rule.min_thin, 100, min(_SHORT_RUN, int(short)))
    rates = modes(plan.gain.dense(plan.dim), plan.geometry.hessian.dense(plan.dim)).rates
    slow = plan.rule.relaxation_steps(rates)
    relaxed = int(np.sum(_RELAXED * slow <= steps))
    note = (
        f"the slowest direction needs {plan.relaxation_steps:.2g} steps: {_MANY_CHAINS:,} chains "
        f"started from the predicted covariance made {steps:,} steps each, in which "
        f"{relaxed} of {plan.dim} directions forget their start"
    )
    stationary = {"warmup": 0, "dispersion": 1.0}
    return {"draws": 1, "chains": _MANY_CHAINS, "thin": steps, **stationary}, note
