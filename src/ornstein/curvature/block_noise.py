"""Whether rows that lie side by side on a disk are alike: then blocks of them are noisier."""

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.trees import in_double
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.row_sums import anchored_gradients
from ornstein.data import prefetch
from ornstein.models.posterior import Posterior

_BLOCKS = 128  # looked at: a ratio of variances is then known to an eighth
_NUMBERS = 2**22  # gradients held
_ALIKE = 1.5  # noise relative to that of independent rows, above which it is worth a word


def warnings(post: Posterior, geometry: Geometry, order: int) -> tuple[str, ...]:
    """A warning where blocks of neighbours are noisier than rows taken one by one."""
    excess = noise_ratio(post, geometry, order)
    if excess < _ALIKE:
        return ()
    return (
        f"neighbouring rows are alike: blocks of {prefetch.rows_per_block(post.data)} of them make "
        f"{excess:.0f} times the noise of independent rows, more than is planned for. Write the "
        "table in random order, or use batches='independent'.",
    )


def noise_ratio(post: Posterior, geometry: Geometry, order: int) -> float:
    """Variance of a block's mean gradient, relative to that of as many independent rows.

    In the posterior's units, all directions alike; of gradients anchored to an ``order`` above 0 at
    a random point of it.
    """
    size, rng = prefetch.rows_per_block(post.data), np.random.default_rng(0)
    if size == 1:
        return 1.0
    count = max(16, min(_BLOCKS, _NUMBERS // (size * post.dim)))
    starts = rng.integers(0, post.num_data - size + 1, count)
    index = (starts[:, None] + np.arange(size)).reshape(-1)
    rows = jax.tree.map(lambda leaf: leaf[index], post.data)
    root = geometry.covariance.sqrt()
    step = np.asarray(root.matvec(rng.normal(size=root.coordinates(post.dim))))
    with double_precision():
        center = jnp.asarray(geometry.center)
        at = center + step if order else center
        gradients = np.asarray(
            anchored_gradients(post.model, order, at, center, in_double(rows), post.hyper)
        )
    units = np.asarray(root.rmatvec(gradients)).reshape(count, size, -1)
    total = float(units.reshape(-1, units.shape[-1]).var(axis=0).sum())
    between = float(units.mean(axis=1).var(axis=0, ddof=1).sum())
    return size * between / max(total, np.finfo(float).tiny)
