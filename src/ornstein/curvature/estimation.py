"""A and C at a point: the Hessian of the mean loss and the covariance of a row's gradient.

Computed in float64 whatever the sampling precision, over all rows in blocks of bounded memory, or
from a subsample with standard errors.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.precision import double_precision
from ornstein._base.trees import in_double, num_rows
from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.curvature import by_class, factored
from ornstein.data.passes import sum_over_blocks
from ornstein.linalg.bases import Basis, ClassBasis, KroneckerBasis
from ornstein.linalg.operators import AlongBasis
from ornstein.models.contract import Model, per_example
from ornstein.models.posterior import Posterior
from ornstein.storage.codec import register
from ornstein.theory import Spectrum, accurate_rate, joint_diagonalisation

STRUCTURES = ("scalar", "diagonal", "dense", "kronecker", "classes")
FACTORED = ("kronecker", "classes")
"""Structures of gains along a basis; classes, and where matrices do not fit, A is so known too."""

_BLOCK_NUMBERS = 2**22  # float64 numbers in a block of row gradients: 32 MiB
_WIDE = 2000  # parameters beyond which rows' gradients are summed, never held
_STRUCTURE_ERROR = 0.02  # relative error of a variance that a basis may cost
_GROUPS = 32  # groups of rows whose scatter gives the subsample's standard errors


@register
@dataclass(frozen=True)
class Factors:
    """A and C by their diagonals in a basis.

    Attributes
    ----------
    basis
        ``V``; the inverse of A is about ``V diag(1 / hessian) V'``.
    hessian, noise_cov
        A and C along the basis, flat: the diagonals of ``V' A V`` and ``V' C V``, or of a
        :class:`~ornstein.linalg.bases.ClassBasis` as :mod:`ornstein.curvature.by_class` has them.
    spectrum
        Eigenvalues of A relative to that approximation, all directions alike.
    by_variance
        The same, directions weighed by their posterior variance.
    """

    basis: Basis
    hessian: Vector
    noise_cov: Vector
    spectrum: Spectrum
    by_variance: Spectrum

    @property
    def rate(self) -> float:
        """The largest rate at which the approximation costs little (X2)."""
        return accurate_rate(self.spectrum, _STRUCTURE_ERROR)

    def operator(self, along: Vector) -> AlongBasis:
        """``V diag(along) V'``."""
        return AlongBasis(self.basis, along)

    def diagonal(self, matrix: Vector) -> Vector:
        """Diagonal of ``V' M V``; a vector is that already."""
        if matrix.ndim == 1:
            return matrix
        return np.diag(self.basis.adjoint(np.asarray(self.basis.adjoint(matrix)).T)).copy()


@register
@dataclass(frozen=True)
class Geometry:
    """The loss around a point.

    Attributes
    ----------
    center
        The point, flat.
    hessian
        ``A``: (D, D), its diagonal (D,), or the mean of that, 0-d; where it is known ``in_factors``
        its diagonal in their basis.
    noise_cov
        ``C`` in the same structure.
    gradient
        Gradient of the mean loss at the point.
    prior_hessian
        The prior's share of ``A``.
    num_data, rows_used
        N, and the rows the estimate is made from.
    hessian_error, noise_cov_error
        Standard errors; zero where all rows were used.
    factors
        A and C along a basis, where that is wanted.
    """

    center: Vector
    hessian: Vector
    noise_cov: Vector
    gradient: Vector
    prior_hessian: Vector
    num_data: int
    rows_used: int
    hessian_error: Vector
    noise_cov_error: Vector
    factors: Factors | None = None

    @property
    def structure(self) -> str:
        """One of ``STRUCTURES``."""
        if self.factors is not None and self.hessian.ndim == 1:
            return self.factors.basis.structure
        return STRUCTURES[self.hessian.ndim]

    @property
    def in_factors(self) -> bool:
        """Whether A is known along a basis only, and by products with it."""
        return self.structure in FACTORED

    @property
    def relative_error(self) -> float:
        """Largest standard error of a diagonal entry of A or C, relative to the entry."""
        errors = [_diagonal(self.hessian_error), _diagonal(self.noise_cov_error)]
        values = [_diagonal(self.hessian), _diagonal(self.noise_cov)]
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = [np.nan_to_num(e / v, posinf=0.0) for e, v in zip(errors, values, strict=True)]
        return float(max(np.max(ratio) for ratio in ratios))


