"""The page of a result: its words and pictures."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from ornstein._base.checks import few
from ornstein.results.answers import Answer, answers
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.mixed import MixedResult
from ornstein.results.report import mixed, pictures, words
from ornstein.results.report.contents import KEPT, CheckRow, Contents, Grid, Piece, Reply
from ornstein.results.result import Result
from ornstein.storage.folders import Writer

AnyResult: TypeAlias = Result | MixedResult

_MOST_ROWS = 60  # of the table of coefficients
LEFT_OUT = ["mcse_mean", "mcse_sd", "ess_tail"]
"""Columns of a summary that a narrow table goes without."""
MIXING = {"ess_bulk": "effective draws", "r_hat": "R-hat"}
"""What columns are called where people read them."""


def write(path: str | Path, result: AnyResult, **options: Any) -> Path:
    """Write :func:`render`'s page to a file; returns its path."""
    place = Path(path)
    place.write_text(render(result, **options), encoding="utf-8")
    return place


def writers(result: AnyResult, **options: Any) -> dict[str, Writer]:
    """Writers of the page and of its contents, by the names that a run's folder has for them.

    The contents are made once, when the first of them is written.
    """

    @cache
    def made() -> Contents:
        return contents(result, **options)

    return {
        "report.html": lambda path: made().write(path),
        KEPT: lambda path: made().keep(path),
    }


def render(result: AnyResult, **options: Any) -> str:
    """A page of HTML about a result; the options are those of :func:`contents`.

    Examples
    --------
    >>> import numpy as np
    >>> import ornstein as orn
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> result = orn.sample(orn.models.logistic(X, X[:, 0] > 0), draws=50)
    >>> "<h1>Above zero</h1>" in render(result, title="Above zero")
    True
    """
    return contents(result, **options).html()


def contents(
    result: AnyResult,
    title: str = "Posterior",
    about: Mapping[str, str] | None = None,
    remarks: Sequence[str] = (),
    summary: pd.DataFrame | None = None,
    sections: Sequence[pictures.Section] = (),
    command: str = "",
    key: int | None = None,
    diagnosis: Diagnosis | None = None,
    seconds: Callable[[], float] | None = None,
    answered: Sequence[Answer] = (),
) -> Contents:
    """All that the page about a result shows.

    Parameters
    ----------
    result
        The run.
    title, about, remarks
        Heading, facts by name, and sentences about the data and the model.
    summary
        A table of coefficients; the result's own if not given.
    sections
        Further pictures and tables, each under the question or part of the page that it names.
    command, key
        How to reproduce the run: the command or the code, and its key.
    diagnosis
        The result's diagnosis, if it was made already.
    seconds
        Gives the time since the start of all work, to be shown instead of the sampling loop's.
    answered
        The answers to the four questions, if they were given already.
    """
    result.require_draws()
    table = (result.summary() if summary is None else summary).drop(columns=LEFT_OUT)
    diagnosis = result.diagnose() if diagnosis is None else diagnosis
    effective = float(np.fmin.reduce(table["ess_bulk"].to_numpy(float)))
    shown = _account(result, diagnosis, effective, None if seconds is None else seconds())
    left_out = max(0, len(table) - _MOST_ROWS)
    table, ratios = _apart(table.rename(columns=MIXING)[:_MOST_ROWS])
    return Contents(
        title=title,
        about=dict(about or _about(result)),
        remarks=tuple(remarks),
        answers=tuple(map(Reply.of, answered or answers(result, diagnosis))),
        figures=tuple(shown.figures),
        plan=tuple(shown.plan),
        warnings=tuple(result.plan.warnings),
        coefficients=Piece.of(shown.coefficients),
        table=Grid.of(table),
        own_units=summary is not None,
        left_out=left_out,
        sections=tuple(map(Piece.of, [*ratios, *sections, *shown.sections])),
        checks=tuple(
            CheckRow(
                diagnosis.shown(check),
                str(check),
                f"{check.number:.3g}: {check.meaning}",
                check.remedy,
            )
            for check in diagnosis
        ),
        command=command,
        settings=words.settings(shown.run, key),
    )


def _apart(table: pd.DataFrame) -> tuple[pd.DataFrame, list[pictures.Section]]:
    """Coefficients, and a section of their odds or rate ratios: a page is too narrow for both."""
    if "per" not in table:
        return table, []
    own = [name for name in map(str, table.columns) if "ratio" in name.split() or name == "per"]
    text = (
        "What the odds or the rate is multiplied by for as much more of a column as 'per' says: "
        "one standard deviation of numbers, 1 of levels. Medians and central intervals."
    )
    heading, part = f"{own[0].capitalize()}s", pictures.COEFFICIENTS
    ratios = pictures.Section(heading, text, table=table[own].dropna(), under=part)
    return table.drop(columns=own), [ratios]


class _Account(NamedTuple):
    """What a page shows of a kind of result."""

    figures: list[tuple[str, str, str]]
    plan: list[str]
    coefficients: pictures.Section
    sections: list[pictures.Section]
    run: str


def _account(
    result: AnyResult, diagnosis: Diagnosis, effective: float, seconds: float | None
) -> _Account:
    if isinstance(result, MixedResult):
        chains, draws = result.lam.shape[:2]
        return _Account(
            mixed.figures_of(result, effective, seconds),
            mixed.plan_of(result),
            mixed.coefficients_of(result),
            mixed.sections_of(result),
            f"{chains} chains of {draws:,} draws",
        )
    return _Account(
        words.figures(result, effective, diagnosis.accuracy, seconds),
        words.plan_in_words(result, words.measured(result)),
        pictures.of_coefficients(result),
        pictures.of_run(result, diagnosis),
        words.how_run(result),
    )


def _about(result: AnyResult) -> dict[str, str]:
    parameters = few(list(result.posterior.labels), 8)
    return {"rows": f"{result.plan.num_data:,}", "parameters": parameters}
