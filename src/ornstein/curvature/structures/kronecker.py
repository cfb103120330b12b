"""Curvature and noise in Kronecker factors, for models of several linear predictors.

A basis ``V = V_c (x) V_f`` over outputs and columns is fitted to the Hessian; A and C are then
known by their diagonals in it, which are exact sums over rows. The prior's precision is the
identity in the basis, so directions that only the prior sees keep exactly its variance.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.trees import num_rows
from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.curvature.deviations import Deviations, PredictorDeviations
from ornstein.curvature.geometry import Geometry, Missed
from ornstein.curvature.products import of_model
from ornstein.curvature.row_sums import design_rows, of_predictors
from ornstein.curvature.structures import contract
from ornstein.curvature.structures.contract import (
    BasisStructure,
    RowSums,
    SearchUnits,
    Structure,
    find,
)
from ornstein.linalg.bases import Basis, KroneckerBasis, by_output
from ornstein.linalg.eigen import Spectrum, relative_eigh
from ornstein.linalg.operators import Operator
from ornstein.models.contract import Factored, Model
from ornstein.models.posterior import Posterior

_FIT_ROWS = 20_000  # rows that choose the basis; all rows then choose the values along it
_FITS = 2  # rounds of fitting one factor given the other
_UNSEEN = 1e-12  # share of the curvature below which the rows do not see a direction of outputs


class KroneckerStructure(BasisStructure):
    """Outputs and columns by themselves."""

    name = "kronecker"
    words = "in Kronecker factors"
    search = SearchUnits(rows=10_000, tolerance=1e-2, patient=True)

    def refuse(self, post: Posterior) -> None:
        if post.model.factored is None:
            raise InputError(
                "structure='kronecker' needs a model of linear predictors, such as "
                "models.softmax; use structure='dense' or 'diagonal' for others."
            )

    def fits(self, post: Posterior) -> bool:
        predictors = post.model.factored
        width = contract.LIMITS.width
        return predictors is not None and predictors.outputs > 1 and predictors.width <= width

    def held(self, post: Posterior) -> Structure:
        """Matrices where they fit, so that the error of factors is predicted."""
        dense = find("dense")
        return dense if dense.fits(post) else self

    def fit(self, post: Posterior, theta: Vector, rows: PyTree) -> KroneckerBasis:
        """A basis in which the Hessian is nearly diagonal, and the prior's the identity.

        ``P (x) G`` nearest to the rows' share of the Hessian in Frobenius' norm, by power
        iterations: ``G = sum <P, H_n> u u'``, ``P = sum (u' G u) H_n``. V_c and V_f are their
        eigenvectors, columns measured in units of the prior's standard deviation. All iterations
        but the last are in single precision.
        """
        predictors = of_model(post.model)
        scale = prior_scale(post, theta, predictors)
        step = max(1, num_rows(rows) // _FIT_ROWS)
        some = jax.tree.map(lambda leaf: leaf[::step], rows)
        P, G = np.eye(predictors.outputs), np.eye(predictors.width)
        for number in range(_FITS):
            total = partial(of_predictors, post, some, single=number < _FITS - 1)
            G = total(partial(_gram, post.model), theta, scale, P)
            G = G / max(float(np.trace(G)), np.finfo(float).tiny)
            P = total(partial(_output_factor, post.model), theta, scale, G)
            P = P / max(float(np.trace(P)), np.finfo(float).tiny)
        return KroneckerBasis(_vectors(P), _vectors(G), scale, predictors.features)

    def sums(
        self, post: Posterior, theta: Vector, rows: PyTree, basis: Basis | None, with_noise: bool
    ) -> tuple[Basis, RowSums]:
        del with_noise
        basis = basis or self.fit(post, theta, rows)
        total = of_predictors(post, rows, partial(_diagonals, post.model), theta, basis)
        gradient, outer, hessian = total
        by_outputs = hessian.sum(axis=1)
        seen = by_outputs > _UNSEEN * by_outputs.sum()
        hessian, outer = hessian * seen[:, None], outer * seen[:, None]
        return basis, RowSums(gradient, outer.reshape(-1), hessian.reshape(-1))

    def attach(self, post: Posterior, geometry: Geometry) -> Geometry:
        """The geometry's matrices along a basis, and their spectrum there."""
        with double_precision():
            basis = self.fit(post, geometry.center, post.data)
        parts = (geometry.hessian, geometry.noise_cov)
        inside, noise = (basis.inside(np.asarray(part.array)) for part in parts)
        hessian = np.diag(inside).copy()
        found = relative_eigh(np.diag(hessian), inside)
        nodes = found.values
        weights = np.sum(np.asarray(basis.to_params(found.directions.T)) ** 2, axis=1)
        missed = Missed(
            Spectrum(nodes, np.full(len(nodes), 1 / len(nodes))),
            Spectrum(nodes, weights / weights.sum()),
        )
        return geometry.beside(
            self.operator(hessian, basis), self.operator(np.diag(noise).copy(), basis), missed
        )

    def deviations(
        self, post: Posterior, geometry: Geometry, cov: Operator, key: Key, order: int = 1
    ) -> Deviations:
        del order
        return KroneckerDeviations(post, geometry, cov, key)


