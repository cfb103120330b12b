"""Groups of parameters that are independent given a few others: arrow matrices (X14)."""

import numpy as np

from ornstein._base.types import Vector
from ornstein.linalg.arrow import Arrow


def arrow_schur(head: Vector, cross: Vector, blocks: Vector) -> Vector:
    """What eliminating the groups leaves of the head: ``F - sum_g B_g T_g^-1 B_g'`` (X14).

    Parameters
    ----------
    head
        ``F``, (m, m).
    cross
        ``B``, (G, m, q).
    blocks
        ``T``, (G, q, q).
    """
    F, B, T = (np.asarray(part, float) for part in (head, cross, blocks))
    return np.asarray(F - np.einsum("gmi,gin->mn", B, np.linalg.solve(T, B.transpose(0, 2, 1))))


def arrow_draw(
    head: Vector, cross: Vector, blocks: Vector, head_normal: Vector, group_normals: Vector
) -> tuple[Vector, Vector]:
    """``phi = Schur^-1/2 z_phi`` and ``b_g = T_g^-1/2 z_g - T_g^-1 B_g' phi`` (X14).

    Of standard normal z, (m,) and (G, q), these are draws of ``N(0, H^-1)``; square roots are those
    of Cholesky.
    """
    B, T = (np.asarray(part, float).transpose(1, 2, 0) for part in (cross, blocks))
    root = Arrow(np.asarray(head, float), B, T).root()
    phi, groups = root.apply(np.asarray(head_normal), np.asarray(group_normals).T)
    return np.asarray(phi), np.asarray(groups).T


def arrow_logdet(head: Vector, cross: Vector, blocks: Vector) -> float:
    """``log |H| = log |Schur| + sum_g log |T_g|`` (X14)."""
    schur = np.linalg.slogdet(arrow_schur(head, cross, blocks))[1]
    return float(schur + np.linalg.slogdet(np.asarray(blocks, float))[1].sum())
