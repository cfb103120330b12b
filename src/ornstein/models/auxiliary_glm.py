"""Linear predictors into families with auxiliary parameters, such as a shape or cutpoints.

A row's loss depends on its predictor and on the auxiliary parameters ``a`` alone, so gradients and
Hessians of rows follow from derivatives by these few numbers, which are differentiated
automatically. Steps go through the chain rule of :mod:`~ornstein.models.chain_rule`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy.typing as npt

from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Factor
from ornstein.models.contract import Model, Spread
from ornstein.models.glm import Glm
from ornstein.models.local import Anchored, LocalProblem


@dataclass(frozen=True)
class AuxiliaryGlm(Glm):
    """``theta = (coef, intercept, a)``; the priors of all of them are normal."""

    @property
    def factored(self) -> None:
        return None

    @property
    def dim_auxiliary(self) -> int:
        """Entries of ``a``."""
        return self.layout.dim - self.width

    def losses(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        eta = self._predictor(theta, rows)
        return self._of_predictor(eta, theta[self.width :], rows, hyper)

    def gradients(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        by_eta, by_auxiliary = self._slopes(theta, rows, hyper)
        design = self.design(rows, theta.dtype)
        return jnp.concatenate([by_eta[:, None] * design, by_auxiliary], axis=1)

    def gradient_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array | None = None
    ) -> Array:
        def total(eta: Array, auxiliary: Array) -> Array:
            losses = self._of_predictor(eta, auxiliary, rows, hyper)
            return losses.sum() if weights is None else (weights * losses).sum()

        eta, auxiliary = self._predictor(theta, rows), theta[self.width :]
        by_eta, by_auxiliary = jax.grad(total, argnums=(0, 1))(eta, auxiliary)
        return jnp.concatenate([by_eta @ self.design(rows, theta.dtype), by_auxiliary])

    def second_sums(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
    ) -> tuple[Array, Array]:
        return Model.second_sums(self, theta, rows, hyper, weights)

    def hessian_sum(self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
        bends = self._bends(theta, rows, hyper) * weights[:, None, None]
        design = self.design(rows, theta.dtype)
        both = design.T @ bends[:, 0, 1:]
        upper = jnp.concatenate([(design * bends[:, :1, 0]).T @ design, both], axis=1)
        lower = jnp.concatenate([both.T, bends[:, 1:, 1:].sum(axis=0)], axis=1)
        return jnp.concatenate([upper, lower])

    def hessian_diagonal_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
    ) -> Array:
        bends = self._bends(theta, rows, hyper) * weights[:, None, None]
        design = self.design(rows, theta.dtype)
        own = jnp.diagonal(bends[:, 1:, 1:].sum(axis=0))
        return jnp.concatenate([bends[:, 0, 0] @ design**2, own])

    def deviation_lengths(
        self, spread: Spread, rows: PyTree, hyper: PyTree, order: int = 1
    ) -> Array:
        return Model.deviation_lengths(self, spread, rows, hyper, order)

    def deviation_sums(
        self, spread: Spread, rows: PyTree, hyper: PyTree, weights: Array, order: int = 1
    ) -> Array:
        return Model.deviation_sums(self, spread, rows, hyper, weights, order)

    def localise(
        self,
        center: Vector,
        factor: Factor,
        hyper: PyTree,
        dtype: npt.DTypeLike,
        anchored: Anchored | None = None,
    ) -> LocalProblem:
        return Model.localise(self, center, factor, hyper, dtype, anchored)

    def _of_predictor(self, eta: Array, auxiliary: Array, rows: PyTree, hyper: PyTree) -> Array:
        flat = jnp.concatenate([jnp.zeros(self.width, auxiliary.dtype), auxiliary])
        params = self.layout.unravel(flat)
        numbers = {one.name: params[one.name] for one in self.family.auxiliary}
        losses = self.family.loss(eta, rows["y"], {**hyper, **numbers})
        return losses * rows["w"].astype(losses.dtype) if "w" in rows else losses

    def _slopes(self, theta: Array, rows: PyTree, hyper: PyTree) -> tuple[Array, Array]:
        """Of every row's loss: by its predictor (n,), and by the auxiliary parameters (n, k)."""
        found = jax.vmap(jax.grad(self._row(hyper)), (0, 0))(*self._row_arguments(theta, rows))
        return found[:, 0], found[:, 1:]

    def _bends(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Second derivatives by the same, (n, 1 + k, 1 + k)."""
        return jax.vmap(jax.hessian(self._row(hyper)), (0, 0))(*self._row_arguments(theta, rows))

    def _row(self, hyper: PyTree) -> Callable[[Array, PyTree], Array]:
        """One row's loss by ``(eta, a)``."""

        def loss(at: Array, row: PyTree) -> Array:
            single = jax.tree.map(lambda leaf: leaf[None], row)
            return self._of_predictor(at[:1], at[1:], single, hyper)[0]

        return loss

    def _row_arguments(self, theta: Array, rows: PyTree) -> tuple[Array, PyTree]:
        eta, auxiliary = self._predictor(theta, rows), theta[self.width :]
        each = jnp.broadcast_to(auxiliary[None], (len(eta), len(auxiliary)))
        kept = {name: rows[name] for name in ("y", "w") if name in rows}
        return jnp.concatenate([eta[:, None], each], axis=1), kept
