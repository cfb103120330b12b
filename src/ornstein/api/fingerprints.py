"""What a run was given, in a form that can be kept and compared."""

import platform
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base import multihost
from ornstein._base.types import PyTree, Vector
from ornstein.curvature.row_sums import joint_losses
from ornstein.data.on_disk import RowsOnDisk, ahead
from ornstein.models.posterior import Posterior
from ornstein.storage.records import digest

_DRAWS = "4"  # raised where a key gives other draws than before
_PIECE_ROWS = 2**18  # read at once
_FIRST = 4  # rows whose losses tell models apart


def leaves(tree: PyTree) -> dict[str, Any]:
    """A tree's leaves by their place: arrays by a digest, numbers and texts as they are."""
    found = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda leaf: leaf is None)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): _leaf(leaf) for path, leaf in found
    }


def _leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray | jax.Array | RowsOnDisk):
        return _array(value)
    if isinstance(value, np.generic):
        return value.item()
    plain = value is None or isinstance(value, bool | int | float | str)
    return value if plain else type(value).__qualname__


def _array(value: Any) -> dict[str, Any]:
    if isinstance(value, RowsOnDisk):
        return {
            "shape": list(value.shape),
            "dtype": value.dtype.str,
            "digest": _digest_on_disk(value),
        }
    array = np.ascontiguousarray(value)
    return {
        "shape": list(np.shape(value)),
        "dtype": array.dtype.str,
        "digest": digest(_bytes(array)),
    }


def _digest_on_disk(value: RowsOnDisk) -> str:
    """A checksum of the checksums of pieces, which the processes of a run share."""
    starts = range(0, len(value), _PIECE_ROWS)
    mine = (starts[i] for i in multihost.share(len(starts)))
    pieces = ahead(value[start : start + _PIECE_ROWS] for start in mine)
    digests = "".join(digest(_bytes(piece)) for piece in pieces)
    return digest(*multihost.gathered(digests.encode()))


def _bytes(array: npt.NDArray[Any]) -> bytes | memoryview:
    if array.dtype.hasobject:
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def first_losses(post: Posterior, theta: Vector) -> Vector:
    """The joint loss of a few rows at two points: differs where the model does."""
    few = post.with_rows(np.arange(min(_FIRST, post.num_data)))
    return joint_losses(few, np.stack([theta, 0.5 * theta + 0.1]))


def versions() -> dict[str, str]:
    """What rounding may depend on, and which draws a key gives."""
    return {
        "draws": _DRAWS,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
