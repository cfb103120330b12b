"""Normal priors of single parameters, by name."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.glm import Glm
from ornstein.models.hyperparameters import Groups, finite_numbers


class Normal(NamedTuple):
    """A normal prior of one parameter.

    That of an auxiliary parameter is on the real line: of the logarithm of a shape, of the logit of
    a share.

    Examples
    --------
    >>> import ornstein as orn
    >>> priors = {"shape": orn.Normal(0.0, 0.5)}
    >>> orn.models.negative_binomial([[0.0], [1.0], [2.0]], [0, 2, 7], priors=priors)
    Posterior(rows=3, parameters=2: coef[0], log_shape)
    """

    mean: float = 0.0
    sd: float = 1.0


Priors: TypeAlias = Mapping[str, Any] | None
"""A prior for each name: :class:`Normal`, of mixed models also those of scales."""


def prior_precisions(given: float | Sequence[float], width: int) -> Vector:
    """One precision for every column, the intercept's last."""
    precision = finite_numbers("prior_precision", given, "fiub")
    if precision.ndim > 1 or (precision.ndim == 1 and len(precision) != width):
        raise InputError(
            f"prior_precision must be one number or {width} (one per column, the intercept's "
            f"last), found shape {precision.shape}."
        )
    if not (precision > 0).all():
        raise InputError(f"prior_precision must be above 0, found {given!r}.")
    return np.broadcast_to(precision, (width,)).copy()


def named_priors(
    model: Glm, numbers: dict[str, Any], names: Sequence[str] | None, given: Priors, y: Any
) -> tuple[dict[str, Any], frozenset[int]]:
    """A model's numbers with the priors of auxiliary parameters, and with those given by name.

    Also the columns of the design, the intercept the last, whose prior was given.
    """
    auxiliary = model.family.auxiliary
    given = checked(model, names, given)
    if not auxiliary and not given:
        return numbers, frozenset()
    precision, mean = numbers["prior_precision"], np.zeros(model.width * model.outputs)
    columns = _columns(model, names)
    places = np.tile(np.arange(model.width), model.outputs)[model.order]
    fixed = {columns.index(name): prior for name, prior in given.items() if name in columns}
    for column, prior in fixed.items():
        mean[places == column] = prior.mean
        precision = np.where(places == column, prior.sd**-2, precision)
    means = model.family.auxiliary_means(np.asarray(y)) if auxiliary else {}
    for one in sorted(auxiliary, key=lambda one: one.name):
        prior = given.get(one.reported, Normal(means[one.name], one.sd))  # type: ignore[arg-type]
        mean = np.append(mean, np.broadcast_to(prior.mean, one.shape))
        precision = np.append(precision, np.broadcast_to(np.asarray(prior.sd) ** -2.0, one.shape))
    numbers = {**numbers, "prior_precision": precision, "prior_mean": mean}
    return numbers, frozenset(fixed)


def checked(model: Glm, names: Sequence[str] | None, given: Priors) -> dict[str, Normal]:
    """Priors by name; raises for a name or a prior that is none."""
    known = [*_columns(model, names), *(one.reported for one in model.family.auxiliary)]
    return checked_by_name(known, given)


def checked_by_name(known: Sequence[str], given: Priors) -> dict[str, Normal]:
    """Priors of parameters with these names; raises for others, and for what is no prior."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(
            "priors must be a mapping of names to ornstein.Normal(mean, sd), found "
            f"{checks.shown(given)}."
        )
    found = {}
    for name, prior in given.items():
        checks.choice("priors", name, known)
        if not isinstance(prior, Normal):
            raise InputError(
                f"priors[{name!r}] must be ornstein.Normal(mean, sd), found {checks.shown(prior)}."
            )
        finite_numbers(f"priors[{name!r}].mean", prior.mean)
        found[name] = Normal(prior.mean, checks.positive(f"priors[{name!r}].sd", prior.sd))
    return found


def without_fixed(
    groups: Groups, fixed: frozenset[int], model: Glm, names: Sequence[str] | None
) -> Groups:
    """Groups of columns that share a precision, but for those whose prior was given."""
    if not fixed & set(range(model.features)):
        return groups
    columns = _columns(model, names)
    if groups is None:
        each: list[Any] = ["all"] * model.features
    else:
        each = columns[: model.features] if isinstance(groups, str) else list(groups)
    return [None if place in fixed else label for place, label in enumerate(each)]


def _columns(model: Glm, names: Sequence[str] | None) -> list[str]:
    """Names of the design's columns."""
    own = list(names or map(str, range(model.features)))
    return [*own, "intercept"] if model.intercept else own
