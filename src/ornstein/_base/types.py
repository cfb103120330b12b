"""Aliases shared by every room."""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import numpy as np
import numpy.typing as npt

Array: TypeAlias = jax.Array
"""A device array, traced or not."""

Vector: TypeAlias = npt.NDArray[np.floating[Any]]
"""A float64 host array; planning and theory use nothing else."""

PyTree: TypeAlias = Any
"""Any nesting of dicts, lists, tuples and dataclasses with arrays at the leaves."""

LogLikelihood: TypeAlias = Callable[..., Array]
"""``(params, example) -> scalar`` for one example; with hyperparameters these come last."""

LogPrior: TypeAlias = Callable[..., Array]
"""``params -> scalar``; with hyperparameters ``(params, hyper) -> scalar``."""

Constrain: TypeAlias = Callable[..., PyTree]
"""``params -> what to report of them``."""

Key: TypeAlias = int | Array
"""An integer seed or a JAX random key."""
