"""A run's settings, how it ended, and what it gave."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.storage.codec import register


@register
@dataclass(frozen=True)
class Status:
    """How a run ended: ``done``, ``diverged`` (which chain, at which step) or ``interrupted``."""

    ok: bool
    message: str
    chain: int | None = None
    step: int | None = None
    kind: Literal["done", "diverged", "interrupted"] = "done"


@dataclass(frozen=True)
class Settings:
    """How to run a plan; all checked."""

    chains: int
    draws: int
    thin: int
    warmup: int
    dispersion: float
    dtype: str
    chunk: int | None

    @property
    def warm_draws(self) -> int:
        """Draws to discard."""
        return -(-self.warmup // self.thin)


@register
class Run(NamedTuple):
    """Draws as vectors (chains, draws, D), how the run went, and what was recorded online."""

    flat: Vector
    status: Status
    steps: int
    seconds: float
    path: Mapping[str, Vector] = MappingProxyType({})
    hyper: Vector | None = None  # draws of hyperparameters on the real line, (chains, draws, m)


class Goal(NamedTuple):
    """When to stop a run whose length is not given: ``reached`` judges draws as vectors.

    It is asked after ``settings.draws`` draws and whenever they have doubled, up to ``most``.
    """

    reached: Callable[[Vector], bool]
    most: int


Report: TypeAlias = Callable[[int, int], None]
"""Called with the number of steps done and to do, of one chain."""


OpenProgress: TypeAlias = Callable[[int], AbstractContextManager[Report]]
"""Opens a reporter for a number of steps."""


def check_dtype(dtype: str | None) -> str:
    """``float32`` or ``float64``; JAX's own default if not given."""
    if dtype is None:
        return str(jnp.result_type(float))
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise InputError(f"dtype must be float32 or float64, found {dtype!r}.")
    return name
