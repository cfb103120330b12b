"""What ArviZ compares draws with rows by: log-likelihoods, observed and simulated targets."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.types import Vector
from ornstein.results.predictive import Coefficients, log_density, simulate

MOST_ROWS, MOST_DRAWS = 1000, 1000
"""Of which a folder keeps log-likelihoods and simulated targets: 8 and 4 megabytes."""

_FAINT = 1e-9  # log-likelihood of a row that the model is certain of

_TAKEN = ("", ".", "..", "chain", "draw", "row")


@dataclass(frozen=True)
class RowGroups:
    """Groups for ArviZ over some rows of a table and some draws of every chain.

    ``note`` says which rows: all, or evenly spaced ones where there are more than a thousand.
    """

    groups: dict[str, dict[str, npt.NDArray[Any]]]
    dims: dict[str, list[str]]
    coords: dict[str, Any]
    note: str


def row_groups(
    draws: Coefficients,
    chains: int,
    X: Vector,
    y: Vector,
    name: str,
    centre: float = 0.0,
    scale: float = 1.0,
) -> RowGroups:
    """The groups ``log_likelihood``, ``observed_data`` and ``posterior_predictive``.

    With them ``az.loo`` and ``az.plot_ppc`` work. Targets, and densities of them, are in the unit
    in which ``y`` is standardised by ``centre`` and ``scale``; classes are numbers.

    Of a row that the model is certain of, log-likelihoods above -1e-9 are spread evenly between
    that and 0, draw by draw: ArviZ fits a tail to them, and fails where all are 0. It computes
    in the precision in which they are stored, for which single precision is too coarse.

    Parameters
    ----------
    draws
        Of all chains, one after the other.
    chains
        How many.
    X, y
        Encoded rows.
    name
        The target's; ``target`` stands for one that NetCDF cannot have.
    """
    name = "target" if "/" in name or name.strip() in _TAKEN else name
    rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).astype(int))
    each = len(draws.coef) // chains
    kept = np.linspace(0, each - 1, min(each, MOST_DRAWS // chains)).astype(int)
    at = (np.arange(chains)[:, None] * each + kept).reshape(-1)
    some = draws.at(at)
    shape = (chains, len(kept), len(rows))
    density = log_density(some, X[rows], y[rows]) - np.log(scale)
    simulated = centre + scale * simulate(some, X[rows], np.random.default_rng(0))
    note = "all" if len(rows) == len(X) else f"{len(rows):,} of {len(X):,}, evenly spaced"
    return RowGroups(
        {
            "log_likelihood": {name: _spread(density).reshape(shape)},
            "observed_data": {name: centre + scale * np.asarray(y[rows], float)},
            "posterior_predictive": {name: simulated.reshape(shape).astype(np.float32)},
        },
        {name: ["row"]},
        {"row": rows.tolist()},
        note,
    )


def _spread(density: Vector) -> Vector:
    """Log-likelihoods, (draws, rows), those next to 0 moved apart by as little."""
    draws = len(density)
    apart = _FAINT * np.random.default_rng(0).permutation(np.arange(1, draws + 1)) / draws
    return np.where(np.abs(density) < _FAINT, -apart[:, None], density)
