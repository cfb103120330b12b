"""What draws of a generalised linear model's coefficients say about new rows."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.families import FAMILIES, MODELS, Family
from ornstein.models.glm import Glm
from ornstein.results.arviz import mass
from ornstein.results.result import Result

_BLOCK = 2**22  # numbers in a block of rows by draws: 32 MiB, of which a score takes several


class Coefficients(NamedTuple):
    """Draws of a model's parameters.

    ``coef`` is (draws, columns), or (draws, outputs, columns) for a model of several outputs;
    ``intercept`` is (draws,) or (draws, outputs); ``noise_scale``, which a linear model has, is
    (draws,) or one number; ``auxiliary`` are the family's other parameters, as they are sampled.
    """

    model: str
    coef: Vector
    intercept: Vector
    noise_scale: Vector | float = 0.0
    auxiliary: Mapping[str, Vector] = {}

    @classmethod
    def gather(
        cls,
        model: str,
        coef: npt.ArrayLike,
        intercept: npt.ArrayLike | None = None,
        noise_scale: npt.ArrayLike = 0.0,
        auxiliary: Mapping[str, Vector] = MappingProxyType({}),
    ) -> "Coefficients":
        """From draws with any leading axes, e.g. (chains, draws, ...)."""
        checks.choice("model", model, MODELS)
        own = 2 if FAMILIES[model]().outputs > 1 else 1
        values = np.asarray(coef, float)
        lead = values.ndim - own
        flat = values.reshape(int(np.prod(values.shape[:lead])), *values.shape[lead:])
        shift = np.zeros(flat.shape[:-1]) if intercept is None else np.asarray(intercept, float)
        scale = np.asarray(noise_scale, float)
        flat_scale = scale.reshape(-1) if scale.ndim else scale
        beside = {
            name: np.asarray(leaf, float).reshape(len(flat), *np.shape(leaf)[lead:])
            for name, leaf in auxiliary.items()
        }
        return cls(model, flat, shift.reshape(flat.shape[:-1]), flat_scale, beside)

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
        family = post.model.family
        beside = {one.name: params[one.name] for one in family.auxiliary}
        return cls.gather(family.name, params["coef"], params.get("intercept"), noise, beside)

    def thinned(self, count: int) -> "Coefficients":
        """At most so many of the draws, evenly spaced."""
        if len(self.coef) <= count:
            return self
        return self.at(evenly_spaced(len(self.coef), count))

    def at(self, numbers: npt.NDArray[np.intp]) -> "Coefficients":
        """The draws of these numbers."""
        scale = np.asarray(self.noise_scale, float)
        return Coefficients(
            self.model,
            self.coef[numbers],
            self.intercept[numbers],
            scale[numbers] if scale.ndim else self.noise_scale,
            {name: leaf[numbers] for name, leaf in self.auxiliary.items()},
        )

    @property
    def family(self) -> Family:
        """What the targets are like."""
        return FAMILIES[self.model].of_draws(self.coef, self.auxiliary)

    @property
    def numbers(self) -> dict[str, Vector]:
        """What the family's functions take beside the predictor, draws along the first axis."""
        beside = {name: leaf[:, None] for name, leaf in self.auxiliary.items()}
        return {"noise_scale": np.reshape(np.asarray(self.noise_scale, float), (-1, 1)), **beside}


def evenly_spaced(made: int, count: int) -> npt.NDArray[np.intp]:
    """Numbers of at most ``count`` of so many draws."""
    return np.linspace(0, made - 1, min(made, count)).astype(np.intp)


class Offsets(Protocol):
    """What is added to predictors, (draws, rows), computed for the rows that are asked for.

    ``offset`` is the part of it that is known, (rows,).
    """

    offset: Vector | None

    def __getitem__(self, place: Any, /) -> Vector: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vector: ...


class NewRows(NamedTuple):
    """Rows to predict, with what is added to their predictors and how many trials they have.

    An offset is (rows,), or (draws, rows).
    """

    x: Vector
    offset: Vector | Offsets | None = None
    trials: Vector | None = None

    @property
    def without_effects(self) -> "NewRows":
        """With the known offset only."""
        known = self.offset
        if known is None or isinstance(known, np.ndarray):
            return self
        return self._replace(offset=known.offset)


AnyNewRows: TypeAlias = Vector | NewRows


class Prediction(NamedTuple):
    """For every row: the expected target, its standard deviation, and the ends of an interval."""

    mean: Vector
    std: Vector
    low: Vector
    high: Vector


def predictors(draws: Coefficients, X: AnyNewRows) -> Vector:
    """``coef x + intercept``: (draws, rows), or (draws, classes, rows)."""
    rows = _rows(X)
    if rows.x.ndim != 2 or rows.x.shape[1] != draws.coef.shape[-1]:
        raise InputError(
            f"X must have {draws.coef.shape[-1]} columns, as the model has; found shape "
            f"{rows.x.shape}."
        )
    eta = np.asarray(draws.coef @ rows.x.T + draws.intercept[..., None])
    return eta if rows.offset is None else eta + rows.offset


