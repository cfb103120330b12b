"""The target of a mixed model, its weights and what is known of its predictor, checked."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import a_or_an
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data import inputs
from ornstein.data.derived import Derived, held
from ornstein.data.on_disk import AnyRows, RowsOnDisk
from ornstein.models.families import Binomial, Family
from ornstein.models.families.durations import Waiting
from ornstein.models.random_effects.posterior import Target
from ornstein.models.regressions import successes, waiting


def target_of(
    kind: type[Family],
    y: AnyRows,
    trials: Any,
    event: Any,
    sample_weight: Any,
    offset: Any,
    on_disk: bool,
) -> Target:
    """The target as its family takes it; trials become weights."""
    if (trials is not None) != (kind is Binomial):
        raise InputError(
            "family='binomial' needs trials, the number of trials of every row."
            if kind is Binomial
            else f"trials is for family='binomial'; {a_or_an(kind.name)} model has none."
        )
    if event is not None and not issubclass(kind, Waiting):
        raise InputError(f"event is for waiting times; {a_or_an(kind.name)} model has none.")
    refuse_several(kind(), kind.name)
    if on_disk:
        return _on_disk(kind, held(y), trials, event, sample_weight, offset)
    rows = len(y)
    weight: Vector | None = None
    if sample_weight is not None:
        weight = np.asarray(inputs.weights(sample_weight, rows), float)
    if kind is Binomial:
        y, count = successes(y, trials)
        weight = count if weight is None else weight * count
    elif issubclass(kind, Waiting):
        y = waiting(y, event)
    family, y = kind.of_target(y)
    known = None if offset is None else np.asarray(inputs.target(offset, rows), float)
    return Target(family, as_target(family, y), weight, known)


def as_target(family: Family, y: Any) -> npt.NDArray[Any]:
    """Numbers, and class numbers of more than two classes as such."""
    return np.asarray(y, np.int32 if family.most_classes > 2 else float)


def refuse_several(family: Family, given: str) -> None:
    """Raise for a family of several predictors."""
    if family.outputs > 1:
        raise InputError(
            f"family={given!r} has several predictors, which random effects cannot be added to "
            "yet. Use 'ordinal' for classes in an order, 'bernoulli' for one class against the "
            "others."
        )


def _on_disk(
    kind: type[Family], y: RowsOnDisk, trials: Any, event: Any, sample_weight: Any, offset: Any
) -> Target:
    """The same of rows that stay on disk, checked by passes over them."""
    if kind().auxiliary:
        raise InputError(
            f"{a_or_an(kind.name)} model has its own parameters, whose steps take all rows: they "
            "must be in memory. Read them with rows[:] if they fit."
        )
    rows = len(y)

    def column(name: str, value: Any) -> RowsOnDisk:
        return held(inputs.column(name, value, rows))

    weight = None
    if sample_weight is not None:
        weight = column("sample_weight", sample_weight).astype(float)
        if weight.scan.low[0] < 0 or weight.scan.high[0] <= 0:
            raise InputError(
                "sample_weight must be 0 or above, and above 0 in some row; found numbers from "
                f"{weight.scan.low[0]:g} to {weight.scan.high[0]:g}."
            )
    family: Family
    if kind is Binomial:
        count = column("trials", trials)
        family, y = kind(), _shares(y, count)
        weight = count.astype(float) if weight is None else Derived(np.multiply, count, weight)
    elif issubclass(kind, Waiting):
        family, y = kind(), _waits(y, None if event is None else column("event", event))
    else:
        family, found = kind.of_target(y)
        y = held(found)
    known = None if offset is None else column("offset", offset).astype(float)
    return Target(family, y.astype(float), weight, known)


def _shares(won: RowsOnDisk, count: RowsOnDisk) -> RowsOnDisk:
    left = Derived(lambda won, count: np.subtract(count, won, dtype=float), won, count)
    whole = won.scan.whole and count.scan.whole and count.scan.low[0] >= 1
    if not whole or won.scan.low[0] < 0 or left.scan.low[0] < 0:
        raise InputError(
            "y must count successes, whole numbers from 0 to trials, of at least 1 trial; found "
            f"y from {won.scan.low[0]:g} to {won.scan.high[0]:g}, trials from "
            f"{count.scan.low[0]:g} to {count.scan.high[0]:g}, and in one row "
            f"{max(0.0, -left.scan.low[0]):g} more successes than trials."
        )
    return Derived(np.divide, won, count)


def _waits(time: RowsOnDisk, event: RowsOnDisk | None) -> RowsOnDisk:
    """Negative where censored."""
    if time.scan.low[0] <= 0:
        raise InputError(f"y must hold waiting times above 0, found {time.scan.low[0]:g}.")
    if event is None:
        return time
    low, high = event.scan.low[0], event.scan.high[0]
    if not event.scan.whole or low < 0 or high > 1:
        raise InputError(
            "event must hold 1 where the wait ended and 0 where it is censored, found numbers "
            f"from {low:g} to {high:g}."
        )
    if high == 0:
        raise InputError("event is 0 throughout: no wait ended, so there is nothing to learn.")
    return Derived(lambda time, event: np.where(event == 1, time, -time), time, event)
