"""A fitted table whose formula has random effects: the same model, to which effects add."""

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
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.results.mixed import MixedResult
from ornstein.results.mixed_draws import GroupDraws, GroupOfRows, MixedDraws, RowEffects
from ornstein.results.mixed_files import read_mixed
from ornstein.results.predictive import Coefficients, NewRows, evenly_spaced
from ornstein.tables.arrow import arrow_table
from ornstein.tables.fitting import Unknown
from ornstein.tables.formulas.effects import GroupEffects
from ornstein.tables.formulas.encoding import FormulaEncoding
from ornstein.tables.formulas.learning import FormulaTable
from ornstein.tables.formulas.mixing import mixed_posterior
from ornstein.tables.learning import EncodedTable
from ornstein.tables.model import TableModel, TableRecord
from ornstein.tables.toolbox import Block, SeenRows

_MOST_NUMBERS = 2**27  # of all draws of effects: 512 MiB
_CHAINS = 4
_NOT_HERE = "a formula with random effects"


@dataclass(frozen=True)
class MixedTableModel(TableModel):
    """A table model with random effects, ``effects`` in standardised units of the target."""

    effects: tuple[GroupDraws, ...] = ()

    @classmethod
    def of_draws(
        cls, encoding: FormulaEncoding, own: MixedDraws, run: MixedResult | None, **more: Any
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
        if self.encoding.family.ratio and self.encoding.features:
            coef = self.result.fixed[..., : len(self.encoding.features)]
            found = found.join(self._ratios(coef, interval))
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
        """Rows to predict; effects of levels that were not learned are drawn."""
        del unseen  # of fixed effects it is refused, of random ones drawn
        return self._with_effects(frame, self._own_encoding.rows(frame))

    def rows_of_effects(self, frame: Any, typical: bool) -> NewRows:
        """Rows of one trial each; ``typical`` ones have no random effects."""
        rows = self._own_encoding.rows_of_one_trial(frame)
        return rows if typical else self._with_effects(frame, rows)

    def encoded_rows(self, table: EncodedTable | FormulaTable) -> NewRows:
        """Rows of an encoded table, with the effects of levels by their names."""
        rows, groups = super().encoded_rows(table), []
        assert isinstance(table, FormulaTable)
        for one in table.groups:
            draws, effects = self._group(one.name)
            design = np.ones((len(one.level_of), 1)) if one.design is None else one.design
            matched = draws.matched(one.levels[one.level_of])
            groups.append(GroupOfRows(draws, *matched, design * effects.scales))
        return _added(rows, groups)

    def _with_effects(self, frame: Any, rows: NewRows) -> NewRows:
        table = arrow_table(frame, self._own_encoding.column_names)
        groups = []
        for one in self._own_encoding.random:
            draws, _ = self._group(one.name)
            groups.append(GroupOfRows(draws, *draws.matched(one.labels(table)), one.design(table)))
        return _added(rows, groups)

    def _group(self, name: str) -> tuple[GroupDraws, GroupEffects]:
        draws = next(one for one in self.effects if one.name == name)
        return draws, next(one for one in self._own_encoding.random if one.name == name)

    def seen_rows(self, frame: Any, draws: int) -> SeenRows:
        """Draws, and the rows of a table; those of the fit if there is none, in their order."""
        if frame is not None or self.run is None:
            return super().seen_rows(frame, draws)
        some, post = self.thinned(draws), self.result.posterior
        rows, columns = post.rows.in_memory(), len(self.encoding.features)
        place = np.argsort(rows.order)

        def block(numbers: npt.NDArray[np.intp]) -> Block:
            at, groups = place[numbers], []
            for grouping, index, design in zip(
                post.specification.groupings, rows.index, rows.design, strict=True
            ):
                own, effects = some._group(grouping.name)
                values = np.ones((len(at), 1)) if design is None else design[at]
                new = np.full(len(at), -1)
                groups.append(GroupOfRows(own, index[at], new, values * effects.scales))
            trials = None if rows.weight is None else rows.weight[at]
            offset = None if rows.offset is None else rows.offset[at]
            made = NewRows(np.asarray(rows.x[at, :columns]), offset, trials)
            y = rows.y[at] if trials is None else np.rint(rows.y[at] * trials)
            return Block(_added(made, groups), y)

        return SeenRows(some.draws, rows.size, block)

    def about(self) -> dict[str, str]:
        """Facts about the run, for a report."""
        encoding, post = self._own_encoding, self.result.posterior
        levels = {one.name: len(one.levels) for one in encoding.random}
        size = "2.5 standard deviations of the target" if encoding.family.scaled else "2.5"
        per = f"{size} per standard deviation of a column"
        return {
            "target": encoding.target.name,
            "model": f"{encoding.model} regression with random effects",
            "formula": encoding.formula.text,
            "rows": f"{post.num_data:,}",
            "levels": ", ".join(f"{count:,} of {name}" for name, count in levels.items()),
            "prior of coefficients": f"normal, zero mean, standard deviation {per}",
            "prior of standard deviations": f"half Student-t, 3 degrees of freedom, scale {per}",
            "prior of correlations": "LKJ, concentration 1",
            **_others_than_these(post),
            "missing values": encoding.missing,
        }

    @property
    def _own_encoding(self) -> FormulaEncoding:
        assert isinstance(self.encoding, FormulaEncoding)
        return self.encoding

    @classmethod
    def of_folder(cls, draws: Path, record: TableRecord) -> "MixedTableModel":
        """What :meth:`save` wrote."""
        encoding = record.encoding
        assert isinstance(encoding, FormulaEncoding)
        fixed = len(encoding.features), encoding.intercept and encoding.family.intercept
        names = [one.name for one in encoding.family.auxiliary]
        groupings = {one.grouping: np.array(one.levels) for one in encoding.random}
        own = read_mixed(draws, *fixed, groupings, names, encoding.family.scaled)
        return cls.of_draws(encoding, own, None, marks=record.marks, scores=record.scores)


def _others_than_these(post: MixedPosterior) -> dict[str, str]:
    """Priors of standard deviations and correlations that a user set, in standardised units."""
    usual, found = HalfStudentT(3.0, WIDE), list[str]()
    for grouping in post.specification.groupings:
        priors = [prior for cov in grouping.covariances for prior in cov.priors]
        own = zip(grouping.hyper_labels(), priors, strict=False)  # correlations come last
        found += [f"{name}: {prior}" for name, prior in own if prior != usual]
        concentrations = {cov.concentration for cov in grouping.covariances} - {1.0}
        found += [f"cor({grouping.name}): LKJ({one:g})" for one in concentrations]
    noise = post.specification.noise_prior
    if noise is not None and noise != usual:
        found.append(f"sigma: {noise}")
    return {"priors that were set": "; ".join(found)} if found else {}


def _added(rows: NewRows, groups: list[GroupOfRows]) -> NewRows:
    """Rows to whose predictors effects are added."""
    known = None if rows.offset is None else np.asarray(rows.offset, float)
    return rows._replace(offset=RowEffects(groups, known))


def fit_mixed(
    table: FormulaTable,
    prior_precision: float | None,
    noise_scale: float | None,
    hyper: Unknown,
    priors: Priors,
    run: dict[str, Any],
) -> MixedTableModel:
    """Fit a table whose formula has bars."""
    options = {name: value for name, value in run.items() if value is not None}
    _refuse(noise_scale, hyper, options)
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


def _refuse(noise_scale: float | None, hyper: Unknown, options: dict[str, Any]) -> None:
    """Raise for what a mixed model does not take; drop what says nothing."""
    if options.get("checkpoint") is not None:
        raise InputError(
            f"{_NOT_HERE} cannot be checkpointed yet: leave out checkpoint (--checkpoint). Its run "
            "begins anew if it is stopped."
        )
    if options.get("clusters") is not None:
        raise InputError(
            f"{_NOT_HERE} says itself that rows of a group depend on one another: leave out "
            "clusters (--clusters), and give that column a bar, (1|column)."
        )
    if noise_scale is not None:
        raise InputError(
            f"noise_scale={noise_scale:g} cannot be given with {_NOT_HERE}, which draws it; leave "
            "it out."
        )
    if hyper == "learn":
        raise InputError(
            f"hyper='learn' cannot be used with {_NOT_HERE}: standard deviations are drawn with "
            "their uncertainty. Leave it out."
        )
    method = options.pop("method", "auto")
    if method != "auto":
        raise InputError(
            f"method={shown(method)} cannot be used with {_NOT_HERE}, which has steps of its own; "
            "leave it out."
        )
