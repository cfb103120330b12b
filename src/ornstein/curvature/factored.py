"""Curvature and noise in Kronecker factors, and products with A, for linear predictors.

A basis ``V = V_c (x) V_f`` over outputs and columns is fitted to the Hessian; A and C are then
known by their diagonals in it, which are exact sums over rows. The prior's precision is the
identity in the basis, so directions that only the prior sees keep exactly its variance. How far A
is from its diagonal there is looked at by Lanczos' method, without ever holding A.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.trees import cast, in_double, num_rows
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data.passes import sum_over_blocks
from ornstein.linalg.bases import KroneckerBasis, as_flat, by_output
from ornstein.linalg.operators import BasisRoot
from ornstein.models.contract import Factored, Model, per_example
from ornstein.models.posterior import Posterior
from ornstein.theory import Spectrum

BLOCK_NUMBERS = 2**20  # float64 numbers in a block of designs: 8 MiB, near a core
_FIT_ROWS = 20_000  # rows that choose the basis; all rows then choose the values along it
_FITS = 2  # rounds of fitting one factor given the other
_UNSEEN = 1e-12  # share of the curvature below which the rows do not see a direction of outputs
_PROBES = 2  # random directions from which Lanczos' method starts
LANCZOS = 24  # products it makes from each, to find the spectrum's ends
_SHARE = 1e-14  # of a start, below which an eigenvalue is rounding's
_ENDED = 3e-6  # of a product, what single precision leaves of it where there is no new direction
FEW_LANCZOS = 8  # the same, where means over it are all that is wanted


def predictors(post: Posterior, balanced: bool = False) -> Factored:
    """The model's linear predictors, or an error; those whose residuals sum to zero, if asked."""
    factored = post.model.factored
    if factored is None or (balanced and not factored.balanced):
        structure = "classes" if balanced else "kronecker"
        kind = "classes" if balanced else "linear predictors"
        raise InputError(
            f"structure={structure!r} needs a model of {kind}, such as models.softmax; use "
            "structure='dense' or 'diagonal' for others."
        )
    return factored


