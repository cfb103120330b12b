"""Curvature and noise in per-class blocks, for models whose residuals sum to zero.

A softmax's Hessian has the blocks ``A_jk = mean (1[j=k] p_j - p_j p_k) u u'``. Its own inverse is
near ``P diag(A_kk)^-1 P``, where P takes from every column its mean over classes: what all classes
have in common is the prior's alone. Eigenvectors of the blocks on the diagonal make the basis; what
the rows know counts ``K / (K - 1)`` times there, so that A is its approximation on the average.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError
from ornstein._base.trees import in_double, num_rows
from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.curvature.deviations import Deviations, PredictorDeviations, Rows
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.products import LANCZOS, of_model
from ornstein.curvature.row_sums import design_rows
from ornstein.curvature.structures import contract
from ornstein.curvature.structures.contract import BasisStructure, RowSums
from ornstein.curvature.structures.kronecker import prior_scale
from ornstein.data.passes import sum_over_blocks
from ornstein.linalg.bases import Basis, ClassBasis
from ornstein.linalg.operators import Operator
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior

_BLOCK_NUMBERS = 2**22  # float64 numbers in a block of designs: 32 MiB
_NOISE_ROWS = 2**14  # rows from which the gradients' outer products are known well enough
_ROUNDING = 0.1  # of the prior's precision, which single precision may add
_NEGLIGIBLE = 3e-3  # of a class's mean weight: rows of less are left out of its block
_FLOOR_ROWS = 2**12  # rows that tell that mean


class PerClassStructure(BasisStructure):
    """A block over the columns for every class."""

    name = "per-class"
    words = "with per-class blocks"
    products = LANCZOS // 2

    def refuse(self, post: Posterior) -> None:
        predictors = post.model.factored
        if predictors is None or not predictors.balanced:
            raise InputError(
                "structure='per-class' needs a model of classes, such as models.softmax; use "
                "structure='dense' or 'diagonal' for others."
            )

    def fits(self, post: Posterior) -> bool:
        predictors, most = post.model.factored, contract.LIMITS
        if predictors is None or predictors.outputs < 2 or predictors.width > most.width:
            return False
        numbers = predictors.outputs * predictors.width**2
        return predictors.balanced and numbers <= most.class_numbers

    def fit(self, post: Posterior, theta: Vector, rows: PyTree) -> Basis | None:
        return self.sums(post, theta, rows, None, with_noise=False)[0]

    def sums(
        self, post: Posterior, theta: Vector, rows: PyTree, basis: Basis | None, with_noise: bool
    ) -> tuple[Basis, RowSums]:
        """Diagonals along the basis; outer products are those of 16,384 rows or more, or none."""
        predictors = of_model(post.model)
        scale = prior_scale(post, theta, predictors)
        matrices = partial(_matrices, post, theta, rows, with_noise)
        found, gradient = matrices(np.float32)
        share = post.num_data / num_rows(rows)
        if precision(share * float(np.einsum("kff,f->k", found, scale**2).max())) is np.float64:
            found, gradient = matrices(np.float64)
        outer, hessian = np.split(found, 2)
        if basis is None:
            vectors = np.linalg.eigh(hessian * scale[:, None] * scale)[1]
            basis = ClassBasis(vectors, scale, predictors.features)
        assert isinstance(basis, ClassBasis)
        return basis, RowSums(gradient, along(basis, outer), along(basis, hessian))

    def deviations(
        self, post: Posterior, geometry: Geometry, cov: Operator, key: Key, order: int = 1
    ) -> Deviations:
        del order
        return PerClassDeviations(post, geometry, cov, key)


def precision(relative: float) -> type[np.floating[Any]]:
    """What to sum rows in that know so many times as much as the prior."""
    return np.float64 if np.finfo(np.float32).eps * relative > _ROUNDING else np.float32


def _matrices(
    post: Posterior, theta: Vector, data: PyTree, with_noise: bool, dtype: npt.DTypeLike
) -> tuple[Vector, Vector]:
    """Outer products of gradients, then Hessians, of every class; and the sum of gradients."""
    model, here = post.model, jnp.asarray(theta)
    every = max(1, num_rows(data) // _NOISE_ROWS)
    floor = floors(post, theta, data)

    def block(rows: PyTree, present: Vector) -> tuple[Vector, Array]:
        there = in_double(rows)
        squares, curvature, gradient = _weights(
            model, here, there, post.hyper, jnp.asarray(present)
        )
        designs = design(model, there, dtype)
        own = grams(designs, np.asarray(curvature), floor[1])
        if not with_noise:
            return np.concatenate([np.zeros_like(own), own]), gradient
        count = max(1, int(present.sum()))
        some = np.arange(0, count, min(every, count))
        outer = grams(designs[some], np.asarray(squares)[some], floor[0])
        return np.concatenate([outer * (count / len(some)), own]), gradient

    return sum_over_blocks(data, design_rows(of_model(model), _BLOCK_NUMBERS), block)


def floors(post: Posterior, theta: Vector, data: PyTree) -> Vector:
    """Weights below which rows are left out: of squares of residuals and of curvatures, (2, K).

    From rows that do not depend on how they are read, so that all processes leave out the same.
    """
    count = num_rows(data)
    index = np.arange(0, count, max(1, count // _FLOOR_ROWS))[:_FLOOR_ROWS]
    rows = in_double(jax.tree.map(lambda leaf: leaf[index], data))
    given = jnp.asarray(theta), rows, post.hyper, jnp.ones(len(index))
    squares, curvature, _ = _weights(post.model, *given)
    return _NEGLIGIBLE * np.stack([np.mean(part, axis=0) for part in (squares, curvature)])


def along(basis: ClassBasis, matrices: Vector) -> Vector:
    """Diagonals of ``V_k' M_k V_k``, and nothing in common, as coordinates.

    Times ``K / (K - 1)``: P leaves so much less of them.
    """
    scale, inner = np.asarray(basis.scale), np.asarray(basis.inner)
    turned = (matrices * scale[:, None] * scale) @ inner
    own = np.maximum((turned * inner).sum(axis=1), 0.0) * basis.outputs / (basis.outputs - 1)
    return np.concatenate([own.reshape(-1), np.zeros(basis.width)])


def design(model: Model, rows: PyTree, dtype: npt.DTypeLike) -> Vector:
    """``u`` of every row, on the host."""
    return np.asarray(of_model(model).design(rows, dtype))


def grams(rows: Vector, weights: Vector, floor: Vector) -> Vector:
    """``sum_n w_nk u_n u_n'`` of a block for every class, of rows whose weight is above a floor."""
    found = []
    for each, least in zip(weights.T, floor, strict=True):
        chosen = np.flatnonzero(each > least)
        some = rows[chosen] * np.sqrt(each[chosen], dtype=rows.dtype)[:, None]
        found.append(some.T @ some)
    return np.stack(found).astype(float)


