"""What a checkpointed run began with: kept once, and compared when the run resumes."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ornstein._base.checks import shown
from ornstein._base.errors import CheckpointError, CheckpointWarning, InputError
from ornstein._base.types import Array, Vector
from ornstein.api import fingerprints
from ornstein.hyper import Learning
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.sampling.restarts import MOST
from ornstein.storage import records
from ornstein.storage.checkpoint import Checkpoint
from ornstein.storage.codec import encode, register

_ROUNDING = 1e-6  # relative: a plan made again, or a loss, on another machine


class Start(NamedTuple):
    """What one attempt runs; ``restarts`` says what came before it, and at which step it ended."""

    post: Posterior
    plan: Plan
    learning: Learning | None
    dispersion: float
    restarts: tuple[tuple[str, int], ...] = ()

    @property
    def news(self) -> str:
        """What the newest restart changed."""
        return f"Restarting, {len(self.restarts)} of {MOST} at most: {self.restarts[-1][0]}."


register(Start, given=("post",))


def as_arguments(key: Array, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that decide about the draws, for a file."""
    words = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
    return {"key": words, **fingerprints.leaves(dict(given))}


def keep(folder: Checkpoint, given: Posterior, arguments: Mapping[str, Any], start: Start) -> Start:
    """Keep what an attempt begins with; returns it as it will be read."""
    learning = None if start.learning is None else start.learning.to_record()
    record = {
        "arguments": arguments,
        "data": _data(given),
        "versions": fingerprints.versions(),
        "losses": fingerprints.first_losses(start.post, start.plan.center),
        "start": start._replace(learning=learning),
    }
    try:
        folder.begin(record, len(start.restarts))
        # As it is read again: arrays that lie otherwise in memory would round otherwise.
        plan = records.unpack(records.pack(start.plan))
    except TypeError as error:
        raise InputError(f"checkpoint: {error}; leave it out, or run without.") from error
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
    record = folder.begun()
    if record is None:
        return None
    try:
        return _begun(folder, given, arguments, plan, record)
    except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise CheckpointError(
            f"run-{folder.attempt}.orn in {folder.folder} is damaged ({shown(str(error))})."
        ) from error


def _begun(
    folder: Checkpoint,
    given: Posterior,
    arguments: Mapping[str, Any],
    plan: Plan | None,
    record: Mapping[str, Any],
) -> Start:
    place, start = folder.folder, record["start"]
    if not isinstance(start, Start):
        raise TypeError(f"no start of a run: {shown(start)}")
    _refuse(place, "other arguments", records.differences(record["arguments"], dict(arguments)))
    _refuse(place, "other data", records.differences(record["data"], _data(given)))
    if plan is not None and not start.restarts:
        kept, now = (encode(one, array=lambda array: array) for one in (start.plan, plan))
        if records.differences(kept, now, _ROUNDING):
            _refuse(place, "another plan", [f"it was {start.plan!r}, now {plan!r}"])
    post, kept_plan, learning = given, _for(given, start.plan), None
    if start.learning is not None:
        learning = start.learning.from_record(post.learnable.layout)
        post = post.with_hyper(learning.values, post.layout.unravel(kept_plan.center))
    losses = fingerprints.first_losses(post, kept_plan.center)
    if records.differences(record["losses"], losses, _ROUNDING):
        lines = [f"losses of its first rows were {_shown(record['losses'])}, now {_shown(losses)}"]
        _refuse(place, "another model", lines)
    others = records.differences(record["versions"], fingerprints.versions())
    if others:
        warnings.warn(
            f"{place} was begun elsewhere: {'; '.join(others)}. The draws are as good, but may "
            "differ from those of an uninterrupted run in the last bits.",
            CheckpointWarning,
            stacklevel=5,
        )
    return start._replace(post=post, plan=kept_plan, learning=learning)


def _for(post: Posterior, plan: Plan) -> Plan:
    """A plan from a file, for the posterior it was made for."""
    return replace(plan, layout=post.layout, model=post.model)


def _data(post: Posterior) -> dict[str, Any]:
    return fingerprints.leaves({"data": post.data, "fixed": post.hyper})


def _refuse(place: Any, what: str, lines: list[str]) -> None:
    if lines:
        more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
        raise InputError(
            f"checkpoint: {place} holds a run with {what}: {'; '.join(lines[:3])}{more}. Give what "
            "it began with, or name another folder."
        )


def _shown(values: Vector) -> str:
    return ", ".join(f"{value:.8g}" for value in values)
