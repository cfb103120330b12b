"""Priors of a mixed model by name: of coefficients, standard deviations and correlations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein.models.hyper_priors import ScalePrior
from ornstein.models.priors import Normal, Priors, checked_by_name
from ornstein.models.random_effects.groupings import INTERCEPT
from ornstein.models.random_effects.posterior import GroupRows

SIGMA = "sigma"


@dataclass(frozen=True)
class LKJ:
    """A prior of correlation matrices: concentration 1 takes all alike, more favours small ones.

    Examples
    --------
    >>> import ornstein as orn
    >>> groups = {"g": orn.models.Effects([0, 0, 1, 1, 2, 2], slopes=("x",))}
    >>> priors = {"sd(g: x)": orn.HalfNormal(1.0), "cor(g)": orn.LKJ(2.0)}
    >>> x, y = [[0.0], [1.0], [0.0], [1.0], [0.0], [1.0]], [1.0, 2, 0, 3, 1, 1]
    >>> orn.models.mixed(x, y, groups, feature_names=["x"], priors=priors).hyper_labels[:2]
    ['sd(g: 1)', 'sd(g: x)']
    """

    concentration: float = 1.0


class NamedPriors(NamedTuple):
    """Checked priors: normal ones, and those of standard deviations and correlations."""

    normal: dict[str, Normal]
    scales: dict[str, ScalePrior]
    correlations: dict[str, float]

    def of_group(self, group: GroupRows) -> GroupRows:
        """A group of rows with the priors that were given for it."""
        if group.named is not None:
            return group
        priors = tuple(
            self.scales.get(name, prior)
            for name, prior in zip(_sds(group), group.priors, strict=True)
        )
        own = self.correlations.get(_correlation(group), group.concentration)
        return group._replace(priors=priors, concentration=own)


def named_priors(
    reported: Sequence[str], groups: Sequence[GroupRows], noise: bool, given: Priors
) -> NamedPriors:
    """Priors by name, checked; ``reported`` are coefficients and the family's own parameters."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(
            "priors must be a mapping of names to priors, such as {'x': ornstein.Normal(0, 1)}, "
            f"found {checks.shown(given)}."
        )
    sds = [name for group in groups for name in _sds(group)] + ([SIGMA] if noise else [])
    correlations = [_correlation(group) for group in groups if max(group.blocks) > 1]
    found = NamedPriors({}, {}, {})
    normal = {}
    for name, prior in (given or {}).items():
        _refuse_level(name, groups)
        checks.choice("priors", name, [*reported, *sds, *correlations])
        if name in sds:
            found.scales[name] = _scale(name, prior)
        elif name in correlations:
            found.correlations[name] = _concentration(name, prior)
        else:
            normal[name] = prior
    return found._replace(normal=checked_by_name(reported, normal))


def _refuse_level(name: Any, groups: Sequence[GroupRows]) -> None:
    """Raise for the coefficient of one level of a fixed factor."""
    for group in groups:
        if group.named is None:
            continue
        before, after = group.named
        if str(name).startswith(before) and str(name).endswith(after):
            raise InputError(
                f"priors[{checks.shown(name)}] is the coefficient of one of {len(group.levels):,} "
                "levels, which share one prior. Set it for all fixed effects (prior_precision), or "
                "leave this one out."
            )


def _scale(name: str, prior: Any) -> ScalePrior:
    if not isinstance(prior, ScalePrior):
        raise InputError(
            f"priors[{name!r}] must be ornstein.HalfNormal, HalfStudentT, Exponential or "
            f"LogUniform, found {checks.shown(prior)}."
        )
    for field in ("scale", "df"):
        if hasattr(prior, field):
            checks.positive(f"priors[{name!r}].{field}", getattr(prior, field))
    return prior


def _concentration(name: str, prior: Any) -> float:
    if not isinstance(prior, LKJ):
        raise InputError(
            f"priors[{name!r}] must be ornstein.LKJ(concentration), found {checks.shown(prior)}."
        )
    return checks.positive(f"priors[{name!r}].concentration", prior.concentration)


def _sds(group: GroupRows) -> list[str]:
    if group.named is not None:
        return []
    if group.columns == (INTERCEPT,):
        return [f"sd({group.name})"]
    return [f"sd({group.name}: {column})" for column in group.columns]


def _correlation(group: GroupRows) -> str:
    return f"cor({group.name})"
