"""Random arrow matrices, and the same as dense ones."""

import numpy as np

from ornstein._base.types import Vector
from ornstein.linalg.arrow import Arrow


def random_arrow(m: int, q: int, groups: int, seed: int = 0) -> Arrow:
    """A positive definite one: the Gram matrix of rows that belong to one group each."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6 * groups, m + q))
    of = rng.permutation(np.arange(6 * groups) % groups)
    head = rows[:, :m].T @ rows[:, :m] + 0.3 * np.eye(m)
    cross, blocks = np.zeros((m, q, groups)), np.zeros((q, q, groups))
    for row, group in zip(rows, of, strict=True):
        cross[:, :, group] += np.outer(row[:m], row[m:])
        blocks[:, :, group] += np.outer(row[m:], row[m:])
    return Arrow(head, cross, blocks + 0.5 * np.eye(q)[:, :, None])


def assembled(head: Vector, cross: Vector, blocks: Vector) -> Vector:
    """As one matrix, group by group: of parts (m, m), (G, m, q) and (G, q, q)."""
    m, (G, q) = len(head), blocks.shape[:2]
    dense = np.zeros((m + G * q, m + G * q))
    dense[:m, :m] = head
    for g in range(G):
        at = slice(m + g * q, m + (g + 1) * q)
        dense[:m, at], dense[at, :m], dense[at, at] = cross[g], cross[g].T, blocks[g]
    return dense
