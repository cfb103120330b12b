"""Parameters of a family beside the coefficients, sampled on the real line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.types import Array, Vector


@dataclass(frozen=True)
class Range:
    """A smooth map of the real line to a parameter's range: compiled, and on the host."""

    words: str
    compiled: Callable[[Array], Array]
    host: Callable[[Any], Any]


def _cutpoints(raw: Array) -> Array:
    steps = jnp.concatenate([raw[..., :1], jnp.exp(raw[..., 1:])], axis=-1)
    return jnp.cumsum(steps, axis=-1)


def cutpoints(raw: Vector) -> Vector:
    """Increasing numbers from the first one and the logarithms of the gaps, along the last axis."""
    steps = np.concatenate([raw[..., :1], np.exp(raw[..., 1:])], axis=-1)
    return np.asarray(np.cumsum(steps, axis=-1))


POSITIVE = Range("log", jnp.exp, np.exp)
UNIT = Range("logit", jax.nn.sigmoid, scipy.special.expit)
ORDERED = Range("first one, and logs of the gaps,", _cutpoints, cutpoints)


@dataclass(frozen=True)
class Auxiliary:
    """A parameter such as a shape: its names, its range, and its default prior.

    ``name`` is that of the parameter on the real line, where its prior is normal with this ``mean``
    and standard deviation ``sd``; users see ``reported``, its value in its own range.
    """

    name: str
    reported: str
    range: Range
    mean: float | tuple[float, ...] = 0.0
    sd: float | tuple[float, ...] = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the parameter: (), or (entries,)."""
        return np.shape(self.mean)


def log_of(name: str, mean: float, sd: float) -> Auxiliary:
    """A parameter above 0 with a log-normal prior, of this mean and sd of its logarithm."""
    return Auxiliary(f"log_{name}", name, POSITIVE, mean, sd)


def logit_of(name: str, mean: float, sd: float) -> Auxiliary:
    """A parameter between 0 and 1 with a logit-normal prior."""
    return Auxiliary(f"logit_{name}", name, UNIT, mean, sd)
