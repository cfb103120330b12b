"""Targets that are classes: logistic regression of two, multinomial regression of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.checks import names_of, shown
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data import inputs
from ornstein.data.on_disk import AnyRows
from ornstein.models.families.family import Family, Numbers, Rng, TargetColumn
from ornstein.models.families.special import log1p_of_share


@jax.custom_jvp
def softplus(x: Array) -> Array:
    """``log(1 + exp(x))``, stable, its derivative the sigmoid."""
    share = jnp.exp(-jnp.abs(x))
    rest = jnp.log1p(share) if share.dtype == jnp.float64 else log1p_of_share(share)
    return jnp.maximum(x, 0) + rest


@softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return softplus(x), jax.nn.sigmoid(x) * dx


@dataclass(frozen=True)
class Bernoulli(Family):
    """``y = 1`` with probability ``sigmoid(eta)``, else 0."""

    name = "logistic"
    latent = "logistic"
    discrete = True
    ratio = "odds ratio"
    most_classes = 2
    if_more = "Choose softmax."

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return softplus(eta) - y * eta

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        p = jax.nn.sigmoid(eta)
        return p * (1 - p)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jax.nn.sigmoid(eta)

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """With the sign ``1 - 2y`` in the features the loss is ``softplus`` whatever the label."""
        if not np.isin(y, (0, 1)).all():
            return {"x": x, "offset": offset, "y": y}
        sign = (1 - 2 * y).astype(x.dtype)
        return {"x": sign[:, None] * x, "offset": sign * offset}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``sigmoid``, less the target where it is a mean."""
        p = jax.nn.sigmoid(along + rows["offset"])
        return p - rows["y"] if "y" in rows else p

    def folded_loss(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        change = softplus(along + rows["offset"]) - softplus(rows["offset"])
        return change - rows["y"] * along if "y" in rows else change

    def probabilities(self, eta: Vector, numbers: Numbers) -> Vector:
        one = scipy.special.expit(eta)
        return np.stack([1 - one, one], axis=1)

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        return (rng.uniform(size=eta.shape) < scipy.special.expit(eta)).astype(float)

    def log_density(self, eta: Vector, y: Vector, numbers: Numbers) -> Vector:
        """Without cancellation, so that it is below 0 even where the target is all but certain."""
        one = np.asarray(y, float)
        return np.asarray(-one * np.logaddexp(0, -eta) - (1 - one) * np.logaddexp(0, eta))

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        target, found = inputs.labels(y, classes)
        if found > 2:
            raise InputError(f"y has {found} classes; logistic takes 0 and 1. Use models.softmax.")
        return cls(), target.astype(float)

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        """Two distinct values, of whatever type."""
        if len(column.levels) != 2:
            return None
        return f"{shown(column.name)} has two distinct values: {names_of(column.levels)}."


@dataclass(frozen=True)
class Binomial(Bernoulli):
    """Successes among trials, each with probability ``sigmoid(eta)``.

    A row's target is the share of successes and its weight the number of trials: with these the
    log-likelihood is Bernoulli's but for a constant.
    """

    name = "binomial"
    most_classes = 0

    def probabilities(self, eta: Vector, numbers: Numbers) -> Vector:
        raise InputError("a binomial model predicts counts of successes, not classes.")

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return np.asarray(self._trials(numbers) * scipy.special.expit(eta))

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        p = scipy.special.expit(eta)
        return np.asarray(self._trials(numbers) * p * (1 - p))

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        trials = np.broadcast_to(self._trials(numbers), eta.shape).astype(np.int64)
        return rng.binomial(trials, scipy.special.expit(eta)).astype(float)

    def log_density(self, eta: Vector, y: Vector, numbers: Numbers) -> Vector:
        """Of counts of successes."""
        trials = np.broadcast_to(self._trials(numbers), eta.shape)
        from scipy.stats import binom  # takes long to import

        return np.asarray(binom.logpmf(y, trials, scipy.special.expit(eta)))

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        values = np.asarray(y, float)
        if values.min() < 0 or values.max() > 1:
            raise InputError("y must hold shares of successes, between 0 and 1.")
        return cls(), values

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        """Never: a column of successes does not say of how many trials."""
        return None

    @classmethod
    def check_column(cls, column: TargetColumn) -> None:
        raise InputError(
            f"A binomial model needs the number of trials beside {shown(column.name)}. Use a "
            f"formula: p({column.name}, trials) ~ ..., or cbind(successes, failures) ~ ..."
        )

    def _trials(self, numbers: Numbers) -> Vector:
        return np.asarray(numbers.get("trials", 1.0))


def drawn_classes(probabilities: Vector, rng: Rng) -> Vector:
    """A class number for every draw and row, of (draws, classes, rows)."""
    draws, classes, rows = probabilities.shape
    uniform = rng.uniform(size=(draws, rows))
    above = uniform[:, None] > np.cumsum(probabilities, axis=1)
    return above.sum(axis=1).clip(max=classes - 1).astype(float)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_sum_exp(x: Array, axis: int = -1) -> Array:
    """``log sum exp(x)`` over an axis, stable, its derivative the softmax."""
    top = x.max(axis=axis, keepdims=True)
    return jnp.log(jnp.exp(x - top).sum(axis=axis)) + top.squeeze(axis)


@log_sum_exp.defjvp
def _log_sum_exp_jvp(
    axis: int, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return log_sum_exp(x, axis), (jax.nn.softmax(x, axis=axis) * dx).sum(axis=axis)


@dataclass(frozen=True)
class Categorical(Family):
    """``y`` in ``0 .. K-1`` with probabilities ``softmax(eta)``."""

    outputs: int = 2

    name = "softmax"
    discrete = True
    meaning = "classes"
    balanced = True
    most_classes = 100
    if_more = (
        "Every class has its own coefficient for every column, and planning needs the curvature "
        "between all of them. Group the rare ones, or, if it is a quantity, make it numbers "
        "throughout and choose linear."
    )

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return log_sum_exp(eta) - (self._one_hot(y, eta) * eta).sum(axis=-1)

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return jax.nn.softmax(eta, axis=-1) - self._one_hot(y, eta)

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        p = jax.nn.softmax(eta, axis=-1)
        identity = jnp.eye(self.outputs, dtype=p.dtype)[None]
        return p[:, :, None] * (identity - p[:, None, :])

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jax.nn.softmax(eta, axis=-1)

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """Labels become rows of 0 and 1."""
        one_hot = np.eye(self.outputs)[y] if y.ndim == 1 else y
        return {"x": x, "offset": offset, "y": one_hot}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``p - onehot(y)``; with outputs first, rows fill a processor's lanes."""
        return jax.nn.softmax(along + rows["offset"].T, axis=0) - rows["y"].T

    def folded_remainder(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """The curvature follows from the means at the offset, which are the targets here."""
        p = rows["y"].T
        tangent = p * (along - (p * along).sum(axis=0, keepdims=True))
        return self.folded_residual(along, rows, hyper) - tangent

    def folded_loss(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        offset = rows["offset"].T
        change = log_sum_exp(along + offset, 0) - log_sum_exp(offset, 0)
        return change - (rows["y"].T * along).sum(axis=0)

    def folded_remainder_loss(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Half the variance of ``along`` by the means at the offset is the quadratic part."""
        p = rows["y"].T
        variance = (p * along**2).sum(axis=0) - (p * along).sum(axis=0) ** 2
        return self.folded_loss(along, rows, hyper) - 0.5 * variance

    def probabilities(self, eta: Vector, numbers: Numbers) -> Vector:
        return np.asarray(scipy.special.softmax(eta, axis=1))

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        return drawn_classes(self.probabilities(eta, numbers), rng)

    def log_density(self, eta: Vector, y: Vector, numbers: Numbers) -> Vector:
        """By the odds of the other classes, so that nothing cancels."""
        own = np.asarray(y, np.intp)[None, None]
        target = np.take_along_axis(eta, own, axis=1)
        others = np.where(np.arange(self.outputs)[:, None] == own, -np.inf, eta - target)
        return np.asarray(-np.logaddexp(0, scipy.special.logsumexp(others, axis=1)))

    @classmethod
    def of(cls, classes: int) -> Self:
        return cls(classes)

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        target, found = inputs.labels(y, classes)
        return cls(found), target

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        """Text, categories and truth values with more than two levels."""
        if column.values is not None or len(column.levels) < 3:
            return None
        cls.check_column(column)
        count = len(column.levels)
        return f"{shown(column.name)} has {count} classes: {names_of(column.levels)}."

    @classmethod
    def parameter_labels(cls, features: Sequence[str], classes: Sequence[str]) -> list[str]:
        coefs = [f"{name} [{label}]" for label in classes for name in features]
        return coefs + [f"intercept [{label}]" for label in classes]

    def _one_hot(self, y: Array, eta: Array) -> Array:
        return jax.nn.one_hot(y, self.outputs, dtype=eta.dtype)
