"""Pytrees of parameters as flat vectors, and of rows in one precision or another."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from ornstein._base.types import Array, PyTree, Vector


@dataclass(frozen=True)
class Layout:
    """How a pytree of parameters lies in a flat vector. Hashable: compiled code is keyed on it."""

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, params: PyTree) -> "Layout":
        """The layout of an example of the parameters."""
        leaves, treedef = jax.tree.flatten(params)
        return cls(treedef, tuple(np.shape(leaf) for leaf in leaves))

    @property
    def dim(self) -> int:
        """Number of parameters, flattened."""
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of parameters in each leaf."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    def ravel(self, params: PyTree) -> Vector:
        """The parameters as a float64 host vector."""
        leaves = self.treedef.flatten_up_to(params)
        return np.concatenate([np.asarray(leaf, float).reshape(-1) for leaf in leaves])

    def vector(self, params: PyTree) -> Array:
        """The parameters as a device vector, also inside compiled code."""
        leaves = self.treedef.flatten_up_to(params)
        return jnp.concatenate([jnp.reshape(leaf, -1) for leaf in leaves])

    def unravel(self, flat: Array | Vector) -> PyTree:
        """Parameters from vectors in the last axis; leading axes are kept."""
        ends = np.cumsum(self.sizes)
        leaves = [
            flat[..., end - size : end].reshape(flat.shape[:-1] + shape)
            for end, size, shape in zip(ends, self.sizes, self.shapes, strict=True)
        ]
        return jax.tree.unflatten(self.treedef, leaves)

    def labels(self, names: dict[str, tuple[str, ...]] | None = None) -> list[str]:
        """A readable name for every entry of the vector, e.g. ``coef[alcohol]``.

        ``names`` gives names for the entries along a leaf's last axis.
        """
        names = names or {}
        labels = []
        for leaf, shape in zip(self.leaf_names(), self.shapes, strict=True):
            last = names.get(leaf)
            for index in product(*(range(size) for size in shape)):
                entries = [str(i) for i in index]
                if last is not None and entries:
                    entries[-1] = last[index[-1]]
                labels.append(f"{leaf}[{', '.join(entries)}]" if entries else leaf)
        return labels

    def leaf_names(self) -> list[str]:
        """A readable, distinct name for every leaf, e.g. ``layer.weight``."""
        tree = jax.tree.unflatten(self.treedef, range(len(self.shapes)))
        keyed, _ = tree_flatten_with_path(tree)
        taken = {"chain", "draw"}  # ArviZ's own
        names = []
        for path, _ in keyed:
            name = keystr(path, simple=True, separator=".").replace("/", "_") or "theta"
            while name in taken:
                name += "_"
            taken.add(name)
            names.append(name)
        return names


def num_rows(data: PyTree) -> int:
    """Length of the leading axis of the data's leaves."""
    return int(np.shape(jax.tree.leaves(data)[0])[0])


def cast(data: PyTree, dtype: Any) -> PyTree:
    """Host arrays, floating leaves in ``dtype``; whole numbers in 32 bits, or in ``dtype`` too."""

    def one(leaf: Any) -> np.ndarray[Any, Any]:
        array = np.asarray(leaf)
        if np.issubdtype(array.dtype, np.floating):
            return array.astype(dtype, copy=False)
        if array.dtype.itemsize <= 4:
            return array
        limits = np.iinfo(np.int32)
        fits = array.size == 0 or (array.min() >= limits.min and array.max() <= limits.max)
        return array.astype(np.int32 if fits else dtype)

    return jax.tree.map(one, data)


def in_double(rows: PyTree) -> PyTree:
    """Rows with floating leaves in double precision; shorter ones are widened by the device."""

    def one(leaf: Any) -> Any:
        short = np.issubdtype(leaf.dtype, np.floating) and leaf.dtype.itemsize < 8
        return _widened(leaf) if short else cast(leaf, np.float64)

    return jax.tree.map(one, rows)


@jax.jit
def _widened(leaf: Array) -> Array:
    return leaf.astype(jnp.float64)


def to_device(tree: PyTree) -> PyTree:
    """Put host arrays on the default device."""
    return jax.tree.map(jax.device_put, tree)
