"""How well a model predicts rows that it has not seen, row by row: PSIS-LOO.

Leaving a row out changes the posterior little, so that its prediction without it follows from
reweighted draws (Vehtari, Gelman, Gabry 2017). ``k`` says for every row whether that held.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.special

from ornstein._base.checks import few
from ornstein._base.errors import CheckpointError, InputError
from ornstein._base.types import Vector
from ornstein.results.psis import smoothed_weights
from ornstein.storage import codec, records

MOST_DRAWS = 1000
"""Draws that are used, evenly spaced."""

FEWEST_DRAWS = 25

FILE = "loo.record"
"""Of a run folder."""

_NAMED = 10  # influential rows in a sentence
_SMOOTHED_AT_ONCE = 1000  # rows


@codec.register
@dataclass(frozen=True, kw_only=True, eq=False)
class Loo:
    """Leave-one-out log scores of a model's rows.

    Attributes
    ----------
    rows
        Numbers of the rows, from 0: all those of the fit, or some, evenly spaced.
    score
        Of each the log predictive density (or probability) of its target, the row left out.
    seen
        The same with the row among those fitted.
    pareto_k
        Of each the shape of the importance weights' tail: above ``good_k`` the row is so
        influential that its score is not reliable.
    observed
        Of each the target, in its own unit; classes by number.
    num_rows, draws
        Rows of the fit, and draws that were used.
    target, classes, discrete
        Name of the target, its classes where it has any, and whether ``score`` holds
        probabilities instead of densities.
    """

    rows: npt.NDArray[Any]
    score: Vector
    seen: Vector
    pareto_k: Vector
    observed: Vector
    num_rows: int
    draws: int
    target: str
    classes: tuple[str, ...]
    discrete: bool

    @property
    def elpd(self) -> float:
        """Expected log predictive density of as many new rows as were fitted: higher is better."""
        return float(self.num_rows * self.score.mean())

    @property
    def se(self) -> float:
        """Its standard error, over rows; it includes that only some of the rows were used."""
        return standard_error(self.score, self.num_rows)

    @property
    def p_loo(self) -> float:
        """Effective number of parameters."""
        return float(self.num_rows * (self.seen - self.score).mean())

    @property
    def good_k(self) -> float:
        """Up to which Pareto k a score is reliable, with so many draws."""
        return min(1 - 1 / math.log10(self.draws), 0.7)

    @property
    def influential(self) -> npt.NDArray[Any]:
        """Numbers of the rows whose score is not reliable, the most influential first."""
        order = np.argsort(-self.pareto_k, kind="stable")
        return np.asarray(self.rows[order[self.pareto_k[order] > self.good_k]])

    def sentences(self) -> list[str]:
        """What was found, and which rows are influential."""
        some = "" if len(self.rows) == self.num_rows else f", from {len(self.rows):,} of them"
        found = [
            f"elpd {self.elpd:,.1f} (standard error {self.se:,.1f}) for {self.num_rows:,} rows"
            f"{some}; {self.p_loo:,.1f} effective parameters."
        ]
        rows = self.influential
        if not rows.size:
            return [*found, f"All Pareto k are at most {self.good_k:.2f}: the scores are reliable."]
        named = few([str(row) for row in rows.tolist()], _NAMED)
        what = "influential row" if len(rows) == 1 else "influential rows"
        return [
            *found,
            f"{len(rows):,} {what}, Pareto k above {self.good_k:.2f}: {named} (counted "
            "from 0). Their scores are not reliable; look at these rows, or fit without them and "
            "compare.",
        ]

    def __str__(self) -> str:
        """The sentences."""
        return "\n".join(self.sentences())

    def to_arviz(self) -> Any:
        """As ``arviz_stats.loo`` gives it, row by row."""
        import xarray
        from arviz_stats import utils

        share = self.num_rows / len(self.rows)
        coords = {"row": self.rows}
        kind = getattr(utils, "ELPDDataLOO", None)  # of arviz-stats 1.3 and newer
        made: Any = partial(utils.ELPDData, kind="loo") if kind is None else kind
        return made(
            elpd=self.elpd,
            se=self.se,
            p=self.p_loo,
            n_samples=self.draws,
            n_data_points=len(self.rows),
            scale="log",
            warning=bool(self.influential.size),
            good_k=self.good_k,
            elpd_i=xarray.DataArray(share * self.score, coords, ("row",)),
            pareto_k=xarray.DataArray(self.pareto_k, coords, ("row",)),
        )

    def save(self, path: Path) -> None:
        """Write it to a file, for :meth:`load`."""
        path.write_bytes(records.pack(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """What :meth:`save` wrote; anything else is an `InputError`."""
        try:
            found = records.unpack(path.read_bytes())
        except FileNotFoundError as error:
            raise InputError(
                f"{path} is missing: the run has no leave-one-out scores. Fit again."
            ) from error
        except CheckpointError as error:
            raise InputError(f"{path} is unreadable: {error}.") from error
        if not isinstance(found, cls):
            raise InputError(f"{path} has no leave-one-out scores.")
        return found


def standard_error(parts: Vector, num_rows: int) -> float:
    """Of ``num_rows`` times the mean of the parts."""
    return float(num_rows * parts.std(ddof=1) / math.sqrt(len(parts)))


def chosen_rows(num_rows: int, most: int | None) -> npt.NDArray[np.intp]:
    """All rows, or so many, evenly spaced: the same ones for every model of a table."""
    count = num_rows if most is None else min(num_rows, most)
    return np.linspace(0, num_rows - 1, count).astype(np.intp)


def leave_one_out(densities: Iterable[Vector]) -> tuple[Vector, Vector, Vector, int]:
    """Scores without and with every row, their Pareto k, and the number of draws.

    Parameters
    ----------
    densities
        Blocks of log-likelihoods, (draws, rows) each, by the same draws.

    Examples
    --------
    >>> theta = np.random.default_rng(0).normal(scale=0.1, size=(1000, 1))
    >>> score, seen, k, draws = leave_one_out([-0.5 * (np.array([0.0, 1.0]) - theta) ** 2])
    >>> bool((score < seen).all()), bool((k < 0.5).all()), draws
    (True, True, 1000)
    """
    found, draws = [], 0
    for block in densities:
        draws = len(block)
        if draws < FEWEST_DRAWS:
            raise InputError(
                f"leave-one-out scores need at least {FEWEST_DRAWS} draws, found {draws}."
            )
        for start in range(0, block.shape[1], _SMOOTHED_AT_ONCE):
            found.append(_scores(block[:, start : start + _SMOOTHED_AT_ONCE]))
    score, seen, k = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return score, seen, k, draws


def _scores(density: Vector) -> tuple[Vector, Vector, Vector]:
    weights, k = smoothed_weights(-density)
    score = scipy.special.logsumexp(weights + density, axis=0)
    seen = scipy.special.logsumexp(density, axis=0) - math.log(len(density))
    return np.asarray(score), np.asarray(seen), k
