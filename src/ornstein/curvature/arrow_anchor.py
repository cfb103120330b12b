"""The anchor of a mixed model: optimum and arrow Hessian, at hyperparameters found by EM (X14).

Newton's method with the arrow finds the optimum in a few passes over the rows. In between, the
hyperparameters ascend the expected log-density of the effects under the Gaussian there. That is a
place to begin at, not an estimate: draws find where the hyperparameters are.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.errors import OptimumError
from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature import arrow_sums
from ornstein.curvature.arrow_sums import RowSums
from ornstein.linalg.arrow import Arrow, ArrowRoot
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification

_SETTLED = 0.05  # change of a hyperparameter on the real line, of one round of EM
_ROUNDS = 10
_PASSES = 60
_NEAR = 1e-4  # Newton's decrement, in posterior standard deviations, at the end
_ROUGH = 0.1  # the same between rounds
_HALVINGS = 30
_AUXILIARY_ROWS = 50_000  # that say where a family's own parameters begin


@dataclass(frozen=True, eq=False)
class MixedAnchor:
    """Parameters, hyperparameters, and the rows' losses around them to second order.

    Attributes
    ----------
    phi, b, lam
        Head, leaves and hyperparameters.
    loss, slope_phi, slope_b, data
        The sum of the rows' losses there, its gradient and Hessian, without the prior.
    passes
        Passes over the rows that it took.
    """

    phi: Vector
    b: Vector
    lam: Vector
    loss: float
    slope_phi: Vector
    slope_b: Vector
    data: Arrow
    passes: int

    def precision(self, post: MixedPosterior) -> Arrow:
        """The whole Hessian, at the anchor's hyperparameters."""
        return _whole(post, self.data, self.lam)

    def moved(self, post: MixedPosterior, lam: Vector) -> "MixedAnchor":
        """To other hyperparameters, the optimum found again."""
        return find_anchor(post, replace(self, lam=np.asarray(lam, float)))

    def auxiliary_widths(self, post: MixedPosterior) -> Vector:
        """About the standard deviations of the family's own parameters, given the effects."""
        return auxiliary_widths(post, self)


def prior_of(post: MixedPosterior) -> dict[str, Vector]:
    """The fixed coefficients' prior, for compiled functions."""
    return {"mean": post.prior_mean, "precision": post.prior_precision}


def find_anchor(post: MixedPosterior, near: MixedAnchor | None = None) -> MixedAnchor:
    """From nothing, or from another anchor's parameters and with its hyperparameters kept."""
    spec = post.specification
    if near is not None:
        return _optimum(post, near, near.lam, _NEAR)
    lam = start(post)
    phi = np.zeros(spec.head)
    phi[: spec.fixed] = post.prior_mean
    b = np.zeros((spec.leaf.width, spec.leaf.levels))
    found = _optimum(post, around(post, phi, b, lam, 0, None), lam, _ROUGH)
    for _ in range(_ROUNDS if spec.count else 0):
        ascended = _ascended(post, found)
        change = np.abs(ascended - found.lam).max()
        found = _optimum(post, found, ascended, _ROUGH)
        if change < _SETTLED:
            break
    return _optimum(post, found, found.lam, _NEAR)


def improved(
    post: MixedPosterior, phi: Vector, b: Vector, lam: Vector, known: Arrow | None
) -> MixedAnchor:
    """The optimum from other parameters, roughly."""
    return _optimum(post, around(post, phi, b, lam, 0, known), lam, _ROUGH)


def learned(post: MixedPosterior, anchor: MixedAnchor, beside: float) -> MixedAnchor:
    """A round of EM; ``beside`` is what else adds to the squares that a Gaussian expects."""
    return _optimum(post, anchor, _ascended(post, anchor, beside), _ROUGH)


def spread(post: MixedPosterior, anchor: MixedAnchor) -> float:
    """What uncertainty of the parameters adds to the squares that a Gaussian expects."""
    return _spread(post, anchor, anchor.precision(post).root())


def start(post: MixedPosterior) -> Vector:
    """Hyperparameters to begin with: effects of half the target's spread, noise of two thirds."""
    spec = post.specification
    unit = post.rows.target_sd if spec.noise_prior is not None else 1.0
    pieces = []
    for number, grouping in enumerate(spec.groupings):
        spread = np.sqrt(np.diag(post.rows.design_products(number)))
        scales, at = 0.5 * unit / np.where(spread > 0, spread, 1.0), 0
        for cov in grouping.covariances:
            pieces.append(cov.start(scales[at : at + cov.size]))
            at += cov.size
    noise = [] if spec.noise_prior is None else [np.log([0.67 * unit])]
    own = [np.asarray(one.mean) for one in spec.auxiliary]
    return np.concatenate([*pieces, *noise, *own])


