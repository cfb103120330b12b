"""The noise that rows' remainders beyond second order leave in a mixed model's gradients (X10).

In the coordinates of the arrow's root, over draws of the Gaussian at the anchor. With few rows a
group, one row can move its group by more than a standard deviation: the batch must be large enough
for that too (X14).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature import arrow_sums
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.models.families import Family
from ornstein.models.random_effects.posterior import MixedPosterior

_POINTS = 2  # draws over which squares are averaged
_QUANTILE = 0.999  # of groups, whose noise decides


class RemainderNoise(NamedTuple):
    """Of a batch of one row, in units of the posterior; divide by S for one of S rows.

    Attributes
    ----------
    head, leaf
        Variances of the gradient by coordinate, (m,) and (q, G), times S.
    kick
        The largest that a row moves a coordinate, times S.
    share
        Of the effects' prior variance that the rows leave, on average.
    bend
        Standard deviation, over the posterior, of what all rows leave together: 0 for a Gaussian,
        about 0.7 of the skewness for others.
    """

    head: Vector
    leaf: Vector
    kick: float
    share: float
    bend: float

    @property
    def largest(self) -> float:
        """The variance that decides."""
        return float(max(self.head.max(), np.quantile(self.leaf, _QUANTILE)))

    @property
    def on_scales(self) -> float:
        """By how much noise widens the effects' standard deviation, in its own posterior's."""
        return float(self.leaf.mean() * self.share * np.sqrt(self.leaf.shape[1]))


def remainder_noise(post: MixedPosterior, anchor: MixedAnchor, seed: int = 0) -> RemainderNoise:
    """For models of one grouping, in one pass over the rows."""
    spec, N, q = post.specification, post.num_data, post.specification.leaf.width
    root = anchor.precision(post).root()
    rng = np.random.default_rng(seed)
    head, leaf, largest = np.zeros(spec.head), np.zeros((q, spec.leaf.levels)), 0.0
    points = [
        root.apply(rng.normal(size=spec.head), rng.normal(size=leaf.shape)) for _ in range(_POINTS)
    ]
    totals = [[np.zeros(spec.head), *np.zeros((q, spec.leaf.levels))] for _ in points]
    inner, follow, outer = (np.asarray(p) for p in (root.blocks, root.follow, root.head))
    for rows in post.rows.blocks():
        index, design = rows.index[0], rows.design[0]
        columns = [np.ones(1)] if design is None else list(design.T)
        own = rows.x.copy()
        for i, column in enumerate(columns):
            own -= follow[i][:, index].T * column[:, None]
        own = own @ outer
        middle = arrow_sums.predictor(spec, rows, anchor.phi, anchor.b)
        for point, total in zip(points, totals, strict=True):
            change = arrow_sums.change(spec, rows, *point)
            with double_precision():
                left = np.array(_remainders(spec.family, middle, change, rows.y, arrow_sums.UNIT))
            left *= 1.0 if rows.weight is None else rows.weight
            moved = own * left[:, None]
            head += N * (moved**2).sum(axis=0) / _POINTS
            total[0] += moved.sum(axis=0)
            largest = max(largest, N * float(np.abs(moved).max()))
            for i in range(q):
                by_row = sum(inner[i, j][index] * columns[j] for j in range(i + 1)) * left
                leaf[i] += N * rows.by_leaf(by_row**2, spec.leaf.levels) / _POINTS
                total[1 + i] += rows.by_leaf(by_row, spec.leaf.levels)
                largest = max(largest, N * float(np.abs(by_row).max()))
    with double_precision():
        prior = np.asarray(spec.leaf_precision(jnp.asarray(anchor.lam)))
    share = np.mean(np.einsum("iig->ig", np.asarray(root.block_cov())) * np.diag(prior)[:, None])
    spreads = [np.var(each, axis=0, ddof=1) for each in zip(*totals, strict=True)]
    bend = float(np.sqrt(max(spreads[0].max(), *(own.mean() for own in spreads[1:]))))
    return RemainderNoise(head, leaf, largest, float(share), bend)


@partial(jax.jit, static_argnums=(0,))
def _remainders(family: Family, eta: Array, change: Array, y: Array, unit: PyTree) -> Array:
    left = family.residual(eta + change, y, unit) - family.residual(eta, y, unit)
    return left - family.curvature(eta, y, unit) * change
