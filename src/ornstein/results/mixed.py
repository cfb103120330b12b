"""Draws of a mixed model by names: coefficients, standard deviations, effects; and predictions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.data import inputs
from ornstein.models.random_effects.groupings import Grouping
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.planning.mixed import MixedPlan
from ornstein.results import arviz
from ornstein.results.predictive import Prediction
from ornstein.storage.folders import write_folder

if TYPE_CHECKING:
    import pandas as pd

_BLOCK = 2**22  # numbers of draws by rows made at once


@dataclass(frozen=True, eq=False)
class MixedResult:
    """Draws of a mixed model, made by :func:`ornstein.sample`.

    ``result["sd(school)"]``, ``result["b[school=12]"]`` and the like are draws (chains, draws) by
    name; ``result.names`` lists the names of coefficients and standard deviations.

    Attributes
    ----------
    phi, b, lam
        Draws of the head (chains, draws, m), of the largest group's effects (..., q, levels), and
        of the hyperparameters on the real line.
    posterior, plan
        What was run.
    anchor
        Where coordinates counted from in the end.
    rates
        Acceptance of groups, head and hyperparameters; 1 where there was no test.
    seconds
        Time of the run, compilation included.
    """

    phi: Vector
    b: Vector
    lam: Vector
    posterior: MixedPosterior
    plan: MixedPlan
    anchor: MixedAnchor
    rates: Vector
    seconds: float

    def __repr__(self) -> str:
        """One line."""
        chains, draws = self.lam.shape[:2]
        return f"MixedResult(chains={chains}, draws={draws}, parameters={self.posterior.dim})"

    @property
    def names(self) -> list[str]:
        """Of fixed coefficients, standard deviations and correlations."""
        return [*self.posterior.fixed_labels, *self.posterior.hyper_labels]

    @cached_property
    def hyper_draws(self) -> Vector:
        """Standard deviations and correlations, (chains, draws, n)."""
        return self.posterior.specification.described(self.lam.astype(float))

    @property
    def fixed(self) -> Vector:
        """Draws of the fixed coefficients, (chains, draws, p)."""
        return self.phi[..., : self.posterior.specification.fixed]

    def effects_of(self, group: str) -> Vector:
        """Draws of a group's effects, (chains, draws, q, levels)."""
        number, grouping = self._grouping(group)
        if number == 0:
            return self.b
        place = self.posterior.specification.places()[number - 1]
        return self.phi[..., place].reshape(*self.phi.shape[:2], grouping.width, -1)

    def __getitem__(self, name: str) -> Vector:
        """Draws of one number, (chains, draws)."""
        post = self.posterior
        if name in post.fixed_labels:
            return self.phi[..., post.fixed_labels.index(name)]
        if name in post.hyper_labels:
            return self.hyper_draws[..., post.hyper_labels.index(name)]
        for grouping, levels in zip(post.specification.groupings, post.levels, strict=True):
            if not name.startswith(f"b[{grouping.name}="):
                continue
            labels = grouping.effect_labels(levels.tolist())
            if name in labels:
                found = self.effects_of(grouping.name)
                return found.reshape(*found.shape[:2], -1)[..., labels.index(name)]
        known = [*self.names, *(f"b[{g.name}=LEVEL]" for g in post.specification.groupings)]
        raise InputError(
            f"no draws of the name {checks.shown(name)}.{checks.nearest(name, known)} There are "
            f"{checks.few(known, 12)}."
        )

    def summary(self, interval: float = 0.9) -> "pd.DataFrame":
        """Mean, sd, central interval, MCSE, ESS and R-hat of coefficients and sds.

        Examples
        --------
        >>> import ornstein as orn
        >>> post = orn.models.mixed(None, [1.0, 2, 4, 5, 1, 3], {"g": [0, 0, 1, 1, 2, 2]})
        >>> orn.sample(post, draws=50).summary().index.tolist()
        ['intercept', 'sd(g)', 'sigma']
        """
        return arviz.summary_table(self.names, [self.fixed, self.hyper_draws], interval)

    def effects(self, group: str, interval: float = 0.9) -> "pd.DataFrame":
        """Mean, sd and central interval of a group's effects, a line for every level."""
        import pandas as pd

        number, grouping = self._grouping(group)
        tail = (1 - arviz.mass(interval)) / 2
        found = self.effects_of(group)
        flat = found.reshape(-1, grouping.size)
        each = max(1, _BLOCK // len(flat))
        pieces = []
        for start in range(0, grouping.size, each):
            part = flat[:, start : start + each].astype(float)
            ends = np.quantile(part, [tail, 1 - tail], axis=0)
            pieces.append(np.stack([part.mean(axis=0), part.std(axis=0, ddof=1), *ends]))
        columns = "mean", "sd", *arviz.interval_ends(interval)
        labels = grouping.effect_labels(self.posterior.levels[number].tolist())
        return pd.DataFrame(np.concatenate(pieces, axis=1).T, index=labels, columns=columns)

    def to_arviz(self) -> Any:
        """The draws for ArviZ, levels and columns named."""
        return arviz.as_installed(self._tree())

    def _tree(self) -> Any:
        post = self.posterior
        named: dict[str, Vector] = {}
        dims: dict[str, list[str]] = {}
        coords: dict[str, Any] = {}
        for name in self.names:
            named[name] = self[name]
        own = zip(post.specification.groupings, post.levels, strict=True)
        for grouping, levels in own:
            key = f"b[{grouping.name}]"
            named[key] = self.effects_of(grouping.name)
            dims[key] = [f"{grouping.name}_effect", grouping.name]
            coords[f"{grouping.name}_effect"] = list(grouping.columns)
            coords[grouping.name] = levels.tolist()
        attrs = {
            "inference_library": "ornstein",
            "method": self.plan.method,
            "batch_size": self.plan.batch_size,
            "sampling_time": self.seconds,
        }
        return arviz.to_tree({"posterior": named}, dims, coords, attrs)

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Save ``draws.nc`` (opens in ArviZ), ``plan.txt`` and ``summary.csv`` to a folder.

        The folder appears complete or not at all.
        """
        files = {
            "draws.nc": lambda path: arviz.write(self._tree(), path),
            "plan.txt": lambda path: path.write_text(f"{self.plan}\n"),
            "summary.csv": lambda path: self.summary().to_csv(path),
        }
        return write_folder(folder, files, overwrite)

    def predictors(
        self,
        X: npt.ArrayLike | None,
        groups: Mapping[str, npt.ArrayLike],
        seed: int = 0,
        offset: npt.ArrayLike | None = None,
    ) -> Vector:
        """Draws of new rows' predictors, (draws, rows).

        The effects of levels that the data do not have are drawn from their distribution; rows of
        one such level share them. A group that is not given counts as new for every row.
        """
        post, spec = self.posterior, self.posterior.specification
        table = self._new_table(X, groups)
        flat = self.phi.reshape(-1, spec.head).astype(float)
        found = flat[:, : spec.fixed] @ table.T
        if offset is not None:
            found += np.asarray(inputs.target(offset, len(table)), float)[None]
        rng = np.random.default_rng(seed)
        unknown = set(groups) - {grouping.name for grouping in spec.groupings}
        if unknown:
            raise InputError(
                f"groups has {checks.names_of(sorted(unknown))}, which the model has not."
            )
        parts = spec.parts(self.lam.reshape(-1, spec.count).astype(float))
        for number, grouping in enumerate(spec.groupings):
            design = _design(grouping, post.slope_columns[number], table)
            labels = np.asarray(groups.get(grouping.name, np.arange(len(table))))
            if labels.shape != (len(table),):
                raise InputError(
                    f"groups[{grouping.name!r}] must have one label for each of {len(table)} "
                    f"rows, found shape {labels.shape}."
                )
            index, fresh = _matched(labels, post.levels[number], given=grouping.name in groups)
            effects = self.effects_of(grouping.name).reshape(len(flat), grouping.width, -1)
            new = _fresh(grouping, parts[number], int(fresh.max(initial=-1)) + 1, rng)
            for i in range(grouping.width):
                known = fresh < 0
                found[:, known] += effects[:, i][:, index[known]] * design[known, i]
                found[:, ~known] += new[:, i][:, fresh[~known]] * design[~known, i]
        return found

    def predict(
        self,
        X: npt.ArrayLike | None,
        groups: Mapping[str, npt.ArrayLike],
        interval: float = 0.9,
        seed: int = 0,
        offset: npt.ArrayLike | None = None,
    ) -> Prediction:
        """The expected target of new rows, its standard deviation over draws, and an interval.

        The interval is that of the target itself, its own noise included.
        """
        family = self.posterior.specification.family
        eta = self.predictors(X, groups, seed, offset)
        numbers: dict[str, Vector] = {}
        if self.posterior.specification.noise_prior is not None:
            numbers["noise_scale"] = np.exp(self.lam[..., -1]).reshape(-1).astype(float)
        if family.most_classes:
            means = family.probabilities(eta, numbers)[:, 1]
        else:
            means = family.expectation(eta, numbers)
        rng = np.random.default_rng([seed, 1])
        low, high = family.interval(eta, numbers, arviz.mass(interval), rng)
        return Prediction(means.mean(axis=0), means.std(axis=0), low, high)

    def _new_table(self, X: Any, groups: Mapping[str, Any]) -> Vector:
        post = self.posterior
        columns = len(post.fixed_labels) - post.intercept
        if X is None:
            if columns:
                raise InputError(f"X must have the model's {columns} columns, found None.")
            if not groups:
                raise InputError("groups must have the levels of the new rows, found none.")
            table = np.zeros((len(np.asarray(next(iter(groups.values())))), 0))
        else:
            table = np.asarray(inputs.table(X)[0], float)
        if table.shape[1] != columns:
            raise InputError(f"X must have the model's {columns} columns, found {table.shape[1]}.")
        if not post.intercept:
            return table
        return np.concatenate([table, np.ones((len(table), 1))], axis=1)

    def _grouping(self, group: str) -> tuple[int, Grouping]:
        names = [grouping.name for grouping in self.posterior.specification.groupings]
        number = names.index(checks.choice("group", group, names))
        return number, self.posterior.specification.groupings[number]


def _design(grouping: Grouping, columns: tuple[int, ...], table: Vector) -> Vector:
    """Columns of the effects, (rows, q)."""
    own = table[:, list(columns)]
    if grouping.width == len(columns):
        return own
    return np.concatenate([np.ones((len(table), 1)), own], axis=1)


def _matched(
    labels: npt.NDArray[Any], levels: npt.NDArray[Any], given: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Known levels' numbers, and numbers of new ones; -1 for the other kind."""
    if not given:
        return np.full(len(labels), -1), np.arange(len(labels))
    if levels.dtype.kind in "US" and labels.dtype.kind not in "US":
        labels = labels.astype(str)
    place = np.clip(np.searchsorted(levels, labels), 0, len(levels) - 1)
    known = levels[place] == labels
    fresh = np.full(len(labels), -1)
    fresh[~known] = np.unique(labels[~known], return_inverse=True)[1]
    return np.where(known, place, -1), fresh


def _fresh(grouping: Grouping, lam: Vector, count: int, rng: np.random.Generator) -> Vector:
    """Effects of new levels, (draws, q, levels), one covariance for every draw."""
    pieces = []
    for cov, part in zip(grouping.covariances, grouping.parts(lam), strict=True):
        normal = rng.normal(size=(len(lam), cov.size, count))
        pieces.append(cov.host_factor(part) @ normal)
    return np.concatenate(pieces, axis=1)
