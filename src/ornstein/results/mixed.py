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
from ornstein.curvature.turns_anchor import TurnsAnchor
from ornstein.data import inputs
from ornstein.models.random_effects.groupings import Grouping
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.planning.mixed import MixedPlan
from ornstein.results import arviz
from ornstein.results.mixed_draws import (
    GroupDraws,
    MixedDraws,
    RowEffects,
    factors_of,
)
from ornstein.results.mixed_files import drawn_as, variable
from ornstein.results.mixed_rows import new_rows
from ornstein.results.predictive import Prediction, evenly_spaced
from ornstein.sampling.settings import Status
from ornstein.storage.folders import Writer, write_folder

if TYPE_CHECKING:
    import pandas as pd

    from ornstein.results.diagnosis import Diagnosis

_BLOCK = 2**22  # numbers of draws by rows made at once
_MEASURED = 1000  # levels of fixed factors


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
        Acceptance of groups, head and hyperparameters, (3,), or of every turn (3, turns); 1 where
        there was no test.
    seconds
        Time of the run, compilation included.
    """

    phi: Vector
    b: Vector
    lam: Vector
    posterior: MixedPosterior
    plan: MixedPlan
    anchor: MixedAnchor | TurnsAnchor
    rates: Vector
    seconds: float

    def __repr__(self) -> str:
        """One line."""
        chains, draws = self.lam.shape[:2]
        return f"MixedResult(chains={chains}, draws={draws}, parameters={self.posterior.dim})"

    @property
    def names(self) -> list[str]:
        """Of coefficients, standard deviations and correlations, and the family's parameters.

        The coefficients of fixed factors' levels, of which there may be many, come last.
        """
        return [*self.fixed_names, *self.posterior.hyper_labels, *self.contrast_names]

    @property
    def contrast_names(self) -> list[str]:
        """Of the coefficients of fixed factors' levels, without those of baselines."""
        post, found = self.posterior, list[str]()
        for number, (grouping, levels) in enumerate(
            zip(post.specification.groupings, post.levels, strict=True)
        ):
            if grouping.fixed:
                kept = np.isfinite(post.units.effects[number][0])
                found += grouping.effect_labels(levels[kept].tolist())
        return found

    @cached_property
    def contrasts(self) -> Vector:
        """Their draws, (chains, draws, n)."""
        post = self.posterior
        pieces = [np.zeros((*self.lam.shape[:2], 0))]
        for number, grouping in enumerate(post.specification.groupings):
            if grouping.fixed:
                kept = np.isfinite(post.units.effects[number][0])
                pieces.append(self.effects_of(grouping.name)[:, :, 0, kept])
        return np.concatenate(pieces, axis=-1)

    @property
    def fixed_names(self) -> list[str]:
        """Of fixed coefficients; cutpoints take an intercept's place."""
        post = self.posterior
        return [n for n in post.fixed_labels if n != "intercept" or post.intercept]

    @property
    def status(self) -> Status:
        """How the run ended."""
        return Status(True, "done")

    @cached_property
    def fixed(self) -> Vector:
        """Draws of the fixed coefficients, (chains, draws, p)."""
        return self._own_fixed[..., : len(self.fixed_names)]

    @cached_property
    def _own_fixed(self) -> Vector:
        """With an intercept that stands for the first cutpoint."""
        return self.posterior.units.fixed(self.phi[..., : self.posterior.specification.fixed])

    @cached_property
    def hyper_draws(self) -> Vector:
        """Standard deviations, correlations and the family's parameters, (chains, draws, n)."""
        post = self.posterior
        spec, scale = post.specification, post.units.target_scale
        shift = 0.0 if spec.family.intercept else self._own_fixed[..., -1]
        found = spec.described(self.lam.astype(float), shift, scale)
        sizes = post.units.hyper_scale(spec.groupings)
        found[..., : len(sizes)] *= sizes
        if spec.noise_prior is not None:
            found[..., -1] *= scale
        return found

    def effects_of(self, group: str) -> Vector:
        """Draws of a group's effects, (chains, draws, q, levels)."""
        number, grouping = self._grouping(group)
        if number == 0:
            found = self.b
        else:
            place = self.posterior.specification.places()[number - 1]
            shape = *self.phi.shape[:2], grouping.width, -1
            found = self.phi[..., place].reshape(*shape)
        scale = self.posterior.units.effect_scale(number)
        return found if (scale == 1).all() else found * scale.astype(found.dtype)

    @property
    def auxiliary(self) -> dict[str, Vector]:
        """The family's own parameters on the real line, (chains, draws, ...)."""
        post = self.posterior
        found = post.specification.host_numbers(self.lam.astype(float))
        if "log_noise_scale" in found:
            found["log_noise_scale"] = found["log_noise_scale"] + np.log(post.units.target_scale)
        if not post.specification.family.intercept:
            (name,) = found
            found[name][..., 0] -= self._own_fixed[..., -1]
        return found

    @cached_property
    def own(self) -> MixedDraws:
        """All draws in the user's units, one after another."""
        post = self.posterior
        spec, at, groups = post.specification, 0, []
        hyper = np.concatenate(self.hyper_draws)
        for grouping, levels in zip(spec.groupings, post.levels, strict=True):
            mine = hyper[:, at : at + grouping.count]
            factor = factors_of(grouping, mine)
            effects = self.effects_of(grouping.name).reshape(len(hyper), grouping.width, -1)
            groups.append(GroupDraws(grouping.name, levels, grouping.columns, effects, factor))
            at += grouping.count
        noise = hyper[:, -1] if spec.noise_prior is not None else 0.0
        beside = {n: v.reshape(len(hyper), *v.shape[2:]) for n, v in self.auxiliary.items()}
        return MixedDraws(self.fixed.reshape(len(hyper), -1), tuple(groups), beside, noise)

    def __getitem__(self, name: str) -> Vector:
        """Draws of one number, (chains, draws)."""
        post = self.posterior
        if name in self.fixed_names:
            return self.fixed[..., self.fixed_names.index(name)]
        if name in post.hyper_labels:
            return self.hyper_draws[..., post.hyper_labels.index(name)]
        if name in self.contrast_names:
            return self.contrasts[..., self.contrast_names.index(name)]
        for grouping, levels in zip(post.specification.groupings, post.levels, strict=True):
            if grouping.fixed or not name.startswith(f"b[{grouping.name}="):
                continue
            labels = grouping.effect_labels(levels.tolist())
            if name in labels:
                found = self.effects_of(grouping.name)
                return found.reshape(*found.shape[:2], -1)[..., labels.index(name)]
        random = [g.name for g in post.specification.groupings if not g.fixed]
        known = [*self.names, *(f"b[{group}=LEVEL]" for group in random)]
        raise InputError(
            f"no draws of the name {checks.shown(name)}.{checks.nearest(name, known)} There are "
            f"{checks.few(known, 12)}."
        )

    @property
    def flat(self) -> Vector:
        """Draws of all that :attr:`names` lists, (chains, draws, n)."""
        parts = self.fixed, self.hyper_draws, self.contrasts
        return np.concatenate(parts, axis=-1).astype(float)

    @property
    def measured(self) -> npt.NDArray[np.intp]:
        """Numbers of the :attr:`names` whose mixing is measured, which takes long for thousands.

        All but some of the levels of fixed factors, where these have more than 1,000.
        """
        count = self.contrasts.shape[2]
        others = len(self.names) - count
        return np.concatenate([np.arange(others), others + evenly_spaced(count, _MEASURED)])

    def require_draws(self) -> None:
        """Nothing: a run that did not end raised."""

    def diagnose(self) -> "Diagnosis":
        """Whether the draws can be trusted: chains, effective draws, and Stein's identities (X12).

        Examples
        --------
        >>> import ornstein as orn
        >>> post = orn.models.mixed(None, [1.0, 2, 4, 5, 1, 3], {"g": [0, 0, 1, 1, 2, 2]})
        >>> orn.sample(post, draws=200).diagnose()["stationarity"].assumption
        'chains have forgotten their start'
        """
        from ornstein.results.mixed_diagnosis import diagnose_mixed  # which asks for results

        return diagnose_mixed(self)

    def variance_components(self, interval: float = 0.9) -> "pd.DataFrame":
        """The variance that every group adds to predictors, and the noise's, with their shares.

        A group's variance is that of its effects averaged over the rows, so that slopes count as
        much as their columns vary. The noise's is that of the target, for classes that of the
        logistic distribution behind them; other families have none that adds. The share of an
        intercept is its intraclass correlation.
        """
        from ornstein.results.variances import variance_components

        return variance_components(self, interval)

    def summary(self, interval: float = 0.9) -> "pd.DataFrame":
        """Mean, sd, central interval, MCSE, ESS and R-hat of coefficients and sds.

        Of more than 1,000 levels of fixed factors the last are measured for some only
        (:attr:`measured`).

        Examples
        --------
        >>> import ornstein as orn
        >>> post = orn.models.mixed(None, [1.0, 2, 4, 5, 1, 3], {"g": [0, 0, 1, 1, 2, 2]})
        >>> orn.sample(post, draws=50).summary().index.tolist()
        ['intercept', 'sd(g)', 'sigma']
        """
        parts = [self.fixed, self.hyper_draws, self.contrasts]
        return arviz.summary_table(self.names, parts, interval, self.measured)

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
        coef = self.fixed_names[: len(post.units.scale)]
        named: dict[str, Vector] = {"coef": self.fixed[..., : len(coef)]} if coef else {}
        dims: dict[str, list[str]] = {"coef": ["coef_column"]} if coef else {}
        coords: dict[str, Any] = {"coef_column": coef} if coef else {}
        for name in [*self.fixed_names[len(coef) :], *post.hyper_labels]:
            named[variable(name)] = self[name]
        for grouping, levels in zip(post.specification.groupings, post.levels, strict=True):
            key, along = drawn_as(grouping), variable(grouping.name)
            named[key] = self.effects_of(grouping.name)
            dims[key] = [f"{along}_effect", along]
            coords[f"{along}_effect"] = list(grouping.columns)
            coords[along] = levels.tolist()
        attrs = {
            "inference_library": "ornstein",
            "method": self.plan.method,
            "batch_size": self.plan.batch_size,
            "sampling_time": self.seconds,
        }
        groups = {"posterior": named}
        if post.specification.auxiliary:
            groups["unconstrained_posterior"] = self.auxiliary
        return arviz.to_tree(groups, dims, coords, attrs)

    def files(self, rows: None = None) -> dict[str, Writer]:
        """Writers of the files of a run folder."""
        del rows
        return {
            "draws.nc": lambda path: arviz.write(self._tree(), path),
            "plan.txt": lambda path: path.write_text(f"{self.plan}\n"),
            "summary.csv": lambda path: self.summary().to_csv(path),
        }

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Save ``draws.nc`` (opens in ArviZ), ``plan.txt`` and ``summary.csv`` to a folder.

        The folder appears complete or not at all.
        """
        return write_folder(folder, self.files(), overwrite)

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
        draws = self.own
        table, rows = new_rows(self.posterior, draws, X, groups)
        known = None
        if offset is not None:
            known = np.asarray(inputs.target(offset, len(table)), float)
        return draws.fixed @ table.T + RowEffects(rows, known, seed)[..., slice(None)]

    def predict(
        self,
        X: npt.ArrayLike | None,
        groups: Mapping[str, npt.ArrayLike],
        interval: float = 0.9,
        seed: int = 0,
        offset: npt.ArrayLike | None = None,
        trials: npt.ArrayLike | None = None,
    ) -> Prediction:
        """The expected target of new rows, its standard deviation over draws, and an interval.

        The interval is that of the target itself, its own noise included. ``trials`` are a binomial
        model's; of classes in an order the mean is that of their numbers.
        """
        family, draws = self.posterior.specification.family, self.own
        eta = self.predictors(X, groups, seed, offset)
        numbers: dict[str, Any] = {"noise_scale": np.reshape(draws.noise_scale, (-1, 1))}
        numbers |= {name: leaf[:, None] for name, leaf in draws.auxiliary.items()}
        if trials is not None:
            numbers["trials"] = np.asarray(inputs.target(trials, eta.shape[1]), float)[None]
        if family.most_classes:
            chances = family.probabilities(eta, numbers)
            means = np.einsum("dkr,k->dr", chances, np.arange(chances.shape[1]))
        else:
            means = family.expectation(eta, numbers)
        rng = np.random.default_rng([seed, 1])
        low, high = family.interval(eta, numbers, arviz.mass(interval), rng)
        return Prediction(means.mean(axis=0), means.std(axis=0), low, high)

    def _grouping(self, group: str) -> tuple[int, Grouping]:
        names = [grouping.name for grouping in self.posterior.specification.groupings]
        number = names.index(checks.choice("group", group, names))
        return number, self.posterior.specification.groupings[number]
