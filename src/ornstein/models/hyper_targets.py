"""The posterior of hyperparameters given the parameters, which needs no rows (X13).

``p(lambda | theta, data)`` depends on theta through the prior alone; and through the sum of squared
residuals for the noise scale of a linear regression, which is a quadratic form known at the anchor.
``eta`` is lambda on the unconstrained scale, as a vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.contract import Model
from ornstein.models.glm import prior_mean
from ornstein.models.hyper_priors import HyperPrior, ScalePrior, scale_priors
from ornstein.models.hyperparameters import Learnable
from ornstein.models.posterior import Posterior


class HyperTarget(ABC):
    """What drawing hyperparameters needs; hashable, as compiled code is keyed on it.

    ``known`` are arrays, passed as arguments: see :meth:`known`.
    """

    separate: bool = False
    """Whether hyperparameters are independent given the parameters."""

    @abstractmethod
    def log_density(self, eta: Array, theta: Array, known: PyTree) -> Array:
        """Log-density of eta given theta: one number, or one per entry where ``separate``."""

    @abstractmethod
    def slope_change(self, eta: Array, theta: Array, known: PyTree) -> Array:
        """Gradient of ``-log p(theta | data, lambda)`` less that at the anchor's lambda."""

    @abstractmethod
    def curvature(self, eta: Array, known: PyTree) -> tuple[Array, Array]:
        """By what the rows' Hessian of ``-log p`` is multiplied, and the diagonal of the prior's.

        The prior's is that at the anchor's parameters.
        """

    @abstractmethod
    def prior_mean(self, known: PyTree) -> Array:
        """Where the prior's gradient would vanish, by its slope and curvature at the anchor."""

    def loss_change(self, eta: Array, theta: Array, known: PyTree) -> Array:
        """What :meth:`slope_change` is the gradient of, up to a term without theta."""
        here, there = (self.log_density(e, theta, known) for e in (eta, known["eta"]))
        return jnp.sum(there) - jnp.sum(here)

    def slope(self, eta: Array, theta: Array, known: PyTree) -> Array:
        """Gradient of minus the log-density by eta."""
        return -jax.grad(lambda e: jnp.sum(self.log_density(e, theta, known)))(eta)


@dataclass(frozen=True)
class PriorTarget(HyperTarget):
    """Of hyperparameters that any log-prior takes."""

    model: Model
    learnable: Learnable
    log_prior: Callable[[PyTree], Any]

    def log_density(self, eta: Array, theta: Array, known: PyTree) -> Array:
        values = self.learnable.from_real(eta)
        own = -self._prior_loss(theta, eta, known) + self.log_prior(values)
        return jnp.asarray(own, theta.dtype) + self._log_slope(eta)

    def slope_change(self, eta: Array, theta: Array, known: PyTree) -> Array:
        slope = jax.grad(self._prior_loss)
        return slope(theta, eta, known) - slope(theta, known["eta"], known)

    def curvature(self, eta: Array, known: PyTree) -> tuple[Array, Array]:
        diagonal = self.prior_product(eta, jnp.ones_like(known["center"]), known)
        return jnp.ones((), diagonal.dtype), diagonal

    def prior_mean(self, known: PyTree) -> Array:
        slope = jax.grad(self._prior_loss)(known["center"], known["eta"], known)
        _, diagonal = self.curvature(known["eta"], known)
        return known["center"] - jnp.where(diagonal > 0, slope / diagonal, 0.0)

    def prior_product(self, eta: Array, vector: Array, known: PyTree) -> Array:
        """The prior's Hessian of ``-log p`` at the anchor's parameters, times a vector."""
        slope = jax.grad(self._prior_loss)
        _, found = jax.jvp(lambda t: slope(t, eta, known), (known["center"],), (vector,))
        return jnp.asarray(found)

    def _prior_loss(self, theta: Array, eta: Array, known: PyTree) -> Array:
        put = self.learnable.assign(self.learnable.from_real(eta), known["numbers"])
        return self.model.prior_loss(theta, put)

    def _log_slope(self, eta: Array) -> Array:
        """Of the map from the unconstrained scale, entry by entry."""
        leaves = jax.tree.leaves(self.learnable.layout.unravel(eta))
        total = jnp.zeros((), eta.dtype)
        for constraint, leaf in zip(self.learnable.constraints, leaves, strict=True):
            ones = jnp.ones_like(leaf)
            _, slope = jax.jvp(constraint.from_real, (leaf,), (ones,))
            total = total + jnp.log(jnp.abs(slope)).sum()
        return total