class Spreads(NamedTuple):
    """``V_k diag(cov_k)^(1/2)`` of every class (K, F, F), and the mean of their squares.

    With the least curvature by which a row knows of a class.
    """

    roots: Vector
    mean: Vector
    floor: Vector


def spreads(basis: ClassBasis, cov: Vector, floor: Vector, dtype: npt.DTypeLike) -> Spreads:
    """Those of a Gaussian whose coordinates have variances ``cov``."""
    K, F = basis.outputs, basis.width
    units = np.sqrt(cov[: K * F].reshape(K, 1, F))
    roots = np.asarray(basis.scale)[:, None] * np.asarray(basis.inner) * units
    mean = np.mean(roots @ roots.swapaxes(1, 2), axis=0)
    return Spreads(roots.astype(dtype), mean.astype(dtype), floor)


def predictor_cov(
    model: Model, spread: Spreads, theta: Array, rows: PyTree, hyper: PyTree
) -> Vector:
    """Covariances (n, K, K) of the rows' predictors, but for what all classes have in common.

    Of classes that a row hardly knows of, with the mean over classes.
    """
    u, known = design(model, rows, spread.mean.dtype), knows(model, spread, theta, rows, hyper)
    variances = np.repeat(((u @ spread.mean) * u).sum(axis=1)[:, None], known.shape[1], axis=1)
    for k, root in enumerate(spread.roots):
        chosen = np.flatnonzero(known[:, k])
        variances[chosen, k] = ((u[chosen] @ root) ** 2).sum(axis=1)
    contrast = np.eye(known.shape[1]) - 1 / known.shape[1]
    return np.asarray((contrast * variances[:, None, :]) @ contrast)


