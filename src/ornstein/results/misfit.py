"""Does a model fit its rows? Judged by what it would simulate itself, on the same rows.

Every statistic is compared with its values for targets drawn from the fitted model, to which the
model is fitted again by a Newton step. So thresholds follow the number of rows and columns, and
rare levels are not mistaken for misfit. What chance does not explain counts if it matters, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.models.families.numeric import Counts
from ornstein.models.hyper_targets import DrawnHyper
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.results.chance import exceeds
from ornstein.results.fitted_rows import FittedRows, fitted_rows

SIMULATIONS = 100
_LEVEL = 0.01 / 5  # of false alarms, of each of five statistics that share one in a hundred
_FARTHER = 1.25  # than the farthest of all simulated rows: an outlier
_INFORMED = 0.5  # share of a coefficient's precision that the rows must give
_FEWEST_VALUES = 5  # distinct ones of a column that may bend
_COMMONEST = 0.5  # share of the rows with one value, of a column that may bend
_BLIND = 0.5  # error of an interval's width that must be seen

INTERVALS, SPREAD, OUTLIERS, TAILS = "intervals", "spread", "outliers", "tails"
BEND, ZEROS, SEPARATION = "bend", "zeros", "separation"
"""Kinds of findings."""

SKEWED = "skewed"
"""Beside an interval's name, where residuals reach farther up than down."""

_WIDTHS, _SPREADS, _BENDS = (1.25, 2.0), (1.1, 1.5), (0.02, 0.2)  # that warn, that fail
_SHARE, _ZERO_SHARE = 0.05, 0.03  # of rows inside an interval, and at zero: differences that warn
_SKEWED = 0.15  # of the range of nine tenths of the residuals, by which its middle is off
_DOMINATED = 0.3  # share of all squares that a few rows have, where they spoil the rest
_EVENTS = 10  # that a level would have by the overall share, and has none


@dataclass(frozen=True)
class Finding:
    """What a model misses: which kind, how bad (``warn`` or ``fail``), where, and its size.

    ``names`` are columns at fault, the worst first, ``rows`` rows at fault, from 0.
    """

    kind: str
    verdict: str
    size: float
    names: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class Misfit:
    """All findings; ``blind`` where chance is so large that an error would not be seen.

    ``prior_given`` says that the prior precision was neither learned nor drawn.
    """

    findings: tuple[Finding, ...]
    blind: bool
    rows: int
    parameters: int
    prior_given: bool = False

    @property
    def verdict(self) -> str:
        """``ok``, ``warn``, ``fail`` or ``cannot tell``."""
        found = {one.verdict for one in self.findings}
        worst = "fail" if "fail" in found else "warn" if found else "ok"
        return "cannot tell" if worst == "ok" and self.blind else worst


def examine(post: Posterior, plan: Plan, drawn: DrawnHyper | None = None) -> Misfit | None:
    """What a ready-made model misses in its rows; None for other models."""
    with double_precision():
        rows = fitted_rows(post, plan, SIMULATIONS, drawn)
        if rows is None:
            return None
        given = "prior_precision" not in (post.hyperparameters or ())
        return replace(_examined(rows, _names(post, rows)), prior_given=given)


def _names(post: Posterior, rows: FittedRows) -> tuple[str, ...]:
    features = rows.design.shape[1]
    return tuple(post.names.get("coef") or (f"column {i}" for i in range(features)))


class _Statistics(NamedTuple):
    """Of one set of targets."""

    widths: Vector  # log ratio of the squared width that intervals should have, (K F,)
    bends: Vector  # standard scores of the columns that may bend
    spread: Vector  # mean square of the scores, (1,)
    zeros: Vector  # share of zeros, (1,)
    scores: Vector  # residuals in standard deviations, or surprises of classes, (rows,)


def _examined(rows: FittedRows, names: tuple[str, ...]) -> Misfit:
    measure = _Measure(rows)
    seen = measure(rows.y, rows.predictor)
    chance = [measure(y, eta) for y, eta in rows.simulations(SIMULATIONS)]
    every = _Statistics(*(np.array(part) for part in zip(*chance, strict=True)))
    found = [
        *_outliers(rows, seen, every),
        *_separation(rows, names),
        *_beyond_spread(seen, every, measure),
        *_zeros(seen, every, measure),
        *_tails(seen, every, measure),
        *_bends(seen, every, [names[i] for i in measure.bending], len(rows.y)),
        *_widths(seen, every, measure.informed, names, rows.coef.shape),
    ]
    logs = every.widths[:, measure.informed]
    blind = bool(logs.size) and float(np.median(logs.std(axis=0))) > _BLIND
    few = len(rows.y) < 2 * rows.coef.size
    return Misfit(tuple(found), blind or few, len(rows.y), rows.coef.size)


