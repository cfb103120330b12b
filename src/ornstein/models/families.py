"""Losses of a linear predictor: value, first and second derivative, one class per family.

``eta`` has one entry per row, or one row of K entries where a family has K outputs. ``hyper`` is
the model's mapping of fixed numbers.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, PyTree, Vector

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Family(Protocol):
    """``loss = -log p(y | eta)`` up to nothing: constants are kept."""

    @property
    def outputs(self) -> int:
        """Entries of eta per row."""

    @property
    def balanced(self) -> bool:
        """Whether a row's residuals sum to zero, whatever eta is."""

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """Loss of every row."""

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """First derivative by eta."""

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """Second derivative by eta, (rows,) or (rows, K, K)."""

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        """The target that leaves no residual at eta."""

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """Rows for a loop in which ``eta = along + offset``, holding as little as it needs.

        ``y`` holds targets, or means where gradients are anchored (X9).
        """

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """First derivative by ``along`` for folded rows, outputs along the first axis."""


@dataclass(frozen=True)
class Gaussian:
    """``y = eta + noise_scale * normal``."""

    outputs: int = 1
    balanced = False

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """Negative log density of a normal."""
        scale = hyper["noise_scale"]
        return 0.5 * ((y - eta) / scale) ** 2 + jnp.log(scale) + _HALF_LOG_TWO_PI

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``(eta - y) / sigma^2``."""
        return (eta - y) / hyper["noise_scale"] ** 2

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``1 / sigma^2``."""
        del y
        return jnp.ones_like(eta) / hyper["noise_scale"] ** 2

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        """``eta``."""
        del hyper
        return eta

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """The target counts from the offset."""
        return {"x": x, "y": y - offset}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``(z x - y') / sigma^2``."""
        return self.residual(along, rows["y"], hyper)


@jax.custom_jvp
def softplus(x: Array) -> Array:
    """``log(1 + exp(x))``, stable, its derivative the sigmoid."""
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return softplus(x), jax.nn.sigmoid(x) * dx


@jax.custom_jvp
def log_sum_exp(x: Array) -> Array:
    """``log sum exp(x)`` over the last axis, stable, its derivative the softmax."""
    top = x.max(axis=-1, keepdims=True)
    return jnp.log(jnp.exp(x - top).sum(axis=-1)) + top[..., 0]


@log_sum_exp.defjvp
def _log_sum_exp_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return log_sum_exp(x), (jax.nn.softmax(x, axis=-1) * dx).sum(axis=-1)


@dataclass(frozen=True)
class Bernoulli:
    """``y = 1`` with probability ``sigmoid(eta)``, else 0."""

    outputs: int = 1
    balanced = False

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``softplus(eta) - y eta``."""
        del hyper
        return softplus(eta) - y * eta

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``p - y``."""
        del hyper
        return jax.nn.sigmoid(eta) - y

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``p (1 - p)``."""
        del y, hyper
        p = jax.nn.sigmoid(eta)
        return p * (1 - p)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        """``sigmoid``."""
        del hyper
        return jax.nn.sigmoid(eta)

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """With the sign ``1 - 2y`` in the features the loss is ``softplus`` whatever the label."""
        if not np.isin(y, (0, 1)).all():
            return {"x": x, "offset": offset, "y": y}
        sign = (1 - 2 * y).astype(x.dtype)
        return {"x": sign[:, None] * x, "offset": sign * offset}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``sigmoid``, less the target where it is a mean."""
        del hyper
        p = jax.nn.sigmoid(along + rows["offset"])
        return p - rows["y"] if "y" in rows else p


@dataclass(frozen=True)
class Categorical:
    """``y`` in ``0 .. K-1`` with probabilities ``softmax(eta)``."""

    outputs: int
    balanced = True

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``logsumexp(eta) - eta_y``."""
        del hyper
        return log_sum_exp(eta) - (self._one_hot(y, eta) * eta).sum(axis=-1)

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``p - onehot(y)``."""
        del hyper
        return jax.nn.softmax(eta, axis=-1) - self._one_hot(y, eta)

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``diag(p) - p p'``."""
        del y, hyper
        p = jax.nn.softmax(eta, axis=-1)
        identity = jnp.eye(self.outputs, dtype=p.dtype)[None]
        return p[:, :, None] * (identity - p[:, None, :])

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        """``softmax``."""
        del hyper
        return jax.nn.softmax(eta, axis=-1)

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """Labels become rows of 0 and 1."""
        one_hot = np.eye(self.outputs)[y] if y.ndim == 1 else y
        return {"x": x, "offset": offset, "y": one_hot}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``p - onehot(y)``; with outputs first, rows fill a processor's lanes."""
        del hyper
        return jax.nn.softmax(along + rows["offset"].T, axis=0) - rows["y"].T

    def _one_hot(self, y: Array, eta: Array) -> Array:
        return jax.nn.one_hot(y, self.outputs, dtype=eta.dtype)


@dataclass(frozen=True)
class Counts:
    """``y`` Poisson with mean ``exp(eta)``."""

    outputs: int = 1
    balanced = False

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``exp(eta) - y eta + log y!``."""
        del hyper
        return jnp.exp(eta) - y * eta + jax.scipy.special.gammaln(y + 1.0)

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``exp(eta) - y``."""
        del hyper
        return jnp.exp(eta) - y

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        """``exp(eta)``."""
        del y, hyper
        return jnp.exp(eta)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        """``exp``."""
        del hyper
        return jnp.exp(eta)

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """As they are."""
        return {"x": x, "offset": offset, "y": y}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``exp(eta) - y``."""
        return self.residual(along + rows["offset"], rows["y"], hyper)