def prior_scale(post: Posterior, theta: Vector, predictors: Factored) -> Vector:
    """The prior's standard deviation of every column, as a mean over outputs."""
    precision = np.asarray(post.model.prior_hessian_diagonal(jnp.asarray(theta), post.hyper))
    return 1 / np.sqrt(np.asarray(by_output(predictors, precision)).mean(axis=0))


def _vectors(matrix: Vector) -> Vector:
    return np.asarray(np.linalg.eigh(0.5 * (matrix + matrix.T))[1])


class KroneckerDeviations(PredictorDeviations):
    """Diagonals along the factors."""

    def __init__(self, post: Posterior, geometry: Geometry, cov: Operator, key: Key) -> None:
        width = of_model(post.model).width
        super().__init__(post, geometry, cov, key, width**2)

    def _arrays(self) -> tuple[tuple[Any, ...], int]:
        arrays = self.root.basis, self.cov.array, self.geometry.center
        return jax.tree.map(jnp.asarray, arrays), design_rows(of_model(self.post.model))

    def leverages_of(self, *block: Any) -> Array:
        return _leverages(self.post.model, *block)

    def block_sums(self, lines: Array, *block: Any) -> Array:
        """Diagonals of sums over a block's rows for every line of weights."""
        return _sums(self.post.model, *block, lines)

    def residual_squares(self, *block: Any) -> Array:
        """Covariances (n, K, K) of the rows' residuals about those at the anchor."""
        return _terms(self.post.model, *block)[2]


def _along(predictors: Factored, basis: KroneckerBasis, rows: PyTree) -> Array:
    """Designs along V_f."""
    return predictors.design(rows, basis.inner.dtype) @ (basis.scale[:, None] * basis.inner)


def _in_outputs(basis: KroneckerBasis, matrices: Array) -> Array:
    """Diagonals of ``V_c' M_n V_c``, (n, K)."""
    return jnp.einsum("ac,nab,bc->nc", basis.outer, matrices, basis.outer)


@partial(jax.jit, static_argnums=(0,))
def _gram(
    model: Model, theta: Array, scale: Array, P: Array, rows: PyTree, hyper: PyTree, present: Array
) -> Array:
    predictors = of_model(model)
    design = predictors.design(rows, scale.dtype) * scale[None]
    share = (predictors.curvatures(theta, rows, hyper) * P[None]).sum(axis=(1, 2))
    return (design * (present * share)[:, None]).T @ design


@partial(jax.jit, static_argnums=(0,))
def _output_factor(
    model: Model, theta: Array, scale: Array, G: Array, rows: PyTree, hyper: PyTree, present: Array
) -> Array:
    predictors = of_model(model)
    design = predictors.design(rows, scale.dtype) * scale[None]
    share = present * ((design @ G) * design).sum(axis=1)
    return jnp.einsum("n,nab->ab", share, predictors.curvatures(theta, rows, hyper))


@partial(jax.jit, static_argnums=(0,))
def _diagonals(
    model: Model, theta: Array, basis: KroneckerBasis, rows: PyTree, hyper: PyTree, present: Array
) -> tuple[Array, Array, Array]:
    predictors = of_model(model)
    squares = _along(predictors, basis, rows) ** 2
    residual = predictors.residuals(theta, rows, hyper) * present[:, None]
    curvature = _in_outputs(basis, predictors.curvatures(theta, rows, hyper)) * present[:, None]
    total = model.gradient_sum(theta, rows, hyper, present)
    return total, ((residual @ basis.outer) ** 2).T @ squares, curvature.T @ squares


def _deviation_terms(
    model: Model,
    basis: KroneckerBasis,
    variances: Array,
    anchor: Array,
    rows: PyTree,
    hyper: PyTree,
) -> tuple[Array, Array, Array]:
    """Of every row over a Gaussian around an anchor: what X9's noise is made of.

    Squares of the design along V_f (n, F), covariance (K, K) of its predictor, and of its
    residual about that at the anchor.
    """
    predictors = of_model(model)
    squares = _along(predictors, basis, rows) ** 2
    spread = squares @ variances.reshape(basis.shape).T
    predictor = jnp.asarray((basis.outer[None] * spread[:, None, :]) @ basis.outer.T)
    return squares, predictor, predictors.residual_squares(anchor, predictor, rows, hyper)


_terms = jax.jit(_deviation_terms, static_argnums=(0,))


@partial(jax.jit, static_argnums=(0,))
def _leverages(model: Model, *block: Any) -> Array:
    """``sum_ab V_ab (u' cov_ab u)`` of every row."""
    _, predictor, residual = _deviation_terms(model, *block)
    return (predictor * residual).sum(axis=(1, 2))


@partial(jax.jit, static_argnums=(0,))
def _sums(model: Model, basis: KroneckerBasis, *block_and_lines: Any) -> Array:
    """Diagonals of ``V' E[d d'] V`` for every line of weights."""
    *block, lines = block_and_lines
    squares, _, residual = _deviation_terms(model, basis, *block)
    along = _in_outputs(basis, residual)
    return jnp.stack([((along * line[:, None]).T @ squares).reshape(-1) for line in lines])