class _Measure:
    """Statistics of targets on the same rows, by matrices that are made once."""

    def __init__(self, rows: FittedRows) -> None:
        self.rows = rows
        own, inverse = rows.own, rows.inverse
        self.variance = np.einsum("ij,ik,kj->j", inverse, own, inverse)
        self.informed = self.variance > _INFORMED * np.diag(inverse)
        self.along = inverse.reshape(*rows.coef.shape, -1)
        self.bending, self.squares = _squares(rows)
        curvature = np.maximum(rows.own_curvature / len(rows.coef), 0.0)
        self.errors = np.sqrt(np.maximum(curvature @ self.squares**2, np.finfo(float).tiny))
        self.classes = rows.family.most_classes > 0
        self.counts = isinstance(rows.family, Counts)

    def __call__(self, y: Vector, eta: Vector) -> _Statistics:
        residual = self.rows.residuals(y, eta)
        along = np.zeros((len(y), self.along.shape[-1]))
        for one, inverse in zip(residual.T, self.along, strict=True):
            along += one[:, None] * (self.rows.design @ inverse)
        squares = np.square(along).sum(axis=0) / np.maximum(self.variance, np.finfo(float).tiny)
        scores = self.rows.scores(y, eta)
        return _Statistics(
            np.log(np.maximum(squares, 1e-12)),
            self._bends(residual) / np.sqrt(max(float(np.mean(scores**2)), 1.0)),
            np.array([np.mean(scores**2)]),
            np.array([np.mean(y == 0)]),
            scores,
        )

    def _bends(self, residual: Vector) -> Vector:
        """Of every column: how far residuals go with its square, in standard errors."""
        found = residual.T @ self.squares / self.errors
        best = np.abs(found).argmax(axis=0)
        return np.asarray(found[best, np.arange(found.shape[1])])


def _outliers(rows: FittedRows, seen: _Statistics, chance: _Statistics) -> list[Finding]:
    """Rows farther off than any of all simulated ones, by a margin, and if others are not."""
    size, usual = np.abs(seen.scores), np.abs(chance.scores)
    limit = _FARTHER * usual.max() * max(1.0, np.median(size) / max(np.median(usual), 1e-9))
    far = np.flatnonzero(size > limit)
    if not far.size:
        return []
    worst = far[np.argsort(-size[far])]
    dominate = np.square(size[far]).sum() > _DOMINATED * np.square(size).sum()
    places = tuple(rows.index[worst].tolist())
    return [Finding(OUTLIERS, "fail" if dominate else "warn", float(size.max()), (), places)]


def _beyond_spread(seen: _Statistics, chance: _Statistics, measure: _Measure) -> list[Finding]:
    factor = float(np.sqrt(seen.spread[0] / np.median(chance.spread)))
    away = max(factor, 1 / max(factor, 1e-9))
    heavy = measure.rows.family.name == "student_t"  # whose variance may be infinite
    if (
        measure.classes
        or heavy
        or away < _SPREADS[0]
        or not exceeds(seen.spread, chance.spread, _LEVEL)[0]
    ):
        return []
    return [Finding(SPREAD, _graded(away, _SPREADS), factor)]


def _zeros(seen: _Statistics, chance: _Statistics, measure: _Measure) -> list[Finding]:
    """Zeros that chance does not explain, nor counts that vary as much as these rows do."""
    if not measure.counts or not exceeds(seen.zeros, chance.zeros, _LEVEL)[0]:
        return []
    expected = float(np.median(chance.zeros))
    if measure.rows.family.name == "poisson":
        expected = max(expected, _zeros_of_varying_counts(measure.rows))
    more = float(seen.zeros[0] - expected)
    return [Finding(ZEROS, "warn", more)] if abs(more) > _ZERO_SHARE else []


def _zeros_of_varying_counts(rows: FittedRows) -> float:
    """Share of zeros of negative binomial counts with these rows' mean and variance."""
    mean = np.exp(rows.predictor)
    excess = float(np.sum((rows.y - mean) ** 2 - mean) / np.sum(mean**2))
    return float(np.mean((1 + excess * mean) ** (-1 / excess))) if excess > 1e-6 else 0.0


