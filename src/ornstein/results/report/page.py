"""The page: words and pictures of a result, put into the template escaped."""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from ornstein._base.checks import few
from ornstein.results.answers import QUESTIONS, Answer, answers, cells
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.report import pictures, words
from ornstein.results.result import Result

_MOST_ROWS = 60  # of the table of coefficients
LEFT_OUT = ["mcse_mean", "mcse_sd", "ess_tail"]
"""Columns of a summary that a narrow table goes without."""


def write(path: str | Path, result: Result, **options: Any) -> Path:
    """Write :func:`render`'s page to a file; returns its path."""
    place = Path(path)
    place.write_text(render(result, **options), encoding="utf-8")
    return place


def render(
    result: Result,
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
) -> str:
    """A page of HTML about a result.

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

    Examples
    --------
    >>> import numpy as np
    >>> import ornstein as orn
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> result = orn.sample(orn.models.logistic(X, X[:, 0] > 0), draws=50)
    >>> "<h1>Above zero</h1>" in render(result, title="Above zero")
    True
    """
    result.require_draws()
    table = (result.summary() if summary is None else summary).drop(columns=LEFT_OUT)
    diagnosis = result.diagnose() if diagnosis is None else diagnosis
    effective = table["ess_bulk"].to_numpy(float).min()
    coefficients, run = pictures.of_coefficients(result), pictures.of_run(result, diagnosis)
    every, found = [*sections, *run], words.measured(result)
    whole = None if seconds is None else seconds()
    parts = (*QUESTIONS, pictures.COEFFICIENTS, pictures.DETAILS)
    page = _template().render(
        title=title,
        about=dict(about or _about(result)),
        remarks=list(remarks),
        answers=answered or answers(result, diagnosis),
        figures=words.figures(result, effective, diagnosis.accuracy, whole),
        plan=words.plan_in_words(result, found),
        warnings=list(result.plan.warnings),
        summary=table[:_MOST_ROWS],
        own_units=summary is not None,
        coefficients=coefficients,
        left_out=max(0, len(table) - _MOST_ROWS),
        sections={part: [one for one in every if one.under == part] for part in parts},
        headings=lambda shown: [str(column) for column in shown.columns],
        cells=cells,
        checks=[(diagnosis.shown(check), check) for check in diagnosis],
        command=command,
        settings=words.settings(result, key),
    )
    return str(page)


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(files(__package__).joinpath("page.html").read_text())


def _about(result: Result) -> dict[str, str]:
    parameters = few(list(result.posterior.labels), 8)
    return {"rows": f"{result.plan.num_data:,}", "parameters": parameters}
