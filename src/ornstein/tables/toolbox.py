"""What people expect of a regression tool, for every kind of model of a table.

Effects on the target's own scale, predictive checks, leave-one-out scores and R-squared. A model
says how draws meet rows; the rest is here, and costs bounded time but for the scores of all rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.progress import each
from ornstein._base.types import Vector
from ornstein.results import effects, loo, predictive
from ornstein.results.arviz import interval_ends, mass
from ornstein.results.explained import bayesian_r2
from ornstein.results.predictive import Coefficients, NewRows
from ornstein.results.predictive_checks import Replications
from ornstein.tables.arrow import arrow_table
from ornstein.tables.columns import complete_rows, labels
from ornstein.tables.dates import DateColumn
from ornstein.tables.encoding import CategoricalColumn, Encoding
from ornstein.tables.formulas import FormulaEncoding
from ornstein.tables.levels import ManyLevels

PICTURED_ROWS = 20_000
"""Rows that pictures and tests of simulated targets use at most, evenly spaced."""

_EFFECT_DRAWS = 200
_SIMULATED_DRAWS = 200
_KEPT_ROWS = 10_000
_FEWEST_ROWS = 1_000
_BLOCK = 4_000  # rows whose log-likelihoods are held at once


class Block(NamedTuple):
    """Some rows as predictions take them, and their targets."""

    rows: NewRows
    y: Vector


class SeenRows(NamedTuple):
    """Draws, and the rows that they are compared with: how many, and some of them by number."""

    draws: Coefficients
    num_rows: int
    block: Callable[[npt.NDArray[np.intp]], Block]


class Toolbox(ABC):
    """The regression toolbox of a model of a table."""

    encoding: Encoding | FormulaEncoding

    @property
    @abstractmethod
    def num_draws(self) -> int:
        """How many draws there are."""

    @property
    @abstractmethod
    def of_posterior(self) -> bool:
        """Whether the draws are the posterior's, as leave-one-out scores need."""

    @abstractmethod
    def seen_rows(self, frame: Any, draws: int) -> SeenRows:
        """So many of the draws, and the rows of a table; those of the fit if there is none."""

    @abstractmethod
    def responses(self, draws: int, typical: bool) -> effects.Response:
        """What is expected of rows of a table by so many of the draws, in the target's unit.

        Of a ``typical`` group where there are random effects, else of every row's own.
        """

    # Effects ---------------------------------------------------------------------------------

    def conditional_effects(
        self, frame: Any, terms: Sequence[str] | None = None, interval: float = 0.9
    ) -> pd.DataFrame:
        """What to expect of the target along every term, other columns held.

        Numbers are held at their mean, labels at their first level, random effects at zero. A
        line per point, with ``term``, ``value``, ``beside`` (the second column of an interaction),
        ``outcome`` (of several classes), ``mean``, ``sd`` and a central interval. Of two classes
        it is the probability of the second, of a binomial target the share of successes.

        Parameters
        ----------
        frame
            A table, such as that of the fit; ranges and means are those of its columns.
        terms
            Names of columns, or of pairs that interact, as in ``x:z``; all if not given.
        interval
            Mass of the intervals.

        Examples
        --------
        >>> from ornstein import tables
        >>> frame = pd.DataFrame({"dose": np.arange(60.0), "effect": np.arange(60) % 7.0})
        >>> model = tables.fit_table(tables.learn(frame, "effect", "linear"), draws=50)
        >>> model.conditional_effects(frame).columns.tolist()
        ['term', 'value', 'beside', 'mean', 'sd', 'low 90%', 'high 90%']
        """
        rows, known = self._rows_and_variables(frame)
        chosen = effects.chosen_terms(self._terms(known), terms)
        response = self.responses(_EFFECT_DRAWS, typical=True)
        return effects.conditional_effects(
            response, rows, known, chosen, self._outcomes(), interval
        )

    def marginal_effects(
        self, frame: Any, columns: Sequence[str] | None = None, interval: float = 0.9
    ) -> pd.DataFrame:
        """Average slopes and contrasts over the rows of a table, in the target's own unit.

        A line per column of numbers, and per level of labels after the first: ``mean``, ``sd``
        and a central interval of the effect averaged over the rows, which keep their other
        columns and groups.

        Parameters
        ----------
        frame
            The rows to average over, such as those of the fit; at most 5,000, evenly spaced.
        columns
            Names; all if not given.
        interval
            Mass of the intervals.
        """
        rows, known = self._rows_and_variables(frame)
        chosen = effects.chosen_terms([(one.name,) for one in known], columns)
        some = [one for one in known if (one.name,) in chosen]
        response = self.responses(_EFFECT_DRAWS, typical=False)
        return effects.marginal_effects(response, rows, some, self._outcomes(), interval)

    def _rows_and_variables(self, frame: Any) -> tuple[pd.DataFrame, list[effects.Variable]]:
        rows = sample_rows(self.encoding, frame)
        return rows, _variables(self.encoding, rows)

    def _terms(self, known: Sequence[effects.Variable]) -> list[effects.Term]:
        names = {one.name for one in known}
        pairs = getattr(self.encoding, "interactions", ())
        return [*((one.name,) for one in known), *(p for p in pairs if set(p) <= names)]

    def _outcomes(self) -> tuple[str, ...]:
        classes = self.encoding.target.classes or ()
        return classes if len(classes) > 2 else ("",)

    # Agreement with rows ---------------------------------------------------------------------

    def replications(self, frame: Any = None, seed: int = 0) -> Replications:
        """Targets that 200 of the draws simulate, beside those observed, for posterior checks.

        Of at most 20,000 rows of a table, or of the fit, and fewer of many classes; of waiting
        times only such tables as have none that is censored.
        """
        seen, target = self.seen_rows(frame, _SIMULATED_DRAWS), self.encoding.target
        block = seen.block(loo.chosen_rows(seen.num_rows, self._bounded(PICTURED_ROWS)))
        if self.encoding.family.may_be_censored and (block.y < 0).any():
            raise InputError(
                "some waiting times are censored: what was observed of them depends on when "
                "observation ended, which the model does not simulate."
            )
        rng = np.random.default_rng(seed)
        simulated = predictive.simulate(seen.draws, block.rows, rng)
        return Replications(
            target.centre + target.scale * np.asarray(block.y, float),
            target.centre + target.scale * simulated,
            target.name,
            self.encoding.family.discrete,
            target.classes or (),
        )

    def predictive_checks(
        self, frame: Any = None, interval: float = 0.9, seed: int = 0
    ) -> pd.DataFrame:
        """Statistics of the observed targets beside those of simulated ones.

        The columns are those of :meth:`Replications.table
        <ornstein.results.predictive_checks.Replications.table>`: ``above`` is the share of
        simulations above what was observed, and near 0 or 1 the model does not make such data.
        """
        return self.replications(frame, seed).table(interval)

    def r2(self, frame: Any = None, interval: float = 0.9) -> "pd.Series[float]":
        """Bayesian R-squared: mean, sd and a central interval over the draws.

        The share of the target's variance that the columns explain, by the model: for numbers,
        counts and two classes. Over at most 20,000 rows of a table, or of the fit.
        """
        seen = self.seen_rows(frame, _EFFECT_DRAWS)
        block = seen.block(loo.chosen_rows(seen.num_rows, PICTURED_ROWS))
        found = bayesian_r2(seen.draws, block.rows)
        tail, (low, high) = (1 - mass(interval)) / 2, interval_ends(interval)
        ends = np.quantile(found, [tail, 1 - tail])
        values = {"mean": found.mean(), "sd": found.std(), low: ends[0], high: ends[1]}
        return pd.Series(values, name="R2")

    @cached_property
    def kept_loo(self) -> loo.Loo:
        """The scores that a run folder keeps: of at most 10,000 rows, fewer of many classes."""
        return self.loo(rows=self._bounded(_KEPT_ROWS))

    def _bounded(self, rows: int) -> int:
        """Fewer rows of a target of many classes, each of which costs as much as a number."""
        return max(_FEWEST_ROWS, rows // max(1, len(self.encoding.target.classes or ()) - 1))

    def loo(
        self, frame: Any = None, rows: int | None = None, progress: bool | None = False
    ) -> loo.Loo:
        """Leave-one-out log scores of the rows of the fit, by PSIS-LOO.

        Parameters
        ----------
        frame
            The table of the fit, for a model that was loaded; not needed for one just fitted.
        rows
            Score so many of the rows, evenly spaced, and scale up; all by default, which takes
            about 20 seconds for 100,000.
        progress
            Whether to show a bar; None on terminals only.

        Examples
        --------
        >>> from ornstein import tables
        >>> frame = pd.DataFrame({"dose": np.arange(60.0), "effect": np.arange(60) % 7.0})
        >>> model = tables.fit_table(tables.learn(frame, "effect", "linear"), draws=50)
        >>> found = model.loo()
        >>> bool(1 < found.p_loo < 5), found.influential.tolist()
        (True, [])
        """
        if not self.of_posterior:
            raise InputError(
                "leave-one-out scores need draws of the posterior, and these aim at the sandwich "
                "covariance. Fit without clusters, or with another method."
            )
        seen, target = self.seen_rows(frame, loo.MOST_DRAWS), self.encoding.target
        numbers = loo.chosen_rows(seen.num_rows, rows)
        observed = []

        def densities() -> Iterator[Vector]:
            starts = range(0, len(numbers), _BLOCK)
            with each("leave-one-out scores", len(starts), progress) as ready:
                for start in starts:
                    ready(f"row {start:,} of {len(numbers):,}")
                    block = seen.block(numbers[start : start + _BLOCK])
                    observed.append(target.centre + target.scale * np.asarray(block.y, float))
                    density = predictive.log_density(seen.draws, block.rows, block.y)
                    yield density - np.log(target.scale)

        score, fitted, k, draws = loo.leave_one_out(densities())
        return loo.Loo(
            rows=numbers,
            score=score,
            seen=fitted,
            pareto_k=k,
            observed=np.concatenate(observed),
            num_rows=seen.num_rows,
            draws=draws,
            target=target.name,
            classes=target.classes or (),
            discrete=self.encoding.family.discrete,
        )


def rows_of_table(
    frame: Any,
    encoding: Encoding | FormulaEncoding,
    new_rows: Callable[[Any], NewRows],
) -> tuple[int, Callable[[npt.NDArray[np.intp]], Block]]:
    """How many rows of a table a fit takes, and those of these numbers."""
    table, kept = _rows_in_use(frame, encoding)

    def block(numbers: npt.NDArray[np.intp]) -> Block:
        rows = table.take(kept[numbers])
        return Block(new_rows(rows), np.asarray(encoding.encode_target(rows)))

    return len(kept), block


def _rows_in_use(
    frame: Any, encoding: Encoding | FormulaEncoding
) -> tuple[pa.Table, npt.NDArray[np.intp]]:
    """The columns in use, and which rows a fit takes."""
    target = encoding.target_names
    table = arrow_table(frame, list(dict.fromkeys([*encoding.column_names, *target])))
    return table, np.flatnonzero(encoding.complete(table) & complete_rows(table.select(target)))


def sample_rows(encoding: Encoding | FormulaEncoding, frame: Any) -> pd.DataFrame:
    """At most 5,000 of a table's rows that can be encoded, evenly spaced, in the columns in use."""
    table = arrow_table(frame, encoding.column_names)
    kept = np.flatnonzero(encoding.complete(table))
    if not kept.size:
        raise InputError("the table has no rows whose columns are all there.")
    rows = table.take(kept[loo.chosen_rows(len(kept), effects.MOST_ROWS)]).to_pandas()
    labelled = [name for name in rows if isinstance(rows[name].dtype, pd.CategoricalDtype)]
    return rows.astype(dict.fromkeys(labelled, object))


def row_clusters(
    encoding: Encoding | FormulaEncoding, frame: Any, column: str
) -> npt.NDArray[np.intp]:
    """The clusters of the rows that a fit takes, by a column of labels or numbers of the table.

    Examples
    --------
    >>> from ornstein import tables
    >>> frame = pd.DataFrame({"y": [0.1, 2, 3, 5, 4], "x": [1.0, 2, 3, 4, 5], "g": list("aabbc")})
    >>> encoded = tables.learn(frame, "y", "linear", drop=["g"])
    >>> row_clusters(encoded.encoding, frame, "g").tolist()
    [0, 0, 1, 1, 2]
    """
    table = arrow_table(frame, [column])
    found = labels(column, table[column]).codes[_rows_in_use(frame, encoding)[1]]
    lacking = int((found < 0).sum())
    if lacking:
        raise InputError(
            f"Column {shown(column)} lacks the cluster of {lacking:,} rows. Give them one, or "
            "leave those rows out."
        )
    return found


def _variables(encoding: Encoding | FormulaEncoding, rows: pd.DataFrame) -> list[effects.Variable]:
    """The columns of fixed effects, but for those of many levels."""
    found = []
    if isinstance(encoding, FormulaEncoding):
        for raw in encoding.design.columns:
            levels = raw.levels or raw.values or None
            found.append(effects.variable(raw.name, rows[raw.name], levels))
        return found
    for column in encoding.columns:
        if isinstance(column, ManyLevels):
            continue
        levels = None
        if isinstance(column, CategoricalColumn):
            levels = tuple(level for level in column.levels if level is not None)
        values = rows[column.name]
        if isinstance(column, DateColumn):
            values = pd.Series(column.times(arrow_table(rows[[column.name]])[column.name]))
        found.append(effects.variable(column.name, values, levels))
    return found
