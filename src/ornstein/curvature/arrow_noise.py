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
    """For models of one grouping, in two passes over the rows."""
    spec, rows, N = post.specification, post.rows, post.num_data
    root = anchor.precision(post).root()
    rng = np.random.default_rng(seed)
    head = np.zeros(spec.head)
    leaf = np.zeros((spec.leaf.width, spec.leaf.levels))
    largest, totals = 0.0, []
    index, design = rows.index[0], rows.design[0]
    columns = [np.ones(1)] if design is None else list(design.T)
    inner, follow, outer = (np.asarray(p) for p in (root.blocks, root.follow, root.head))
    own = rows.x.copy()
    for i, column in enumerate(columns):
        own -= follow[i][:, index].T * column[:, None]
    own = own @ outer
    for _ in range(_POINTS):
        phi, b = root.apply(rng.normal(size=spec.head), rng.normal(size=leaf.shape))
        change = arrow_sums.predictor(post, phi, b)
        change -= 0.0 if rows.offset is None else rows.offset
        with double_precision():
            found = _remainders(spec.family, anchor.at.predictor, change, rows.y, arrow_sums.UNIT)
            left = np.array(found)
        left *= 1.0 if rows.weight is None else rows.weight
        moved = own * left[:, None]
        head += N * (moved**2).sum(axis=0) / _POINTS
        total = [moved.sum(axis=0)]
        largest = max(largest, N * float(np.abs(moved).max()))
        for i in range(spec.leaf.width):
            by_row = sum(inner[i, j][index] * columns[j] for j in range(i + 1)) * left
            leaf[i] += N * np.add.reduceat(by_row**2, rows.starts) / _POINTS
            total.append(np.add.reduceat(by_row, rows.starts))
            largest = max(largest, N * float(np.abs(by_row).max()))
        totals.append(total)
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
