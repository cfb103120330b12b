"""How often 90 % intervals of mixed models cover the truth, over simulated tables.

Tables of one study have the same shape and priors, and so share compiled code. Truths are fixed and
priors wide, so that intervals should cover nearly nine times in ten.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.progress import track
from scipy.optimize import minimize_scalar
from scipy.special import expit

import ornstein as orn
from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.curvature.arrow_anchor import MixedAnchor, prior_of

LEVEL = 0.9
FAMILIES = (
    "gaussian",
    "bernoulli",
    "poisson",
    "binomial",
    "negative_binomial",
    "zero_inflated_poisson",
    "hurdle_poisson",
    "gamma",
    "exponential",
    "weibull",
    "beta",
    "student_t",
    "ordinal",
)
_TABLES, _DRAWS, _CHAINS = 200, 250, 2
_FEW_ROWS = 300, 4  # groups, and rows of each
_OTHERWISE = 30, 10
_SD, _SLOPES, _INTERCEPT = 1.0, (0.5, -0.5), 0.3


def run(quick: bool = False, only: Sequence[str] = ()) -> dict[str, Any]:
    """Binary rows, four a group, with the evidence's maximum; then families, all or some."""
    count = 4 if quick else _TABLES
    few = covered("bernoulli", *_FEW_ROWS, _SD, count, evidence=True)
    asked = only or (FAMILIES[:2] if quick else FAMILIES)
    families = {family: covered(family, *_OTHERWISE, 0.5, count) for family in asked}
    return {"quick": quick, "level": LEVEL, "few_rows": few, "families": families}


def covered(
    family: str, groups: int, rows: int, sd: float, count: int, evidence: bool = False
) -> dict[str, Any]:
    """The share of tables whose interval covers, by name; and estimates of the groups' sd."""
    truth = {"x0": _SLOPES[0], "x1": _SLOPES[1], "sd(g)": sd}
    if family not in ("ordinal", "zero_inflated_poisson"):
        truth["intercept"] = _INTERCEPT
    hits: dict[str, list[bool]] = {name: [] for name in truth}
    means, points = [], []
    for seed in track(range(count), f"{family}, {rows} rows a group", transient=True):
        post = simulated(family, groups, rows, sd, seed)
        plan = orn.plan(post)
        result = orn.sample(post, plan, key=seed, chains=_CHAINS, draws=_DRAWS, progress=False)
        for name, value in truth.items():
            low, high = np.quantile(result[name], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            hits[name].append(bool(low < value < high))
        means.append(float(result["sd(g)"].mean()))
        if evidence:
            assert isinstance(plan.anchor, MixedAnchor)
            points.append(most_evident(post, plan.anchor))
    shares = {name: float(np.mean(own)) for name, own in hits.items()}
    found: dict[str, Any] = {"groups": groups, "rows": rows, "tables": count, "covered": shares}
    found |= {"sd": sd, "posterior_mean": _spread(means)}
    return found | ({"evidence_maximum": _spread(points)} if evidence else {})


def _spread(values: list[float]) -> list[float]:
    """Mean and standard deviation over the tables."""
    return [float(np.mean(values)), float(np.std(values))]


def simulated(family: str, groups: int, rows: int, sd: float, seed: int) -> orn.MixedPosterior:
    """Intercepts of groups and two columns."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(groups), rows)
    n, X = len(g), rng.normal(size=(len(g), 2))
    eta = _INTERCEPT + X @ _SLOPES + sd * rng.normal(size=groups)[g]
    y, more = _target(family, eta, n, rng)
    prior = orn.HalfNormal(1.5)
    noise = orn.HalfNormal(3.0) if family == "gaussian" else None
    # The default follows the target's spread, and so would be compiled for every table.
    own = {"noise_scale": orn.Normal(-0.5, 1.5)} if family == "student_t" else None
    return orn.models.mixed(
        X,
        y,
        {"g": g},
        family,
        feature_names=["x0", "x1"],
        prior_scale=3.0,
        sd_prior=prior,
        noise_prior=noise,
        priors=own,
        **more,
    )


def _target(
    family: str, eta: Vector, n: int, rng: np.random.Generator
) -> tuple[Any, dict[str, Any]]:
    rest = rng.uniform(size=n)
    mean = np.exp(eta)
    match family:
        case "gaussian":
            return eta + rng.normal(size=n), {}
        case "bernoulli":
            return (rest < expit(eta)).astype(int), {}
        case "poisson":
            return rng.poisson(mean), {}
        case "binomial":
            return rng.binomial(5, expit(eta)), {"trials": np.full(n, 5)}
        case "negative_binomial":
            return rng.poisson(mean * rng.gamma(2.0, size=n) / 2), {}
        case "zero_inflated_poisson":
            return rng.poisson(mean) * (rest < 0.7), {}
        case "hurdle_poisson":
            return np.where(rest < 0.3, 0, truncated_poisson(mean, rng)), {}
        case "gamma":
            return mean * rng.gamma(3.0, size=n) / 3, {}
        case "exponential":
            return mean * rng.exponential(size=n), {}
        case "weibull":
            return mean * rng.exponential(size=n) ** 0.7, {}
        case "beta":
            made = rng.beta(6 * expit(eta), 6 * expit(-eta))
            return np.clip(made, 1e-6, 1 - 1e-6), {}
        case "student_t":
            return eta + 0.5 * rng.standard_t(4, size=n), {}
        case _:
            return np.digitize(eta + rng.logistic(size=n), [-1.0, 0.5, 1.5]), {}


def truncated_poisson(mean: Vector, rng: np.random.Generator) -> Any:
    """Counts above zero: the first arrival is in the unit of time, the rest are after it."""
    first = -np.log1p(-rng.uniform(size=len(mean)) * -np.expm1(-mean)) / mean
    return 1 + rng.poisson(mean * (1 - first))


def most_evident(post: orn.MixedPosterior, anchor: MixedAnchor) -> float:
    """The groups' sd that maximises Laplace's approximation of the evidence, as lme4 does."""
    spec = post.specification

    def negative(log_sd: float) -> float:
        lam = anchor.lam.copy()
        lam[0] = log_sd
        here = anchor.moved(post, lam)
        with double_precision():
            at, phi, b = (jnp.asarray(part) for part in (lam, here.phi, here.b))
            energy = float(spec.head_energy(at, phi, prior_of(post)))
            energy += float(spec.leaf_energy(at, b).sum()) + spec.leaf.levels * log_sd
            energy += float(spec.power(at)) * here.loss
        return energy + 0.5 * here.precision(post).logdet(spec.dim)

    found = minimize_scalar(negative, bounds=(-3.0, 1.5), method="bounded", options={"xatol": 0.01})
    return float(np.exp(found.x))