def _tails(seen: _Statistics, chance: _Statistics, measure: _Measure) -> list[Finding]:
    """Shares of rows inside intervals that should contain 50 and 90 % of them."""
    if measure.classes or measure.counts or measure.rows.trials is not None:
        return []
    edges = np.quantile(np.abs(chance.scores), (0.5, 0.9))
    inside, usual = (
        np.stack([np.mean(np.abs(scores) <= edge, axis=-1) for edge in edges], axis=-1)
        for scores in (seen.scores, chance.scores)
    )
    off = inside - (0.5, 0.9)
    worst = int(np.argmax(np.abs(off)))
    if abs(off[worst]) < _SHARE or not exceeds(inside, usual, _LEVEL).any():
        return []
    low, middle, high = np.quantile(seen.scores, (0.05, 0.5, 0.95))
    skewed = (SKEWED,) if high + low - 2 * middle > _SKEWED * (high - low) else ()
    return [Finding(TAILS, "warn", float(inside[worst]), (("50%", "90%")[worst], *skewed))]


def _bends(
    seen: _Statistics, chance: _Statistics, names: Sequence[str], rows: int
) -> list[Finding]:
    share = seen.bends**2 / rows  # of the remaining variance, that a square would explain
    bad = np.flatnonzero(exceeds(seen.bends, chance.bends, _LEVEL) & (share > _BENDS[0]))
    if not bad.size:
        return []
    worst = bad[np.argsort(-share[bad])]
    size = float(share[worst[0]])
    return [Finding(BEND, _graded(size, _BENDS), size, tuple(names[i] for i in worst))]


def _widths(
    seen: _Statistics,
    chance: _Statistics,
    informed: npt.NDArray[np.bool_],
    names: Sequence[str],
    shape: tuple[int, ...],
) -> list[Finding]:
    """Intervals that should be wider or narrower, by the scatter of the rows' own gradients."""
    own, usual = seen.widths[informed], chance.widths[:, informed]
    if not own.size:
        return []
    log_factor = 0.5 * (own - np.median(usual, axis=0))
    bad = np.flatnonzero(exceeds(own, usual, _LEVEL) & (np.abs(log_factor) > np.log(_WIDTHS[0])))
    if not bad.size:
        return []
    worst = bad[np.argsort(-np.abs(log_factor[bad]))]
    columns = np.flatnonzero(informed)[worst] % shape[1]
    called = dict.fromkeys(names[i] if i < len(names) else "intercept" for i in columns.tolist())
    size = float(np.exp(log_factor[worst[0]]))
    return [Finding(INTERVALS, _graded(max(size, 1 / size), _WIDTHS), size, tuple(called))]


def _graded(size: float, limits: tuple[float, float]) -> str:
    return "fail" if size > limits[1] else "warn"


def _squares(rows: FittedRows) -> tuple[list[int], Vector]:
    """Squares of columns less what the model explains of them: numbers of columns, (rows, m)."""
    width = rows.design.shape[1]
    curvature = np.abs(rows.own_curvature)
    weighted = rows.design * curvature[:, None]
    gram = weighted.T @ rows.design
    gram += 1e-9 * np.trace(gram) / width * np.eye(width)
    chosen, squares = [], []
    for number, column in enumerate(rows.design.T):
        _, counts = np.unique(column, return_counts=True)
        if len(counts) < _FEWEST_VALUES or counts.max() > _COMMONEST * len(column):
            continue
        square = (column - column.mean()) ** 2
        left = square - rows.design @ np.linalg.solve(gram, weighted.T @ square)
        if curvature @ left**2 > 1e-4 * (curvature @ (square - square.mean()) ** 2):
            chosen.append(number)
            squares.append(left)
    return chosen, np.array(squares).reshape(len(chosen), len(rows.design)).T


def _separation(rows: FittedRows, names: Sequence[str]) -> list[Finding]:
    """Classes that the columns separate, all rows or those of one level.

    The size is the number of separated classes where some are not, else 0.
    """
    if rows.family.name == "softmax":
        return _separated_classes(rows)
    if rows.family.name != "logistic":
        return []
    one = rows.y > 0
    eta = rows.predictor
    if one.any() and not one.all() and eta[one].min() > eta[~one].max():
        return [Finding(SEPARATION, "warn", 0.0)]
    rate = min(one.mean(), 1 - one.mean())
    found = []
    for name, column in zip(names, rows.design.T, strict=False):
        values = np.unique(column)
        if len(values) != 2:
            continue
        for level in values:
            own = one[column == level]
            if len(own) * rate > _EVENTS and own.min() == own.max():
                found.append(name)
    return [Finding(SEPARATION, "warn", float(len(found)), tuple(found))] if found else []


def _separated_classes(rows: FittedRows) -> list[Finding]:
    """Classes of several whose own rows are all nearer to them than any other row."""
    eta, count = rows.predictor, 0
    for k in range(eta.shape[1]):
        own = rows.y == k
        lead = eta[:, k] - np.delete(eta, k, axis=1).max(axis=1)
        count += bool(own.any()) and lead[own].min() > lead[~own].max()
    some = float(count) if count < eta.shape[1] else 0.0
    return [Finding(SEPARATION, "warn", some)] if count else []
