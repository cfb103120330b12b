"""A model of a user's table: fitted, saved to a folder, and asked about new rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data.frames import like
from ornstein.results import loo, predictive
from ornstein.results.arviz import interval_ends, summary_table
from ornstein.results.effects import Response
from ornstein.results.predictive import Coefficients, NewRows
from ornstein.results.result import Result
from ornstein.results.row_groups import RowGroups, row_groups
from ornstein.results.scores import Scores
from ornstein.storage import codec
from ornstein.storage.folders import Writer, write_folder
from ornstein.tables import fitting
from ornstein.tables.arrow import arrow_table
from ornstein.tables.columns import complete_rows
from ornstein.tables.encoding import Encoding
from ornstein.tables.folders import DRAWS, Record, read_draws, read_record, write_record
from ornstein.tables.formulas import FormulaEncoding, FormulaTable
from ornstein.tables.learning import EncodedTable
from ornstein.tables.levels import Unseen
from ornstein.tables.reading import read
from ornstein.tables.text_files import USUAL, NumberMarks
from ornstein.tables.toolbox import Block, SeenRows, Toolbox, rows_of_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PICTURED, _PICTURED_DRAWS = 20_000, 200  # rows, and draws that say how they agree
_PREDICTING = 4_000  # draws
_TABLE = "table.json"
_PAGE = ("report.html", "report.json")
_RUN = (DRAWS, "plan.json", "plan.txt", "summary.csv")
FILES = (*_RUN, _TABLE, loo.FILE, *_PAGE, "predictions.csv")


@codec.register
@dataclass(frozen=True, kw_only=True)
class TableRecord(Record):
    """A model of a table but for its draws, as a folder keeps it."""

    encoding: Encoding | FormulaEncoding
    noise_scale: Vector  # one number, or one of every draw
    hyperparameters: dict[str, dict[str, Any]]
    marks: NumberMarks
    scores: Scores | None


@dataclass(frozen=True)
class TableModel(Toolbox):
    """A model of a table: its encoding, and draws of the coefficients in standardised units.

    ``run`` is None for a model that was loaded from a folder. ``remarks`` say what was left out,
    assumed and learned, a sentence each. ``marks`` are those of numbers in its text file.
    ``scores`` say how well rows that were kept aside are predicted, ``unscored`` why that is not
    known.
    """

    encoding: Encoding | FormulaEncoding
    draws: Coefficients
    run: Result | None = None
    remarks: tuple[str, ...] = ()
    marks: NumberMarks = USUAL
    scores: Scores | None = None
    unscored: str = "No rows were held out."

    @property
    def result(self) -> Result:
        """The run."""
        if self.run is None:
            raise InputError(
                "a model that was loaded has draws and no run, which has the rows; fit again."
            )
        return self.run

    def predict(self, frame: Any, interval: float = 0.9, unseen: str = "error") -> Any:
        """One line per row of a table: what to expect of the target.

        It is a frame of the library that the table is of, with the index of a pandas table.
        ``mean``, ``sd`` and the interval's ends for numbers and counts, in the target's own units;
        ``predicted`` and one probability per class for classes.

        Parameters
        ----------
        frame
            The rows.
        interval
            Probability that the intervals contain.
        unseen
            What to do with levels of labels that were not learned: ``error``, ``baseline`` (as the
            first level) or ``average`` (as the mean of the levels that were learned).
            :meth:`new_levels` says which rows have them.

        Of more than 4,000 draws, as many are used, evenly spaced.
        """
        some, target = self.thinned(_PREDICTING), self.encoding.target
        draws, X = some.draws, some.new_rows(frame, unseen)
        if target.classes is not None:
            chances = predictive.probabilities(draws, X)
            best = [target.classes[i] for i in chances.argmax(axis=1).tolist()]
            columns = {f"p({name})": chances[:, i] for i, name in enumerate(target.classes)}
            return like(frame, {"predicted": best, **columns})
        found = predictive.summarise(draws, X, interval)
        low, high = interval_ends(interval)
        parts = {"mean": found.mean, low: found.low, high: found.high}
        columns = {name: target.centre + target.scale * part for name, part in parts.items()}
        return like(frame, {**columns, "sd": target.scale * found.std})

    def hyperparameters(self) -> dict[str, dict[str, Any]]:
        """By name: the value, and whether it was learned; of what was drawn a 90 % interval, too.

        The prior precision is that of standardised coefficients, the noise scale in the target's
        unit.
        """
        run = self.result
        learned = set() if run.learning is None else set(run.learning.values)
        values = fitting.hyperparameters(run, self.encoding.units)
        found = {
            name: {"value": value, "learned": name in learned} for name, value in values.items()
        }
        units = {"noise_scale": self.encoding.units.target_scale}
        for name, draws in ({} if run.hyper is None else run.hyper_draws).items():
            if draws.ndim == 2:
                ends = units.get(name, 1.0) * np.quantile(draws, [0.05, 0.95])
                found[name]["interval"] = ends.tolist()
        return found

    def summary(self, interval: float = 0.9) -> pd.DataFrame:
        """Every coefficient in the units of the table, with the columns of ``Result.summary``.

        Those of a logistic or Poisson model have odds or rate ratios beside them, with intervals:
        what the odds or the rate is multiplied by for as much more of a column as ``per`` says,
        which is one standard deviation of numbers, and 1 of levels and of columns of 0 and 1.
        """
        encoding, family = self.encoding, self.encoding.family
        params = self.result.unconstrained
        coef, shift = encoding.units.own(params)
        labels = family.parameter_labels(encoding.features, encoding.target.classes or ())
        parts = [coef, shift] if encoding.intercept else [coef]
        labels = labels[: int(np.prod(coef.shape[2:])) + (shift[0, 0].size if parts[1:] else 0)]
        beside = family.auxiliary_reported(params, shift, encoding.target.scale)
        for name, values in beside.items():
            several = values.ndim > 2
            labels += [f"{name}[{i}]" for i in range(values.shape[2])] if several else [name]
            parts.append(values)
        if isinstance(encoding, FormulaEncoding) and np.ndim(self.draws.noise_scale):
            labels.append("noise_scale")
            noise = np.asarray(self.draws.noise_scale) * encoding.target.scale
            parts.append(noise.reshape(coef.shape[:2]))
        found = summary_table(labels, parts, interval)
        if family.ratio:
            found = found.join(self._ratios(coef, interval))
        return found.rename_axis("parameter")

    def new_levels(self, frame: Any) -> list[Unseen]:
        """Columns of a table that have levels which were not learned, and the rows.

        Random effects of new levels are drawn, and not listed.
        """
        return self.encoding.new_levels(frame)

    def thinned(self, count: int) -> "TableModel":
        """The same model with at most so many of its draws, evenly spaced."""
        return replace(self, draws=self.draws.thinned(count))

    def new_rows(self, frame: Any, unseen: str = "error") -> NewRows:
        """Rows to predict."""
        return self.encoding.rows(frame, unseen)

    @property
    def num_draws(self) -> int:
        """How many draws there are, of all chains together."""
        return len(self.draws.coef)

    @property
    def of_posterior(self) -> bool:
        """Whether the draws are the posterior's; of a model that was loaded it is not known."""
        return self.run is None or self.run.plan.target == "posterior"

    def seen_rows(self, frame: Any, draws: int) -> SeenRows:
        """Draws, and the rows of a table; those of the fit if there is none."""
        some = self.thinned(draws)
        if frame is not None:
            return SeenRows(some.draws, *rows_of_table(frame, self.encoding, some.new_rows))
        if self.run is None:
            raise InputError(
                "a model that was loaded has no rows: give the table of the fit (frame=...)."
            )
        data: Any = self.run.posterior.data

        def block(numbers: npt.NDArray[np.intp]) -> Block:
            part = {name: np.asarray(leaf[numbers]) for name, leaf in data.items()}
            trials = part.get("w")  # of successes, whose share is the target
            y = part["y"] if trials is None else np.rint(part["y"] * trials)
            return Block(NewRows(part["x"], part.get("offset"), trials), y)

        return SeenRows(some.draws, len(data["y"]), block)

    def encoded_rows(self, table: EncodedTable | FormulaTable) -> NewRows:
        """Rows of an encoded table, such as those that are kept aside."""
        if not isinstance(table, FormulaTable):
            return NewRows(table.X)
        scale = self.encoding.target.scale
        offset = None if table.offset is None else table.offset / scale
        return NewRows(table.X, offset, table.weights)

    def rows_of_effects(self, frame: Any, typical: bool) -> NewRows:
        """Rows of one trial each; ``typical`` ones have no random effects, and first levels."""
        del typical
        encoding = self.encoding
        if isinstance(encoding, FormulaEncoding):
            return encoding.rows_of_one_trial(frame)
        return encoding.rows(frame)

    def responses(self, draws: int, typical: bool) -> Response:
        """What is expected of rows by so many of the draws."""
        some, target = self.thinned(draws), self.encoding.target

        def response(frame: pd.DataFrame) -> Vector:
            rows = some.rows_of_effects(frame, typical)
            return target.centre + target.scale * predictive.expected_by_draw(some.draws, rows)

        return response

    def _ratios(self, coef: Vector, interval: float) -> pd.DataFrame:
        """Median and central interval of the exponentials of coefficients, (..., columns)."""
        return self._ratios_per(coef, _steps(self.encoding), self.encoding.features, interval)

    def _ratios_per(
        self, coef: Vector, per: Vector | float, names: Sequence[str], interval: float
    ) -> pd.DataFrame:
        tail = (1 - interval) / 2
        flat = per * np.concatenate(coef)
        with np.errstate(over="ignore"):
            ends = np.exp(np.quantile(flat, [0.5, tail, 1 - tail], axis=0))
        low, high = (f"ratio {end}" for end in interval_ends(interval))
        columns = dict(zip((self.encoding.family.ratio, low, high), ends, strict=True))
        return pd.DataFrame({**columns, "per": per}, index=list(names))

    def about(self) -> dict[str, str]:
        """Facts about the run, for a report."""
        encoding = self.encoding
        with_or_not = "with" if encoding.intercept else "without"
        return {
            "target": encoding.target.name,
            "model": f"{encoding.model} regression {with_or_not} intercept",
            "rows": f"{self.result.posterior.num_data:,}",
            "columns": f"{len(encoding.features):,} after encoding",
            "prior": "normal, zero mean, on standardised coefficients",
            **{name.replace("_", " "): _stated(**e) for name, e in self.hyperparameters().items()},
            "missing values": encoding.missing,
        }

    def fit_picture(self, frame: Any) -> "tuple[str, str, tuple[Figure, ...]]":
        """Heading, caption and pictures of how predictions agree with (at most 20,000) rows.

        By at most 200 of the draws: the cost does not depend on how many there are. The table may
        be given as it was encoded.
        """
        from ornstein.results import plots

        encoding = self.encoding
        some = self.thinned(_PICTURED_DRAWS)
        draws, (X, y) = some.draws, some._some_rows(frame)
        if encoding.target.classes is None:
            mean = predictive.expectation(draws, X)
            return (
                "Residuals and coverage",
                "Residuals of the rows in the fit should show no pattern; an interval should "
                "contain the share of them that it states. In standardised units.",
                plots.residuals(mean, predictive.spread(draws, X), y),
            )
        chances = predictive.probabilities(draws, X)
        happened = np.eye(chances.shape[1])[y.astype(int)]
        if chances.shape[1] == 2:
            chances, happened = chances[:, 1], happened[:, 1]
        return (
            "Calibration",
            "Events should happen as often as their predicted probability says: points on the "
            "line. For the rows in the fit.",
            (plots.reliability(chances.reshape(-1), happened.reshape(-1)),),
        )

    def _some_rows(self, frame: Any) -> tuple[NewRows, Vector]:
        """Complete rows of a table, encoded, some where there are many."""
        if isinstance(frame, EncodedTable):
            some = np.arange(0, len(frame.X), max(1, len(frame.X) // _PICTURED))
            if self.encoding.family.may_be_censored:
                some = some[frame.y[some] > 0]
            part = frame._replace(X=frame.X[some], y=frame.y[some])
            return self.encoded_rows(part), part.y
        encoding, target = self.encoding, self.encoding.target_names
        table = arrow_table(frame, list(dict.fromkeys([*encoding.column_names, *target])))
        known = complete_rows(table.select(target))
        complete = np.flatnonzero(encoding.complete(table) & known)
        rows = table.take(complete[:: max(1, len(complete) // _PICTURED)])
        y = encoding.encode_target(rows)
        if encoding.family.may_be_censored:
            rows, y = rows.filter(y > 0), y[y > 0]
        return self.new_rows(rows), y

    def save(
        self, folder: str | Path, extra: Mapping[str, Writer] | None = None, overwrite: bool = False
    ) -> Path:
        """Save the run to a folder, written whole or not at all; ``extra`` files go with it."""
        record = TableRecord(
            encoding=self.encoding,
            noise_scale=np.asarray(self.draws.noise_scale, float),
            hyperparameters=self.hyperparameters(),
            marks=self.marks,
            scores=self.scores,
        )
        if self.of_posterior and self.num_draws >= loo.FEWEST_DRAWS:
            extra = {loo.FILE: self.kept_loo.save, **(extra or {})}
        files: dict[str, Writer] = {
            **self.result.files(self._row_groups()),
            "summary.csv": lambda path: self.summary().to_csv(path),
            _TABLE: lambda path: write_record(path, record, (DRAWS,)),
            **(extra or {}),
        }
        return write_folder(folder, files, overwrite, FILES)

    def _row_groups(self) -> RowGroups | None:
        """What ``draws.nc`` says about (at most a thousand) rows; None for those of a formula."""
        result, target = self.result, self.encoding.target
        if isinstance(self.encoding, FormulaEncoding) or self.encoding.many:
            return None
        rows: Any = result.posterior.data
        if set(rows) != {"x", "y"}:
            return None
        units = target.centre, target.scale
        return row_groups(self.draws, len(result.flat), rows["x"], rows["y"], target.name, *units)

    @classmethod
    def load(cls, folder: str | Path) -> "TableModel":
        """What :meth:`save` wrote, without the run; anything else is an `InputError`."""
        place = Path(folder)
        record = read_record(place / _TABLE, TableRecord, (DRAWS,))
        encoding = record.encoding
        if encoding.random or encoding.many:
            from ornstein.tables.mixed import MixedTableModel  # of which this is the base

            return MixedTableModel.of_folder(place / DRAWS, record)
        outputs, columns = encoding.family.outputs, len(encoding.features)
        shape = (outputs, columns) if outputs > 1 else (columns,)
        names = tuple(one.name for one in encoding.family.auxiliary)
        coef, intercept, beside = read_draws(place / DRAWS, shape, names)
        noise = record.noise_scale
        draws = Coefficients.gather(encoding.model, coef, intercept, noise, beside)
        return cls(encoding, draws, marks=record.marks, scores=record.scores)


def read_new(
    path: Path,
    encoding: Encoding | FormulaEncoding,
    marks: NumberMarks = USUAL,
    unseen: str = "error",
) -> pd.DataFrame:
    """A table of rows to predict, of which every column that the model needs can be encoded."""
    frame = read(path, encoding.text_columns, *marks)
    try:
        encoding.encode(frame, unseen)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return frame


def _stated(
    value: float | list[float], learned: bool, interval: Sequence[float] | None = None
) -> str:
    """A hyperparameter and where it is from."""
    origin = "given" if not learned else "learned" if interval is None else "drawn"
    return f"{number_text(value, learned, interval)}, {origin}"


def _steps(encoding: Encoding | FormulaEncoding) -> Vector:
    """How much more of every column ratios are for: 1 of indicators, else a standard deviation."""
    scale, centre = encoding.units.scale, encoding.units.centre
    indicator = np.isclose(scale**2, centre * (1 - centre), rtol=1e-6, atol=0.0)
    if isinstance(encoding, FormulaEncoding):
        indicator |= np.array(["[T." in name for name in encoding.features], bool)
    return np.where(indicator, 1.0, scale)


def number_text(
    value: float | list[float], learned: bool, interval: Sequence[float] | None = None
) -> str:
    """A hyperparameter's value, with its interval if it was drawn."""
    del learned
    if isinstance(value, list):
        return f"one for each of {len(value)} columns"
    ends = "" if interval is None else f", {interval[0]:.4g} to {interval[1]:.4g}"
    return f"{value:.4g}{ends}"
