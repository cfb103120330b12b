"""What a checkpointed run began with: kept once, and compared when the run goes on."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from ornstein._base.checks import shown
from ornstein._base.errors import CheckpointError, CheckpointWarning, InputError
from ornstein._base.types import Array, Vector
from ornstein.api import fingerprints
from ornstein.hyper import Learning
from ornstein.models.posterior import Posterior
from ornstein.planning import plan_record
from ornstein.planning.plans import Plan
from ornstein.sampling.restarts import MOST
from ornstein.storage.checkpoint import Checkpoint
from ornstein.storage.records import differences

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


def as_arguments(key: Array, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that decide about the draws, as a record."""
    words = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
    return {"key": words, **{name: fingerprints.plain(value) for name, value in given.items()}}


def keep(folder: Checkpoint, given: Posterior, arguments: Mapping[str, Any], start: Start) -> Start:
    """Keep what an attempt begins with; returns it as it will be read."""
    attempt = len(start.restarts)
    record = {
        "arguments": arguments,
        "data": _data(given),
        "versions": fingerprints.versions(),
        "looks": fingerprints.looks(start.post, start.plan.center),
        "dispersion": start.dispersion,
        "restarts": [list(one) for one in start.restarts],
        "learning": None if start.learning is None else start.learning.to_record(),
        "plan": plan_record.to_record(start.plan),
    }
    try:
        folder.begin(record, attempt)
    except TypeError as error:
        raise InputError(f"checkpoint: {error}; leave it out, or run without.") from error
    # As it is read again: arrays that lie otherwise in memory would round otherwise.
    return start._replace(plan=plan_record.from_record(record["plan"], start.post))


def begun(
    folder: Checkpoint, given: Posterior, arguments: Mapping[str, Any], plan: Plan | None
) -> Start | None:
    """What the folder's newest attempt began with; None where there is none.

    Raises
    ------
    InputError
        If arguments, data, model or a given plan are others than those the run began with.
    CheckpointError
        If that can not be read.
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
            f"run-{folder.attempt}.orn in {folder.folder} makes no sense ({shown(str(error))})."
        ) from error


def _begun(
    folder: Checkpoint,
    given: Posterior,
    arguments: Mapping[str, Any],
    plan: Plan | None,
    record: Mapping[str, Any],
) -> Start:
    place = folder.folder
    _refuse(place, "other arguments", differences(record["arguments"], dict(arguments)))
    _refuse(place, "other data", differences(record["data"], _data(given)))
    post, kept = given, plan_record.from_record(record["plan"], given)
    restarts = tuple((str(how), int(step)) for how, step in record["restarts"])
    if plan is not None and not restarts:
        now = plan_record.to_record(plan)
        if differences(record["plan"], now, _ROUNDING):
            _refuse(place, "another plan", [f"it was {kept!r}, now {plan!r}"])
    learning = None
    if record["learning"] is not None:
        learning = Learning.from_record(record["learning"], post.learnable.layout)
        post = post.with_hyper(learning.values, post.layout.unravel(kept.center))
    found = fingerprints.looks(post, kept.center)
    if differences(record["looks"], found, _ROUNDING):
        lines = [f"losses of its first rows were {_shown(record['looks'])}, now {_shown(found)}"]
        _refuse(place, "another model", lines)
    others = differences(record["versions"], fingerprints.versions())
    if others:
        warnings.warn(
            f"{place} was begun elsewhere: {'; '.join(others)}. The draws are as good, but need "
            "not be those of an uninterrupted run to the last bit.",
            CheckpointWarning,
            stacklevel=5,
        )
    return Start(post, kept, learning, float(record["dispersion"]), restarts)


def _data(post: Posterior) -> dict[str, Any]:
    return fingerprints.arrays("data", post.data) | fingerprints.arrays("fixed", post.hyper)


def _refuse(place: Any, what: str, lines: list[str]) -> None:
    if lines:
        more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
        raise InputError(
            f"checkpoint: {place} holds a run with {what}: {'; '.join(lines[:3])}{more}. Give what "
            "it was begun with, or name another folder."
        )


def _shown(values: Vector) -> str:
    return ", ".join(f"{value:.8g}" for value in values)