def around(
    post: MixedPosterior,
    phi: Vector,
    b: Vector,
    lam: Vector,
    passes: int,
    known: Arrow | None,
    found: RowSums | None = None,
) -> MixedAnchor:
    """What the rows say around parameters, in one pass; a known Hessian is kept if it is constant.

    That is so for a Gaussian family.
    """
    found = _summed(post, phi, b, lam, known) if found is None else found
    data = known if found.data is None else found.data
    assert data is not None
    return MixedAnchor(phi, b, lam, found.loss, found.slope_phi, found.slope_b, data, passes + 1)


def _summed(
    post: MixedPosterior, phi: Vector, b: Vector, lam: Vector, known: Arrow | None
) -> RowSums:
    """The Hessian too, but for a known one that is constant."""
    constant = post.specification.family.quadratic and known is not None
    return arrow_sums.sums(post, phi, b, lam, second=not constant)


def _optimum(post: MixedPosterior, near: MixedAnchor, lam: Vector, close: float) -> MixedAnchor:
    """Newton's method at some hyperparameters, the step halved where the loss would rise."""
    if post.specification.auxiliary and not np.array_equal(near.lam, lam):
        here = around(post, near.phi, near.b, lam, near.passes, None)
    else:
        here = replace(near, lam=lam)
    while True:
        phi, b = here.phi, here.b
        power, g_phi, g_b, energy = _terms(post, phi, b, lam)
        root = here.precision(post).root()
        white = root.transposed(power * here.slope_phi + g_phi, power * here.slope_b + g_b)
        decrement = float(np.sqrt(sum((part**2).sum() for part in white)))
        if not np.isfinite(decrement):
            raise OptimumError("the search for the optimum left the numbers; standardise X.")
        if decrement < close or here.passes >= _PASSES:
            return here
        step_phi, step_b = root.apply(*white)
        before, length = power * here.loss + energy, 1.0
        for _ in range(_HALVINGS):
            tried = phi - length * step_phi, b - length * step_b
            there = _summed(post, *tried, lam, here.data)
            after = power * there.loss + _terms(post, *tried, lam)[3]
            if after <= before + 1e-9 * abs(before):
                break
            length *= 0.5
        here = around(post, *tried, lam, here.passes, here.data, there)


def _terms(
    post: MixedPosterior, phi: Vector, b: Vector, lam: Vector
) -> tuple[float, Vector, Vector, float]:
    """The rows' power, the prior's gradient by head and leaves, and its energy."""
    with double_precision():
        power, g_phi, g_b, energy = _prior_terms(post.specification, phi, b, lam, prior_of(post))
        return float(power), np.asarray(g_phi), np.asarray(g_b), float(energy)


@partial(jax.jit, static_argnums=(0,))
def _prior_terms(
    spec: Specification, phi: Array, b: Array, lam: Array, prior: PyTree
) -> tuple[Array, Array, Array, Array]:
    energy = spec.head_energy(lam, phi, prior) + spec.leaf_energy(lam, b).sum()
    g_phi = spec.head_prior_gradient(lam, phi, prior)
    return spec.power(lam), g_phi, spec.leaf_precision(lam) @ b, energy


def _whole(post: MixedPosterior, data: Arrow, lam: Vector) -> Arrow:
    """The rows' Hessian and the prior's."""
    with double_precision():
        parts = _precisions(post.specification, jnp.asarray(lam), post.prior_precision)
        power, head, leaf = (np.asarray(part) for part in parts)
    return data.scaled(power).plus(head, leaf)


@partial(jax.jit, static_argnums=(0,))
def _precisions(spec: Specification, lam: Array, fixed: Array) -> tuple[Array, Array, Array]:
    return spec.power(lam), spec.head_precision(lam, fixed), spec.leaf_precision(lam)


def _ascended(post: MixedPosterior, anchor: MixedAnchor, beside: float = 0.0) -> Vector:
    """Hyperparameters that maximise their expected log-density under the Gaussian there."""
    spec = post.specification
    if not spec.count:
        return anchor.lam
    root = anchor.precision(post).root()
    scatters = _expected_scatters(spec, anchor, root)
    squares = 0.0
    if spec.noise_prior is not None:
        squares = (
            2 * anchor.loss
            - post.rows.total_weight * np.log(2 * np.pi)
            + _spread(post, anchor, root)
            + beside
        )
    rows = post.rows.total_weight
    spread = auxiliary_rows(post, anchor, root) if spec.auxiliary else None

    def negative(lam: Vector) -> tuple[float, Vector]:
        with double_precision():
            value, slope = _expected(spec, jnp.asarray(lam), scatters, rows, squares, spread)
        return float(value), np.asarray(slope)

    from scipy.optimize import minimize  # takes long to import

    found = minimize(negative, anchor.lam, jac=True, method="L-BFGS-B")
    return np.asarray(np.clip(found.x, anchor.lam - 2.0, anchor.lam + 2.0))


