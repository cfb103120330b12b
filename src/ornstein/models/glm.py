"""Generalised linear models in closed form, and folded into whitened features (X8)."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ornstein._tree import Layout
from ornstein._types import Array, PyTree, Vector
from ornstein.model import LocalModel, LocalProblem, Model
from ornstein.models.families import Family, Gaussian
from ornstein.operators import Dense, Operator

_LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Glm(Model):
    """``eta = coef x + intercept`` into a family's loss, with independent normal priors.

    Rows are ``{"x": (n, F), "y": (n,)}``; ``hyper["prior_precision"]`` has one entry per
    parameter. With design ``u = (x, 1)`` (or ``x``) the gradient of a row is
    ``residual (x) u`` and its Hessian ``curvature (x) u u'``.
    """

    family: Family
    layout: Layout
    features: int
    intercept: bool

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        """Whether the family is Gaussian."""
        return isinstance(self.family, Gaussian)

    def losses(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Family's loss of the linear predictor."""
        return self.family.loss(self._predictor(theta, rows["x"]), rows["y"], hyper)

    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        """Independent normals of mean 0."""
        precision = hyper["prior_precision"]
        return 0.5 * jnp.sum(precision * theta**2 - jnp.log(precision) + _LOG_TWO_PI)

    def gradients(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``residual (x) u`` of every row."""
        residual = self._residual(theta, rows, hyper)
        outer = residual[:, :, None] * self._design(rows["x"], theta.dtype)[:, None, :]
        return outer.reshape(len(residual), -1)[:, self.order]

    def gradient_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array | None = None
    ) -> Array:
        """One matrix product."""
        residual = self._residual(theta, rows, hyper)
        if weights is not None:
            residual = residual * weights[:, None]
        return (residual.T @ self._design(rows["x"], theta.dtype)).reshape(-1)[self.order]

    def hessian_sum(self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
        """One matrix product per pair of outputs."""
        design, curvature = (
            self._design(rows["x"], theta.dtype),
            self._curvature(theta, rows, hyper, weights),
        )
        outputs, width = self.family.outputs, design.shape[1]
        pairs = [
            [(design * curvature[:, a, b, None]).T @ design for b in range(outputs)]
            for a in range(outputs)
        ]
        blocks = jnp.stack([jnp.stack(line) for line in pairs])
        matrix = blocks.transpose(0, 2, 1, 3).reshape(outputs * width, outputs * width)
        return matrix[self.order][:, self.order]

    def hessian_diagonal_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
    ) -> Array:
        """``sum_n curvature_kk u^2``."""
        curvature = self._curvature(theta, rows, hyper, weights)
        diagonal = jnp.diagonal(curvature, axis1=1, axis2=2)
        return (diagonal.T @ self._design(rows["x"], theta.dtype) ** 2).reshape(-1)[self.order]

    def prior_gradient(self, theta: Array, hyper: PyTree) -> Array:
        """``precision theta``."""
        return hyper["prior_precision"] * theta

    def prior_hessian(self, theta: Array, hyper: PyTree) -> Array:
        """``diag(precision)``."""
        return jnp.diag(self.prior_hessian_diagonal(theta, hyper))

    def prior_hessian_diagonal(self, theta: Array, hyper: PyTree) -> Array:
        """``precision``."""
        return hyper["prior_precision"] * jnp.ones_like(theta)

    def localise(
        self, center: Vector, factor: Operator, data: PyTree, hyper: PyTree
    ) -> LocalProblem:
        """With one output, fold ``W`` into the features: a dense gain then costs nothing a step.

        ``W`` is rotated so that the prior's precision, too, is diagonal by z.
        """
        if self.family.outputs > 1:
            return super().localise(center, factor, data, hyper)
        precision = np.asarray(hyper["prior_precision"], float)
        if isinstance(factor, Dense):
            matrix = np.asarray(factor.matrix)
            local_precision, rotation = np.linalg.eigh(matrix.T @ (precision[:, None] * matrix))
            factor = Dense(matrix @ rotation)
        else:
            local_precision = np.broadcast_to(factor.values, center.shape) ** 2 * precision
        design = np.asarray(data["x"], float)
        if self.intercept:
            design = np.concatenate([design, np.ones((len(design), 1))], axis=1)
        rows = self.family.fold(np.asarray(factor.rmatvec(design)), design @ center, data["y"])
        local = {
            "family": hyper,
            "precision": local_precision,
            "prior_at_center": factor.rmatvec(precision * center),
        }
        return LocalProblem(FoldedGlm(self.family), rows, local, factor)

    @property
    def order(self) -> Vector:
        """Where the entries of the flat vector stand in the (outputs, design) matrix."""
        width = self.features + self.intercept
        index = np.arange(self.family.outputs * width).reshape(self.family.outputs, width)
        return np.concatenate(
            [index[:, : self.features].ravel(), index[:, self.features :].ravel()]
        )

    def _design(self, x: Array, dtype: Any) -> Array:
        x = x.astype(dtype)
        if not self.intercept:
            return x
        return jnp.concatenate([x, jnp.ones((len(x), 1), x.dtype)], axis=1)

    def _predictor(self, theta: Array, x: Array) -> Array:
        params = self.layout.unravel(theta)
        eta = x.astype(theta.dtype) @ params["coef"].T
        if not self.intercept:
            return eta
        return eta + jnp.broadcast_to(params["intercept"], eta.shape)

    def _residual(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        eta = self._predictor(theta, rows["x"])
        return self.family.residual(eta, rows["y"], hyper).reshape(len(eta), -1)

    def _curvature(self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
        eta = self._predictor(theta, rows["x"])
        curvature = self.family.curvature(eta, rows["y"], hyper)
        outputs = self.family.outputs
        return curvature.reshape(-1, outputs, outputs) * weights[:, None, None]


@dataclass(frozen=True)
class FoldedGlm(LocalModel):
    """A GLM of one output whose features already carry the factor: ``eta = z x + offset``.

    Features lie feature-major, so that both passes over a batch are contiguous dot products.
    """

    family: Family
    rows_last = True

    def gradient_sum(self, z: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Two matrix-vector products."""
        residual = self.family.folded_residual(z @ rows["x"], rows, hyper["family"])
        return rows["x"] @ residual

    def prior_gradient(self, z: Array, hyper: PyTree) -> Array:
        """``W' P (center + W z)``, with ``W' P W`` diagonal."""
        return hyper["precision"] * z + hyper["prior_at_center"]
