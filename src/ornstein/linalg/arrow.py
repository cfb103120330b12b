"""Arrow matrices: parameters of groups that are independent given a few others (X14).

``H = [[F, B], [B', blockdiag(T_g)]]`` with a head of m parameters and G groups of q. A flat vector
has the head first, then the groups' parameters coordinate by coordinate, (q, G). The groups are
eliminated exactly, and what they leave of the head, its Schur complement, is held densely. Time is
of order ``G q^3 + G q m^2`` to factorise, ``G q^2 + G q m`` for a product.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import scipy.linalg

from ornstein._base.types import Vector
from ornstein.linalg import small
from ornstein.linalg.bases import AnyArray
from ornstein.linalg.operators import Factor, Operator
from ornstein.linalg.small import namespace


def _split(vector: AnyArray, head: int, q: int) -> tuple[Any, Any]:
    """The head (..., m) and the groups (..., q, G) of vectors."""
    return vector[..., :head], vector[..., head:].reshape(*vector.shape[:-1], q, -1)


def _joined(head: Any, groups: Any) -> Any:
    flat = groups.reshape(*groups.shape[:-2], -1)
    return namespace(head, groups).concatenate([head, flat], axis=-1)


def _solved_identity(lower: jax.Array) -> jax.Array:
    eye = jnp.eye(len(lower), dtype=lower.dtype)
    return jax.scipy.linalg.solve_triangular(lower, eye, lower=True)


def _factorised(matrix: jax.Array) -> jax.Array:
    return _solved_identity(jax.scipy.linalg.cholesky(matrix, lower=True)).T


# One matrix at a time under ``vmap``: XLA divides a batch of LAPACK's calls among its threads and
# waits for them there, for ever where two compiled functions do so at once. Such functions have no
# derivatives of their own.
_inverse_one_by_one: Callable[[jax.Array], jax.Array] = jax.custom_batching.sequential_vmap(
    _solved_identity
)
_factorised_one_by_one: Callable[[jax.Array], jax.Array] = jax.custom_batching.sequential_vmap(
    _factorised
)


@jax.custom_jvp
def _lower_inverse(lower: jax.Array) -> jax.Array:
    """Of a lower triangular matrix."""
    return _inverse_one_by_one(lower)


@_lower_inverse.defjvp
def _lower_inverse_jvp(at: Any, change: Any) -> tuple[jax.Array, jax.Array]:
    inverse = _lower_inverse(*at)
    return inverse, -inverse @ change[0] @ inverse


@jax.custom_jvp
def _inverse_root(matrix: jax.Array) -> jax.Array:
    """``W``, upper triangular, with ``W W'`` the inverse; NaN if it is not positive definite."""
    return _factorised_one_by_one(matrix)