def _diagonal(matrix: Vector) -> Vector:
    return np.diag(matrix) if matrix.ndim == 2 else matrix


def geometry(
    post: Posterior,
    at: PyTree,
    structure: str = "dense",
    rows: int | None = None,
    key: Key = 0,
) -> Geometry:
    """Estimate A and C at a point.

    Parameters
    ----------
    post
        The posterior.
    at
        Parameters to look at; usually the optimum.
    structure
        ``dense``, ``diagonal``, ``scalar``, or for a model of linear predictors ``kronecker``, or
        ``classes`` if its residuals sum to zero.
    rows
        Use this many random rows instead of all, with standard errors.
    key
        Chooses the subsample.

    Examples
    --------
    >>> import ornstein as orn
    >>> post = orn.models.linear([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.5])
    >>> orn.geometry(post, at={"coef": np.array([1.0])}).hessian
    array([[5.]])
    """
    products = factored.LANCZOS if structure == "kronecker" else factored.LANCZOS // 2
    return _estimate(post, at, structure, _groups(post, rows, key), products)


def glance(
    post: Posterior, at: PyTree, structure: str, rows: int | None, near: Geometry | None = None
) -> Geometry:
    """The same for means over the posterior: the ends of relative spectra are not looked for.

    Nor standard errors. Factors are along the basis of those seen nearby, if any were.
    """
    basis = None if near is None or near.factors is None else near.factors.basis
    basis = basis if basis is not None and basis.structure == structure else None
    some = _joined(_groups(post, rows, 0))
    return _estimate(post, at, structure, [some], factored.FEW_LANCZOS, basis, with_noise=False)


def _estimate(
    post: Posterior,
    at: PyTree,
    structure: str,
    groups: list[PyTree],
    products: int,
    basis: Basis | None = None,
    with_noise: bool = True,
) -> Geometry:
    checks.choice("structure", structure, STRUCTURES)
    post = post.at(at)
    theta = post.layout.ravel(at)
    dense = structure == "dense"
    with double_precision():
        prior = prior_terms(post.model, theta, post.hyper, dense)
        if structure == "kronecker":
            basis = basis or factored.fit_basis(post, theta, _joined(groups))
        elif structure == "classes" and len(groups) > 1:
            basis, _ = by_class.look(post, theta, _joined(groups), with_noise=False)
        sums, basis = _sums_of(post, theta, groups, structure, basis, with_noise)
        if basis is not None:
            prior = prior[0], basis.prior(prior[1])
    used = sum(s.rows for s in sums)
    pooled = _Sums(used, *(np.sum([getattr(s, f) for s in sums], axis=0) for f in _Sums.FIELDS))
    mean = pooled.gradient / used
    if basis is not None:
        mean = np.asarray(basis.adjoint(mean))
    hessian, noise = pooled.finish(prior[1], mean, post.num_data)
    parts = [s.finish(prior[1], mean, post.num_data) for s in sums]
    correction = np.sqrt(max(0.0, 1 - used / post.num_data) / max(1, len(parts)))
    shrink = _mean_diagonal if structure == "scalar" else np.asarray
    errors = [
        np.std([shrink(part[i]) for part in parts], axis=0, ddof=1) * correction
        if len(parts) > 1
        else np.zeros_like(shrink(hessian))
        for i in (0, 1)
    ]
    found = Geometry(
        center=theta,
        hessian=shrink(hessian),
        noise_cov=shrink(noise),
        gradient=per_example(pooled.gradient, used, prior[0], post.num_data),
        prior_hessian=shrink(per_example(np.zeros_like(prior[1]), used, prior[1], post.num_data)),
        num_data=post.num_data,
        rows_used=used,
        hessian_error=errors[0],
        noise_cov_error=errors[1],
    )
    if basis is None:
        return found
    return _with_spectrum(post, found, basis, _joined(groups), products)


