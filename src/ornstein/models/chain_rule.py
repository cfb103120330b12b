"""Any model in the coordinates of a gain, by the chain rule."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Factor
from ornstein.models.contract import LocalModel, Minibatch, Model


@dataclass(frozen=True)
class ChainRule(LocalModel):
    """Maps z to ``theta = center + W z`` at every step, and gradients back by ``W'``."""

    model: Model

    def constants(
        self, center: Vector, factor: Factor, hyper: PyTree, slope: Vector | None
    ) -> PyTree:
        """What the gradients take as ``hyper``; ``slope`` as in :meth:`Model.localise`."""
        local = {"center": center, "factor": factor, "model": hyper}
        if slope is not None:
            with double_precision():
                prior = np.asarray(self.model.prior_gradient(jnp.asarray(center), hyper))
            local["shift"] = slope - prior
        return local

    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        theta, fixed = hyper["center"] + hyper["factor"].matvec(z), hyper["model"]
        rows, weights = batch.rows, batch.weights
        rows_sum = self.model.gradient_sum(theta, rows, fixed, weights)
        prior = self.model.prior_gradient(theta, fixed)
        if "shift" in hyper:
            rows_sum = rows_sum - self.model.gradient_sum(hyper["center"], rows, fixed, weights)
            prior = prior + hyper["shift"]
        return hyper["factor"].rmatvec(batch.per_example(rows_sum, prior))

    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        theta, fixed = hyper["center"] + hyper["factor"].matvec(z), hyper["model"]
        rows = self.model.gradients(theta, batch.rows, fixed)
        if "shift" in hyper:
            rows = rows - self.model.gradients(hyper["center"], batch.rows, fixed)
        rows = rows if batch.weights is None else rows * batch.weights[:, None]
        return hyper["factor"].rmatvec(rows).T
