"""Many small symmetric matrices at once, (q, q, G): the groups lie along the last axis.

Loops over q are unrolled and every operation is elementwise over the groups, on the host or in
compiled code: LAPACK, called once a matrix, would take some hundred times longer.
"""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ornstein.linalg.bases import AnyArray


def namespace(*arrays: Any) -> ModuleType:
    """JAX's NumPy where an array is one of JAX, else NumPy itself."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np


def cholesky(matrices: AnyArray) -> AnyArray:
    """Lower factors L with ``L L' = M``; NaN where a matrix is not positive definite."""
    xp, q = namespace(matrices), matrices.shape[0]
    zero = xp.zeros_like(matrices[0, 0])
    lower: list[list[Any]] = [[zero] * q for _ in range(q)]
    for j in range(q):
        left = matrices[j, j] - sum((lower[j][k] ** 2 for k in range(j)), start=zero)
        lower[j][j] = xp.sqrt(xp.where(left > 0, left, xp.nan))
        for i in range(j + 1, q):
            rest = sum((lower[i][k] * lower[j][k] for k in range(j)), start=zero)
            lower[i][j] = (matrices[i, j] - rest) / lower[j][j]
    return _stacked(xp, lower)


def lower_inverse(lower: AnyArray) -> AnyArray:
    """Inverses of lower triangular matrices."""
    xp, q = namespace(lower), lower.shape[0]
    zero = xp.zeros_like(lower[0, 0])
    found: list[list[Any]] = [[zero] * q for _ in range(q)]
    for j in range(q):
        found[j][j] = 1 / lower[j, j]
        for i in range(j + 1, q):
            rest = sum((lower[i, k] * found[k][j] for k in range(j, i)), start=zero)
            found[i][j] = -rest / lower[i, i]
    return _stacked(xp, found)


def inverse(matrices: AnyArray) -> AnyArray:
    """Inverses of positive definite matrices."""
    root = lower_inverse(cholesky(matrices))
    return namespace(matrices).einsum("kig,kjg->ijg", root, root)


def _stacked(xp: ModuleType, entries: list[list[Any]]) -> Any:
    return xp.stack([xp.stack(row) for row in entries])
