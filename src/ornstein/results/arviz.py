"""Draws as ArviZ has them, and its measures of mixing, for every version of it.

The library needs ``arviz-base`` and ``arviz-stats`` only, which are imported where they are first
used. What differs between ArviZ 0.x and 1.x is known here and nowhere else.
"""

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector

if TYPE_CHECKING:
    import pandas as pd
    import xarray

_TAILS = (0.05, 0.95)  # the quantiles whose effective sample size is that of the tails


def to_tree(
    groups: Mapping[str, Mapping[str, Vector]],
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[str]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> "xarray.DataTree":
    """Draws by group and name, (chains, draws, ...), as ArviZ 1.x has them.

    ``dims`` and ``coords`` name the further axes and what is along them; ``attrs`` are those of
    the posterior.
    """
    import arviz_base

    own = {name: list(axes) for name, axes in (dims or {}).items()}
    return arviz_base.from_dict(
        {name: dict(group) for name, group in groups.items()},
        dims=own,
        coords={name: list(along) for name, along in (coords or {}).items()},
        attrs={"posterior": dict(attrs or {})},
    )


def as_installed(tree: "xarray.DataTree") -> Any:
    """What the installed ArviZ works with: ``InferenceData`` for 0.x, else the tree itself."""
    try:
        major = int(metadata.version("arviz").split(".")[0])
    except metadata.PackageNotFoundError:
        return tree
    if major > 0:
        return tree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # its notice of the day
        arviz = import_module("arviz")
    return arviz.InferenceData(**{name: part.to_dataset() for name, part in tree.children.items()})


def write(tree: "xarray.DataTree", path: Path) -> None:
    """Write a NetCDF file that ArviZ of any version opens."""
    tree.to_netcdf(path, engine="h5netcdf")


def ess(draws: Vector, method: str = "bulk") -> Vector:
    """Effective sample sizes of draws (chains, draws, ...): one for every number drawn.

    ``method`` is ``bulk``, ``tail``, ``mean`` or ``sd``; NaN for what never moves.
    """
    tails = {"prob": _TAILS} if method == "tail" else {}
    return _measure("ess", draws, method=method, **tails)


def rhat(draws: Vector) -> Vector:
    """R-hat of ranks of draws (chains, draws, ...): one for every number drawn."""
    return _measure("rhat", draws)


def _measure(name: str, draws: Vector, **options: Any) -> Vector:
    from arviz_stats.base.array import array_stats

    with np.errstate(invalid="ignore", divide="ignore"):  # draws that never move
        found = getattr(array_stats, name)(draws, chain_axis=0, draw_axis=1, **options)
    return np.asarray(found, float)


def summary_table(
    labels: Sequence[str],
    leaves: Sequence[Vector],
    interval: float,
    measured: npt.NDArray[np.intp] | slice = slice(None),
) -> "pd.DataFrame":
    """Mean, sd, central interval, MCSE, ESS and R-hat, one line per parameter.

    ``leaves`` are draws (chains, draws, ...), ``labels`` the names of all numbers in them.
    MCSE, ESS and R-hat, which take long, are those of ``measured`` ones; NaN of others.
    """
    import pandas as pd

    tail = (1 - mass(interval)) / 2
    draws = np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)
    draws = draws.astype(float)

    def of_measured(values: Vector) -> Vector:
        found = np.full(draws.shape[2], np.nan)
        found[measured] = values
        return found

    some = draws[..., measured]
    values = draws.reshape(-1, draws.shape[-1])
    ends = np.quantile(values, [tail, 1 - tail], axis=0)
    columns = {
        "mean": values.mean(axis=0),
        "sd": values.std(axis=0, ddof=1),
        **dict(zip(interval_ends(interval), ends, strict=True)),
        "mcse_mean": of_measured(_measure("mcse", some, method="mean")),
        "mcse_sd": of_measured(_measure("mcse", some, method="sd")),
        "ess_bulk": of_measured(ess(some)),
        "ess_tail": of_measured(ess(some, "tail")),
        "r_hat": of_measured(rhat(some)),
    }
    return pd.DataFrame(columns, index=list(labels))


def interval_ends(interval: float) -> tuple[str, str]:
    """Names of an interval's ends, in summaries and predictions."""
    return f"low {100 * interval:g}%", f"high {100 * interval:g}%"


def mass(interval: float) -> float:
    """An interval's mass, checked."""
    value = checks.positive("interval", interval)
    if value >= 1:
        raise InputError(f"interval must lie between 0 and 1, found {interval!r}.")
    return value
