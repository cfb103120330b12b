"""How far draws are from the posterior itself, by Stein's identities (X12).

No reference sampler and no Gaussian assumption: the gradient of the log posterior at the draws is
all it takes. It serves draws of every method, and those of other libraries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from ornstein._base.checks import aligned
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.geometry import Geometry
from ornstein.models.hyper_targets import DrawnHyper, drawn_beside
from ornstein.models.posterior import Posterior, as_posterior
from ornstein.models.unconstrained import as_vectors
from ornstein.results.gradients import Gradients
from ornstein.results.implied import Figures, figures, scale
from ornstein.results.noise import spaced
from ornstein.results.spread import ALARM, BATCHES, SURE, Correlation, Spread
from ornstein.results.spread import GOOD as WORST_SPREAD
from ornstein.results.verdicts import CANNOT_TELL, worst

_WORK = 2e9  # multiplications: a second or two, in proportion more beyond MATRICES parameters
_FEWEST, _MOST = 256, 2048  # draws at which gradients are taken
_PER_PARAMETER = 4  # draws
_MOST_JUDGED = 2**15  # draws: their own error is then far below what is judged
_LARGEST = 5000  # parameters: beyond, it would take minutes
MATRICES = 500
"""Parameters up to which the draws' covariance is inverted."""

GOOD, BAD = (0.15, 0.1), (0.25, 0.15)
"""Errors of means and standard deviations below which draws are right, beyond which wrong."""


