"""How good predictions are: scores of rows that were not learned from, beside the trivial guess."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.optimize
import scipy.special
import scipy.stats

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.families import Family
from ornstein.results import predictive
from ornstein.results.predictive import AnyNewRows, Coefficients, NewRows
from ornstein.storage import codec

_INTERVAL = 0.9  # whose coverage is counted
_BINS = 10  # of predicted probabilities
_MOST_GUESSED = 500  # targets that the trivial guess is fitted to
_MOST_PAIRED = 2_000  # waits of which all pairs are compared
_REPEATED = 400  # draws of a trivial guess, whose intervals are those of simulated targets
_WIDEST = 30.0  # predictor of a trivial guess

MEANINGS = {
    "R^2": "share of the variance explained; 1 is perfect",
    "RMSE": "root mean square error, in the target's unit",
    "log score": "mean log density of what happened; higher is better",
    "90% coverage": "share of rows inside 90% intervals; 0.9 is right",
    "accuracy": "share of rows whose most probable class is right",
    "log loss": "mean surprise of what happened; lower is better",
    "AUC": "chance to rank a row of the class above another; 0.5 is guessing",
    "calibration error": "how far probabilities are from shares; 0 is right",
    "classes off": "mean distance to the right class, in classes",
    "concordance": "share of pairs of waits in the right order; 0.5 is guessing",
}
"""What every score says."""


@codec.register
@dataclass(frozen=True)
class Scores:
    """Scores of predictions, and of a guess that does not look at the columns.

    Attributes
    ----------
    values, baseline
        By name, as in :data:`MEANINGS`. The baseline predicts every row by the distribution of the
        targets that were learned from; it is empty where those are not known.
    rows
        How many were scored.
    how
        Which rows these were.
    """

    values: dict[str, float]
    baseline: dict[str, float] = field(default_factory=dict)
    rows: int = 0
    how: str = ""

    def table(self) -> pd.DataFrame:
        """A line for every score."""
        found = pd.DataFrame({"model": pd.Series(self.values)})
        if self.baseline:
            found["guess without columns"] = pd.Series(self.baseline)
        return found.assign(meaning=[MEANINGS[name] for name in found.index])

    @property
    def better(self) -> bool:
        """Whether the model predicts what happens better than the guess does."""
        if not self.baseline:
            return True
        if "log loss" in self.values:
            return self.values["log loss"] < self.baseline["log loss"]
        return self.values["log score"] > self.baseline["log score"]

    def __str__(self) -> str:
        """A line for every score."""
        head = f"{self.rows:,} rows{f', {self.how}' if self.how else ''}"
        parts = [
            f"{name} {value:.3g}"
            + (f" (guess {self.baseline[name]:.3g})" if name in self.baseline else "")
            for name, value in self.values.items()
        ]
        return f"{head}: {', '.join(parts)}"


def score(
    draws: Coefficients,
    X: AnyNewRows,
    y: npt.ArrayLike,
    learned_from: npt.ArrayLike | None = None,
    scale: float = 1.0,
    how: str = "",
) -> Scores:
    """Score predictions of rows whose targets are known.

    Numbers and counts have R^2, root mean square error, log score and the coverage of 90 %
    intervals; classes accuracy, log loss, area under the curve and calibration error, ordered ones
    also how many classes they are off; censored waits concordance and log score.

    Parameters
    ----------
    draws
        Of the model's coefficients.
    X, y
        Rows and targets (class numbers for classifiers; counts of successes for binomial rows).
    learned_from
        Targets the model was fitted to, for the baseline.
    scale
        The target's standard deviation, if ``y`` was standardised by it.
    how
        Which rows these are, in words.

    Examples
    --------
    >>> draws = Coefficients.gather("linear", np.ones((100, 1)), noise_scale=1.0)
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1))
    >>> found = score(draws, X, X[:, 0] + rng.normal(size=500), learned_from=X[:, 0])
    >>> [name for name in found.values]
    ['R^2', 'RMSE', 'log score', '90% coverage']
    >>> bool(0.4 < found.values["R^2"] < 0.6), found.better
    (True, True)
    """
    rows = X if isinstance(X, NewRows) else NewRows(np.asarray(X))
    target = np.asarray(y)
    if target.shape != (len(rows.x),) or not len(target):
        raise InputError(
            f"y must have one value for each of {len(rows.x)} rows, found {target.shape}."
        )
    values = _of(draws, rows, target, scale)
    baseline: dict[str, float] = {}
    if learned_from is not None:
        guess = trivial(draws.family, np.asarray(learned_from), rows.trials, target)
        without = rows.without_effects._replace(x=rows.x[:, :0])
        baseline = _of(guess, without, target, scale)
    return Scores(_known(values), _known(baseline), len(target), how)


def _known(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if not np.isnan(value)}


def _of(draws: Coefficients, rows: NewRows, y: Vector, scale: float) -> dict[str, float]:
    family = draws.family
    if family.most_classes:
        chances = predictive.probabilities(draws, rows)
        return of_classes(chances, y.astype(int), ordered=family.name == "ordinal")
    log_score = float(predictive.log_score(draws, rows, y).mean() - np.log(scale))
    if (y < 0).any() and not family.scaled:
        waits = {"concordance": _concordance(predictive.expectation(draws, rows), y)}
        return {**waits, "log score": log_score}
    found = predictive.summarise(draws, rows, _INTERVAL)
    squares, total = np.mean((y - found.mean) ** 2), np.mean((y - y.mean()) ** 2)
    inside = (found.low <= y) & (y <= found.high)
    return {
        "R^2": float(1 - squares / total) if total > 0 else float("nan"),
        "RMSE": float(np.sqrt(squares) * scale),
        "log score": log_score,
        "90% coverage": float(inside.mean()),
    }


def of_classes(chances: Vector, y: npt.NDArray[np.intp], ordered: bool = False) -> dict[str, float]:
    """Scores of class probabilities, (rows, classes), given the class numbers that came true."""
    best, happened = chances.argmax(axis=1), chances[np.arange(len(y)), y]
    found = {
        "accuracy": float(np.mean(best == y)),
        "log loss": float(-np.log(np.maximum(happened, np.finfo(float).tiny)).mean()),
        "AUC": _area(chances, y),
        "calibration error": _calibration_error(chances.max(axis=1), best == y),
    }
    return {**found, "classes off": float(np.abs(best - y).mean())} if ordered else found


def _area(chances: Vector, y: npt.NDArray[np.intp]) -> float:
    """Area under the receiver's curve; of several classes the mean of each against the rest."""
    areas = []
    for number in range(1 if chances.shape[1] == 2 else 0, chances.shape[1]):
        true = y == number
        pairs = int(true.sum()) * int((~true).sum())
        if pairs:
            ranks = scipy.stats.rankdata(chances[:, number])[true].sum()
            areas.append((ranks - true.sum() * (true.sum() + 1) / 2) / pairs)
    return float(np.mean(areas)) if areas else float("nan")


