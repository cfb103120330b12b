"""A fitted table whose model looks effects up: random ones, and fixed ones of many levels."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein.api.mixed import sample_mixed
from ornstein.models.hyper_priors import HalfStudentT
from ornstein.models.priors import Priors
from ornstein.models.random_effects.builder import WIDE
from ornstein.models.random_effects.covariances import Covariance
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.results.mixed import MixedResult
from ornstein.results.mixed_draws import GroupDraws, GroupOfRows, MixedDraws, RowEffects
from ornstein.results.mixed_files import read_mixed
from ornstein.results.predictive import Coefficients, NewRows, evenly_spaced
from ornstein.tables.arrow import arrow_table
from ornstein.tables.encoding import Encoding
from ornstein.tables.fitting import Unknown
from ornstein.tables.formulas.design import MOST_LEVELS
from ornstein.tables.formulas.effects import GroupEffects
from ornstein.tables.formulas.encoding import FormulaEncoding
from ornstein.tables.formulas.learning import FormulaTable
from ornstein.tables.formulas.mixing import mixed_posterior
from ornstein.tables.learning import EncodedTable
from ornstein.tables.levels import ManyLevels
from ornstein.tables.model import TableModel, TableRecord
from ornstein.tables.toolbox import Block, SeenRows

_MOST_NUMBERS = 2**27  # of all draws of effects: 512 MiB
_CHAINS = 4


@dataclass(frozen=True)
class MixedTableModel(TableModel):
    """A table model with effects of levels, ``effects`` in standardised units of the target."""

    effects: tuple[GroupDraws, ...] = ()

    @classmethod
    def of_draws(
        cls,
        encoding: Encoding | FormulaEncoding,
        own: MixedDraws,
        run: MixedResult | None,
        **more: Any,
    ) -> "MixedTableModel":
        """From draws in the table's own units."""
        units = encoding.units
        count, scale = len(units.scale), units.target_scale
        coef = own.fixed[:, :count] * units.scale / scale
        moved = coef / units.scale @ units.centre
        intercept = np.zeros(len(coef))
        if own.fixed.shape[1] > count:
            intercept = (own.fixed[:, count] - units.target_centre) / scale + moved
        auxiliary = dict(own.auxiliary)
        if "log_noise_scale" in auxiliary:
            auxiliary["log_noise_scale"] = auxiliary["log_noise_scale"] - np.log(scale)
        if not encoding.family.intercept:
            (name,) = auxiliary
            cutpoints = auxiliary[name].copy()
            cutpoints[:, 0] -= moved
            auxiliary[name] = cutpoints
        draws = Coefficients.gather(
            encoding.model, coef, intercept, own.noise_scale / scale, auxiliary
        )
        effects = own.groups
        if scale != 1:
            effects = tuple(
                replace(one, effects=one.effects / scale, factor=one.factor / scale)
                for one in effects
            )
        return cls(encoding, draws, run, effects=effects, **more)  # type: ignore[arg-type]

    @property
    def result(self) -> Any:
        """The run, a :class:`~ornstein.MixedResult`."""
        return super().result

    def summary(self, interval: float = 0.9) -> pd.DataFrame:
        """Coefficients, standard deviations and correlations in the units of the table."""
        found: pd.DataFrame = self.result.summary(interval)
        if self.encoding.family.ratio and (self.encoding.features or self.encoding.many):
            coef = self.result.fixed[..., : len(self.encoding.features)]
            levels = self.result.contrasts
            ratios = [self._ratios(coef, interval)] if self.encoding.features else []
            ratios += [self._ratios_per(levels, 1.0, self.result.contrast_names, interval)]
            found = found.join(pd.concat(ratios))
        return found.rename_axis("parameter")

    def hyperparameters(self) -> dict[str, dict[str, Any]]:
        """None beside those of the summary."""
        return {}

    def thinned(self, count: int) -> "MixedTableModel":
        """The same model with at most so many of its draws, evenly spaced."""
        made = len(self.draws.coef)
        if made <= count:
            return self
        numbers = evenly_spaced(made, count)
        effects = tuple(one.at(numbers) for one in self.effects)
        return replace(self, draws=self.draws.at(numbers), effects=effects)

    def new_rows(self, frame: Any, unseen: str = "error") -> NewRows:
        """Rows to predict; random effects of levels that were not learned are drawn."""
        return self._with_effects(frame, self.encoding.rows(frame, unseen))

    def rows_of_effects(self, frame: Any, typical: bool) -> NewRows:
        """Rows of one trial each; ``typical`` ones have no random effects, and first levels."""
        rows = super().rows_of_effects(frame, typical)
        if not typical:
            return self._with_effects(frame, rows)
        return rows._replace(x=rows.x[:, : len(self.encoding.features)])

    def encoded_rows(self, table: EncodedTable | FormulaTable) -> NewRows:
        """Rows of an encoded table, with the effects of levels by their names."""
        rows, groups = super().encoded_rows(table), list[GroupOfRows]()
        for one in table.groups if isinstance(table, FormulaTable) else ():
            draws, effects = self._group(one.name)
            design = np.ones((len(one.level_of), 1)) if one.design is None else one.design
            matched = draws.matched(one.levels[one.level_of])
            groups.append(GroupOfRows(draws, *matched, design * effects.scales))
        return self._added(rows, groups)

    def _with_effects(self, frame: Any, rows: NewRows) -> NewRows:
        groups = []
        if self.encoding.random:
            table = arrow_table(frame, self.encoding.column_names)
            for one in self.encoding.random:
                draws, _ = self._group(one.name)
                matched = draws.matched(one.labels(table))
                groups.append(GroupOfRows(draws, *matched, one.design(table)))
        return self._added(rows, groups)

    def _added(self, rows: NewRows, groups: list[GroupOfRows]) -> NewRows:
        """Rows to whose predictors effects are added; the last columns are numbers of levels."""
        known = None if rows.offset is None else np.asarray(rows.offset, float)
        x, codes = np.split(rows.x, [len(self.encoding.features)], axis=1)
        many = [
            self._of_many(one, code) for one, code in zip(self.encoding.many, codes.T, strict=True)
        ]
        return rows._replace(x=x, offset=RowEffects([*groups, *many], known))

    def _of_many(self, one: ManyLevels, codes: npt.NDArray[Any]) -> GroupOfRows:
        """Fixed effects of a column; levels that the draws have not are the mean of those."""
        draws = next(own for own in self.effects if own.name == one.group)
        place = {level: number for number, level in enumerate(draws.levels.tolist())}
        number = np.array([place.get(word, len(place)) for word in [*one.words.tolist(), None]])
        share = np.bincount(number[:-1], one.shares, len(place) + 1)[:-1]
        mean = draws.effects @ (share / share.sum())
        effects = np.concatenate([draws.effects, mean[..., None]], axis=2)
        known = number[codes.astype(np.intp)]
        own = replace(draws, effects=effects)
        return GroupOfRows(own, known, np.full(len(known), -1), np.ones((len(known), 1)))

    def _group(self, name: str) -> tuple[GroupDraws, GroupEffects]:
        draws = next(one for one in self.effects if one.name == name)
        return draws, next(one for one in self.encoding.random if one.name == name)

    def seen_rows(self, frame: Any, draws: int) -> SeenRows:
        """Draws, and the rows of a table; those of the fit if there is none, in their order."""
        if frame is not None or self.run is None:
            return super().seen_rows(frame, draws)
        some, post = self.thinned(draws), self.result.posterior
        rows, columns = post.rows.in_memory(), len(self.encoding.features)
        place = np.argsort(rows.order)
        names = [grouping.name for grouping in post.specification.groupings]

        def codes_of(at: npt.NDArray[np.intp]) -> list[npt.NDArray[Any]]:
            return [rows.index[names.index(one.group)][at, None] for one in self.encoding.many]

        def block(numbers: npt.NDArray[np.intp]) -> Block:
            at, groups = place[numbers], []
            for grouping, index, design in zip(
                post.specification.groupings, rows.index, rows.design, strict=True
            ):
                if grouping.fixed:
                    continue
                own, effects = some._group(grouping.name)
                values = np.ones((len(at), 1)) if design is None else design[at]
                new = np.full(len(at), -1)
                groups.append(GroupOfRows(own, index[at], new, values * effects.scales))
            trials = None if rows.weight is None else rows.weight[at]
            offset = None if rows.offset is None else rows.offset[at]
            made = NewRows(np.hstack([rows.x[at, :columns], *codes_of(at)]), offset, trials)
            y = rows.y[at] if trials is None else np.rint(rows.y[at] * trials)
            return Block(some._added(made, groups), y)

        return SeenRows(some.draws, rows.size, block)

    def about(self) -> dict[str, str]:
        """Facts about the run, for a report."""
        encoding, post = self.encoding, self.result.posterior
        levels = {one.name: len(one.levels) for one in encoding.many}
        levels |= {one.name: len(one.levels) for one in encoding.random}
        size = "2.5 standard deviations of the target" if encoding.family.scaled else "2.5"
        per = f"{size} per standard deviation of a column"
        found = {"target": encoding.target.name, "model": f"{encoding.model} regression"}
        if encoding.random:
            found["model"] += " with random effects"
        if isinstance(encoding, FormulaEncoding):
            found["formula"] = encoding.formula.text
        found |= {
            "rows": f"{post.num_data:,}",
            "levels": ", ".join(f"{count:,} of {name}" for name, count in levels.items()),
            "prior of coefficients": f"normal, zero mean, standard deviation {per}",
        }
        if not all(one.scaled for one in encoding.many):
            found["prior of coefficients"] += f"; of levels {size}"
        if encoding.random:
            found["prior of standard deviations"] = (
                f"half Student-t, 3 degrees of freedom, scale {per}"
            )
            found["prior of correlations"] = "LKJ, concentration 1"
        return {**found, **_others_than_these(post), "missing values": encoding.missing}

    @classmethod
    def of_folder(cls, draws: Path, record: TableRecord) -> "MixedTableModel":
        """What :meth:`save` wrote."""
        encoding = record.encoding
        fixed = len(encoding.features), encoding.intercept and encoding.family.intercept
        names = [one.name for one in encoding.family.auxiliary]
        groupings = {one.grouping: np.array(one.levels) for one in encoding.random}
        groupings |= {one.grouping: one.words for one in encoding.many}
        own = read_mixed(draws, *fixed, groupings, names, encoding.family.scaled)
        return cls.of_draws(encoding, own, None, marks=record.marks, scores=record.scores)


