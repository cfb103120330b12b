"""What draws of a generalised linear model's coefficients say about new rows."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.special

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector

MODELS = ("linear", "logistic", "softmax", "poisson")
_BLOCK = 2**24  # numbers in a block of rows by draws: 128 MiB


class Coefficients(NamedTuple):
    """Draws of a model's parameters, one per line.

    ``coef`` is (draws, columns), or (draws, classes, columns) for softmax; ``intercept`` is
    (draws,) or (draws, classes); ``noise_scale``, a linear model's, is (draws,) or one number.
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
        own = 2 if model == "softmax" else 1
        values = np.asarray(coef, float)
        flat = values.reshape(-1, *values.shape[values.ndim - own :])
        shift = np.zeros(flat.shape[:-1]) if intercept is None else np.asarray(intercept, float)
        scale = np.asarray(noise_scale, float)
        return cls(
            model, flat, shift.reshape(flat.shape[:-1]), scale.reshape(-1) if scale.ndim else scale
        )


class Summary(NamedTuple):
    """Of every row: the expected target, its standard deviation, and an interval that holds it."""

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
    if draws.model not in ("logistic", "softmax"):
        raise InputError(f"a {draws.model} model has no class probabilities.")
    parts = []
    for rows in _blocks(draws, X):
        eta = predictors(draws, rows)
        if draws.model == "logistic":
            one = scipy.special.expit(eta).mean(axis=0)
            parts.append(np.stack([1 - one, one], axis=1))
        else:
            parts.append(scipy.special.softmax(eta, axis=1).mean(axis=0).T)
    return np.concatenate(parts)


def expectation(draws: Coefficients, X: Vector) -> Vector:
    """The target's mean over draws, of every row of a linear or Poisson model."""
    return np.concatenate([_means(draws, rows).mean(axis=0) for rows in _blocks(draws, X)])


def spread(draws: Coefficients, X: Vector) -> Vector:
    """Standard deviation of every row's target, of a linear or Poisson model: draws and noise."""
    return np.concatenate([_std(draws, _means(draws, rows)) for rows in _blocks(draws, X)])


def _std(draws: Coefficients, means: Vector) -> Vector:
    noise = np.asarray(draws.noise_scale) ** 2
    own = means.mean(axis=0) if draws.model == "poisson" else noise.mean()
    return np.asarray(np.sqrt(means.var(axis=0) + own))


def simulate(draws: Coefficients, X: Vector, rng: np.random.Generator) -> Vector:
    """One target per draw and row: (draws, rows); class numbers for classifiers."""
    if draws.model == "linear":
        means = predictors(draws, X)
        scale = np.broadcast_to(draws.noise_scale, (len(means),))
        return means + scale[:, None] * rng.standard_normal(means.shape)
    if draws.model == "poisson":
        return rng.poisson(np.minimum(_means(draws, X), 1e15)).astype(float)
    uniform = rng.uniform(size=(len(draws.coef), len(X)))
    eta = predictors(draws, X)
    if draws.model == "logistic":
        return (uniform < scipy.special.expit(eta)).astype(float)
    cumulative = np.cumsum(scipy.special.softmax(eta, axis=1), axis=1)
    return (uniform[:, None] > cumulative).sum(axis=1).clip(max=eta.shape[1] - 1).astype(float)


def summarise(draws: Coefficients, X: Vector, interval: float = 0.9, seed: int = 0) -> Summary:
    """Predictive mean, standard deviation and central interval of every row.

    Of a linear or Poisson model; the interval is that of simulated targets.

    Examples
    --------
    >>> draws = Coefficients.gather("linear", np.ones((4000, 1)), noise_scale=2.0)
    >>> found = summarise(draws, np.array([[3.0]]))
    >>> float(found.mean[0]), bool(abs(found.std[0] - 2) < 0.1)
    (3.0, True)
    """
    if draws.model not in ("linear", "poisson"):
        raise InputError(f"a {draws.model} model predicts classes; ask for their probabilities.")
    tail = (1 - mass(interval)) / 2
    rng = np.random.default_rng(seed)
    parts = []
    for rows in _blocks(draws, X):
        means, targets = _means(draws, rows), simulate(draws, rows, rng)
        low, high = np.quantile(targets, [tail, 1 - tail], axis=0)
        parts.append(Summary(means.mean(axis=0), _std(draws, means), low, high))
    return Summary(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def mass(interval: float) -> float:
    """An interval's mass, checked."""
    value = checks.positive("interval", interval)
    if value >= 1:
        raise InputError(f"interval must lie between 0 and 1, found {interval!r}.")
    return value


def _means(draws: Coefficients, X: Vector) -> Vector:
    eta = predictors(draws, X)
    return np.exp(np.minimum(eta, 700.0)) if draws.model == "poisson" else eta


def _blocks(draws: Coefficients, X: Vector) -> list[Vector]:
    """Rows in blocks of bounded memory; one empty block for no rows."""
    outputs = draws.coef.shape[1] if draws.coef.ndim == 3 else 1
    size = max(1, _BLOCK // (len(draws.coef) * outputs))
    return [X[start : start + size] for start in range(0, max(1, len(X)), size)]
