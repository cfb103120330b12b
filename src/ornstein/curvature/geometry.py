"""The loss around a point: its curvature A, and the covariance C of a row's gradient."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import whole
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.linalg.eigen import Spectrum
from ornstein.linalg.operators import Operator, as_operator
from ornstein.storage.codec import register
from ornstein.theory import accurate_rate

_STRUCTURE_ERROR = 0.02  # relative error of a variance that an approximate structure may cost


@register
@dataclass(frozen=True)
class Missed:
    """Eigenvalues of the true A relative to what a structure holds of it: all 1 where it is exact.

    Attributes
    ----------
    spectrum
        With all directions alike.
    by_variance
        With directions weighted by their posterior variance.
    """

    spectrum: Spectrum
    by_variance: Spectrum

    @property
    def rate(self) -> float:
        """The largest rate at which the approximation costs little (X2)."""
        return accurate_rate(self.spectrum, _STRUCTURE_ERROR)


@register
class Clustered(NamedTuple):
    """What stands for C where rows of a cluster are dependent, and how many clusters there are."""

    noise_cov: Operator
    clusters: int


@register
@dataclass(frozen=True)
class Geometry:
    """The loss around a point: A, C and what they are made from.

    Attributes
    ----------
    center
        The point, flat.
    gradient
        Gradient of the mean loss there.
    hessian, noise_cov, prior_hessian
        ``A``, ``C`` and the prior's share of ``A``, operators of one structure.
    num_data, rows_used
        N, and the rows the estimate is made from.
    hessian_error, noise_cov_error
        Standard errors; zero where all rows were used.
    missed
        What the structure misses of A; None where A is held whole, or its diagonal alone.
    along
        The same in an approximate structure that a gain is to have, where A itself is held too.
    clustered
        What stands for C where rows depend on one another in clusters; None where they do not.
    """

    center: Vector
    gradient: Vector
    hessian: Operator
    noise_cov: Operator
    prior_hessian: Operator
    num_data: int
    rows_used: int
    hessian_error: Operator
    noise_cov_error: Operator
    missed: Missed | None = None
    along: "Geometry | None" = None
    clustered: Clustered | None = None

    @classmethod
    def of(
        cls,
        center: npt.ArrayLike,
        hessian: npt.ArrayLike,
        noise_cov: npt.ArrayLike,
        num_data: int,
        prior_hessian: npt.ArrayLike | None = None,
        gradient: npt.ArrayLike | None = None,
    ) -> "Geometry":
        """From statistics found elsewhere: a stream, another framework, an online estimate.

        Parameters
        ----------
        center
            Parameters at the optimum, (D,).
        hessian
            ``A``, the Hessian of the mean loss with its share of the prior: (D, D), or its
            diagonal (D,).
        noise_cov
            ``C``, the covariance of one row's gradient, alike.
        num_data
            Number of rows.
        prior_hessian
            The prior's share of ``A``; nothing if not given.
        gradient
            Gradient of the mean loss at the centre; zero if not given.

        Examples
        --------
        >>> Geometry.of([0.0, 0.0], np.eye(2), np.eye(2), num_data=100).structure
        'dense'
        """
        given: dict[str, Any] = {"center": center, "hessian": hessian, "noise_cov": noise_cov}
        given |= {"prior_hessian": prior_hessian, "gradient": gradient}
        found = {name: _numbers(name, part) for name, part in given.items() if part is not None}
        point, A, C = found["center"], found["hessian"], found["noise_cov"]
        prior, slope = found.get("prior_hessian", 0.0 * A), found.get("gradient", 0.0 * point)
        D, shapes = (point.size,), {A.shape, C.shape, prior.shape}
        if {point.shape, slope.shape} != {D} or shapes not in ({D}, {D * 2}):
            listed = ", ".join(f"{name} {array.shape}" for name, array in found.items())
            raise InputError(
                "center and gradient must have shape (D,); hessian, noise_cov and prior_hessian "
                f"(D, D), or (D,) for diagonals. Found {listed}."
            )
        N, none = whole("num_data", num_data), as_operator(0.0 * A)
        held = as_operator(A), as_operator(C), as_operator(prior)
        return cls(point, slope, *held, N, N, none, none)

    @property
    def structure(self) -> str:
        """How A and C are held: ``dense``, ``diagonal``, ``per-class`` and so on."""
        return self.hessian.structure

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.center)

    @property
    def approximate(self) -> bool:
        """Whether A is held approximately only, and otherwise known by products with it."""
        return self.missed is not None

    @property
    def frame(self) -> "Geometry":
        """What a gain is made from: the approximate structure, where there is one."""
        return self.along or self

    @property
    def rate(self) -> float:
        """The fastest rate of a gain by which what its structure misses costs little."""
        return 1.0 if self.missed is None else self.missed.rate

    @property
    def likelihood(self) -> Operator:
        """The rows' share of A."""
        return self.hessian.like(self.hessian.array - self.prior_hessian.array)

    @property
    def precision(self) -> Operator:
        """``N A``, the posterior's precision."""
        return self.hessian.scaled(self.num_data)

    @property
    def covariance(self) -> Operator:
        """``(N A)^-1``, the posterior's covariance near the optimum."""
        return self.precision.inverse()

    @property
    def calibrated_covariance(self) -> Operator:
        """The same, scaled to the trace that A itself gives where it is held approximately."""
        if self.missed is None:
            return self.covariance
        return self.covariance.like(
            self.missed.by_variance.mean(lambda nodes: 1 / nodes) / self.precision.array
        )

    @property
    def logdet(self) -> float:
        """``log|N A|``, corrected by what the structure misses."""
        scale = self.dim * math.log(self.num_data)
        found = scale + self.hessian.logdet(self.dim)
        if self.missed is None:
            return found
        return found + self.dim * self.missed.spectrum.mean(np.log)

    @property
    def relative_error(self) -> float:
        """Largest standard error of a diagonal entry of A or C, relative to the entry."""
        pairs = (self.hessian_error, self.hessian), (self.noise_cov_error, self.noise_cov)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = [np.nan_to_num(e.own / m.own, posinf=0.0) for e, m in pairs]
        return float(max(np.max(ratio) for ratio in ratios))

    @property
    def distance_to_optimum(self) -> float:
        """Newton's step from here in posterior standard deviations, over the root of D."""
        step = np.asarray(self.hessian.inverse().matvec(self.gradient))
        return math.sqrt(max(0.0, float(self.num_data * self.gradient @ step)) / self.dim)

    def beside(self, hessian: Operator, noise_cov: Operator, missed: Missed) -> "Geometry":
        """The same, with A and C also in an approximate structure."""
        prior = hessian.project(self.prior_hessian)
        along = replace(self, hessian=hessian, noise_cov=noise_cov, prior_hessian=prior)
        return replace(self, along=replace(along, missed=missed))

    def under_prior(self, prior: Vector) -> "Geometry":
        """The same curvature of the rows under another prior, its share given in this structure."""
        hessian = self.likelihood.array + prior
        return replace(
            self, hessian=self.hessian.like(hessian), prior_hessian=self.prior_hessian.like(prior)
        )


def _numbers(name: str, value: Any) -> Vector:
    try:
        array: Vector = np.asarray(value, float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}.") from error
    if not np.all(np.isfinite(array)):
        raise InputError(f"{name} holds NaN or infinite values; give finite numbers.")
    return array