def _with_spectrum(
    post: Posterior, found: Geometry, basis: Basis, data: PyTree, products: int
) -> Geometry:
    root = AlongBasis(basis, 1 / found.hessian).sqrt()
    with double_precision():
        spectra = factored.relative_spectrum(post, found.center, root, data, products)
    return replace(found, factors=Factors(basis, found.hessian, found.noise_cov, *spectra))


def under_prior(known: Geometry, post: Posterior) -> Geometry:
    """The same curvature of the rows, under another prior: that of ``post``.

    Of matrices, their diagonals, or factors alone.
    """
    with double_precision():
        _, prior = prior_terms(post.model, known.center, post.hyper, known.hessian.ndim == 2)
    factors = known.factors if known.in_factors else None
    if factors is not None:
        prior = factors.basis.prior(prior)
    prior = prior / known.num_data
    hessian = known.hessian - known.prior_hessian + prior
    if factors is not None:
        factors = replace(factors, hessian=hessian)
    return replace(known, hessian=hessian, prior_hessian=prior, factors=factors)


def factorise(post: Posterior, known: Geometry) -> Geometry:
    """The same geometry, its matrices also in Kronecker factors."""
    with double_precision():
        basis = factored.fit_basis(post, known.center, post.data)
    matrices = known.hessian, known.noise_cov
    inside = [np.asarray(basis.adjoint(np.asarray(basis.adjoint(m)).T)) for m in matrices]
    hessian, noise_cov = (np.diag(matrix).copy() for matrix in inside)
    vectors, nodes = joint_diagonalisation(np.diag(hessian), inside[0])
    alike = Spectrum(nodes, np.full(len(nodes), 1 / len(nodes)))
    weights = np.sum(np.asarray(basis.to_params(vectors.T)) ** 2, axis=1)
    by_variance = Spectrum(nodes, weights / weights.sum())
    return replace(known, factors=Factors(basis, hessian, noise_cov, alike, by_variance))


def _joined(groups: list[PyTree]) -> PyTree:
    if len(groups) == 1:
        return groups[0]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *groups)


def _mean_diagonal(diagonal: Vector) -> Vector:
    return np.asarray(diagonal.mean())


@dataclass(frozen=True)
class _Sums:
    """Sums over rows: gradients, their outer products (or squares), Hessians (or diagonals)."""

    rows: int
    gradient: Vector
    outer: Vector
    hessian: Vector

    FIELDS = ("gradient", "outer", "hessian")

    def finish(self, prior: Vector, mean: Vector, num_data: int) -> tuple[Vector, Vector]:
        """A and C; C about the mean gradient of all rows used."""
        centred = np.outer(mean, mean) if self.outer.ndim == 2 else mean**2
        hessian = per_example(self.hessian, self.rows, prior, num_data)
        noise = self.outer / self.rows - centred
        if noise.ndim == 2:
            return 0.5 * (hessian + hessian.T), 0.5 * (noise + noise.T)
        return hessian, np.maximum(noise, 0.0)


def mean_gradient(post: Posterior, theta: Vector) -> Vector:
    """Gradient of the mean loss over all rows."""

    def block(rows: PyTree, weights: Vector) -> Array:
        here = in_double(rows)
        return _gradient_sum(post.model, jnp.asarray(theta), here, post.hyper, weights)

    with double_precision():
        total = sum_over_blocks(post.data, block_rows(post), block)
        prior = np.asarray(post.model.prior_gradient(jnp.asarray(theta), post.hyper))
    return per_example(total, post.num_data, prior, post.num_data)


