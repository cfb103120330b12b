"""What draws of a generalised linear model's coefficients say about new rows."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.families import FAMILIES, MODELS, Family
from ornstein.models.glm import Glm
from ornstein.results.arviz import mass
from ornstein.results.result import Result

_BLOCK = 2**24  # numbers in a block of rows by draws: 128 MiB


class Coefficients(NamedTuple):
    """Draws of a model's parameters.

    ``coef`` is (draws, columns), or (draws, outputs, columns) for a model of several outputs;
    ``intercept`` is (draws,) or (draws, outputs); ``noise_scale``, which a linear model has, is
    (draws,) or one number.
    """

    model: str
    coef: Vector
    intercept: Vector
    noise_scale: Vector | float = 0.0

    @classmethod
    def gather(
        cls,
        model: str,
        coef: npt.ArrayLike,
        intercept: npt.ArrayLike | None = None,
        noise_scale: npt.ArrayLike = 0.0,
    ) -> "Coefficients":
        """From draws with any leading axes, e.g. (chains, draws, ...)."""
        checks.choice("model", model, MODELS)
        own = 2 if FAMILIES[model]().outputs > 1 else 1
        values = np.asarray(coef, float)
        flat = values.reshape(-1, *values.shape[values.ndim - own :])
        shift = np.zeros(flat.shape[:-1]) if intercept is None else np.asarray(intercept, float)
        scale = np.asarray(noise_scale, float)
        return cls(
            model, flat, shift.reshape(flat.shape[:-1]), scale.reshape(-1) if scale.ndim else scale
        )

    @classmethod
    def of_result(cls, result: Result) -> "Coefficients":
        """Those of a ready-made model's run."""
        post = result.posterior
        if not isinstance(post.model, Glm):
            raise InputError("predictions need a ready-made model: see ornstein.models.")
        result.require_draws()
        params = post.layout.unravel(result.flat)
        noise = np.asarray(post.hyper.get("noise_scale", 0.0), float)
        if result.hyper is not None and "noise_scale" in result.hyper_draws:
            noise = result.hyper_draws["noise_scale"].reshape(-1)
        return cls.gather(post.model.family.name, params["coef"], params.get("intercept"), noise)

    @property
    def family(self) -> Family:
        """What the targets are like."""
        return FAMILIES[self.model].of(self.coef.shape[1])


class Prediction(NamedTuple):
    """For every row: the expected target, its standard deviation, and the ends of an interval."""

    mean: Vector
    std: Vector
    low: Vector
    high: Vector


def predictors(draws: Coefficients, X: Vector) -> Vector:
    """``coef x + intercept``: (draws, rows), or (draws, classes, rows)."""
    if X.ndim != 2 or X.shape[1] != draws.coef.shape[-1]:
        raise InputError(
            f"X must have {draws.coef.shape[-1]} columns, as the model has; found shape {X.shape}."
        )
    return np.asarray(draws.coef @ X.T + draws.intercept[..., None])


def probabilities(draws: Coefficients, X: Vector) -> Vector:
    """Every row's class probabilities averaged over the draws, (rows, classes).

    Examples
    --------
    >>> sure = Coefficients.gather("logistic", [[20.0], [20.0]])
    >>> probabilities(sure, np.array([[1.0], [-1.0]])).round(3).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    chances = draws.family.probabilities
    return np.concatenate([chances(eta).mean(axis=0).T for _, eta in _blocks(draws, X)])


def expectation(draws: Coefficients, X: Vector) -> Vector:
    """The target's mean over draws, for every row of a model of numbers."""
    means = draws.family.expectation
    return np.concatenate([means(eta).mean(axis=0) for _, eta in _blocks(draws, X)])


def spread(draws: Coefficients, X: Vector) -> Vector:
    """Standard deviation of every row's target: that of the draws' means and of the noise."""
    means = draws.family.expectation
    return np.concatenate([_std(draws, means(eta)) for _, eta in _blocks(draws, X)])


def simulate(draws: Coefficients, X: Vector, rng: np.random.Generator) -> Vector:
    """One target per draw and row: (draws, rows); class numbers for classifiers."""
    return draws.family.simulate(predictors(draws, X), draws.noise_scale, rng)


def log_score(draws: Coefficients, X: Vector, y: npt.ArrayLike) -> Vector:
    """Log predictive density of every row's target (class numbers for classifiers).

    Its mean over rows that were held out is the log score: the higher the better.

    Examples
    --------
    >>> fair = Coefficients.gather("logistic", [[0.0], [0.0]])
    >>> np.exp(log_score(fair, np.array([[1.0]]), [1])).tolist()
    [0.5]
    """
    score, target = draws.family.log_score, np.asarray(y)
    if target.shape != (len(X),):
        raise InputError(f"y must have one value for each of {len(X)} rows, found {target.shape}.")
    blocks = _blocks(draws, X)
    return np.concatenate([score(eta, target[at], draws.noise_scale) for at, eta in blocks])


def summarise(draws: Coefficients, X: Vector, interval: float = 0.9, seed: int = 0) -> Prediction:
    """Predictive mean, standard deviation and central interval of every row.

    For models of numbers; the interval is that of simulated targets.

    Examples
    --------
    >>> draws = Coefficients.gather("linear", np.ones((4000, 1)), noise_scale=2.0)
    >>> found = summarise(draws, np.array([[3.0]]))
    >>> float(found.mean[0]), bool(abs(found.std[0] - 2) < 0.1)
    (3.0, True)
    """
    share, rng, family = mass(interval), np.random.default_rng(seed), draws.family
    parts = []
    for _, eta in _blocks(draws, X):
        means = family.expectation(eta)
        ends = family.interval(eta, draws.noise_scale, share, rng)
        parts.append(Prediction(means.mean(axis=0), _std(draws, means), *ends))
    return Prediction(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _std(draws: Coefficients, means: Vector) -> Vector:
    own = draws.family.variance(means, draws.noise_scale)
    return np.asarray(np.sqrt(means.var(axis=0) + own.mean(axis=0)))


def _blocks(draws: Coefficients, X: Vector) -> Iterator[tuple[slice, Vector]]:
    """Rows in blocks of bounded memory, with their predictors; one empty block for no rows."""
    outputs = draws.coef.shape[1] if draws.coef.ndim == 3 else 1
    size = max(1, _BLOCK // (len(draws.coef) * outputs))
    for start in range(0, max(1, len(X)), size):
        block = slice(start, start + size)
        yield block, predictors(draws, X[block])
