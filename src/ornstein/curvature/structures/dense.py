"""A and C as matrices over all parameters."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.curvature import row_sums
from ornstein.curvature.deviations import Deviations, points_around
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.structures import contract
from ornstein.curvature.structures.contract import RowSums, SearchUnits, Structure
from ornstein.linalg.bases import Basis
from ornstein.linalg.eigen import scaled_eigh
from ornstein.linalg.operators import Dense, Operator
from ornstein.models.contract import Model, Spread
from ornstein.models.local import per_example
from ornstein.models.posterior import Posterior

_FLATTEST = 1e-8  # of the largest eigenvalue: flatter directions are searched in its units


class DenseStructure(Structure):
    """Matrices."""

    name = "dense"
    words = "as matrices"
    second_order = True
    search = SearchUnits(
        rows=50_000, rows_per_parameter=50, tolerance=1e-3, patient=False, by_sample=True
    )

    def fits(self, post: Posterior) -> bool:
        return post.dim <= contract.LIMITS.dense

    def held(self, post: Posterior) -> Structure:
        del post
        return self

    def sums(
        self, post: Posterior, theta: Vector, rows: PyTree, basis: Basis | None, with_noise: bool
    ) -> tuple[None, RowSums]:
        del basis, with_noise
        return None, RowSums(*row_sums.second_order(post, theta, rows, dense=True))

    def prior(self, post: Posterior, theta: Vector, basis: Basis | None) -> tuple[Vector, Vector]:
        del basis
        return row_sums.prior_terms(post, theta, dense=True)

    def operator(self, array: Vector, basis: Basis | None) -> Dense:
        del basis
        return Dense(array)

    def finish(
        self, sums: RowSums, rows: int, prior: Vector, mean: Vector, num_data: int
    ) -> tuple[Vector, Vector]:
        hessian = per_example(sums.hessian, rows, prior, num_data)
        noise = sums.outer / rows - np.outer(mean, mean)
        return 0.5 * (hessian + hessian.T), 0.5 * (noise + noise.T)

    def units(self, post: Posterior, rows: PyTree, theta: Vector) -> Dense:
        """By eigenvalues' absolute values, which are safe where the loss is not convex."""
        found = scaled_eigh(row_sums.mean_hessian(post, rows, theta))
        sizes = np.abs(found.values)
        floored = np.maximum(sizes, _FLATTEST * sizes.max())
        return Dense(found.directions / np.sqrt(post.num_data * floored))

    def deviations(
        self, post: Posterior, geometry: Geometry, cov: Operator, key: Key, order: int = 1
    ) -> Deviations:
        """In closed form where the model has one, else by points around the anchor."""
        return DenseDeviations(post, geometry, cov, key, order)


class DenseDeviations(Deviations):
    """``E[d_n d_n']`` as matrices."""

    def __init__(
        self, post: Posterior, geometry: Geometry, cov: Operator, key: Key, order: int = 1
    ) -> None:
        self.order = order
        self.points = points_around(geometry.center, cov.sqrt(), post.dim, key)
        closed_form = type(post.model).deviation_sums is not Model.deviation_sums
        work = post.dim**2 * (1 if closed_form else len(self.points))
        super().__init__(post, geometry, cov, key, work)

    def _arrays(self) -> tuple[tuple[Any, ...], int]:
        arrays = self.geometry.center, self.cov.array, self.points
        spread = Spread(*(jnp.asarray(array) for array in arrays))
        return (spread,), row_sums.block_rows(self.post)

    def leverages_of(self, *block: Any) -> Array:
        return _leverages(self.post.model, self.order, *block)

    def block_sums(self, lines: Array, *block: Any) -> Array:
        return _sums(self.post.model, self.order, *block, lines)


@partial(jax.jit, static_argnums=(0, 1))
def _leverages(model: Model, order: int, spread: Spread, rows: PyTree, hyper: PyTree) -> Array:
    return model.deviation_lengths(spread, rows, hyper, order)


@partial(jax.jit, static_argnums=(0, 1))
def _sums(
    model: Model, order: int, spread: Spread, rows: PyTree, hyper: PyTree, weights: Array
) -> Array:
    return model.deviation_sums(spread, rows, hyper, weights, order)