@dataclass(frozen=True)
class GlmTarget(HyperTarget):
    """Of a ready-made model's prior precisions, and the noise scale of a linear regression."""

    groups: tuple[int, ...]  # of every parameter; -1 where its precision is fixed
    precisions: int
    noise: ScalePrior | None  # None where the noise scale is not drawn
    spread: ScalePrior | None
    separate = True

    def log_density(self, eta: Array, theta: Array, known: PyTree) -> Array:
        parts = []
        if self.noise is not None:
            log_sd = eta[0]
            squares = self._squared_residuals(theta, known)
            own = -known["weight"] * log_sd - 0.5 * squares * jnp.exp(-2 * log_sd)
            parts.append((own + self.noise.log_density(jnp.exp(log_sd)) + log_sd)[None])
        if self.spread is not None:
            logs = eta[len(parts) :]
            members = known["members"]
            squares, sizes = members @ theta**2, members.sum(axis=1)
            own = 0.5 * (sizes * logs - squares * jnp.exp(logs))
            parts.append(own + self.spread.log_density(jnp.exp(-0.5 * logs)) - 0.5 * logs)
        return jnp.concatenate(parts)

    def slope_change(self, eta: Array, theta: Array, known: PyTree) -> Array:
        change, first = jnp.zeros_like(theta), 0
        if self.noise is not None:
            power = jnp.exp(2 * (known["eta"][0] - eta[0]))
            change, first = (power - 1) * self._rows_slope(theta, known), 1
        if self.spread is not None:
            moved = jnp.exp(eta[first:]) - jnp.exp(known["eta"][first:])
            change = change + (moved @ known["members"]) * theta
        return change

    def curvature(self, eta: Array, known: PyTree) -> tuple[Array, Array]:
        power, first = jnp.ones((), eta.dtype), 0
        if self.noise is not None:
            power, first = jnp.exp(2 * (known["eta"][0] - eta[0])), 1
        if self.spread is None:
            return power, known["fixed"]
        return power, known["fixed"] + jnp.exp(eta[first:]) @ known["members"]

    def prior_mean(self, known: PyTree) -> Array:
        return jnp.zeros_like(known["fixed"])

    def _rows_slope(self, theta: Array, known: PyTree) -> Array:
        """Gradient of the rows' ``-log p(y | theta)`` at the anchor's noise scale."""
        return known["slope"] + known["hessian"] @ (theta - known["center"])

    def _squared_residuals(self, theta: Array, known: PyTree) -> Array:
        delta = theta - known["center"]
        bent = known["slope"] @ delta + 0.5 * delta @ (known["hessian"] @ delta)
        return known["squares"] + 2 * jnp.exp(2 * known["eta"][0]) * bent


def as_arrays(known: PyTree) -> PyTree:
    """In double precision."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), known)


def has_diagonal_prior(target: HyperTarget, known: PyTree) -> bool:
    """Whether a prior's Hessian is diagonal: random signs are then multiplied entry by entry."""
    if not isinstance(target, PriorTarget):
        return True
    signs: Vector = np.random.default_rng(0).choice([-1.0, 1.0], len(known["center"]))
    with double_precision():
        eta, arrays = jnp.asarray(known["eta"], float) + 0.3, as_arrays(known)
        _, diagonal = target.curvature(eta, arrays)
        product = target.prior_product(eta, jnp.asarray(signs), arrays)
    return bool(np.allclose(signs * np.asarray(product), np.asarray(diagonal), rtol=1e-6))


class DrawnHyper(NamedTuple):
    """Draws of hyperparameters on the real line, (chains, draws, m), and what they aim at."""

    target: HyperTarget
    known: PyTree
    eta: Vector
    labels: tuple[str, ...]

    def joint_gradients(self, joint: Vector, by_theta: Vector) -> Vector:
        """Of ``-log p`` by parameters and hyperparameters, from those by theta at the anchor's."""
        dim = by_theta.shape[1]
        with double_precision():
            known = as_arrays(self.known)
            arrays = jnp.asarray(joint[:, :dim]), jnp.asarray(joint[:, dim:])
            change, beside = _slopes(self.target, *arrays, known)
        return np.concatenate([by_theta + np.asarray(change), np.asarray(beside)], axis=1)

    @property
    def is_scaled(self) -> bool:
        """Whether the prior gives every parameter a scale of its own, given hyperparameters."""
        return has_diagonal_prior(self.target, self.known)

    def in_scales(self, joint: Vector) -> Vector:
        """Draws whose parameters count from the prior's mean, in the prior's own scale.

        ``theta = mean + s(eta) u`` with s the standard deviation that the prior has for these
        hyperparameters: in a funnel parameters u are nearly independent of eta.
        """
        with double_precision():
            known = as_arrays(self.known)
            mean = np.asarray(self.target.prior_mean(known))
            dim = len(mean)
            found = _log_scales(self.target, jnp.asarray(joint[:, dim:]), known)
        scales = np.exp(np.asarray(found))
        return np.concatenate([(joint[:, :dim] - mean) / scales, joint[:, dim:]], axis=1)

    def gradients_in_scales(self, joint: Vector, gradients: Vector) -> Vector:
        """Their gradients, from those by parameters and hyperparameters."""
        with double_precision():
            known = as_arrays(self.known)
            mean = np.asarray(self.target.prior_mean(known))
            dim = len(mean)
            etas = jnp.asarray(joint[:, dim:])
            scales = np.exp(np.asarray(_log_scales(self.target, etas, known)))
            by_eta = np.asarray(_log_scale_slopes(self.target, etas, known))
        by_theta = gradients[:, :dim]
        by_log_scale = (joint[:, :dim] - mean) * by_theta - 1  # the Jacobian's share is the 1
        beside = gradients[:, dim:] + np.einsum("ti,tik->tk", by_log_scale, by_eta)
        return np.concatenate([scales * by_theta, beside], axis=1)


