"""The log density of all rows as two matrix products, in single precision.

Written in ``delta = theta - center`` and relative to its value at the centre, row by row: summed
as it stands, the log density of half a million rows loses the digits that decide acceptance.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import ornstein as orn
from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.families import Bernoulli, Categorical, Gaussian, softplus

Density: TypeAlias = Callable[[PyTree, Array], Array]
"""``(data, delta) -> log p(theta | data) - log p(center | data)``."""


def centred(post: orn.Posterior, center: Vector) -> tuple[PyTree, Density]:
    """Data on the device and the log density of a linear, logistic or softmax regression."""
    prepare, likelihood = _FAMILIES[type(post.model.family)]
    data = prepare(np.asarray(post.data["x"]), np.asarray(post.data["y"]), center, post)
    data |= {"precision": post.hyper["prior_precision"], "center": center}
    data = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float32)), data)

    def density(data: PyTree, delta: Array) -> Array:
        prior = data["precision"] * delta @ (0.5 * delta + data["center"])
        return -likelihood(data, delta) - prior

    return data, density


def _linear_data(x: Vector, y: Vector, center: Vector, post: orn.Posterior) -> dict[str, Vector]:
    return {
        "x": np.ascontiguousarray(x.T),
        "residual": y - x @ center,
        "scale": post.hyper["noise_scale"],
    }


def _linear_loss(data: PyTree, delta: Array) -> Array:
    moved = delta @ data["x"]
    return moved @ (0.5 * moved - data["residual"]) / data["scale"] ** 2


def _logistic_data(x: Vector, y: Vector, center: Vector, post: orn.Posterior) -> dict[str, Vector]:
    """With the sign ``1 - 2y`` in the features the loss is ``softplus`` whatever the label."""
    del post
    sign = 1 - 2 * y
    eta = sign * (x @ center)
    return {"x": (sign[:, None] * x).T, "eta": eta, "at_center": np.logaddexp(0, eta)}


def _logistic_loss(data: PyTree, delta: Array) -> Array:
    return (softplus(delta @ data["x"] + data["eta"]) - data["at_center"]).sum()


def _softmax_data(x: Vector, y: Vector, center: Vector, post: orn.Posterior) -> dict[str, Vector]:
    """The part linear in theta needs the sum of each class's rows only."""
    coef = center.reshape(post.model.family.outputs, -1)
    eta = x @ coef.T
    highest = eta.max(axis=1)
    return {
        "x": x,
        "at_center": highest + np.log(np.exp(eta - highest[:, None]).sum(axis=1)),
        "by_class": np.stack(
            [x[y == label].sum(axis=0, dtype=float) for label in range(len(coef))]
        ),
    }


def _softmax_loss(data: PyTree, delta: Array) -> Array:
    shape = data["by_class"].shape
    eta = data["x"] @ (data["center"] + delta).reshape(shape).T
    return (jax.nn.logsumexp(eta, axis=1) - data["at_center"]).sum() - delta @ data[
        "by_class"
    ].ravel()


_FAMILIES = {
    Gaussian: (_linear_data, _linear_loss),
    Bernoulli: (_logistic_data, _logistic_loss),
    Categorical: (_softmax_data, _softmax_loss),
}