class SpreadRows(NamedTuple):
    """Rows' predictors, (2, n), at a draw of the Gaussian and at its opposite."""

    eta: Vector
    y: Vector
    weight: Vector


def auxiliary_rows(
    post: MixedPosterior, anchor: MixedAnchor, root: ArrowRoot | None = None
) -> SpreadRows:
    """Rows that say where a family's own parameters are; some stand for all where they are many."""
    root = anchor.precision(post).root() if root is None else root
    rng, spec = np.random.default_rng(0), post.specification
    off = root.apply(rng.normal(size=anchor.phi.shape), rng.normal(size=anchor.b.shape))
    rows = post.rows.taken(slice(None, None, max(1, post.num_data // _AUXILIARY_ROWS)))
    middle = arrow_sums.predictor(spec, rows, anchor.phi, anchor.b)
    change = arrow_sums.change(spec, rows, *off)
    weight = np.ones(rows.size) if rows.weight is None else rows.weight
    eta = np.stack([middle + change, middle - change])
    return SpreadRows(eta, rows.y, weight * (post.num_data / rows.size))


def auxiliary_widths(post: MixedPosterior, anchor: MixedAnchor) -> Vector:
    """About the standard deviations of the family's own parameters, given the effects."""
    spec = post.specification
    if not spec.auxiliary:
        return np.zeros(0)
    rows, own = auxiliary_rows(post, anchor), slice(spec.scales, None)
    with double_precision():
        hessian = np.asarray(_spread_hessian(spec, rows, jnp.asarray(anchor.lam)))
    least = np.concatenate([one.sd for one in spec.auxiliary]) ** -2.0
    curvature = np.maximum(np.diag(hessian)[own], 0.0) + least
    return np.asarray(1 / np.sqrt(curvature))


def _spread_loss(spec: Specification, rows: SpreadRows, lam: Array) -> Array:
    numbers = spec.numbers(lam)
    eta, y, weight = (jnp.asarray(part) for part in rows)
    both = jnp.stack([spec.family.loss(one, y, numbers) for one in eta])
    return 0.5 * (both.sum(axis=0) * weight).sum()


@partial(jax.jit, static_argnums=(0,))
def _spread_hessian(spec: Specification, rows: SpreadRows, lam: Array) -> Array:
    found: Array = jax.hessian(partial(_spread_loss, spec, rows))(lam)
    return found


@partial(jax.jit, static_argnums=(0,))
def _expected(
    spec: Specification,
    lam: Array,
    scatters: list[Array],
    rows: float,
    squares: float,
    spread: SpreadRows | None,
) -> tuple[Array, Array]:
    def negative(lam: Array) -> Array:
        found = -spec.log_given(lam, scatters)
        if spread is not None:
            found = found + _spread_loss(spec, spread, lam)
        if spec.noise_prior is not None:
            found = found + rows * lam[-1] + 0.5 * squares * jnp.exp(-2 * lam[-1])
        return found

    return jax.value_and_grad(negative)(lam)


def _expected_scatters(spec: Specification, anchor: MixedAnchor, root: ArrowRoot) -> list[Vector]:
    """``E[sum b b']`` of every grouping."""
    found = [anchor.b @ anchor.b.T + np.asarray(root.block_cov()).sum(axis=2)]
    cov = np.asarray(root.head) @ np.asarray(root.head).T
    for grouping, place in zip(spec.others, spec.places(), strict=True):
        effects = anchor.phi[place].reshape(grouping.width, -1)
        own = cov[place, place].reshape(grouping.width, grouping.levels, grouping.width, -1)
        found.append(effects @ effects.T + np.einsum("ilkl->ik", own))
    return found


def _spread(post: MixedPosterior, anchor: MixedAnchor, root: ArrowRoot) -> float:
    """``E[d' H d]`` of the rows' Hessian of unit noise over the Gaussian."""
    with double_precision():
        parts = _precisions(post.specification, jnp.asarray(anchor.lam), post.prior_precision)
        power, head, leaf = (np.asarray(part) for part in parts)
    cov = np.asarray(root.head) @ np.asarray(root.head).T
    prior = (head * cov).sum() + (leaf * np.asarray(root.block_cov()).sum(axis=2)).sum()
    return float((post.specification.dim - prior) / power)