@partial(jax.jit, static_argnums=(0,))
def _slopes(target: HyperTarget, thetas: Array, etas: Array, known: PyTree) -> tuple[Array, Array]:
    def one(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, eta = pair
        return target.slope_change(eta, theta, known), target.slope(eta, theta, known)

    return jax.lax.map(one, (thetas, etas))


def _log_scale(target: HyperTarget, known: PyTree, eta: Array) -> Array:
    """Logarithms of the prior's standard deviations; where it has none, units stay as they are."""
    _, diagonal = target.curvature(eta, known)
    return -0.5 * jnp.log(jnp.where(diagonal > 0, diagonal, 1.0))


@partial(jax.jit, static_argnums=(0,))
def _log_scales(target: HyperTarget, etas: Array, known: PyTree) -> Array:
    return jax.lax.map(partial(_log_scale, target, known), etas)


@partial(jax.jit, static_argnums=(0,))
def _log_scale_slopes(target: HyperTarget, etas: Array, known: PyTree) -> Array:
    return jax.lax.map(jax.jacfwd(partial(_log_scale, target, known)), etas)


def hyper_target(post: Posterior, given: HyperPrior) -> HyperTarget:
    """The target of a posterior's hyperparameters; raises where they cannot be drawn."""
    learnable = post.learnable
    ties = learnable.ties
    if ties is not None:
        priors = scale_priors(learnable, given)
        if post.on_disk and "noise_scale" in priors:
            raise InputError(
                "hyper='draw' needs the residuals of all rows for a noise scale, and these stay on "
                "disk: use learn='prior_precision' and hyper='draw', or hyper='learn'."
            )
        return GlmTarget(
            tuple(int(group) for group in ties.groups),
            ties.precisions,
            priors.get("noise_scale"),
            priors.get("prior_precision"),
        )
    if given is None or not callable(given):
        raise InputError(
            "hyper='draw' needs hyper_prior, the log-density of the hyperparameters' own prior: a "
            "function of their values, such as lambda tau: -tau."
        )
    return PriorTarget(post.model, learnable, given)


def drawn_beside(post: Posterior, flat: Vector, eta: Vector) -> DrawnHyper:
    """Hyperparameters that were drawn with parameters, (T, m) and (T, D), by their own prior."""
    target = hyper_target(post, post.hyper_prior)
    none = np.zeros(0)  # which only ready-made models take: these have no prior of their own
    known = known_at(post, target, flat.mean(axis=0), none, none)
    return DrawnHyper(target, known, eta, tuple(post.learnable.labels))


def known_at(
    post: Posterior, target: HyperTarget, center: Vector, slope: Vector, precision: Vector
) -> PyTree:
    """What a target takes: values at the anchor, where ``-log p`` has that slope and Hessian."""
    eta = post.learnable.to_real(post.hyperparameters)
    if not isinstance(target, GlmTarget):
        return {"eta": eta, "numbers": post.hyper, "center": center}
    prior = np.asarray(post.hyper["prior_precision"], float) * np.ones_like(center)
    known: dict[str, Any] = {"eta": eta, "fixed": prior}
    groups = np.asarray(target.groups)
    if target.spread is not None:
        known["members"] = (np.arange(target.precisions)[:, None] == groups[None]).astype(float)
        known["fixed"] = np.where(groups < 0, prior, 0.0)
    if target.noise is not None:
        squares, weight = _residuals(post, center)
        known |= {"center": center, "slope": slope - prior * (center - prior_mean(post.hyper))}
        known |= {"hessian": precision - np.diag(prior), "squares": squares, "weight": weight}
    return known


def _residuals(post: Posterior, theta: Vector) -> tuple[float, float]:
    """Sum of squared residuals and of weights over all rows, earlier ones too."""
    params = post.layout.unravel(theta)
    residual = np.asarray(post.data["y"]) - np.asarray(post.data["x"]) @ params["coef"]
    residual = residual - params.get("intercept", 0.0) - np.asarray(post.data.get("offset", 0.0))
    weights = np.asarray(post.data["w"]) if "w" in post.data else np.ones_like(residual)
    squares, weight = float(weights @ residual**2), float(weights.sum())
    if "past" in post.hyper:
        past = post.hyper["past"]
        bent = theta @ past["hessian"] @ theta - 2 * past["slope"] @ theta + past["squares"]
        squares, weight = squares + float(bent), weight + float(past["weight"])
    return squares, weight