def block_rows(factored: Factored, numbers: int = BLOCK_NUMBERS) -> int:
    """Rows of a block whose designs and curvatures stay within the memory bound."""
    return max(64, numbers // (factored.width + factored.outputs**2))


def fit_basis(post: Posterior, theta: Vector, data: PyTree) -> KroneckerBasis:
    """A basis in which the Hessian is nearly diagonal, and the prior's the identity.

    ``P (x) G`` nearest to the rows' share of the Hessian in Frobenius' norm, by power iterations:
    ``G = sum <P, H_n> u u'``, ``P = sum (u' G u) H_n``. V_c and V_f are their eigenvectors, columns
    measured in units of the prior's standard deviation. All but the last in single precision.
    """
    factored = predictors(post)
    scale = prior_scale(post, theta, factored)
    step = max(1, num_rows(data) // _FIT_ROWS)
    rows = jax.tree.map(lambda leaf: leaf[::step], data)
    P, G = np.eye(factored.outputs), np.eye(factored.width)
    for number in range(_FITS):
        total = partial(_total, post, rows, single=number < _FITS - 1)
        G = total(partial(_gram, post.model), theta, scale, P)
        G = G / max(float(np.trace(G)), np.finfo(float).tiny)
        P = total(partial(_output_factor, post.model), theta, scale, G)
        P = P / max(float(np.trace(P)), np.finfo(float).tiny)
    return KroneckerBasis(_vectors(P), _vectors(G), scale, factored.features)


def _vectors(matrix: Vector) -> Vector:
    return np.asarray(np.linalg.eigh(0.5 * (matrix + matrix.T))[1])


def prior_scale(post: Posterior, theta: Vector, factored: Factored) -> Vector:
    """The prior's standard deviation of every column, as a mean over outputs."""
    precision = np.asarray(post.model.prior_hessian_diagonal(jnp.asarray(theta), post.hyper))
    return 1 / np.sqrt(np.asarray(by_output(factored, precision)).mean(axis=0))


def _identity(factored: Factored) -> KroneckerBasis:
    """The parameters themselves as a basis."""
    K, F = factored.outputs, factored.width
    return KroneckerBasis(np.eye(K), np.eye(F), np.ones(F), factored.features)


def parameter_diagonals(post: Posterior, theta: Vector, data: PyTree) -> "Sums":
    """The same as :func:`diagonals` by the parameters themselves, in their order."""
    basis = _identity(predictors(post))
    gradient, *along = _total(post, data, partial(_diagonals, post.model), theta, basis)
    return Sums(gradient, *(np.asarray(as_flat(basis, matrix)) for matrix in along))


class Sums(NamedTuple):
    """Sums over rows: gradients by theta, squares of gradients and Hessians along the basis."""

    gradient: Vector
    outer: Vector
    hessian: Vector


def diagonals(post: Posterior, theta: Vector, basis: KroneckerBasis, data: PyTree) -> Sums:
    """Diagonals of the rows' outer products and Hessians in the basis, summed."""
    total = _total(post, data, partial(_diagonals, post.model), theta, basis)
    gradient, outer, hessian = total
    by_output = hessian.sum(axis=1)
    seen = by_output > _UNSEEN * by_output.sum()
    hessian, outer = hessian * seen[:, None], outer * seen[:, None]
    return Sums(gradient, outer.reshape(-1), hessian.reshape(-1))


def relative_spectrum(
    post: Posterior, theta: Vector, root: BasisRoot, data: PyTree, products: int = LANCZOS
) -> tuple[Spectrum, Spectrum]:
    """Eigenvalues of ``R' A R``, of A relative to the inverse of ``R R'``, as averages see them.

    The first weighs all directions alike, the second by their posterior variance: means over them
    are ``tr f(M) / D`` and ``tr(f(M) S) / tr S``, S the approximation's covariance, to the accuracy
    of a few random directions.
    """

    def product(z: Vector) -> Vector:
        return np.asarray(
            root.rmatvec(hessian_products(post, theta, np.asarray(root.matvec(z)), data))
        )

    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(_PROBES, np.size(root.values)))
    alike = root.basis.seen(signs, np.asarray(root.values))
    weighted = root.rmatvec(rng.choice([-1.0, 1.0], size=(_PROBES, len(theta))))
    starts = np.concatenate([alike, np.asarray(weighted)])
    found = lanczos(product, starts, min(products, len(theta)))
    return Spectrum.joined(found[:_PROBES]), Spectrum.joined(found[_PROBES:])


def hessian_products(post: Posterior, theta: Vector, vectors: Vector, data: PyTree) -> Vector:
    """``A v`` for every line of ``vectors``, to the accuracy of single precision."""
    block = partial(_curvature_products, post.model)
    total = _total(post, data, block, theta, vectors, single=True).astype(float)
    precision = np.asarray(post.model.prior_hessian_diagonal(jnp.asarray(theta), post.hyper))
    return per_example(total, num_rows(data), vectors * precision, post.num_data)


def lanczos(product: Callable[[Vector], Vector], starts: Vector, steps: int) -> list[Spectrum]:
    """Quadrature of ``v' f(M) v / v'v`` for every start v, from products with a symmetric M.

    Examples
    --------
    >>> nodes, shares = lanczos(lambda v: v * np.array([1.0, 3.0]), np.ones((1, 2)), 2)[0]
    >>> nodes.round(9).tolist(), shares.round(9).tolist()
    ([1.0, 3.0], [0.5, 0.5])
    """
    here = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    basis, diagonal, beside = [here], [], []
    for _ in range(steps):
        moved = product(basis[-1])
        diagonal.append((moved * basis[-1]).sum(axis=1))
        for _ in range(2):  # once more for rounding
            for past in basis:
                moved = moved - (moved * past).sum(axis=1, keepdims=True) * past
        length = np.linalg.norm(moved, axis=1)
        beside.append(np.where(length > _ENDED * np.abs(diagonal[-1]), length, 0.0))
        basis.append(moved / np.maximum(length, np.finfo(float).tiny)[:, None])
    return [
        _quadrature(np.array(diagonal)[:, i], np.array(beside)[:-1, i]) for i in range(len(starts))
    ]


def _quadrature(diagonal: Vector, beside: Vector) -> Spectrum:
    ended = np.flatnonzero(beside == 0)
    if len(ended):  # an invariant subspace: its quadrature is exact
        diagonal, beside = diagonal[: ended[0] + 1], beside[: ended[0]]
    matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    nodes, vectors = np.linalg.eigh(matrix)
    shares = vectors[0] ** 2
    kept = shares > _SHARE
    return Spectrum(nodes[kept], shares[kept])


def deviation_terms(
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
    factored = _of(model)
    squares = _along(factored, basis, rows) ** 2
    spread = squares @ variances.reshape(basis.shape).T
    predictor = jnp.asarray((basis.outer[None] * spread[:, None, :]) @ basis.outer.T)
    return squares, predictor, factored.residual_squares(anchor, predictor, rows, hyper)


def in_outputs(basis: KroneckerBasis, matrices: Array) -> Array:
    """Diagonals of ``V_c' M_n V_c``, (n, K)."""
    return jnp.einsum("ac,nab,bc->nc", basis.outer, matrices, basis.outer)


def _of(model: Model) -> Factored:
    assert model.factored is not None
    return model.factored


def _along(factored: Factored, basis: KroneckerBasis, rows: PyTree) -> Array:
    """Designs along V_f."""
    return factored.design(rows, basis.inner.dtype) @ (basis.scale[:, None] * basis.inner)


def _total(
    post: Posterior,
    data: PyTree,
    function: Callable[..., PyTree],
    *arrays: PyTree,
    single: bool = False,
) -> PyTree:
    """Sum over blocks of rows of what compiled code makes of them, in double or single precision.

    Single is for products whose rounding no one will see.
    """
    dtype = np.float32 if single else np.float64
    here = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, dtype)), arrays)
    hyper = cast(post.hyper, dtype)

    def block(rows: PyTree, weights: Vector) -> PyTree:
        return function(
            *here,
            cast(rows, dtype) if single else in_double(rows),
            hyper,
            jnp.asarray(weights, dtype),
        )

    return sum_over_blocks(data, block_rows(predictors(post)), block)


