"""Any model in the coordinates of the sampling loop, by the chain rule."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Factor
from ornstein.models.local import Anchored, LocalModel, Minibatch
from ornstein.models.remainders import is_diagonal, remainder, remaining_loss

if TYPE_CHECKING:
    from ornstein.models.contract import Model


@dataclass(frozen=True)
class ChainRule(LocalModel):
    """Maps z to ``theta = center + W z`` at every step, and gradients back by ``W'``."""

    model: "Model"

    def constants(
        self, center: Vector, factor: Factor, hyper: PyTree, anchored: Anchored | None
    ) -> PyTree:
        """What the gradients take as ``hyper``."""
        local = {"center": center, "factor": factor, "model": hyper}
        if anchored is None:
            return local
        local["slope"] = np.asarray(factor.rmatvec(anchored.slope))
        if anchored.hessian is not None:
            W = np.asarray(factor.dense(len(center)))
            bent = W.T @ anchored.hessian @ W
            local["hessian"] = np.diagonal(bent).copy() if is_diagonal(bent) else bent
        return local

    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        fixed, rows, weights = hyper["model"], batch.rows, batch.weights

        def rows_slope(theta: Array) -> Array:
            return self.model.gradient_sum(theta, rows, fixed, weights)

        def prior_slope(theta: Array) -> Array:
            return self.model.prior_gradient(theta, fixed)

        rows_sum, prior = (self._counted(f, z, hyper) for f in (rows_slope, prior_slope))
        whole = hyper["factor"].rmatvec(prior) + hyper.get("slope", 0)
        if "hessian" in hyper:
            linear = hyper["hessian"]
            whole = whole + (linear @ z if linear.ndim == 2 else linear * z)
        return batch.per_example(hyper["factor"].rmatvec(rows_sum), whole)

    def minibatch_loss(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        fixed, order = hyper["model"], _order(hyper)
        step = hyper["factor"].matvec(z)

        def losses(t: Array) -> Array:
            return self.model.losses(hyper["center"] + t * step, batch.rows, fixed)

        def prior_loss(t: Array) -> Array:
            return self.model.prior_loss(hyper["center"] + t * step, fixed)

        rows, prior = (remaining_loss(f, z, order) for f in (losses, prior_loss))
        rows = rows if batch.weights is None else rows * batch.weights
        whole = prior + z @ hyper["slope"] if order else prior
        if order == 2:
            linear = hyper["hessian"]
            whole = whole + 0.5 * z @ (linear @ z if linear.ndim == 2 else linear * z)
        return batch.per_example(rows.sum(), whole)

    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        def gradients(theta: Array) -> Array:
            return self.model.gradients(theta, batch.rows, hyper["model"])

        rows = self._counted(gradients, z, hyper)
        rows = rows if batch.weights is None else rows * batch.weights[:, None]
        return hyper["factor"].rmatvec(rows).T

    def _counted(self, slope: Callable[[Array], Array], z: Array, hyper: PyTree) -> Array:
        """A gradient, counted from the anchor's if there is one."""
        theta = hyper["center"] + hyper["factor"].matvec(z)
        return remainder(slope, hyper["center"], theta, _order(hyper))


def _order(hyper: PyTree) -> int:
    """Of the anchor, by what :meth:`ChainRule.constants` holds of it."""
    return 2 if "hessian" in hyper else 1 if "slope" in hyper else 0