def _calibration_error(sure: Vector, right: Vector) -> float:
    """Mean distance of stated probabilities of the best class from how often it is right."""
    parts = np.array_split(np.argsort(sure, kind="stable"), _BINS)
    gaps = [len(part) * abs(sure[part].mean() - right[part].mean()) for part in parts if part.size]
    return float(np.sum(gaps) / len(sure))


def _concordance(expected: Vector, y: Vector) -> float:
    """Share of pairs in order, among those of which it is known which wait was longer."""
    some = np.arange(0, len(y), -(-len(y) // _MOST_PAIRED))
    time, ended, expected = np.abs(y[some]), y[some] > 0, expected[some]
    first = ended[:, None] & (time[:, None] < time[None])
    if not first.any():
        return float("nan")
    order = np.sign(expected[None] - expected[:, None])
    return float(0.5 + 0.5 * order[first].mean())


def trivial(
    family: Family, y: Vector, trials: Vector | None = None, counts: Vector | None = None
) -> Coefficients:
    """The same family without columns: every row's target has the distribution of ``y``."""
    once = _fitted_to(family, y, trials, counts)
    return once.at(np.zeros(_REPEATED, np.intp))


def _fitted_to(
    family: Family, y: Vector, trials: Vector | None, counts: Vector | None
) -> Coefficients:
    some = y[:: -(-len(y) // _MOST_GUESSED)]
    if family.most_classes:
        return _of_shares(family, y.astype(int))
    if trials is not None and counts is not None:
        share = np.clip(y.mean(), 1e-6, 1 - 1e-6)
        return Coefficients(family.name, np.zeros((1, 0)), scipy.special.logit([share]))
    if family.scaled and not family.auxiliary:
        spread = max(float(y.std()), np.finfo(float).tiny)
        return Coefficients(family.name, np.zeros((1, 0)), np.array([y.mean()]), spread)
    names = [one.name for one in family.auxiliary]

    def numbers(raw: Vector) -> dict[str, Vector]:
        return {name: np.array([value]) for name, value in zip(names, raw, strict=True)}

    def loss(at: Vector) -> float:
        eta = np.full((1, len(some)), np.clip(at[0], -_WIDEST, _WIDEST))
        own = {name: value[:, None] for name, value in numbers(np.clip(at[1:], -9, 9)).items()}
        found = -float(family.log_score(eta, some, own).mean())
        return found if np.isfinite(found) else 1e9

    means = family.auxiliary_means(some)
    start = [np.asarray(means[name], float).item() for name in names]
    etas = np.linspace(-_WIDEST, _WIDEST, 21)
    best = min(etas, key=lambda eta: loss(np.array([eta, *start])))
    at = scipy.optimize.minimize(
        loss, [best, *start], method="Nelder-Mead", options={"maxiter": 100, "xatol": 1e-3}
    ).x
    return Coefficients(family.name, np.zeros((1, 0)), at[:1], 0.0, numbers(at[1:]))


def _of_shares(family: Family, y: npt.NDArray[np.intp]) -> Coefficients:
    """Class shares, every class given half a row more than it has."""
    classes = max(2, family.outputs, int(getattr(family, "classes", 0)))
    counts = np.bincount(y, minlength=classes) + 0.5
    shares = counts / counts.sum()
    if family.outputs > 1:
        return Coefficients(family.name, np.zeros((1, classes, 0)), np.log(shares)[None])
    if not family.auxiliary:
        return Coefficients(family.name, np.zeros((1, 0)), scipy.special.logit(shares[1:2]))
    cuts = scipy.special.logit(np.cumsum(shares)[:-1])
    raw = np.concatenate([cuts[:1], np.log(np.diff(cuts))])
    name = family.auxiliary[0].name
    return Coefficients(family.name, np.zeros((1, 0)), np.zeros(1), 0.0, {name: raw[None]})
