"""Generalised linear models in the coordinates of a gain: three forms, the first that fits is used.

With ``theta = center + W z``, work that is the same at every step is done once, on the rows (X8):

- :class:`FoldedGlm`, for one output: the rows carry ``W``, and the prior is diagonal by z;
- :class:`RotatedGlm`, for a gain in Kronecker factors: the rows carry the basis of the columns;
- :class:`CentredGlm`, for anything else: the rows carry the predictor at the centre.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.memory import fresh
from ornstein._base.trees import cast
from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.along import BasisRoot
from ornstein.linalg.bases import KroneckerBasis, by_output
from ornstein.linalg.operators import Factor
from ornstein.models.families import Family
from ornstein.models.local import LocalModel, LocalProblem, Minibatch
from ornstein.models.remainders import diagonalised

if TYPE_CHECKING:
    from ornstein.models.glm import Glm

_FOLDED_NUMBERS = 2**21  # of designs folded at a time, in double precision: 16 MiB
_SAMPLED_ROWS = 64  # of a block, on which single precision is tried
_ROUNDING = 1e-4  # allowed error of single precision, relative to the effect of a unit of z


class GlmAt(NamedTuple):
    """A GLM and the coordinates asked for, ``theta = center + factor z``.

    ``precision``, (D,) or (D, D), and ``slope`` at the centre are those of what is added whole to
    the batch's estimate, by the ``order`` of the anchor: 0, of the prior; 1, the slope is the whole
    loss's, and targets are replaced by the means at the centre, which leave no residual there (X9);
    2, the precision is the whole loss's too, and residuals are counted from their tangents (X10).
    """

    model: "Glm"
    center: Vector
    factor: Factor
    precision: Vector
    slope: Vector
    order: int
    hyper: PyTree
    dtype: npt.DTypeLike

    def localise(self) -> LocalProblem:
        """In the first form that fits."""
        return FoldedGlm.at(self) or RotatedGlm.at(self) or CentredGlm.at(self)

    def fold(
        self,
        data: PyTree,
        map_design: Callable[[Vector], Any] | None = None,
        block_rows: int | None = None,
    ) -> PyTree:
        """Rows for the sampling loop, made in double precision, block by block.

        ``map_design`` maps a block of the design to features that replace the given ones.
        """
        family, width, several = self.model.family, self.model.width, self.model.outputs > 1
        center = np.asarray(by_output(self.model, self.center))
        x, y = data["x"], np.asarray(data["y"])
        offset = np.empty((len(y), len(center)) if several else len(y))
        features = x if map_design is None else fresh((len(y), width), self.dtype)
        block_rows = block_rows or max(1, _FOLDED_NUMBERS // width)
        for start in range(0, len(y), block_rows):
            some = slice(start, start + block_rows)
            design = np.asarray(x[some], float)
            if self.model.intercept:
                design = np.concatenate([design, np.ones((len(design), 1))], axis=1)
            offset[some] = design @ (center.T if several else center[0])
            if "offset" in data:
                offset[some] += np.asarray(data["offset"][some], float)
            if map_design is not None:
                features[some] = map_design(design)
        if self.order:
            folded = family.fold_anchored(features, offset, y, self.hyper, self.order)
        else:
            folded = family.fold(features, offset, y)
        if "w" in data:
            folded["w"] = np.asarray(data["w"], float)
        return cast(folded, self.dtype)


@dataclass(frozen=True)
class FoldedGlm(LocalModel):
    """A GLM of one output whose features already carry the factor: ``eta = z x + offset``.

    Features lie feature-major, so that both passes over a batch are contiguous dot products.
    """

    family: Family
    order: int = 0
    rows_last = True
    plain_operations = True

    @classmethod
    def at(cls, glm: GlmAt) -> LocalProblem | None:
        """With one output; ``W`` is rotated so that the prior is diagonal by z too."""
        if glm.model.outputs > 1:
            return None
        factor, precision = diagonalised(glm.factor, glm.precision)
        slope = factor.rmatvec(glm.slope)
        local = {"family": glm.hyper, "precision": precision, "at_center": slope}
        fold = partial(glm.fold, map_design=factor.rmatvec)
        return LocalProblem(cls(glm.model.family, glm.order), fold, local, factor)

    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        prior = hyper["precision"] * z + hyper["at_center"]
        return batch.per_example(batch.rows["x"] @ self._residual(z, batch, hyper), prior)

    def minibatch_loss(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        along = z @ batch.rows["x"]
        return batch.per_example(
            _loss_sum(self.family, along, batch, hyper, self.order), _quadratic(z, hyper)
        )

    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        return batch.rows["x"] * self._residual(z, batch, hyper)[None]

    def _residual(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        return _weighted_residual(self.family, z @ batch.rows["x"], batch, hyper, self.order)


@dataclass(frozen=True)
class RotatedGlm(LocalModel):
    """A GLM of several outputs whose features carry the basis of the columns.

    With ``theta = center + (V_c (x) diag(scale) V_f) diag(w) z`` and features ``V_f' scale u``, a
    gradient takes two products of (K, F) with the batch, as it would without any gain.
    """

    family: Family

    @classmethod
    def at(cls, glm: GlmAt) -> LocalProblem | None:
        """With a gain in Kronecker factors, along which the prior is a multiple of the identity."""
        factor = glm.factor
        basis = factor.basis.kronecker if isinstance(factor, BasisRoot) else None
        precision = None if basis is None else _shared_precision(basis, glm.precision)
        if basis is None or precision is None:
            return None
        units = np.asarray(factor.array)
        local = {
            "family": glm.hyper,
            "outer": np.asarray(basis.outer),
            "units": units.reshape(basis.shape),
            "precision": precision * units**2,
            "at_center": np.asarray(factor.rmatvec(glm.slope)),
        }
        fold = partial(glm.fold, map_design=rotation(basis, units, glm.dtype))
        return LocalProblem(cls(glm.model.family), fold, local, factor)

    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        rows_sum = self._residual(z, batch, hyper) @ batch.rows["x"]
        prior = hyper["precision"] * z + hyper["at_center"]
        by_z = (hyper["units"] * (hyper["outer"].T @ rows_sum)).reshape(-1)
        return batch.per_example(by_z, prior)

    def minibatch_loss(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        along = self._along(z, batch, hyper)
        return batch.per_example(_loss_sum(self.family, along, batch, hyper), _quadratic(z, hyper))

    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        residual = self._residual(z, batch, hyper)
        rows = residual.T[:, :, None] * batch.rows["x"][:, None, :]
        rotated = (hyper["outer"].T @ rows) * hyper["units"][None]
        return rotated.reshape(len(rotated), -1).T

    def _residual(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """Outputs first, (K, S)."""
        return _weighted_residual(self.family, self._along(z, batch, hyper), batch, hyper)

    def _along(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        step = hyper["outer"] @ (hyper["units"] * z.reshape(hyper["units"].shape))
        along: Array = step @ batch.rows["x"].T
        return along


@dataclass(frozen=True)
class CentredGlm(LocalModel):
    """A GLM of several outputs, its predictor counted from the one at the centre."""

    family: Family
    features: int
    intercept: bool
    by_z: bool = False
    order: int = 0

    @classmethod
    def at(cls, glm: GlmAt) -> LocalProblem:
        """With any gain and prior; a precision that is a matrix is made diagonal by z."""
        factor, precision, by_z = glm.factor, glm.precision, glm.precision.ndim == 2
        if by_z:
            factor, precision = diagonalised(factor, precision)
        local = {"family": glm.hyper, "factor": factor, "precision": precision}
        local["at_center"] = factor.rmatvec(glm.slope) if by_z else glm.slope
        model = cls(glm.model.family, glm.model.features, glm.model.intercept, by_z, glm.order)
        return LocalProblem(model, glm.fold, local, factor)

    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        step = hyper["factor"].matvec(z)
        rows_sum = self._back(self._residual(step, batch, hyper), batch.rows["x"])
        whole = hyper["precision"] * (z if self.by_z else step) + hyper["at_center"]
        if self.by_z:
            return batch.per_example(hyper["factor"].rmatvec(rows_sum), whole)
        return hyper["factor"].rmatvec(batch.per_example(rows_sum, whole))

    def minibatch_loss(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        step = hyper["factor"].matvec(z)
        rows_sum = _loss_sum(self.family, self._along(step, batch), batch, hyper, self.order)
        return batch.per_example(rows_sum, _quadratic(z if self.by_z else step, hyper))

    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        residual = self._residual(hyper["factor"].matvec(z), batch, hyper)
        rows = jax.vmap(lambda r, x: self._back(r[:, None], x[None]))(residual.T, batch.rows["x"])
        return hyper["factor"].rmatvec(rows).T

    def _residual(self, step: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """Outputs first, (K, S)."""
        along = self._along(step, batch)
        return _weighted_residual(self.family, along, batch, hyper, self.order)

    def _along(self, step: Array, batch: Minibatch) -> Array:
        count = self.family.outputs * self.features
        eta = step[:count].reshape(self.family.outputs, self.features) @ batch.rows["x"].T
        return eta + step[count:][:, None] if self.intercept else eta

    def _back(self, residual: Array, x: Array) -> Array:
        """Sum over rows of ``residual (x) u`` for residuals with outputs first, flat."""
        coef = (residual @ x).reshape(-1)
        return jnp.concatenate([coef, residual.sum(axis=1)]) if self.intercept else coef


def rotation(basis: KroneckerBasis, units: Vector, dtype: npt.DTypeLike) -> Callable[[Vector], Any]:
    """Multiplies designs by the basis' columns: in ``dtype`` where that is precise enough."""
    columns = basis.columns
    short = columns.astype(dtype)
    units = units.reshape(basis.shape).max(axis=0)

    def rotate(design: Vector) -> Any:
        tried = design[:: max(1, len(design) // _SAMPLED_ROWS)]
        exact = units * (tried @ columns)
        off = np.abs(units * (tried.astype(dtype) @ short) - exact).max(initial=0.0)
        precise = off <= _ROUNDING * np.sqrt(np.mean(exact**2))
        return design.astype(dtype) @ short if precise else design @ columns

    return rotate


def _shared_precision(basis: KroneckerBasis, precision: Vector) -> Vector | None:
    """The prior's precision along a basis; None unless it is one number there."""
    if precision.ndim == 2:
        return None
    scaled = by_output(basis, precision) * np.asarray(basis.scale) ** 2
    alike = np.allclose(scaled, scaled[0, 0], rtol=1e-12, atol=0)
    return np.asarray(scaled[0, 0]) if alike else None


def _quadratic(z: Array, hyper: PyTree) -> Array:
    """What is added whole to the batch's estimate, counted from the centre."""
    return z @ (0.5 * hyper["precision"] * z + hyper["at_center"])


def _loss_sum(
    family: Family, along: Array, batch: Minibatch, hyper: PyTree, order: int = 0
) -> Array:
    """Sum of the rows' losses whose derivatives are :func:`_weighted_residual`."""
    counted = family.folded_remainder_loss if order == 2 else family.folded_loss
    losses = counted(along, batch.rows, hyper["family"])
    for weights in (batch.weights, batch.rows.get("w")):
        losses = losses if weights is None else losses * weights
    return losses.sum()


def _weighted_residual(
    family: Family, along: Array, batch: Minibatch, hyper: PyTree, order: int = 0
) -> Array:
    """Residuals, rows along the last axis, times the weights of the rows and of their sampling."""
    counted = family.folded_remainder if order == 2 else family.folded_residual
    residual = counted(along, batch.rows, hyper["family"])
    for weights in (batch.weights, batch.rows.get("w")):
        if weights is not None:
            residual = residual * weights.reshape(*[1] * (residual.ndim - 1), -1)
    return residual
