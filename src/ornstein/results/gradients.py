"""Gradients of the log posterior at many draws: over all rows, or over some that stand for all."""

from dataclasses import dataclass

import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.row_sums import (
    gradients_at,
    mean_gradient,
    mean_hessian,
    products_are_fast,
    remainders_at,
)
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan

_ROWS_ON_DISK = 20_000  # read by number for each batch of draws
_FAST = 8  # times as many multiplications where matrix products make them
_FASTER = 4  # the same again for a Hessian of linear predictors, one matrix product


def known_from(plan: Plan) -> Geometry | None:
    """What a plan knows of all rows for control variates of second order, if it has them."""
    anchored = plan.anchor is not None and plan.anchor.order == 2
    return plan.geometry if anchored else None


@dataclass(frozen=True, eq=False)
class Gradients:
    """Of ``-log p(theta | data)``, at so many ``draws``, over so many ``rows`` each.

    Where these are not all, gradients are anchored at the draws' mean: ``gradient`` and ``hessian``
    over all rows there give what is linear, some rows the remainder (X10). Where a Hessian would
    cost too much it is None, and some rows give all that is not constant (X9).
    """

    post: Posterior
    draws: int
    rows: int
    anchor: Vector
    gradient: Vector | None = None
    hessian: Vector | None = None

    @classmethod
    def within(
        cls,
        work: float,
        post: Posterior,
        anchor: Vector,
        fewest: int,
        most: int,
        known: Geometry | None = None,
    ) -> "Gradients":
        """At as many draws as a number of multiplications allows, then over as many rows.

        Where a Hessian would cost too much, and one is ``known``, its parameters are the anchor.
        """
        N, fewest, fast = post.num_data, min(fewest, most), products_are_fast(post.model)
        affordable = work * (_FAST if fast else 1) / post.dim
        draws = int(np.clip(affordable / N, fewest, most))
        rows = min(N, int(affordable / draws))
        if post.on_disk:
            rows = min(rows, _ROWS_ON_DISK)
        if rows == N:
            return cls(post, draws, rows, anchor)
        affords_hessian = N * post.dim**2 <= work * (_FAST * _FASTER if fast else 1)
        if known is not None and not affords_hessian:
            linear = N * known.gradient, N * known.hessian.dense(post.dim)
            return cls(post, draws, rows // 2, known.center, *linear)
        gradient, hessian = N * mean_gradient(post, anchor), None
        if affords_hessian:
            with double_precision():
                hessian = N * mean_hessian(post, post.data, anchor)
            rows = rows // 2  # a remainder costs twice a gradient
        return cls(post, draws, rows, anchor, gradient, hessian)

    def __call__(self, thetas: Vector, number: int) -> Vector:
        """At some parameters, (T, D), with the random rows of that number."""
        with double_precision():
            if self.gradient is None:
                return gradients_at(self.post, thetas, self.post.data)
            if self.hessian is None:
                linear = None
            else:
                linear = self.gradient + (thetas - self.anchor) @ self.hessian
                if self.post.quadratic:  # nothing remains
                    return linear
            rng = np.random.default_rng(number)
            index = np.sort(rng.choice(self.post.num_data, self.rows, replace=False))
            some = self.post.with_rows(index).data
            if linear is not None:
                return linear + remainders_at(self.post, thetas, some, self.anchor)
            found = gradients_at(self.post, np.concatenate([self.anchor[None], thetas]), some)
            return found[1:] - found[0] + self.gradient
