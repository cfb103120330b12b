"""Products with the curvature, which is never held, and what they tell of an approximation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.trees import in_double, num_rows
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.geometry import Missed
from ornstein.curvature.row_sums import block_rows, of_predictors
from ornstein.data.passes import sum_over_blocks
from ornstein.linalg.along import BasisRoot
from ornstein.linalg.bases import as_flat, by_output
from ornstein.linalg.eigen import Spectrum, lanczos
from ornstein.models.contract import Factored, Model
from ornstein.models.local import per_example
from ornstein.models.posterior import Posterior

_PROBES = 2  # random directions from which Lanczos' method starts
LANCZOS = 24  # products it makes from each, to find the spectrum's ends
FEW_LANCZOS = 8  # the same, where means over it are all that is wanted


def of_model(model: Model) -> Factored:
    """The model's linear predictors, which the caller knows to be there."""
    assert model.factored is not None
    return model.factored


def relative_spectrum(
    post: Posterior, theta: Vector, root: BasisRoot, data: PyTree, products: int = LANCZOS
) -> Missed:
    """Eigenvalues of ``R' A R``, of A relative to the inverse of ``R R'``, as averages see them.

    Means over the first are ``tr f(M) / D``, over the second ``tr(f(M) S) / tr S``, S the
    approximation's covariance, to the accuracy of a few random directions.
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
    return Missed(Spectrum.joined(found[:_PROBES]), Spectrum.joined(found[_PROBES:]))


def hessian_products(post: Posterior, theta: Vector, vectors: Vector, data: PyTree) -> Vector:
    """``A v`` for every line of ``vectors``; of linear predictors to single precision."""
    if post.model.factored is None:
        total = _of_any_model(post, theta, vectors, data)
        prior = np.asarray(_prior_products(post.model, theta, vectors, post.hyper))
        return per_example(total, num_rows(data), prior, post.num_data)
    block = partial(_curvature_products, post.model)
    total = of_predictors(post, data, block, theta, vectors, single=True).astype(float)
    precision = np.asarray(post.model.prior_hessian_diagonal(jnp.asarray(theta), post.hyper))
    return per_example(total, num_rows(data), vectors * precision, post.num_data)


def _of_any_model(post: Posterior, theta: Vector, vectors: Vector, data: PyTree) -> Vector:
    here = jnp.asarray(theta), jnp.asarray(vectors)

    def block(rows: PyTree, weights: Vector) -> Array:
        return _products(post.model, *here, in_double(rows), post.hyper, weights)

    return np.asarray(sum_over_blocks(data, block_rows(post), block))


@partial(jax.jit, static_argnums=(0,))
def _products(
    model: Model, theta: Array, vectors: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> Array:
    def along(t: Array) -> Array:
        return model.gradient_sum(t, rows, hyper, weights)

    return jax.lax.map(lambda v: jax.jvp(along, (theta,), (v,))[1], vectors)


@partial(jax.jit, static_argnums=(0,))
def _prior_products(model: Model, theta: Array, vectors: Array, hyper: PyTree) -> Array:
    def along(t: Array) -> Array:
        return model.prior_gradient(t, hyper)

    return jax.lax.map(lambda v: jax.jvp(along, (theta,), (v,))[1], jnp.asarray(vectors))


@partial(jax.jit, static_argnums=(0,))
def _curvature_products(
    model: Model, theta: Array, vectors: Array, rows: PyTree, hyper: PyTree, present: Array
) -> Array:
    """The rows' share of ``A v``, summed, for every line of ``vectors``."""
    curvature = of_model(model).curvatures(theta, rows, hyper) * present[:, None, None]
    return row_products(model, curvature, rows, vectors)


def row_products(model: Model, matrices: Array, rows: PyTree, vectors: Array) -> Array:
    """``sum_n (M_n (x) u_n u_n') v`` for every line of ``vectors``."""
    predictors = of_model(model)
    K, F = predictors.outputs, predictors.width
    design = predictors.design(rows, vectors.dtype)
    lines = by_output(predictors, vectors).reshape(-1, F)
    along = (design @ lines.T).reshape(len(design), -1, K)
    bent = (along @ matrices).reshape(len(design), -1)
    return jnp.asarray(as_flat(predictors, (bent.T @ design).reshape(-1, K, F)))
