"""ArviZ, imported where it is first needed (that takes a second), and its table of draws."""

import tempfile
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError

if TYPE_CHECKING:
    import arviz
    import pandas as pd


def arviz_module() -> Any:
    """ArviZ, even where its own notice cannot be shown.

    On the first import of a day some versions show one and keep the date in the user's cache
    folder. That fails where another process does so at the same moment, or nothing can be written
    there; the date is then kept in a temporary folder.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return import_module("arviz")
        except OSError:
            return _with_temporary_cache()


def _with_temporary_cache() -> Any:
    import platformdirs

    usual = platformdirs.user_cache_dir
    with tempfile.TemporaryDirectory() as folder:
        platformdirs.user_cache_dir = lambda *_, **__: folder
        try:
            return import_module("arviz")
        finally:
            platformdirs.user_cache_dir = usual


def summary_table(draws: "arviz.InferenceData", interval: float) -> "pd.DataFrame":
    """Mean, sd, central interval, MCSE, ESS and R-hat, one line per parameter."""
    tail = (1 - mass(interval)) / 2
    leaves = [leaf.to_numpy() for leaf in draws["posterior"].data_vars.values()]
    flat = [leaf.reshape(leaf.shape[0] * leaf.shape[1], -1) for leaf in leaves]
    values = np.concatenate(flat, axis=1).astype(float)
    ends = np.quantile(values, [tail, 1 - tail], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # draws that never move
        mixing = arviz_module().summary(draws, kind="diagnostics", round_to="none")
    columns = {"mean": values.mean(axis=0), "sd": values.std(axis=0, ddof=1)}
    columns |= dict(zip(interval_ends(interval), ends, strict=True))
    for place, (name, numbers) in enumerate(columns.items()):
        mixing.insert(place, name, numbers)
    return cast("pd.DataFrame", mixing)


def interval_ends(interval: float) -> tuple[str, str]:
    """Names of an interval's ends, in summaries and predictions."""
    return f"low {100 * interval:g}%", f"high {100 * interval:g}%"


def mass(interval: float) -> float:
    """An interval's mass, checked."""
    value = checks.positive("interval", interval)
    if value >= 1:
        raise InputError(f"interval must lie between 0 and 1, found {interval!r}.")
    return value
