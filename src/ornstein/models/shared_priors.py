"""Which hyperparameters of a ready-made model can be learned, and which columns share them."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import PyTree
from ornstein.models.glm import Glm
from ornstein.models.hyperparameters import Learnable, Ties, checked_learnable

Groups: TypeAlias = Sequence[Hashable] | str | None
"""A label per column (None: fixed), ``"columns"`` for a precision each, None for one in all."""


def glm_hyperparameters(
    model: Glm,
    numbers: dict[str, Any],
    names: tuple[str, ...] | None,
    groups: Groups,
    learn: str | Sequence[str],
    functions: Callable[[PyTree], Any],
) -> tuple[Learnable, PyTree] | None:
    """A model's learnable hyperparameters and their values; None if ``learn`` names none."""
    wanted = _wanted(learn, tuple(sorted(set(numbers) | {"prior_precision"})))
    of_column, labels = _labels(groups, model, names)
    values: dict[str, Any] = {}
    if "noise_scale" in wanted:
        values["noise_scale"] = np.asarray(numbers["noise_scale"], float)
    index = np.full(model.layout.dim, -1)
    if "prior_precision" in wanted:
        index = np.tile(of_column, model.family.outputs)[model.order]
        logs = np.log(numbers["prior_precision"])
        given = np.exp([logs[index == group].mean() for group in range(len(labels))])
        values["prior_precision"] = np.asarray(given[0]) if groups is None else given
    if not values:
        return None
    named = {} if groups is None else {"prior_precision": labels}
    ties = Ties(index, len(labels) if "prior_precision" in wanted else 0, "noise_scale" in wanted)
    return checked_learnable(
        values, "positive", _assign(index), ties.noise, ties=ties, names=named, functions=functions
    )


def _assign(index: npt.NDArray[np.int64]) -> Callable[[PyTree, PyTree], PyTree]:
    def assign(values: PyTree, numbers: PyTree) -> PyTree:
        put = dict(numbers)
        if "noise_scale" in values:
            put["noise_scale"] = values["noise_scale"]
        if "prior_precision" in values:
            each = jnp.reshape(values["prior_precision"], (-1,))
            fixed = jnp.asarray(numbers["prior_precision"], each.dtype)
            put["prior_precision"] = jnp.where(index >= 0, each[np.maximum(index, 0)], fixed)
        return put

    return assign


def _wanted(learn: str | Sequence[str], possible: tuple[str, ...]) -> set[str]:
    names = [learn] if isinstance(learn, str) else list(learn)
    return {checks.choice("learn", name, possible) for name in names}


def _labels(
    groups: Groups, model: Glm, names: tuple[str, ...] | None
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """The group of every column of the design (-1: fixed), and the groups' names."""
    width = model.features + model.intercept
    if groups is None:
        each: list[Hashable] = ["all"] * model.features
    elif isinstance(groups, str):
        checks.choice("groups", groups, ("columns",))
        each = list(names or map(str, range(model.features)))
    else:
        each = list(groups)
        if len(each) not in (model.features, width):
            raise InputError(
                f"groups must name a group for each of {model.features} columns"
                f"{' (and the intercept, last)' if model.intercept else ''}, found {len(each)}."
            )
    each += [None] * (width - len(each))
    labels = list(dict.fromkeys(label for label in each if label is not None))
    if not labels:
        raise InputError(
            "groups gives no column a label, so there is no precision to learn; label some, or "
            "use learn=()."
        )
    index = [-1 if label is None else labels.index(label) for label in each]
    return np.asarray(index), tuple(map(str, labels))
