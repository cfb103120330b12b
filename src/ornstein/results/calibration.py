"""Whether intervals are as wide as they should be: the results of simulation-based calibration."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2, kstest, norm

from ornstein._base.checks import aligned, few
from ornstein._base.types import Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOUBT, _ALARM = 0.05, 0.005  # p-values of all parameters together
_TESTS = 3  # of place, width and shape
_POWER = 0.8  # how often an error of the given size is seen
_SHOWN = 5  # parameters in words


@dataclass(frozen=True, eq=False)
class Calibration:
    """Where true parameters lay among draws, run by run; ``print`` says it in words.

    If the draws are the posterior's, every rank is uniform between 0 and 1, exactly so, whatever
    the posterior is (Talts et al. 2018).

    Attributes
    ----------
    ranks
        The share of independent draws below the true value, (runs, D). A tie, and the gap between
        two draws, are filled at random.
    labels
        A name for every parameter.
    draws
        How many independent draws a run had, on average.
    failures
        Why runs failed, one sentence each; they are in no rank.
    """

    ranks: Vector
    labels: tuple[str, ...]
    draws: float
    failures: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """Simulated data sets that were sampled."""
        return len(self.ranks)

    @property
    def shift(self) -> Vector:
        """Of every parameter: the draws' mean error, in their standard deviations."""
        return -self._scores.mean(axis=0)

    @property
    def width(self) -> Vector:
        """Of every parameter: how wide the draws are, relative to how wide they should be."""
        return np.asarray(1 / np.sqrt((self._scores**2).mean(axis=0)))

    @property
    def p_values(self) -> Vector:
        """Of every parameter, (D,): how often chance does this to the ranks of right draws.

        By the ranks' normal scores, whose mean tests the place and whose squares the width, and by
        the largest gap between ranks and uniform ones (Kolmogorov and Smirnov): exact tests, the
        smallest p-value times three.
        """
        scores, runs = self._scores, self.runs
        place = 2 * norm.sf(np.abs(scores.mean(axis=0)) * np.sqrt(runs))
        squares = (scores**2).sum(axis=0)
        width = 2 * np.minimum(chi2.sf(squares, runs), chi2.cdf(squares, runs))
        shape = [kstest(column, "uniform").pvalue for column in self.ranks.T]
        return np.minimum(1.0, _TESTS * np.min([place, width, shape], axis=0))

    @property
    def p_value(self) -> float:
        """Of all parameters together: the smallest times their number."""
        return float(min(1.0, len(self.labels) * self.p_values.min()))

    @property
    def verdict(self) -> str:
        """``ok``, ``warn`` (p-value below 0.05, or runs that failed) or ``fail`` (below 0.005)."""
        if self.p_value < _ALARM:
            return "fail"
        return "warn" if self.p_value < _DOUBT or self.failures else "ok"

    @property
    def resolution(self) -> float:
        """How wrong a width must be, relatively, to be seen four times out of five."""
        tail = _DOUBT / (2 * _TESTS * len(self.labels))
        narrow = 1 - np.sqrt(chi2.isf(_POWER, self.runs) / chi2.isf(tail, self.runs))
        wide = np.sqrt(chi2.ppf(_POWER, self.runs) / chi2.ppf(tail, self.runs)) - 1
        return float(max(narrow, wide))

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.p_value >= _DOUBT:
            line = (
                f"The intervals are calibrated: in {self.runs} simulated data sets, true values "
                "lie among the draws as often as they should. A width that is off by "
                f"{self.resolution:.0%} would probably have been seen."
            )
        else:
            wrong = np.flatnonzero(self.p_values * len(self.labels) < _DOUBT)
            order = wrong[np.argsort(self.p_values[wrong], kind="stable")]
            start = "The intervals are not calibrated."
            if self.verdict == "warn":
                start = f"The intervals may not be calibrated (p = {self.p_value:.2g})."
            line = f"{start} {few([self._words(i) for i in order], _SHOWN, '; ')}."
        if self.failures:
            total = self.runs + len(self.failures)
            line += f" {len(self.failures)} of {total} runs failed: {self.failures[0]}"
        return line

    def _words(self, index: int) -> str:
        """What is wrong with a parameter's draws."""
        scores = self._scores[:, index]
        place = abs(scores.mean()) * np.sqrt(self.runs)
        spread = abs((scores**2).mean() - 1) * np.sqrt(self.runs / 2)
        if place >= spread:
            side = "high" if self.shift[index] > 0 else "low"
            how = f"draws are too {side}, by {abs(self.shift[index]):.2f} standard deviations"
        else:
            by = abs(self.width[index] - 1)
            how = f"intervals are too {'wide' if self.width[index] > 1 else 'narrow'}, by {by:.0%}"
        return f"{self.labels[index]}: {how}"

    @property
    def _scores(self) -> Vector:
        """Normal scores of the ranks: standard normal if they are uniform."""
        return np.asarray(norm.ppf(self.ranks))

    def __str__(self) -> str:
        """The verdict, and the parameters furthest off."""
        p_values = self.p_values
        rows = [("", "shift", "width", "p-value")]
        for i in np.argsort(p_values, kind="stable")[:_SHOWN]:
            rows.append(
                (
                    self.labels[i],
                    f"{self.shift[i]:+.2f} sd",
                    f"{self.width[i]:.2f}",
                    f"{p_values[i]:.2g}",
                )
            )
        return "\n".join([self.sentence, *aligned(rows)])

    def plot(self, title: str = "") -> "Figure":
        """Histograms of the ranks, those furthest off first, with the band chance keeps them in.

        Needs the extra ``report``.
        """
        from ornstein.results import plots

        return plots.calibration(self, title)