@dataclass(frozen=True, eq=False)
class Accuracy:
    """How far draws are from the posterior; ``print`` says it in words.

    Attributes
    ----------
    mean_error, sd_error
        Of every parameter: the mean's error in posterior standard deviations, and the standard
        deviation's relative error; positive where the draws' is too large.
    skewness_error
        The draws' skewness less the posterior's, to first order. It is not judged.
    mean_mc_error, sd_mc_error, skewness_mc_error
        Monte-Carlo errors, as estimates of the error of these draws; of more than 500 parameters up
        to half too large.
    labels
        A name for every parameter.
    draws, rows
        At how many draws the gradient was taken, over how many rows each.
    average_error, average_mc_error
        Of mean and standard deviation: the root mean square of the mean's error over all directions
        (beyond 500 parameters only), the mean of ``sd_error``, and their Monte-Carlo errors. Draws
        that are wrong everywhere are seen by these first.
    """

    mean_error: Vector
    sd_error: Vector
    skewness_error: Vector
    mean_mc_error: Vector
    sd_mc_error: Vector
    skewness_mc_error: Vector
    labels: tuple[str, ...]
    draws: int
    rows: int
    average_error: tuple[float, float] = (0.0, 0.0)
    average_mc_error: tuple[float, float] = (0.0, 0.0)
    lowest_curvature: tuple[float, float] = (1.0, 0.0)
    """The least of the posterior's curvature over the draws in any direction, which is 1 for right
    ones, and its Monte-Carlo error. One half of the draws chooses the direction and the other
    measures, but for more than 500 parameters."""
    spreads: tuple[Spread, ...] = ()
    """How far standard deviations are off along the directions in which draws are narrowest and
    widest; of more than 500 parameters, on average over all directions."""
    correlation: Correlation | None = None
    """The one that matters most, in the draws and in the posterior (up to 500 parameters)."""

    @property
    def verdict(self) -> str:
        """``ok``, ``warn``, ``fail`` or ``cannot tell``.

        ``ok``: means are within 0.15 posterior standard deviations and standard deviations within
        10 % (15 % along the worst of all directions, which correlations decide), and within 0.25
        and 15 % (25 %) even if two Monte-Carlo errors are added. ``fail``: a mean is beyond 0.25 or
        a standard deviation beyond 15 % (25 %) even if three are taken off (more of many
        parameters, of which some are far off by chance), or the posterior's curvature at the draws
        is not that of a peak. ``warn`` is between them. ``cannot tell`` where Monte-Carlo error
        leaves open whether there is a peak.
        """
        if not self._curved:
            return CANNOT_TELL if self._undecided else "fail"
        return worst([self._one_by_one, *(spread.verdict for spread in self.spreads)])

    @property
    def _one_by_one(self) -> str:
        """The verdict on each parameter's own mean and standard deviation."""
        parts = (
            (np.abs(self.mean_error), self.mean_mc_error, GOOD[0], BAD[0]),
            (np.abs(self.sd_error), self.sd_mc_error, GOOD[1], BAD[1]),
        )
        average = np.abs(self.average_error) - 3 * np.asarray(self.average_mc_error)
        sure = max(3.0, -ndtri(ALARM / (2 * len(self.labels))))
        beyond = any((size - sure * mc > bad).any() for size, mc, _, bad in parts)
        if beyond or (average > BAD).any():
            return "fail"
        if any((size > good).any() or (size + 2 * mc > bad).any() for size, mc, good, bad in parts):
            return "warn"
        return "ok"

    @property
    def _curved(self) -> bool:
        """Whether the posterior has a peak where the draws are, so that errors are known."""
        parts = (self.mean_error, self.sd_error, self.mean_mc_error, self.sd_mc_error)
        return all(np.isfinite(part).all() for part in parts)

    @property
    def _undecided(self) -> bool:
        """Whether Monte-Carlo error alone may have made the curvature negative, and not 1."""
        lowest, error = self.lowest_curvature
        return bool(lowest + SURE * error > 1)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if not self._curved and self._undecided:
            return (
                "The draws cannot be judged: the posterior's gradients differ too much between "
                "them, as in a funnel."
            )
        if not self._curved:
            return (
                "The draws are not the posterior's, or it has no peak where they are: its "
                "curvature there is not positive in every direction."
            )
        mean, sd = np.abs(self.mean_error).max(), np.abs(self.sd_error).max()
        if self.verdict == "fail":
            found = [self._off_together] if self._off_together else []
            if self._one_by_one == "fail":
                found.append(
                    f"means are off by up to {mean:.2f} posterior standard deviations, standard "
                    f"deviations by up to {sd:.0%}"
                )
            return f"The draws are not the posterior's: {'; '.join(found)}."
        within = f"within {mean:.2f} standard deviations and {sd:.0%} of the posterior"
        if self.verdict == "ok":
            return f"The draws are {within}."
        if self._off_together:
            return f"One parameter at a time, the draws are {within}, but {self._off_together}."
        if mean <= GOOD[0] and sd <= GOOD[1]:
            return f"The draws seem to be {within}, but there are too few of them to be sure."
        return f"The draws are only {within}."

    @property
    def _off_together(self) -> str:
        """What is wrong with spreads along directions that parameters' own do not show."""
        off = [one for one in self.spreads if abs(one.error) > WORST_SPREAD]
        if not off:
            return ""
        if self.correlation is not None and self.correlation.is_off:
            return self.correlation.sentence
        if self._one_by_one == "fail":
            return ""
        return max(off, key=lambda one: abs(np.log1p(max(one.error, -0.99)))).sentence

    def __str__(self) -> str:
        """The verdict, and the worst parameters and directions."""
        return "\n".join([self.sentence, *self.details])

    @property
    def details(self) -> list[str]:
        """The parameters and directions that are furthest off, a line each."""
        if self.verdict == CANNOT_TELL:
            return ["More draws may tell."]
        if not self._curved:
            return ["Errors of means and standard deviations are not known there."]
        mean, sd = np.abs(self.mean_error), np.abs(self.sd_error)
        lines = aligned([("", "mean", "sd", "skewness"), *self._worst(mean, sd)])
        named = [one for one in self.spreads if one.along]
        for one, how in zip(named, ("Narrowest", "Widest"), strict=False):
            size = f"{one.error:+.1%} +- {one.mc_error:.1%}"
            lines.append(f"{how} direction, {one.along}: {size} in sd.")
        if named:
            lines.append(
                "Directions are sums of parameters in their standard deviations. One half of the "
                "draws chooses them and the other measures."
            )
        if self.correlation is not None:
            said = self.correlation.sentence
            lines.append(f"{said[0].upper()}{said[1:]} (+- {self.correlation.mc_error:.2f}).")
        lines.append(
            "Skewness is the draws' less the posterior's: above 0, their upper tail is too long or "
            "the lower one too short. It is not judged."
        )
        return lines

    def _worst(self, mean: Vector, sd: Vector) -> Iterator[tuple[str, str, str, str]]:
        """The parameters that are furthest off, five at most."""
        order = np.argsort(-np.maximum(mean / BAD[0], sd / BAD[1]))
        for i in order[:5]:
            yield (
                self.labels[i],
                f"{self.mean_error[i]:+.3f} +- {self.mean_mc_error[i]:.3f} sd",
                f"{self.sd_error[i]:+.1%} +- {self.sd_mc_error[i]:.1%}",
                f"{self.skewness_error[i]:+.2f} +- {self.skewness_mc_error[i]:.2f}",
            )


def check(post: Posterior, draws: Any) -> Accuracy:
    """Measure how far draws are from a posterior, whatever made them.

    Stein's identities hold for draws of the posterior whatever its shape: the mean of the gradient
    of the log posterior is zero, its covariance with the parameters is minus the identity (X12).
    What the draws give instead says how far their means and standard deviations are off. The error
    of too few draws counts, too: it is that of these draws. A mode that no draw has visited is not
    seen. Of more than 32,768 draws so many are judged, evenly spaced. Beyond 500 parameters, up to
    5,000, each is judged on its own, by some thousand draws.

    Parameters
    ----------
    post
        The posterior.
    draws
        Parameters as the posterior samples them, such as ``result.flat``: an array (chains, draws,
        D) or (draws, D), or a pytree of its parameters with leading axes of chains and draws. Of a
        NumPyro model, or any posterior with ``unconstrain``, a mapping has draws of the constrained
        values instead, such as ``result.draws`` or ``mcmc.get_samples(group_by_chain=True)``, or is
        the data set of them that ArviZ holds.

    Returns
    -------
    Accuracy
        Errors of means and standard deviations of every parameter, and a verdict.

    Examples
    --------
    >>> import ornstein as orn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> post = orn.models.logistic(X, rng.random(200) < 1 / (1 + np.exp(-2 * X[:, 0])))
    >>> result = orn.sample(post)
    >>> orn.check(post, result.flat).verdict
    'ok'
    >>> orn.check(post, 1.5 * (result.flat - result.plan.center) + result.plan.center).verdict
    'fail'
    """
    post = as_posterior(post)
    flat, eta = as_vectors(post, draws)
    if eta is None or post.hyper_prior is None:
        return measure(post, flat)
    return measure(post, flat, hyper=drawn_beside(post, flat, eta))