@partial(jax.jit, static_argnums=(0,))
def _gram(
    model: Model, theta: Array, scale: Array, P: Array, rows: PyTree, hyper: PyTree, present: Array
) -> Array:
    factored = _of(model)
    design = factored.design(rows, scale.dtype) * scale[None]
    share = (factored.curvatures(theta, rows, hyper) * P[None]).sum(axis=(1, 2))
    return (design * (present * share)[:, None]).T @ design


@partial(jax.jit, static_argnums=(0,))
def _output_factor(
    model: Model, theta: Array, scale: Array, G: Array, rows: PyTree, hyper: PyTree, present: Array
) -> Array:
    factored = _of(model)
    design = factored.design(rows, scale.dtype) * scale[None]
    share = present * ((design @ G) * design).sum(axis=1)
    return jnp.einsum("n,nab->ab", share, factored.curvatures(theta, rows, hyper))


@partial(jax.jit, static_argnums=(0,))
def _diagonals(
    model: Model, theta: Array, basis: KroneckerBasis, rows: PyTree, hyper: PyTree, present: Array
) -> tuple[Array, Array, Array]:
    factored = _of(model)
    squares = _along(factored, basis, rows) ** 2
    residual = factored.residuals(theta, rows, hyper) * present[:, None]
    curvature = in_outputs(basis, factored.curvatures(theta, rows, hyper)) * present[:, None]
    total = model.gradient_sum(theta, rows, hyper, present)
    return total, ((residual @ basis.outer) ** 2).T @ squares, curvature.T @ squares


@partial(jax.jit, static_argnums=(0,))
def _curvature_products(
    model: Model, theta: Array, vectors: Array, rows: PyTree, hyper: PyTree, present: Array
) -> Array:
    """The rows' share of ``A v``, summed, for every line of ``vectors``."""
    curvature = _of(model).curvatures(theta, rows, hyper) * present[:, None, None]
    return products(model, curvature, rows, vectors)


def products(model: Model, matrices: Array, rows: PyTree, vectors: Array) -> Array:
    """``sum_n (M_n (x) u_n u_n') v`` for every line of ``vectors``."""
    factored = _of(model)
    K, F = factored.outputs, factored.width
    design = factored.design(rows, vectors.dtype)
    lines = by_output(factored, vectors).reshape(-1, F)
    along = (design @ lines.T).reshape(len(design), -1, K)
    bent = (along @ matrices).reshape(len(design), -1)
    return jnp.asarray(as_flat(factored, (bent.T @ design).reshape(-1, K, F)))