def _others_than_these(post: MixedPosterior) -> dict[str, str]:
    """Priors of standard deviations and correlations that a user set, in standardised units."""
    usual, found = HalfStudentT(3.0, WIDE), list[str]()
    for grouping in post.specification.groupings:
        drawn = [cov for cov in grouping.covariances if isinstance(cov, Covariance)]
        priors = [prior for cov in drawn for prior in cov.priors]
        own = zip(grouping.hyper_labels(), priors, strict=False)  # correlations come last
        found += [f"{name}: {prior}" for name, prior in own if prior != usual]
        concentrations = {cov.concentration for cov in drawn} - {1.0}
        found += [f"cor({grouping.name}): LKJ({one:g})" for one in concentrations]
    noise = post.specification.noise_prior
    if noise is not None and noise != usual:
        found.append(f"sigma: {noise}")
    return {"priors that were set": "; ".join(found)} if found else {}


def fit_mixed(
    table: EncodedTable | FormulaTable,
    prior_precision: float | None,
    noise_scale: float | None,
    hyper: Unknown,
    priors: Priors,
    run: dict[str, Any],
) -> MixedTableModel:
    """Fit a table whose formula has bars, or with columns of many levels."""
    options = {name: value for name, value in run.items() if value is not None}
    _refuse(table.encoding, noise_scale, hyper, options)
    post = mixed_posterior(table, prior_precision, priors)
    asked, most = options.pop("draws", None), max(25, _MOST_NUMBERS // (_CHAINS * post.dim))
    draws = None if asked is None else min(asked, most)
    key, progress = options.pop("key", 0), options.pop("progress", None)
    result = sample_mixed(post, None, key, _CHAINS, draws, progress, {}, options)
    notes = list(table.notes)
    if draws != asked:
        notes.append(
            f"Made {draws:,} draws a chain, not {asked:,}: those of {post.dim:,} effects and "
            "coefficients would not fit in memory."
        )
    return MixedTableModel.of_draws(table.encoding, result.own, result, remarks=tuple(notes))


def _refuse(
    encoding: Encoding | FormulaEncoding,
    noise_scale: float | None,
    hyper: Unknown,
    options: dict[str, Any],
) -> None:
    """Raise for what a mixed model does not take; drop what says nothing."""
    what, way_out = "a formula with random effects", ""
    if not encoding.random:
        (one, *_) = encoding.many
        what = f"a column of many levels ({shown(one.name)} has {len(one.levels):,})"
        if len(one.levels) <= MOST_LEVELS:
            way_out = (
                f" In a formula, C({one.name}, Treatment()) makes an indicator of every level."
            )
    if options.get("checkpoint") is not None:
        raise InputError(
            f"a fit with {what} cannot be checkpointed yet: leave out checkpoint (--checkpoint). "
            f"Its run begins anew if it is stopped.{way_out}"
        )
    if options.get("clusters") is not None:
        remedy = "give that column a bar, (1|column), in a formula"
        raise InputError(
            f"clusters (--clusters) cannot be used with {what}: leave them out, and "
            f"{remedy}, which says that rows of a group depend on one another.{way_out}"
        )
    if noise_scale is not None:
        raise InputError(
            f"noise_scale={noise_scale:g} cannot be given with {what}, whose fit draws it; leave "
            f"it out.{way_out}"
        )
    if hyper == "learn":
        raise InputError(
            f"hyper='learn' cannot be used with {what}: the fit draws standard deviations with "
            f"their uncertainty. Leave it out.{way_out}"
        )
    method = options.pop("method", "auto")
    if method != "auto":
        raise InputError(
            f"method={shown(method)} cannot be used with {what}, whose fit has steps of its own; "
            f"leave it out.{way_out}"
        )
