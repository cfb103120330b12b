"""How far draws are from the posterior itself, by Stein's identities (X12).

No reference sampler and no Gaussian assumption: the gradient of the log posterior at the draws is
all it takes. It serves draws of every method, and those of other libraries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from ornstein import theory
from ornstein._base.checks import aligned
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.hyper_targets import DrawnHyper, drawn_beside
from ornstein.models.posterior import Posterior, as_posterior
from ornstein.models.unconstrained import as_vectors
from ornstein.results.gradients import Gradients
from ornstein.results.noise import spaced
from ornstein.theory import ImpliedErrors

Indices: TypeAlias = list[npt.NDArray[np.intp]]

_WORK = 2e9  # multiplications: a second or two, in proportion more beyond MATRICES parameters
_BATCHES = 16  # of draws, each with rows of its own, for Monte-Carlo errors
_FEWEST, _MOST = 256, 2048  # draws at which gradients are taken
_PER_PARAMETER = 4  # draws
_LARGEST = 5000  # parameters: beyond, it would take minutes
_ALARM = 0.01  # chance that one of all parameters seems to be wrong
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
        The draws' skewness less the posterior's, to first order.
    mean_mc_error, sd_mc_error
        Monte-Carlo errors of the first two, as estimates of the error of these draws; of more than
        500 parameters up to half too large.
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
    labels: tuple[str, ...]
    draws: int
    rows: int
    average_error: tuple[float, float] = (0.0, 0.0)
    average_mc_error: tuple[float, float] = (0.0, 0.0)
    lowest_curvature: tuple[float, float] = (1.0, 0.0)
    """The least of the posterior's curvature over the draws in any direction, which is 1 for right
    ones, and its Monte-Carlo error (up to 500 parameters)."""

    @property
    def verdict(self) -> str:
        """``ok``, ``warn`` or ``fail``.

        ``ok``: means are within 0.15 posterior standard deviations and standard deviations within
        10 %, and within 0.25 and 15 % even if two Monte-Carlo errors are added. ``fail``: a mean is
        beyond 0.25 or a standard deviation beyond 15 % even if three are taken off (more of many
        parameters, of which some are far off by chance), or the posterior's curvature at the draws
        is not that of a peak. ``warn`` where Monte-Carlo error leaves open whether it is.
        """
        if not self._curved:
            return "warn" if self._undecided else "fail"
        parts = (
            (np.abs(self.mean_error), self.mean_mc_error, GOOD[0], BAD[0]),
            (np.abs(self.sd_error), self.sd_mc_error, GOOD[1], BAD[1]),
        )
        average = np.abs(self.average_error) - 3 * np.asarray(self.average_mc_error)
        sure = max(3.0, -ndtri(_ALARM / (2 * len(self.labels))))
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
        return bool(lowest + 2 * error > 1)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if not self._curved and self._undecided:
            return (
                "The draws cannot be judged: the posterior's gradients differ too much between "
                "them, as in a funnel. More draws may tell."
            )
        if not self._curved:
            return (
                "The draws are not the posterior's, or it has no peak where they are: its "
                "curvature there is not positive in every direction."
            )
        mean, sd = np.abs(self.mean_error).max(), np.abs(self.sd_error).max()
        if self.verdict == "fail":
            return (
                f"The draws are not the posterior's: means are off by up to {mean:.2f} posterior "
                f"standard deviations, standard deviations by up to {sd:.0%}."
            )
        within = f"within {mean:.2f} standard deviations and {sd:.0%} of the posterior"
        if self.verdict == "ok":
            return f"The draws are {within}."
        if mean <= GOOD[0] and sd <= GOOD[1]:
            return f"The draws seem to be {within}, but there are too few of them to be sure."
        return f"The draws are only {within}."

    def __str__(self) -> str:
        """The verdict, and the worst parameters."""
        mean, sd = np.abs(self.mean_error), np.abs(self.sd_error)
        return "\n".join([self.sentence, *aligned([("", "mean", "sd"), *self._worst(mean, sd)])])

    def _worst(self, mean: Vector, sd: Vector) -> Iterator[tuple[str, str, str]]:
        """The parameters that are furthest off, five at most."""
        order = np.argsort(-np.nan_to_num(np.maximum(mean / BAD[0], sd / BAD[1]), nan=np.inf))
        for i in order[:5]:
            yield (
                self.labels[i],
                f"{self.mean_error[i]:+.3f} +- {self.mean_mc_error[i]:.3f} sd",
                f"{self.sd_error[i]:+.1%} +- {self.sd_mc_error[i]:.1%}",
            )


def check(post: Posterior, draws: Any) -> Accuracy:
    """Measure how far draws are from a posterior, whatever made them.

    Stein's identities hold for draws of the posterior whatever its shape: the mean of the gradient
    of the log posterior is zero, its covariance with the parameters is minus the identity (X12).
    What the draws give instead says how far their means and standard deviations are off. The error
    of too few draws counts, too: it is that of these draws. A mode that no draw has visited is not
    seen. Beyond 500 parameters, up to 5,000, each is judged on its own, by some thousand draws.

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
) -> Accuracy:
    """The same within a number of multiplications; where all rows take more, some stand for all.

    Gradients are taken at ``most`` draws at most. With ``hyper``, of parameters and
    hyperparameters together.
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
    flat = spaced(flat, 2 * _MOST) if wide else flat
    _scale(flat, labels)
    center, blocks = (
        flat[:, : post.dim].mean(axis=0),
        np.array_split(np.arange(len(flat)), _BATCHES),
    )
    count = min(len(flat), max(_FEWEST, _PER_PARAMETER * post.dim))
    work *= max(1.0, post.dim / MATRICES)  # as the rest of the measurement takes more
    gradients = Gradients.within(work, post, center, count, min(len(flat), most))
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
    judge = partial(_judged, labels=labels, blocks=blocks, taken=taken, wide=wide)
    figures = judge(flat, gradients=found)
    if hyper is not None and hyper.is_scaled:
        # Stein's identities hold in any coordinates: the less noisy ones are believed.
        pairs = zip(taken, found, strict=True)
        scaled = [hyper.gradients_in_scales(flat[part], own) for part, own in pairs]
        other = judge(hyper.in_scales(flat), gradients=scaled)
        figures = min(figures, other, key=_Figures.noise)
    return _accuracy(figures, labels, len(at), gradients.rows)


def judged(
    flat: Vector, at: npt.NDArray[np.intp], gradients: Vector, labels: tuple[str, ...], rows: int
) -> Accuracy:
    """The same of draws (draws, D) by gradients of ``-log p`` that were taken ``at`` some of them.

    ``rows`` is over how many rows each.
    """
    if not np.isfinite(gradients).all():
        raise InputError("the log posterior's gradient is not finite at some of the draws")
    blocks = np.array_split(np.arange(len(flat)), _BATCHES)
    masks = [np.isin(at, block) for block in blocks]
    taken = [at[mask] for mask in masks]
    found = [gradients[mask] for mask in masks]
    return _accuracy(_judged(flat, found, labels, blocks, taken, False), labels, len(at), rows)


def _accuracy(figures: "_Figures", labels: tuple[str, ...], draws: int, rows: int) -> Accuracy:
    return Accuracy(
        figures.errors.mean,
        figures.errors.sd,
        figures.errors.skewness,
        figures.mean_mc,
        figures.sd_mc,
        labels,
        draws,
        rows,
        (float(figures.average[0]), float(figures.average[1])),
        (float(figures.average_mc[0]), float(figures.average_mc[1])),
        figures.lowest,
    )


class _Figures(NamedTuple):
    """Errors of parameters in some coordinates, their averages, and Monte-Carlo errors."""

    errors: ImpliedErrors
    mean_mc: Vector
    sd_mc: Vector
    average: Vector
    average_mc: Vector
    lowest: tuple[float, float]

    def noise(self) -> float:
        """The largest Monte-Carlo error; infinite where errors are not known."""
        parts = (self.errors.mean, self.errors.sd, self.mean_mc, self.sd_mc)
        if not all(np.isfinite(part).all() for part in parts):
            return np.inf
        return float(max(self.mean_mc.max(), self.sd_mc.max()))


def _judged(
    flat: Vector,
    gradients: list[Vector],
    labels: tuple[str, ...],
    blocks: Indices,
    taken: Indices,
    wide: bool,
) -> _Figures:
    """Errors of all draws, and their Monte-Carlo errors by leaving out one block after another."""
    judge = _one_by_one if wide else _together
    (mean, sd, skewness), offset, lowest = judge(
        flat, _scale(flat, labels), blocks, taken, gradients
    )
    average = np.column_stack([np.sqrt(np.maximum(offset, 0.0)), sd.mean(axis=1)])
    mean_mc, sd_mc, average_mc = (
        np.std(part[1:], axis=0) * np.sqrt(_BATCHES - 1) for part in (mean, sd, average)
    )
    if wide:  # among many errors by few batches, the smallest are so by chance
        mean_mc, sd_mc = (np.sqrt((mc**2 + np.mean(mc**2)) / 2) for mc in (mean_mc, sd_mc))
    errors = ImpliedErrors(mean[0], sd[0], skewness[0])
    spread = float(np.std(lowest[1:]) * np.sqrt(_BATCHES - 1))
    return _Figures(errors, mean_mc, sd_mc, average[0], average_mc, (float(lowest[0]), spread))


def _together(
    flat: Vector, scale: Vector, blocks: Indices, taken: Indices, gradients: list[Vector]
) -> tuple[ImpliedErrors, Vector, Vector]:
    """Errors by the inverse of the draws' covariance: of all blocks, then without each of them.

    Beside them the square of the mean's error over all directions, and the least curvature.
    """
    root = _root(flat, scale)
    whitened = [np.linalg.solve(root, (flat[part] - flat.mean(axis=0)).T).T for part in taken]
    along = [part @ root for part in gradients]
    found, lowest = [], []
    for left in range(-1, len(blocks)):
        z, g = (
            np.concatenate([part for i, part in enumerate(parts) if i != left])
            for parts in (whitened, along)
        )
        moments = theory.stein_moments(z, g, root)
        found.append(theory.implied_errors(moments, root))
        lowest.append(np.linalg.eigvalsh(0.5 * (moments.curvature + moments.curvature.T))[0])
    errors = ImpliedErrors(*(np.stack(part) for part in zip(*found, strict=True)))
    # Every parameter's own error is known well enough.
    return errors, np.zeros(len(found)), np.asarray(lowest)


def _one_by_one(
    flat: Vector, scale: Vector, blocks: Indices, taken: Indices, gradients: list[Vector]
) -> tuple[ImpliedErrors, Vector, Vector]:
    """The same of one parameter at a time, without a matrix of all."""
    z = (flat - flat.mean(axis=0)) / scale
    numbers = [part - block[0] for part, block in zip(taken, blocks, strict=True)]
    moments = theory.marginal_moments(
        [z[block] for block in blocks], numbers, [part * scale for part in gradients]
    )
    return theory.marginal_errors(moments), moments.offset, moments.curvature.min(axis=1)


def _scale(flat: Vector, labels: tuple[str, ...]) -> Vector:
    """The draws' standard deviations."""
    scale = flat.std(axis=0)
    if not scale.all():
        raise InputError(f"draws of {labels[int(np.argmin(scale))]} never move: all are the same.")
    return np.asarray(scale)


def _root(flat: Vector, scale: Vector) -> Vector:
    """The symmetric root of the draws' covariance, in their standard deviations: ``W W' = cov``."""
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(flat / scale, rowvar=False)))
    if values[0] <= 1e-12 * values[-1]:
        raise InputError(
            "draws lie in fewer dimensions than they have parameters: their covariance is singular."
        )
    return np.asarray(scale[:, None] * ((vectors * np.sqrt(values)) @ vectors.T))
