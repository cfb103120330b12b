"""Draws of a mixed model as a run folder keeps them: names for NetCDF, and reading them again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.random_effects.groupings import Grouping
from ornstein.results.mixed_draws import GroupDraws, MixedDraws, factors_of


def variable(name: str) -> str:
    """A name as NetCDF takes it, which a slash would split."""
    return name.replace("/", "|")


def drawn_as(grouping: Grouping) -> str:
    """The variable that has a grouping's effects."""
    return variable(f"{'coef' if grouping.fixed else 'b'}[{grouping.name}]")


def read_mixed(
    path: Path,
    columns: int,
    intercept: bool,
    groupings: Mapping[Grouping, npt.NDArray[Any]],
    auxiliary: Sequence[str],
    scaled: bool,
) -> MixedDraws:
    """Draws that :meth:`MixedResult.save` wrote, of a model with these parts."""
    import xarray

    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        drawn = {str(name): np.asarray(leaf.values) for name, leaf in tree["posterior"].items()}
        own = {name: np.asarray(tree["unconstrained_posterior"][name].values) for name in auxiliary}
    first = next(iter(drawn.values()))
    count = first.shape[0] * first.shape[1]

    def flat(values: Vector) -> Vector:
        return values.reshape(count, *values.shape[2:]).astype(float)

    try:
        fixed = [flat(drawn["coef"])] if columns else []
        fixed += [flat(drawn["intercept"])[:, None]] if intercept else []
        groups = []
        for grouping, levels in groupings.items():
            named = [flat(drawn[variable(name)]) for name in grouping.hyper_labels()]
            hyper = np.stack(named, axis=1) if named else np.zeros((count, 0))
            factor = factors_of(grouping, hyper)
            effects = drawn[drawn_as(grouping)]
            shape = count, grouping.width, grouping.levels
            groups.append(
                GroupDraws(grouping.name, levels, grouping.columns, effects.reshape(shape), factor)
            )
        noise = flat(drawn["sigma"]) if scaled and not auxiliary else 0.0
    except (KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}. Fit again, and save.") from error
    beside = {name: flat(values) for name, values in own.items()}
    together = np.concatenate(fixed, axis=1) if fixed else np.zeros((count, 0))
    return MixedDraws(together, tuple(groups), beside, noise)
