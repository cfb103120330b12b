"""Generalised linear models in a basis of Kronecker products, folded into the features (X8)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.bases import KroneckerBasis, by_output
from ornstein.linalg.operators import BasisRoot
from ornstein.models.contract import LocalModel, Minibatch
from ornstein.models.families import Family

_TRIED = 64  # rows of a block on which single precision is tried
_ROUNDING = 1e-4  # what it may cost, relative to what a unit of z adds to the predictor


@dataclass(frozen=True)
class RotatedGlm(LocalModel):
    """A GLM of several outputs whose features carry the basis of the columns.

    With ``theta = center + (V_c (x) diag(scale) V_f) diag(w) z`` and features ``V_f' scale u``, a
    gradient takes two products of (K, F) with the batch, as it would without any gain.
    """

    family: Family

    @staticmethod
    def precision(factor: BasisRoot, precision: Vector) -> Vector | None:
        """The prior's precision by column, rotated; None unless it is diagonal there."""
        if precision.ndim == 2:
            return None
        basis = factor.basis
        by_column = by_output(basis, precision) * np.asarray(basis.scale) ** 2
        alike = np.allclose(by_column, by_column[0, 0], rtol=1e-12, atol=0)
        return np.asarray(by_column[0, 0]) if alike else None

    @staticmethod
    def rotation(factor: BasisRoot, dtype: npt.DTypeLike) -> Callable[[Vector], Any]:
        """What to do to the design: for chains in single precision in that, where it will do."""
        basis = factor.basis
        columns = np.asarray(basis.scale)[:, None] * np.asarray(basis.inner)
        short = columns.astype(dtype)
        units = np.asarray(factor.values).reshape(basis.shape).max(axis=0)

        def rotate(design: Vector) -> Any:
            tried = design[:: max(1, len(design) // _TRIED)]
            exact = units * (tried @ columns)
            off = np.abs(units * (tried.astype(dtype) @ short) - exact).max(initial=0.0)
            will_do = off <= _ROUNDING * np.sqrt(np.mean(exact**2))
            return design.astype(dtype) @ short if will_do else design @ columns

        return rotate

    @staticmethod
    def constants(
        factor: BasisRoot, precision: Vector, slope: Vector, hyper: PyTree
    ) -> dict[str, Any]:
        """What compiled code needs."""
        units, basis = np.asarray(factor.array), factor.basis
        assert isinstance(basis, KroneckerBasis)
        return {
            "family": hyper,
            "outer": np.asarray(basis.outer),
            "units": units.reshape(basis.shape),
            "precision": precision * units**2,
            "at_center": np.asarray(factor.rmatvec(slope)),
        }

    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """Two products with the batch, and a prior that is diagonal by z."""
        rows_sum = self._residual(z, batch, hyper) @ batch.rows["x"]
        prior = hyper["precision"] * z + hyper["at_center"]
        return batch.per_example(self._by_z(rows_sum, hyper), prior)

    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """Residuals times features, row by row."""
        residual = self._residual(z, batch, hyper)
        rows = residual.T[:, :, None] * batch.rows["x"][:, None, :]
        rotated = (hyper["outer"].T @ rows) * hyper["units"][None]
        return rotated.reshape(len(rotated), -1).T

    def _by_z(self, rows_sum: Array, hyper: PyTree) -> Array:
        return (hyper["units"] * (hyper["outer"].T @ rows_sum)).reshape(-1)

    def _residual(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """Outputs first, (K, S)."""
        step = hyper["outer"] @ (hyper["units"] * z.reshape(hyper["units"].shape))
        along = step @ batch.rows["x"].T
        residual = self.family.folded_residual(along, batch.rows, hyper["family"])
        return weighted(residual, batch)


def weighted(residual: Array, batch: Minibatch) -> Array:
    """Residuals, rows along the last axis, times the weights of rows and of how they are drawn."""
    for weights in (batch.weights, batch.rows.get("w")):
        if weights is not None:
            residual = residual * weights.reshape(*[1] * (residual.ndim - 1), -1)
    return residual