@partial(jax.jit, static_argnums=(0,))
def _gradient_sum(model: Model, theta: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
    return model.gradient_sum(theta, rows, hyper, weights)


def block_rows(post: Posterior) -> int:
    """Rows of a block whose gradients stay within the memory bound."""
    if post.dim > _WIDE and post.model.factored is not None:  # which make no rows' gradients
        return factored.block_rows(post.model.factored)
    return max(64, _BLOCK_NUMBERS // post.dim)


def chosen_rows(post: Posterior, rows: int, key: Key) -> npt.NDArray[np.int64]:
    """Numbers of random rows, without repetition, in no order."""
    seed = np.asarray(jax.random.key_data(checks.random_key(key))).tolist()
    return np.random.default_rng(seed).choice(post.num_data, size=rows, replace=False)


def _groups(post: Posterior, rows: int | None, key: Key) -> list[PyTree]:
    """All rows as one group, or a subsample in groups."""
    if rows is None:
        return [post.data]
    checks.whole(
        "geometry_rows", rows, low=2 * _GROUPS, high=post.num_data, why="the number of rows"
    )
    parts = [np.sort(part) for part in np.array_split(chosen_rows(post, rows, key), _GROUPS)]
    return [jax.tree.map(lambda leaf, part=part: leaf[part], post.data) for part in parts]


def _sums_of(
    post: Posterior,
    theta: Vector,
    groups: list[PyTree],
    structure: str,
    basis: Basis | None,
    with_noise: bool,
) -> tuple[list[_Sums], Basis | None]:
    """Those of every group of rows, and the basis along which they are."""
    if structure != "classes":
        return [_sums(post, theta, rows, structure == "dense", basis) for rows in groups], basis
    sums = []
    for rows in groups:
        assert basis is None or isinstance(basis, ClassBasis)
        basis, found = by_class.look(post, theta, rows, basis, with_noise)
        sums.append(_Sums(num_rows(rows), *found))
    return sums, basis


def _sums(post: Posterior, theta: Vector, data: PyTree, dense: bool, basis: Basis | None) -> _Sums:
    if isinstance(basis, KroneckerBasis):
        return _Sums(num_rows(data), *factored.diagonals(post, theta, basis, data))
    if not dense and post.model.factored is not None:
        return _Sums(num_rows(data), *factored.parameter_diagonals(post, theta, data))

    def block(rows: PyTree, weights: Vector) -> PyTree:
        here = in_double(rows)
        return _block_sums(post.model, dense, jnp.asarray(theta), here, post.hyper, weights)

    totals = sum_over_blocks(data, block_rows(post), block)
    return _Sums(num_rows(data), *totals)


@partial(jax.jit, static_argnums=(0, 1))
def _block_sums(
    model: Model, dense: bool, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> tuple[Array, Array, Array]:
    if dense:
        total = model.gradient_sum(theta, rows, hyper, weights)
        return total, *model.second_sums(theta, rows, hyper, weights)
    gradients = model.gradients(theta, rows, hyper)
    total = weights @ gradients
    diagonal = model.hessian_diagonal_sum(theta, rows, hyper, weights)
    return total, weights @ gradients**2, diagonal


def prior_terms(model: Model, theta: Vector, hyper: PyTree, dense: bool) -> tuple[Vector, Vector]:
    """Gradient and Hessian of ``-log p(theta)``, or its diagonal."""
    gradient, hessian = _prior_terms(model, jnp.asarray(theta), hyper, dense)
    return np.asarray(gradient), np.asarray(hessian)


@partial(jax.jit, static_argnums=(0, 3))
def _prior_terms(model: Model, theta: Array, hyper: PyTree, dense: bool) -> tuple[Array, Array]:
    hessian = model.prior_hessian if dense else model.prior_hessian_diagonal
    return model.prior_gradient(theta, hyper), hessian(theta, hyper)
