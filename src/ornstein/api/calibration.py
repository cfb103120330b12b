"""Simulation-based calibration: true parameters that were simulated, looked for among draws."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np

from ornstein._base import checks
from ornstein._base.errors import DivergenceWarning, InputError, OrnsteinError
from ornstein._base.progress import each
from ornstein._base.types import Key, PyTree, Vector
from ornstein.api.sampling import sample_whole
from ornstein.models.glm import ContinuedGlm, Glm, prior_mean
from ornstein.models.posterior import Posterior, as_posterior
from ornstein.results import predictive
from ornstein.results.arviz import ess
from ornstein.results.calibration import Calibration
from ornstein.results.noise import spaced

_DRAWS = 200  # a chain, unless it is said
_FEWEST = 20  # runs

Rng: TypeAlias = np.random.Generator
Simulator: TypeAlias = tuple[Callable[[Rng], PyTree], Callable[[PyTree, Rng], Posterior]]
Sampler: TypeAlias = Callable[[Posterior, int], Any]


def calibrate(
    model: Posterior | Simulator,
    runs: int = 100,
    sampler: Sampler | None = None,
    key: Key = 0,
    progress: bool | None = None,
    **options: Any,
) -> Calibration:
    """Whether a sampler's intervals contain true parameters as often as they should.

    Parameters are drawn from the prior, data are simulated with them, and the posterior of these is
    sampled, many times. If the draws are the posterior's, the true value's rank among independent
    draws is uniform, whatever the model (Talts et al. 2018).

    Parameters
    ----------
    model
        The posterior of a ready-made model (:mod:`ornstein.models`): its prior, its rows and its
        noise are used, its targets are not. Or a pair of functions: ``prior(rng) -> params``, as
        the posterior samples them, and ``simulate(params, rng) -> Posterior``; ``rng`` is a NumPy
        generator.
    runs
        Simulated data sets, 20 or more.
    sampler
        ``(post, key) -> draws``, (chains, draws, D) or (draws, D), to judge another sampler;
        :func:`ornstein.sample` if not given.
    key, progress
        As for :func:`ornstein.sample`.
    **options
        Of :func:`ornstein.sample` and :func:`ornstein.plan`; 200 draws a chain if not given.

    Examples
    --------
    >>> import ornstein as orn
    >>> X = np.random.default_rng(0).normal(size=(100, 1))
    >>> found = orn.calibrate(orn.models.linear(X, X[:, 0]), runs=20, batch_size=20)
    >>> found.verdict, found.ranks.shape
    ('ok', (20, 1))
    """
    runs = checks.whole("runs", runs, low=_FEWEST)
    if sampler is not None and not callable(sampler):
        raise InputError(
            f"sampler must be a function (post, key) -> draws, found {checks.shown(sampler)}."
        )
    if sampler is not None and options:
        raise InputError(f"{sorted(options)[0]!r} is an option of sample, but sampler was given.")
    for name in ("plan", "checkpoint"):
        if name in options:
            raise InputError(f"{name} belongs to one data set, and calibrate samples many.")
    prior, simulate = _simulator(model)
    draw = sampler or partial(_sampled, options={"draws": _DRAWS, **options})
    seeds = np.random.SeedSequence(_entropy(key)).spawn(runs)
    ranks: list[Vector] = []
    kept: list[int] = []
    failures: list[str] = []
    labels: tuple[str, ...] = ()
    with each("calibrating", runs, progress) as ready:
        for number, seed in enumerate(seeds):
            ready(f"run {number + 1} of {runs}")
            rng = np.random.default_rng(seed)
            params = prior(rng)
            post = _simulated(simulate, params, rng)
            try:
                draws = _checked(draw(post, int(rng.integers(2**32))), post)
            except InputError:
                raise
            except OrnsteinError as error:
                failures.append(str(error))
                continue
            some = _independent(draws)
            ranks.append(_ranks(post.layout.ravel(params), some, rng))
            kept.append(len(some))
            labels = tuple(post.labels)
    if not ranks:
        raise OrnsteinError(f"all {runs} runs failed, the first with: {failures[0]}")
    return Calibration(np.stack(ranks), labels, float(np.mean(kept)), tuple(failures))


def _entropy(key: Key) -> list[int]:
    """A key's bits, as NumPy takes them."""
    return [int(word) for word in np.ravel(jax.random.key_data(checks.random_key(key)))]


