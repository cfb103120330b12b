"""What a run was given, in a form that can be kept and compared."""

import platform
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base import multihost
from ornstein._base.types import PyTree, Vector
from ornstein.curvature.row_sums import joint_losses
from ornstein.data.on_disk import Stored, ahead
from ornstein.models.posterior import Posterior
from ornstein.storage.records import digest

_DRAWS = "4"  # raised where a key gives other draws than before
_PIECE_ROWS = 2**18  # read at once
_LOOKS = 4  # rows and prior are looked at, to tell models apart


def plain(value: Any) -> Any:
    """An argument as a record: numbers and texts as they are, arrays by a digest of all of them."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray | jax.Array):
        return _array(value)
    leaves = jax.tree.leaves(value)
    if len(leaves) != 1 or leaves[0] is not value:
        return [plain(leaf) for leaf in leaves]
    return type(value).__qualname__


def arrays(name: str, tree: PyTree) -> dict[str, Any]:
    """Shape, dtype and digest of every array, by where it is."""
    return {
        name + jax.tree_util.keystr(path): _array(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _array(value: Any) -> dict[str, Any]:
    if isinstance(value, Stored):
        return {
            "shape": list(value.shape),
            "dtype": value.dtype.str,
            "digest": _stored_digest(value),
        }
    array = np.ascontiguousarray(value)
    return {
        "shape": list(np.shape(value)),
        "dtype": array.dtype.str,
        "digest": digest(_bytes(array)),
    }


def _stored_digest(value: Stored) -> str:
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


def looks(post: Posterior, theta: Vector) -> Vector:
    """The joint loss of a few rows at two points: differs where the model does."""
    few = post.with_rows(np.arange(min(_LOOKS, post.num_data)))
    return joint_losses(few, np.stack([theta, 0.5 * theta + 0.1]))


def versions() -> dict[str, str]:
    """What rounding may depend on, and which draws a key gives."""
    return {
        "draws": _DRAWS,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
