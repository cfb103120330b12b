"""How far draws are from a long reference run, with the Monte-Carlo error of both sides.

Errors are shown as they are; the Monte-Carlo error of draws and reference together (the root of
the sum of their squares) stands beside them, and is not subtracted. The worst of many parameters
exceeds it two- or threefold by chance alone.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from arviz_stats.base.array import array_stats

from ornstein._base.types import Vector
from ornstein.results.arviz import ess

QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}
SUMMARIES = ("mean", "sd", *QUANTILES)


class Estimate(NamedTuple):
    """A summary of every parameter, and its Monte-Carlo error."""

    value: Vector
    mc: Vector


@dataclass(frozen=True, eq=False)
class Reference:
    """What a long run says of a posterior."""

    labels: tuple[str, ...]
    estimates: dict[str, Estimate]
    """By name: mean, sd, q05, q50, q95."""
    skewness: Vector
    facts: dict[str, Any]
    """How it was made: sampler, chains, draws, ESS, R-hat, rows per effective draw."""


class Worst(NamedTuple):
    """The largest error of a summary, whose parameter it is, and its Monte-Carlo error."""

    error: float
    mc: float
    label: str


@dataclass(frozen=True)
class Distance:
    """Largest errors: means and quantiles in posterior sds, standard deviations as a share."""

    mean: Worst
    sd: Worst
    q05: Worst
    q95: Worst

    def wrong(self, mean: float = 0.25, sd: float = 0.15) -> bool:
        """Whether a mean or a standard deviation is off by more."""
        return self.mean.error > mean or self.sd.error > sd


def estimates(draws: Vector) -> dict[str, Estimate]:
    """Mean, standard deviation and quantiles of draws (chains, draws, D), by their ESS."""
    draws = np.asarray(draws, float)
    flat = draws.reshape(-1, draws.shape[-1])
    mean, sd = flat.mean(axis=0), flat.std(axis=0, ddof=1)
    squares = (draws - mean) ** 2
    # By the ESS of the squares: that of the draws, which ArviZ takes, is far larger where they
    # alternate around the mean, as those of NUTS do.
    spread = squares.std(axis=(0, 1)) / np.sqrt(ess(squares, "mean")) / (2 * sd)
    found = {"mean": Estimate(mean, sd / np.sqrt(ess(draws, "mean"))), "sd": Estimate(sd, spread)}
    for name, prob in QUANTILES.items():
        error = [_quantile_error(draws[:, :, i], prob) for i in range(draws.shape[-1])]
        found[name] = Estimate(np.quantile(flat, prob, axis=0), np.array(error))
    return found


def _quantile_error(draws: Vector, prob: float) -> float:
    return float(array_stats.mcse(draws, method="quantile", prob=prob))  # type: ignore[no-untyped-call]


def effective(draws: Vector) -> float:
    """Effective draws of the worst parameter: the smaller of bulk and tail ESS.

    Draws that alternate around the mean have a bulk ESS beyond their number, of which nothing but
    the mean gains.
    """
    return float(min(ess(draws).min(), ess(draws, "tail").min()))


def compare_to_reference(draws: Vector, reference: Reference) -> Distance:
    """Largest errors of draws (chains, draws, D), parameters in the order of the reference."""
    draws = np.asarray(draws, float)
    if draws.ndim != 3 or draws.shape[-1] != len(reference.labels):
        raise ValueError(f"{len(reference.labels)} parameters are known, found {draws.shape}.")
    if not np.isfinite(draws).all():
        never = Worst(float("inf"), float("nan"), "not finite")
        return Distance(never, never, never, never)
    made, scale = estimates(draws), reference.estimates["sd"].value
    worst = {}
    for name in ("mean", "sd", "q05", "q95"):
        ours, theirs = made[name], reference.estimates[name]
        error = np.abs(ours.value - theirs.value) / scale
        mc = np.hypot(ours.mc, theirs.mc) / scale
        i = int(np.argmax(error))
        worst[name] = Worst(float(error[i]), float(mc[i]), reference.labels[i])
    return Distance(**worst)
