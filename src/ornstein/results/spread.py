"""How far draws are too narrow or too wide along directions, of which parameters are only some."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from ornstein import theory
from ornstein._base.types import Vector

GOOD, BAD = 0.15, 0.25
"""Of standard deviations along the worst of all directions: below it right, beyond it wrong."""

BATCHES = 16
"""Blocks of draws, each with rows of its own, for Monte-Carlo errors."""

ALARM = 0.01
"""Chance that one of all errors seems to be too large."""

SURE = float(stdtrit(BATCHES - 1, 1 - ALARM / 4))
"""Monte-Carlo errors beyond which an error is not chance: of two directions, to either side."""

_TERMS = 3  # of a direction in words
_SHARE = 0.3  # of the largest coefficient: what is smaller is left out
_DIFFERENT = 0.25  # correlations: what is less is said as a spread, not to name a chance one


@dataclass(frozen=True)
class Spread:
    """The error of the draws' standard deviation along a direction.

    Attributes
    ----------
    error, mc_error
        Relative, positive where the draws are too wide, and its Monte-Carlo error. Of more than 500
        parameters the root mean square over all directions, by correlations alone.
    along
        The direction: parameters in their standard deviations; nothing where it is of all.
    """

    error: float
    mc_error: float
    along: str = ""

    @property
    def verdict(self) -> str:
        """``ok``, ``warn`` or ``fail``, as :class:`ornstein.Accuracy` has it."""
        size = abs(self.error)
        if size - SURE * self.mc_error > BAD:
            return "fail"
        return "warn" if size > GOOD or size + 2 * self.mc_error > BAD else "ok"

    @property
    def sentence(self) -> str:
        """The error in words, without a stop."""
        if not self.along:
            return (
                f"spreads along directions are off by about {self.error:.0%} on average, as their "
                "correlations are wrong"
            )
        how = "little" if self.error < 0 else "much"
        return f"they spread {abs(self.error):.0%} too {how} along {self.along}"


@dataclass(frozen=True)
class Correlation:
    """Of the two parameters whose correlation matters most: in the draws and in the posterior."""

    labels: tuple[str, str]
    drawn: float
    posterior: float
    mc_error: float

    @property
    def is_off(self) -> bool:
        """Whether the two differ so much that it tells what is wrong."""
        return abs(self.drawn - self.posterior) > _DIFFERENT + 2 * self.mc_error

    @property
    def sentence(self) -> str:
        """The difference in words, without a stop."""
        a, b = self.labels
        return (
            f"the correlation of {a} and {b} is about {self.drawn:.2f} in the draws, "
            f"{self.posterior:.2f} in the posterior"
        )


def held_out(
    z: Vector,
    blocks: Sequence[npt.NDArray[np.intp]],
    taken: Sequence[npt.NDArray[np.intp]],
    gradients: Sequence[Vector],
) -> tuple[Vector, Vector] | None:
    """Curvature of white draws along two directions, and its Monte-Carlo error.

    Directions are chosen and measured by different draws. None where half of them are too few.
    """
    numbers = [part - block[0] for part, block in zip(taken, blocks, strict=True)]
    try:
        found = theory.held_out_curvature([z[block] for block in blocks], numbers, gradients)
    except np.linalg.LinAlgError:  # half the draws repeat too few
        return None
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))


def held_out_spreads(
    found: tuple[Vector, Vector] | None, along: Sequence[str]
) -> tuple[Spread, ...]:
    """The errors along those directions; none where they are not known."""
    spreads = []
    for ratio, mc, name in zip(*found, along, strict=True) if found else ():
        root, its_mc = _root(ratio, mc)
        spreads.append(Spread(root - 1, its_mc, name))
    return tuple(spreads)


def average_spread(squares: Vector) -> Spread:
    """By the mean squares of what is beside the diagonal: of all blocks, then without each.

    To first order a standard deviation is half as far off as a variance.
    """
    root, mc = _root(squares[0], np.std(squares[1:]) * np.sqrt(len(squares) - 2))
    return Spread(root / 2, mc / 2)


def _root(square: float, mc: float) -> tuple[float, float]:
    """And its Monte-Carlo error."""
    low, root, high = np.sqrt(np.maximum([square - mc, square, square + mc], 0.0))
    return float(root), float(max(high - root, root - low))


def directions(precision: Vector, root: Vector, labels: Sequence[str]) -> list[str]:
    """The two directions in words, along which draws are narrowest and widest."""
    vectors = np.linalg.eigh(precision)[1][:, [0, -1]]
    sd = np.sqrt(np.sum(root**2, axis=1))
    return [_words(sd * np.linalg.solve(root.T, one), labels) for one in vectors.T]


def _words(coefficients: Vector, labels: Sequence[str]) -> str:
    size = np.abs(coefficients) / np.abs(coefficients).max()
    kept = np.sort(np.argsort(-size)[:_TERMS])
    kept = kept[size[kept] > _SHARE]
    said = ""
    for i in kept:
        sign = " - " if coefficients[i] * coefficients[kept[0]] < 0 else " + "
        times = "" if f"{size[i]:.1f}" == "1.0" else f"{size[i]:.1f} "
        said += (sign if said else "") + times + labels[i]
    return said


def correlation(
    precisions: Sequence[Vector], root: Vector, labels: Sequence[str]
) -> Correlation | None:
    """The pair whose sum or difference has the spread that is furthest off.

    Precisions of the posterior in coordinates of the draws' unit covariance: by all blocks, then
    without each of them. None where one is not positive definite.
    """
    try:
        cov = root @ np.linalg.solve(np.linalg.cholesky(precisions[0]), np.eye(len(root))).T
    except np.linalg.LinAlgError:
        return None
    drawn, posterior = _correlations(root @ root.T), _correlations(cov @ cov.T)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = [np.abs(np.log((1 + s * drawn) / (1 + s * posterior))) for s in (-1, 1)]
    size = np.triu(np.nan_to_num(np.maximum(*off), posinf=np.inf), 1)
    i, j = np.unravel_index(int(np.argmax(size)), size.shape)
    pair = root[[i, j]]
    left = [_correlations(pair @ np.linalg.solve(one, pair.T))[0, 1] for one in precisions[1:]]
    mc = float(np.std(left) * np.sqrt(len(left) - 1))
    names = labels[int(i)], labels[int(j)]
    return Correlation(names, float(drawn[i, j]), float(posterior[i, j]), mc)


def _correlations(cov: Vector) -> Vector:
    with np.errstate(invalid="ignore"):
        sd = np.sqrt(np.diagonal(cov))
    return np.asarray(np.clip(cov / np.outer(sd, sd), -1.0, 1.0))
