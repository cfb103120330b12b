"""Gradients of the log posterior at many draws: over all rows, or over some that stand for all."""

from dataclasses import dataclass

import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.curvature.row_sums import gradients_at, mean_gradient, products_are_fast
from ornstein.models.posterior import Posterior

_ROWS_ON_DISK = 20_000  # read by number for each batch of draws
_FAST = 8  # times as many multiplications where matrix products make them


@dataclass(frozen=True, eq=False)
class Gradients:
    """Of ``-log p(theta | data)``, at so many ``draws``, over so many ``rows`` each.

    Where these are not all, gradients are anchored at the draws' mean: that over all rows there,
    and the difference over some (X9).
    """

    post: Posterior
    draws: int
    rows: int
    anchor: Vector
    there: Vector | None

    @classmethod
    def within(
        cls, work: float, post: Posterior, anchor: Vector, fewest: int, most: int
    ) -> "Gradients":
        """At as many draws as a number of multiplications allows, then over as many rows."""
        fewest = min(fewest, most)
        affordable = work * (_FAST if products_are_fast(post.model) else 1) / post.dim
        draws = int(np.clip(affordable / post.num_data, fewest, most))
        rows = min(post.num_data, int(affordable / draws))
        if post.on_disk:
            rows = min(rows, _ROWS_ON_DISK)
        if rows == post.num_data:
            return cls(post, draws, rows, anchor, None)
        return cls(post, draws, rows, anchor, post.num_data * mean_gradient(post, anchor))

    def __call__(self, thetas: Vector, number: int) -> Vector:
        """At some parameters, (T, D), with the random rows of that number."""
        with double_precision():
            if self.there is None:
                return gradients_at(self.post, thetas, self.post.data)
            rng = np.random.default_rng(number)
            index = np.sort(rng.choice(self.post.num_data, self.rows, replace=False))
            some = self.post.with_rows(index).data
            found = gradients_at(self.post, np.concatenate([self.anchor[None], thetas]), some)
            return found[1:] - found[0] + self.there