def measure(
    post: Posterior,
    draws: Vector,
    work: float = _WORK,
    hyper: DrawnHyper | None = None,
    most: int = _MOST,
    known: Geometry | None = None,
) -> Accuracy:
    """The same within a number of multiplications; where all rows take more, some stand for all.

    Gradients are taken at ``most`` draws at most. With ``hyper``, of parameters and
    hyperparameters together. What is ``known`` of all rows makes those of some rows less noisy.
    """
    flat, labels = as_vectors(post, draws).flat, tuple(post.labels)
    if hyper is not None:
        flat = np.concatenate([flat, hyper.eta.reshape(len(flat), -1)], axis=1)
        labels += hyper.labels
    wide = post.dim > MATRICES
    if post.dim > _LARGEST:
        raise InputError(f"check takes up to {_LARGEST:,} parameters, found {post.dim:,}.")
    fewest = max(_FEWEST // 4, _MOST // 4 if wide else _PER_PARAMETER * post.dim)
    if len(flat) < fewest:
        raise InputError(
            f"check needs at least {fewest} draws of {post.dim:,} parameters, found {len(flat)}. "
            "Make more."
        )
    flat = spaced(flat, 2 * _MOST if wide else _MOST_JUDGED)
    scale(flat, labels)
    center, blocks = (
        flat[:, : post.dim].mean(axis=0),
        np.array_split(np.arange(len(flat)), BATCHES),
    )
    count = min(len(flat), max(_FEWEST, _PER_PARAMETER * post.dim))
    work *= max(1.0, post.dim / MATRICES)  # as the rest of the measurement takes more
    gradients = Gradients.within(work, post, center, count, min(len(flat), most), known)
    at = np.linspace(0, len(flat) - 1, gradients.draws).astype(int)
    taken = [at[np.isin(at, block)] for block in blocks]
    found = [gradients(flat[part, : post.dim], number) for number, part in enumerate(taken)]
    if hyper is not None:
        found = [hyper.joint_gradients(flat[p], own) for p, own in zip(taken, found, strict=True)]
    broken = sum(int((~np.isfinite(part)).any(axis=1).sum()) for part in found)
    if broken:
        raise InputError(
            f"the log posterior's gradient is not finite at {broken:,} of {len(at):,} draws: they "
            "are too far from where it is defined."
        )
    judge = partial(figures, labels=labels, blocks=blocks, taken=taken, wide=wide)
    seen = judge(flat, gradients=found)
    if hyper is not None and hyper.is_scaled:
        # Stein's identities hold in any coordinates: the less noisy ones are believed.
        pairs = zip(taken, found, strict=True)
        scaled = [hyper.gradients_in_scales(flat[part], own) for part, own in pairs]
        other = judge(hyper.in_scales(flat), gradients=scaled)
        seen = min(seen, other, key=Figures.noise)
    return _accuracy(seen, labels, len(at), gradients.rows)


def judged(
    flat: Vector, at: npt.NDArray[np.intp], gradients: Vector, labels: tuple[str, ...], rows: int
) -> Accuracy:
    """The same of draws (draws, D) by gradients of ``-log p`` that were taken ``at`` some of them.

    ``rows`` is over how many rows each.
    """
    if not np.isfinite(gradients).all():
        raise InputError("the log posterior's gradient is not finite at some of the draws")
    blocks = np.array_split(np.arange(len(flat)), BATCHES)
    masks = [np.isin(at, block) for block in blocks]
    taken = [at[mask] for mask in masks]
    found = [gradients[mask] for mask in masks]
    return _accuracy(figures(flat, found, labels, blocks, taken, False), labels, len(at), rows)


def _accuracy(seen: Figures, labels: tuple[str, ...], draws: int, rows: int) -> Accuracy:
    return Accuracy(
        *seen.errors,
        *seen.mc,
        labels,
        draws,
        rows,
        (float(seen.average[0]), float(seen.average[1])),
        (float(seen.average_mc[0]), float(seen.average_mc[1])),
        seen.lowest,
        seen.spreads,
        seen.correlation,
    )