@_inverse_root.defjvp
def _inverse_root_jvp(at: Any, change: Any) -> tuple[jax.Array, jax.Array]:
    root = _inverse_root(*at)
    inner = root.T @ change[0] @ root
    half = jnp.tril(inner) - 0.5 * jnp.diag(jnp.diagonal(inner))
    return root, -root @ half.T


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ArrowRoot(Factor):
    """``L`` with ``L L' = H^-1``: ``phi = W z_phi`` and ``b_g = R_g' z_g - E_g phi``.

    ``W W'`` is the inverse of the Schur complement, ``R_g' R_g`` that of ``T_g``, and
    ``E_g = T_g^-1 B_g'`` says how a group follows the head.
    """

    head: AnyArray  # W, (m, m), upper triangular
    blocks: AnyArray  # R, (q, q, G), lower triangular
    follow: AnyArray  # E, (q, m, G)

    @property
    def array(self) -> AnyArray:
        """Not held as one array: see the fields."""
        raise NotImplementedError("an arrow root is held in parts")

    @property
    def size(self) -> int:
        """Parameters."""
        return int(self.head.shape[0] + self.blocks.shape[0] * self.blocks.shape[2])

    def coordinates(self, dim: int) -> int:
        return dim

    # By parts: the head (..., m) and the groups (..., q, G)

    def apply(self, phi: Any, groups: Any) -> tuple[Any, Any]:
        """``L z``."""
        xp = namespace(phi, groups, self.head)
        head = phi @ self.head.T
        own = xp.einsum("jig,...jg->...ig", self.blocks, groups)
        return head, own - xp.einsum("img,...m->...ig", self.follow, head)

    def transposed(self, phi: Any, groups: Any) -> tuple[Any, Any]:
        """``L' v``."""
        xp = namespace(phi, groups, self.head)
        left = phi - xp.einsum("img,...ig->...m", self.follow, groups)
        return left @ self.head, xp.einsum("ijg,...jg->...ig", self.blocks, groups)

    def solved(self, phi: Any, groups: Any) -> tuple[Any, Any]:
        """``L^-1 v``."""
        xp = namespace(phi, groups, self.head)
        own = groups + xp.einsum("img,...m->...ig", self.follow, phi)
        lower = self._lower
        return phi @ self._lower_head, xp.einsum("jig,...jg->...ig", lower, own)

    def transposed_solved(self, phi: Any, groups: Any) -> tuple[Any, Any]:
        """``L'^-1 z``."""
        xp = namespace(phi, groups, self.head)
        own = xp.einsum("ijg,...jg->...ig", self._lower, groups)
        head = phi @ self._lower_head.T
        return head + xp.einsum("img,...ig->...m", self.follow, own), own

    @property
    def _lower(self) -> Any:
        """Cholesky factors of the blocks: what R inverts."""
        return small.lower_inverse(self.blocks)

    @property
    def _lower_head(self) -> Any:
        """Cholesky factor of the Schur complement: the inverse of W'."""
        if isinstance(self.head, jax.Array):
            return _lower_inverse(self.head.T)
        return np.linalg.inv(self.head.T)

    @property
    def log_volumes(self) -> tuple[Any, Any]:
        """``log |W|`` by entry of its diagonal, (m,), and ``log |R_g|`` by group, (q, G)."""
        xp, q = namespace(self.head), self.blocks.shape[0]
        diagonal = xp.stack([self.blocks[i, i] for i in range(q)])
        return xp.log(xp.diagonal(self.head)), xp.log(diagonal)

    def block_cov(self) -> Any:
        """Covariances of the groups' parameters, (q, q, G)."""
        xp = namespace(self.head)
        along = xp.stack([self.head.T @ follow for follow in self.follow])  # (q, m, G)
        own = xp.einsum("kig,kjg->ijg", self.blocks, self.blocks)
        return own + xp.einsum("ikg,jkg->ijg", along, along)

    # As flat vectors

    def matvec(self, vector: AnyArray) -> AnyArray:
        return _joined(*self.apply(*self._split(vector)))

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        return _joined(*self.transposed(*self._split(vector)))

    def solve(self, vector: AnyArray) -> AnyArray:
        return _joined(*self.solved(*self._split(vector)))

    def _split(self, vector: AnyArray) -> tuple[Any, Any]:
        return _split(vector, self.head.shape[0], self.blocks.shape[0])

    def dense(self, dim: int) -> Vector:
        return np.asarray(self.matvec(np.eye(dim)), float).T

    def astype(self, dtype: npt.DTypeLike) -> "ArrowRoot":
        parts = self.head, self.blocks, self.follow
        return ArrowRoot(*(np.asarray(part, dtype) for part in parts))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Arrow(Operator):
    """``[[head, cross], [cross', blockdiag(blocks)]]``."""

    head: AnyArray  # F, (m, m)
    cross: AnyArray  # B, (m, q, G)
    blocks: AnyArray  # T, (q, q, G)

    @property
    def array(self) -> AnyArray:
        """Not held as one array: see the fields."""
        raise NotImplementedError("an arrow is held in parts")

    @property
    def structure(self) -> str:
        return "arrow"

    @property
    def size(self) -> int:
        """Parameters."""
        return int(self.head.shape[0] + self.blocks.shape[0] * self.blocks.shape[2])

    def like(self, array: AnyArray) -> "Arrow":
        raise NotImplementedError("an arrow is held in parts")

    def scaled(self, factor: Any) -> "Arrow":
        return Arrow(factor * self.head, factor * self.cross, factor * self.blocks)

    def astype(self, dtype: npt.DTypeLike) -> "Arrow":
        return Arrow(*(np.asarray(part, dtype) for part in (self.head, self.cross, self.blocks)))

    def plus(self, head: Any, block: Any) -> "Arrow":
        """With a matrix (m, m) added to the head, and one (q, q) to every block."""
        return Arrow(self.head + head, self.cross, self.blocks + block[:, :, None])

    def apply(self, phi: Any, groups: Any) -> tuple[Any, Any]:
        """``H v`` by parts, the head (..., m) and the groups (..., q, G)."""
        xp = namespace(phi, groups, self.head)
        head = phi @ self.head + xp.einsum("mig,...ig->...m", self.cross, groups)
        own = xp.einsum("ijg,...jg->...ig", self.blocks, groups)
        return head, own + xp.einsum("mig,...m->...ig", self.cross, phi)

    def matvec(self, vector: AnyArray) -> AnyArray:
        parts = _split(vector, self.head.shape[0], self.blocks.shape[0])
        return _joined(*self.apply(*parts))

    def root(self) -> ArrowRoot:
        """``L`` with ``L L' = H^-1``; NaN in compiled code where H is not positive definite."""
        xp, m = namespace(self.head), self.head.shape[0]
        inner = small.lower_inverse(small.cholesky(self.blocks))
        half = xp.einsum("ijg,mjg->img", inner, self.cross)  # R_g B_g'
        flat = xp.swapaxes(half, 0, 1).reshape(m, -1)
        schur = self.head - flat @ flat.T
        outer: AnyArray
        if xp is np:
            if not np.isfinite(schur).all():
                raise np.linalg.LinAlgError("a block is not positive definite")
            own = np.linalg.cholesky(np.asarray(schur))
            outer = scipy.linalg.solve_triangular(own, np.eye(m, dtype=own.dtype), lower=True).T
        else:
            outer = _inverse_root(schur)
        return ArrowRoot(outer, inner, xp.einsum("jig,jmg->img", inner, half))

    def inverse_root(self) -> ArrowRoot:
        return self.root()

    def inverse(self) -> "ArrowInverse":
        return ArrowInverse(self.root())

    def sqrt(self) -> Factor:
        return ArrowDualRoot(self.root())

    def variances(self, dim: int) -> Vector:
        """The diagonal."""
        del dim
        q = self.blocks.shape[0]
        groups = np.concatenate([np.asarray(self.blocks[i, i]) for i in range(q)])
        return np.concatenate([np.diag(np.asarray(self.head)), groups]).astype(float)

    def logdet(self, dim: int) -> float:
        return -self.inverse().logdet(dim)

    def dense(self, dim: int) -> Vector:
        return np.asarray(self.matvec(np.eye(dim)), float)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ArrowDualRoot(Factor):
    """``L'^-1``, a square root of an arrow itself."""

    root: ArrowRoot

    @property
    def array(self) -> AnyArray:
        return self.root.array

    def coordinates(self, dim: int) -> int:
        return dim

    def matvec(self, vector: AnyArray) -> AnyArray:
        parts = self.root._split(vector)
        return _joined(*self.root.transposed_solved(*parts))

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        return self.root.solve(vector)

    def solve(self, vector: AnyArray) -> AnyArray:
        return self.root.rmatvec(vector)

    def dense(self, dim: int) -> Vector:
        return np.asarray(self.matvec(np.eye(dim)), float).T

    def astype(self, dtype: npt.DTypeLike) -> "ArrowDualRoot":
        return ArrowDualRoot(self.root.astype(dtype))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ArrowInverse(Operator):
    """The inverse of an arrow, a covariance, by its root."""

    root: ArrowRoot

    @property
    def array(self) -> AnyArray:
        return self.root.array

    @property
    def structure(self) -> str:
        return "arrow"

    def like(self, array: AnyArray) -> "ArrowInverse":
        raise NotImplementedError("an arrow is held in parts")

    def astype(self, dtype: npt.DTypeLike) -> "ArrowInverse":
        return ArrowInverse(self.root.astype(dtype))

    def matvec(self, vector: AnyArray) -> AnyArray:
        return self.root.matvec(self.root.rmatvec(vector))

    def sqrt(self) -> ArrowRoot:
        return self.root

    def inverse(self) -> Operator:
        """The arrow itself."""
        dual = self.root
        lower, head = dual._lower, dual._lower_head
        xp = namespace(dual.head)
        blocks = xp.einsum("ikg,jkg->ijg", lower, lower)
        cross = xp.einsum("jmg,jig->mig", dual.follow, blocks)
        follow = xp.swapaxes(dual.follow, 0, 1).reshape(head.shape[0], -1)
        return Arrow(head @ head.T + cross.reshape(head.shape[0], -1) @ follow.T, cross, blocks)

    def variances(self, dim: int) -> Vector:
        """The diagonal."""
        del dim
        cov = np.asarray(self.root.block_cov(), float)
        groups = [cov[i, i] for i in range(len(cov))]
        return np.concatenate([(np.asarray(self.root.head, float) ** 2).sum(1), *groups])

    def logdet(self, dim: int) -> float:
        del dim
        return float(2 * sum(np.sum(part, dtype=float) for part in self.root.log_volumes))

    def dense(self, dim: int) -> Vector:
        root = self.root.dense(dim)
        return root @ root.T
