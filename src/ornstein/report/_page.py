"""The page: words and pictures of a result, put into the template escaped."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from ornstein import __version__, plots
from ornstein.diagnosis import Diagnosis
from ornstein.result import Result

_INK = "#808080"  # readable on white and on black
_MOST_ROWS = 60  # of the table of coefficients


@dataclass(frozen=True)
class Section:
    """A picture with a heading and a sentence that says what to see in it."""

    heading: str
    text: str
    figure: Figure


def write(path: Path, result: Result, **options: Any) -> None:
    """Write :func:`render`'s page to a file."""
    path.write_text(render(result, **options), encoding="utf-8")


def render(
    result: Result,
    title: str = "Posterior",
    about: Mapping[str, str] | None = None,
    remarks: Sequence[str] = (),
    summary: pd.DataFrame | None = None,
    sections: Sequence[Section] = (),
    command: str = "",
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
        Further pictures, e.g. of calibration, shown after the coefficients.
    command
        How to make the run again.
    """
    table = result.summary() if summary is None else summary
    diagnosis = result.diagnose()
    page = _template().render(
        title=title,
        about=dict(about or {}),
        remarks=list(remarks),
        verdict=_verdict(result, diagnosis),
        plan=_plan_in_words(result),
        warnings=list(result.plan.warnings),
        columns=[str(column) for column in table.columns],
        rows=_cells(table[:_MOST_ROWS]),
        left_out=max(0, len(table) - _MOST_ROWS),
        sections=[_picture(section) for section in (*_first(result), *sections, *_last(result))],
        checks=diagnosis.checks,
        command=command,
        version=__version__,
    )
    return str(page)


def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(files("ornstein.report").joinpath("page.html").read_text())


def _cells(table: pd.DataFrame) -> list[tuple[str, list[str]]]:
    numbers = table.to_numpy(dtype=float)
    return [
        (str(name), [f"{value:.4g}" for value in line])
        for name, line in zip(table.index, numbers, strict=True)
    ]


def _verdict(result: Result, diagnosis: Diagnosis) -> tuple[str, str]:
    """Worst verdict, and a sentence."""
    if not result.status.ok:
        return "fail", result.status.message
    failed = [check.name for check in diagnosis if check.verdict == "fail"]
    warned = [check.name for check in diagnosis if check.verdict == "warn"]
    if failed == ["model"]:
        return "fail", (
            "The draws are right for this model, but the model does not fit the rows well: its "
            "intervals may be too narrow or too wide."
        )
    if failed:
        return "fail", f"Do not trust these draws yet: {', '.join(failed)} failed."
    if warned:
        return "warn", f"Usable, with care: look at {', '.join(warned)}."
    return "ok", "Every assumption that was checked holds."


def _plan_in_words(result: Result) -> list[str]:
    plan = result.plan
    chains, draws, dim = result.flat.shape
    lines = [
        f"Method {plan.method} with a {plan.structure} gain ({plan.equation}), "
        f"{plan.batch_size:,} of {plan.num_data:,} rows a step"
        + (", gradients anchored at the optimum." if plan.control_variates else "."),
        f"Before it ran, the plan expected the draws to be {_nats(plan.predicted_kl)} from the "
        f"posterior's Gaussian, and to forget within {plan.relaxation_steps:,.1f} steps.",
        f"{chains} chains made {draws:,} draws each of {dim:,} parameters, every "
        f"{result.settings.thin:,} steps, in {result.seconds:.2g} seconds.",
    ]
    if chains * draws > 2 * dim and dim <= 400:
        value, floor = result.measured_kl()
        lines.append(
            f"The draws turned out {_nats(value)} away; Monte-Carlo error alone makes "
            f"{_nats(floor)}."
        )
    return lines


def _nats(value: float) -> str:
    return f"{value:.2g} nats" if value >= 1e-4 else "less than 0.0001 nats"


def _first(result: Result) -> list[Section]:
    return [
        Section(
            "Coefficients",
            "Mean and 90 % interval of every parameter, in the units the model works in.",
            plots.intervals(result),
        )
    ]


def _last(result: Result) -> list[Section]:
    found = [
        Section(
            "Traces and ranks",
            "Chains of the parameters with the fewest effective draws. Traces should look alike, "
            "ranks be level.",
            plots.traces(result),
        )
    ]
    if result.plan.dim <= 400:
        found.append(
            Section(
                "Predicted and measured covariance",
                "On the posterior's own scale: exact draws show ones on the diagonal and nothing "
                "elsewhere.",
                plots.covariances(result),
            )
        )
    return found


def _picture(section: Section) -> dict[str, str]:
    for ax in section.figure.axes:
        ax.tick_params(colors=_INK, which="both")
        for part in (ax.xaxis.label, ax.yaxis.label, ax.title):
            part.set_color(_INK)
        for spine in ax.spines.values():
            spine.set_color(_INK)
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "ornstein"}):
        section.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return {
        "heading": section.heading,
        "text": section.text,
        "source": f"data:image/svg+xml;base64,{encoded}",
    }
