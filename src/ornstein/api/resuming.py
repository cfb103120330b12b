"""What a checkpointed run began with: kept once, and compared when the run resumes."""

import platform
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base import multihost
from ornstein._base.checks import few, shown
from ornstein._base.errors import CheckpointError, CheckpointWarning, InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.api.drawing import Beside
from ornstein.curvature.row_sums import joint_losses
from ornstein.data.on_disk import RowsOnDisk, ahead
from ornstein.hyper import Learning
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.storage import records
from ornstein.storage.checkpoint import Checkpoint
from ornstein.storage.codec import encode, register

_ROUNDING = 1e-6  # relative: a plan made again, or a loss, on another machine
_DRAWS = "6"  # raised where a key gives other draws than before
_PIECE_ROWS = 2**18  # read at once
_FIRST = 4  # rows whose losses tell models apart


class Start(NamedTuple):
    """What one attempt runs; ``restarts`` says what came before it, and at which step it ended."""

    post: Posterior
    plan: Plan
    learning: Learning | None
    dispersion: float
    restarts: tuple[tuple[str, int], ...] = ()
    beside: Beside | None = None


register(Start, given=("post",))


def as_arguments(key: Array, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that decide about the draws, for a file."""
    words = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
    return {"key": words, **_leaves(dict(given))}


def keep(folder: Checkpoint, given: Posterior, arguments: Mapping[str, Any], start: Start) -> Start:
    """Keep what an attempt begins with; returns it as it will be read."""
    learning = None if start.learning is None else start.learning.to_record()
    record = {
        "arguments": arguments,
        "data": _data(given),
        "versions": _versions(),
        "losses": _first_losses(start.post, start.plan.center),
        "start": start._replace(learning=learning),
    }
    try:
        folder.begin(record, len(start.restarts))
        # As it is read again: arrays that lie otherwise in memory would round otherwise.
        plan = records.unpack(records.pack(start.plan))
    except TypeError as error:
        raise InputError(f"checkpoint: {error}; run without a checkpoint.") from error
    return start._replace(plan=_for(start.post, plan))


def begun(
    folder: Checkpoint, given: Posterior, arguments: Mapping[str, Any], plan: Plan | None
) -> Start | None:
    """What the folder's newest attempt began with; None where there is none.

    Raises
    ------
    InputError
        If arguments, data, model or a given plan differ from those the run began with.
    CheckpointError
        If that cannot be read.
    """
    record, place = folder.begun(), folder.folder
    if record is None:
        return None
    try:
        start = record["start"]
        if not isinstance(start, Start):
            raise TypeError(f"no start of a run: {shown(start)}")
        _refuse(place, "other arguments", records.differences(record["arguments"], dict(arguments)))
        _refuse(place, "other data", records.differences(record["data"], _data(given)))
        if plan is not None and not start.restarts:
            # What a pilot measures is not rounding alone, on another machine.
            both = (replace(one, predicted_error=None, warnings=()) for one in (start.plan, plan))
            kept, now = (encode(one, array=lambda array: array) for one in both)
            if records.differences(kept, now, _ROUNDING):
                _refuse(place, "another plan", [f"it was {start.plan!r}, now {plan!r}"])
        post, kept_plan, learning = given, _for(given, start.plan), None
        if start.learning is not None:
            learning = start.learning.from_record(post.learnable.layout)
            values = learning.values
            if start.beside is not None:
                values = post.learnable.host_values(start.beside.eta)
            post = post.with_hyper(values, post.layout.unravel(kept_plan.center))
        was, losses = record["losses"], _first_losses(post, kept_plan.center)
        if records.differences(was, losses, _ROUNDING):
            lines = [f"losses of its first rows were {_shown(was)}, now {_shown(losses)}"]
            _refuse(place, "another model", lines)
        others = records.differences(record["versions"], _versions())
    except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise CheckpointError(
            f"run-{folder.attempt}.orn in {place} is damaged ({shown(str(error))})."
        ) from error
    if others:
        warnings.warn(
            f"{place} was begun elsewhere: {'; '.join(others)}. The draws are as good, but may "
            "differ from those of an uninterrupted run in the last bits.",
            CheckpointWarning,
            stacklevel=3,
        )
    return start._replace(post=post, plan=kept_plan, learning=learning)


def _for(post: Posterior, plan: Plan) -> Plan:
    """A plan from a file, for the posterior it was made for."""
    return replace(plan, layout=post.layout, model=post.model)


def _data(post: Posterior) -> dict[str, Any]:
    return _leaves({"data": post.data, "fixed": post.hyper})


def _refuse(place: Any, what: str, lines: list[str]) -> None:
    if lines:
        raise InputError(
            f"checkpoint: {place} holds a run with {what}: {few(lines, 3, '; ')}. Give what it "
            "began with, or name another folder."
        )


def _shown(values: Vector) -> str:
    return ", ".join(f"{value:.8g}" for value in values)


# Fingerprints: what a run was given, in a form that can be kept and compared ---------------------


def _leaves(tree: PyTree) -> dict[str, Any]:
    """A tree's leaves by their place: arrays by a digest, numbers and texts as they are."""
    found = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda leaf: leaf is None)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): _leaf(leaf) for path, leaf in found
    }


def _leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray | jax.Array | RowsOnDisk):
        content = (
            _digest_on_disk(value)
            if isinstance(value, RowsOnDisk)
            else records.digest(_bytes(np.asarray(value)))
        )
        return {"shape": list(value.shape), "dtype": value.dtype.str, "digest": content}
    if isinstance(value, np.generic):
        return value.item()
    plain = value is None or isinstance(value, bool | int | float | str)
    return value if plain else type(value).__qualname__


def _digest_on_disk(value: RowsOnDisk) -> str:
    """A checksum of the checksums of pieces, which the processes of a run share."""
    starts = range(0, len(value), _PIECE_ROWS)
    mine = (starts[i] for i in multihost.share(len(starts)))
    pieces = ahead(value[start : start + _PIECE_ROWS] for start in mine)
    digests = "".join(records.digest(_bytes(piece)) for piece in pieces)
    return records.digest(*multihost.gathered(digests.encode()))


def _bytes(array: npt.NDArray[Any]) -> bytes | memoryview:
    if array.dtype.hasobject:
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _first_losses(post: Posterior, theta: Vector) -> Vector:
    """The joint loss of a few rows at two points: differs where the model does."""
    few = post.with_rows(np.arange(min(_FIRST, post.num_data)))
    return joint_losses(few, np.stack([theta, 0.5 * theta + 0.1]))


def _versions() -> dict[str, str]:
    """What rounding may depend on, and which draws a key gives."""
    return {
        "draws": _DRAWS,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