def probabilities(draws: Coefficients, X: AnyNewRows) -> Vector:
    """Every row's class probabilities averaged over the draws, (rows, classes).

    Examples
    --------
    >>> sure = Coefficients.gather("logistic", [[20.0], [20.0]])
    >>> probabilities(sure, np.array([[1.0], [-1.0]])).round(3).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    chances = draws.family.probabilities
    parts = [chances(eta, numbers).mean(axis=0).T for _, eta, numbers in blocks(draws, X)]
    return np.concatenate(parts)


def expected_by_draw(draws: Coefficients, X: AnyNewRows) -> Vector:
    """The target's mean by draw and row; of two classes the chance of the second.

    Of more classes all chances: (draws, classes, rows).
    """
    rows, family = _rows(X), draws.family
    eta, numbers = predictors(draws, rows), _numbers(draws, rows)
    if not family.most_classes:
        return family.expectation(eta, numbers)
    chances = family.probabilities(eta, numbers)
    return chances[:, 1] if chances.shape[1] == 2 else chances


def expectation(draws: Coefficients, X: AnyNewRows) -> Vector:
    """The target's mean over draws, for every row of a model of numbers."""
    means = draws.family.expectation
    found = blocks(draws, X)
    return np.concatenate([means(eta, numbers).mean(axis=0) for _, eta, numbers in found])


def spread(draws: Coefficients, X: AnyNewRows) -> Vector:
    """Standard deviation of every row's target: that of the draws' means and of the noise."""
    family = draws.family
    return np.concatenate([_std(family, eta, numbers) for _, eta, numbers in blocks(draws, X)])


def simulate(draws: Coefficients, X: AnyNewRows, rng: np.random.Generator) -> Vector:
    """One target per draw and row: (draws, rows); class numbers for classifiers."""
    return draws.family.simulate(predictors(draws, X), _numbers(draws, _rows(X)), rng)


def log_density(draws: Coefficients, X: AnyNewRows, y: npt.ArrayLike) -> Vector:
    """Log-likelihood of every row's target by every draw: (draws, rows).

    Memory grows with both: give rows in blocks where there are many.
    """
    found = predictors(draws, X)
    return draws.family.log_density(found, np.asarray(y), _numbers(draws, _rows(X)))


def log_score(draws: Coefficients, X: AnyNewRows, y: npt.ArrayLike) -> Vector:
    """Log predictive density of every row's target (class numbers for classifiers).

    Its mean over rows that were held out is the log score: the higher the better.

    Examples
    --------
    >>> fair = Coefficients.gather("logistic", [[0.0], [0.0]])
    >>> np.exp(log_score(fair, np.array([[1.0]]), [1])).tolist()
    [0.5]
    """
    score, target = draws.family.log_score, np.asarray(y)
    count = len(_rows(X).x)
    if target.shape != (count,):
        raise InputError(f"y must have one value for each of {count} rows, found {target.shape}.")
    found = blocks(draws, X)
    return np.concatenate([score(eta, target[at], numbers) for at, eta, numbers in found])


def summarise(
    draws: Coefficients, X: AnyNewRows, interval: float = 0.9, seed: int = 0
) -> Prediction:
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
    for _, eta, numbers in blocks(draws, X):
        means = family.expectation(eta, numbers)
        ends = family.interval(eta, numbers, share, rng)
        parts.append(Prediction(means.mean(axis=0), _std(family, eta, numbers), *ends))
    return Prediction(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _std(family: Family, eta: Vector, numbers: Mapping[str, Any]) -> Vector:
    own = family.variance(eta, numbers).mean(axis=0)
    return np.asarray(np.sqrt(family.expectation(eta, numbers).var(axis=0) + own))


def _rows(X: AnyNewRows) -> NewRows:
    return X if isinstance(X, NewRows) else NewRows(X)


def _numbers(draws: Coefficients, rows: NewRows) -> dict[str, Any]:
    trials = {} if rows.trials is None else {"trials": rows.trials[None]}
    return {**draws.numbers, **trials}


def blocks(draws: Coefficients, X: AnyNewRows) -> Iterator[tuple[slice, Vector, dict[str, Any]]]:
    """Rows in blocks of bounded memory, with their predictors; one empty block for no rows."""
    rows = _rows(X)
    outputs = draws.coef.shape[1] if draws.coef.ndim == 3 else 1
    size = max(1, _BLOCK // (len(draws.coef) * outputs))
    for start in range(0, max(1, len(rows.x)), size):
        block = slice(start, start + size)
        beside = (None if part is None else part[..., block] for part in rows[1:])
        some = NewRows(rows.x[block], *beside)
        yield block, predictors(draws, some), _numbers(draws, some)