def knows(
    model: Model, spread: Spreads, theta: Array, rows: PyTree, hyper: PyTree
) -> npt.NDArray[np.bool_]:
    """Whether a row tells anything of a class, (n, K)."""
    present = jnp.ones(num_rows(rows))
    return np.asarray(_weights(model, theta, rows, hyper, present)[1]) > spread.floor


class PerClassDeviations(PredictorDeviations):
    """Diagonals along the eigenvectors of every class's block."""

    def __init__(self, post: Posterior, geometry: Geometry, cov: Operator, key: Key) -> None:
        super().__init__(post, geometry, cov, key, of_model(post.model).width ** 2)
        basis = self.root.basis
        assert isinstance(basis, ClassBasis)
        self.basis, self.summed = basis, max(1000, self.affordable // 4)
        relative = geometry.hessian.array / geometry.prior_hessian.array
        dtype = precision(float(relative.reshape(basis.shape).sum(axis=1).max()))
        floor = floors(post, geometry.center, post.data)[1]
        self.spreads = spreads(basis, np.asarray(cov.array), floor, dtype)

    def _arrays(self) -> tuple[tuple[Any, ...], int]:
        size = design_rows(of_model(self.post.model), _BLOCK_NUMBERS)
        return (jnp.asarray(self.geometry.center),), size

    def leverages_of(self, *block: Any) -> Array:
        predictor, residual = self._terms(*block)
        return (predictor * residual).sum(axis=(1, 2))

    def sums(self, index: Rows, weights: Vector) -> Vector:
        """Diagonals of means over rows, for every line of weights."""
        found = self._mean(self.block_sums, *self._some(index, weights), np.shape(self.basis.inner))
        return np.stack([along(self.basis, gram) for gram in found])

    def block_sums(self, lines: Array, *block: Any) -> Vector:
        own = np.einsum("nkk->nk", np.asarray(self.residual_squares(*block)))
        own = own * knows(self.post.model, self.spreads, *block)
        designs = design(self.post.model, block[1], self.spreads.mean.dtype)
        nothing = np.zeros(own.shape[1])
        weights = [np.asarray(line)[:, None] * own for line in lines]
        return np.stack([grams(designs, each, nothing) for each in weights])

    def residual_squares(self, *block: Any) -> Array:
        """Covariances (n, K, K) of the rows' residuals about those at the anchor."""
        return self._terms(*block)[1]

    def _terms(self, center: Array, rows: PyTree, hyper: PyTree) -> tuple[Array, Array]:
        predictor = jnp.asarray(predictor_cov(self.post.model, self.spreads, center, rows, hyper))
        return predictor, _residual_squares(self.post.model, center, predictor, rows, hyper)


@partial(jax.jit, static_argnums=(0,))
def _residual_squares(
    model: Model, center: Array, predictor: Array, rows: PyTree, hyper: PyTree
) -> Array:
    return of_model(model).residual_squares(center, predictor, rows, hyper)


@partial(jax.jit, static_argnums=(0,))
def _weights(
    model: Model, theta: Array, rows: PyTree, hyper: PyTree, present: Array
) -> tuple[Array, Array, Array]:
    """Squares of residuals, curvatures by every class's own predictor, (n, K); gradients' sum."""
    predictors = of_model(model)
    squares = predictors.residuals(theta, rows, hyper) ** 2 * present[:, None]
    own = jnp.diagonal(predictors.curvatures(theta, rows, hyper), axis1=1, axis2=2)
    total = model.gradient_sum(theta, rows, hyper, present)
    return squares, own * present[:, None], total