def _simulator(model: Posterior | Simulator) -> Simulator:
    if isinstance(model, Posterior):
        return _of_ready_made(model)
    if len(_functions(model)) == 2:
        return model
    raise InputError(
        "model must be the posterior of a ready-made model, or a pair of functions, prior(rng) -> "
        f"params and simulate(params, rng) -> Posterior; found {checks.shown(model)}."
    )


def _functions(model: object) -> list[Any]:
    """The functions that a pair has."""
    return list(filter(callable, model)) if isinstance(model, tuple) else []


def _of_ready_made(post: Posterior) -> Simulator:
    """Draws of its prior, and its rows with targets of its family."""
    glm = post.model if post.known else None
    if not isinstance(glm, Glm) or isinstance(glm, ContinuedGlm):
        raise InputError(
            "model is not a ready-made one, so data cannot be simulated from it. Give a pair of "
            "functions instead: prior(rng) -> params and simulate(params, rng) -> Posterior."
        )
    if post.on_disk or "w" in post.data:
        what = "rows on disk" if post.on_disk else "row weights, which simulated targets have not"
        raise InputError(f"model has {what}: calibrate a model of some rows in memory instead.")
    sd = 1 / np.sqrt(np.asarray(post.hyper["prior_precision"], float))
    noise = np.asarray(post.hyper.get("noise_scale", 0.0), float)
    family, y = glm.family, post.data["y"]

    def prior(rng: Rng) -> PyTree:
        return post.layout.unravel(prior_mean(post.hyper) + sd * rng.standard_normal(post.dim))

    def simulate(params: PyTree, rng: Rng) -> Posterior:
        intercept = np.asarray(params["intercept"])[None] if glm.intercept else None
        coef = np.asarray(params["coef"])[None]
        beside = {one.name: np.asarray(params[one.name])[None] for one in family.auxiliary}
        draws = predictive.Coefficients.gather(family.name, coef, intercept, noise, beside)
        rows = predictive.NewRows(np.asarray(post.data["x"], float), post.data.get("offset"))
        target = predictive.simulate(draws, rows, rng)[0]
        return post.with_data({**post.data, "y": target.astype(y.dtype)})

    return prior, simulate


def _simulated(simulate: Callable[[PyTree, Rng], Posterior], params: PyTree, rng: Rng) -> Posterior:
    post = as_posterior(simulate(params, rng)).at(params)
    checks.same_layout("what prior returns", params, post.layout)
    return post


def _sampled(post: Posterior, key: int, options: dict[str, Any]) -> Vector:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        result = sample_whole(post, key=key, progress=False, **options)
    if not result.status.ok:
        raise OrnsteinError(result.status.message)
    return result.flat


def _checked(draws: Any, post: Posterior) -> Vector:
    """A sampler's draws, (chains, draws, D)."""
    found = np.asarray(draws)
    fits = found.dtype.kind in "fiu" and found.ndim in (2, 3) and found.shape[-1] == post.dim
    if not fits or found.shape[-2] < 8:
        raise InputError(
            f"sampler must return 8 or more draws, (chains, draws, {post.dim}) or (draws, "
            f"{post.dim}), found shape {found.shape} of {found.dtype}."
        )
    if not np.isfinite(found).all():
        raise InputError("sampler returned draws with NaN or infinite values.")
    return found.reshape(-1, *found.shape[-2:]).astype(float)


def _independent(draws: Vector) -> Vector:
    """As many draws, evenly spaced, as all chains' are worth for the slowest parameter."""
    flat = draws.reshape(-1, draws.shape[-1])
    worth = np.nan_to_num(ess(draws), nan=len(flat))
    return spaced(flat, max(1, int(worth.min())))


def _ranks(truth: Vector, draws: Vector, rng: Rng) -> Vector:
    """The share of draws below the truth; uniform for as many draws as there are."""
    below, alike = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    places = rng.uniform(size=len(truth)) * (alike + 1)
    share = (below + places) / (len(draws) + 1)
    return np.asarray(np.clip(share, 1e-12, 1 - 1e-12))
