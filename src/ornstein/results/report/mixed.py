"""What the page of a mixed model shows: coefficients, effects of groups, variances."""

import numpy as np
import numpy.typing as npt

from ornstein.models.random_effects.groupings import INTERCEPT, Grouping
from ornstein.results import plots
from ornstein.results.answers import CONVERGENCE
from ornstein.results.mixed import MixedResult
from ornstein.results.report.pictures import COEFFICIENTS, Section

_FEW = 40  # levels that are named in a picture


def coefficients_of(result: MixedResult) -> Section:
    """The forest of intervals."""
    text = "Mean and central 90% interval of every coefficient, standard deviation and correlation."
    table = result.summary()
    if result.contrast_names:
        text += " The coefficients of the levels of fixed factors have a picture of their own."
        table = table.drop(index=result.contrast_names)
    table = table.iloc[: plots.MOST_PARAMETERS]
    return Section("Coefficients", text, plots.caterpillar(table, named=True), under=COEFFICIENTS)


def sections_of(result: MixedResult) -> list[Section]:
    """Effects of every group, variance components, traces."""
    groupings = result.posterior.specification.groupings
    sections = [
        (_coefficients if grouping.fixed else _effects)(result, grouping, levels.astype(str))
        for grouping, levels in zip(groupings, result.posterior.levels, strict=True)
    ]
    text = (
        "The variance that groups and single rows add to the predictor, and the share that each "
        "has of the whole; of random intercepts the share is the intraclass correlation."
    )
    if not all(grouping.fixed for grouping in groupings):
        table = result.variance_components()
        sections.append(Section("Variance components", text, table=table, under=COEFFICIENTS))
    text = (
        "The parameters with the fewest effective draws. The chains' traces should look alike, and "
        "their ranks should be level."
    )
    measured = result.measured
    names = [result.names[number] for number in measured]
    pictures = plots.traces_of(result.flat[..., measured], names)
    return [*sections, Section("Traces and ranks", text, pictures, under=CONVERGENCE)]


def _coefficients(result: MixedResult, grouping: Grouping, levels: npt.NDArray[np.str_]) -> Section:
    """A caterpillar of a fixed factor's."""
    table = result.effects(grouping.name).set_index(levels)
    table = table[table["sd"] > 0].sort_values("mean")
    picture = plots.caterpillar(table, len(table) <= _FEW, "")
    text = (
        f"Mean and central 90% interval of {len(table):,} coefficients, in the predictor's unit: "
        "by how much each level differs from the first, from the lowest to the highest."
    )
    return Section(f"Coefficients of {_plain(grouping)}", text, picture, under=COEFFICIENTS)


def _plain(grouping: Grouping) -> str:
    """The name of its column."""
    return (
        grouping.name.removeprefix("fixed(").removesuffix(")") if grouping.fixed else grouping.name
    )


def _effects(result: MixedResult, grouping: Grouping, levels: npt.NDArray[np.str_]) -> Section:
    """A caterpillar for every column."""
    table = result.effects(grouping.name)
    figures = []
    for number, column in enumerate(grouping.columns):
        own = table.iloc[number * grouping.levels : (number + 1) * grouping.levels]
        few = grouping.levels <= _FEW
        named = own.set_index(levels).sort_values("mean")
        title = "" if grouping.plain else "intercept" if column == INTERCEPT else column
        figures.append(plots.caterpillar(named, few, title))
    text = (
        f"Mean and central 90% interval of the effect of each of {grouping.levels:,} levels, in "
        "the predictor's unit, from the lowest to the highest. An interval that does not cross "
        "zero belongs to a level that differs from the average one."
    )
    return Section(f"Effects of {grouping.name}", text, figures, under=COEFFICIENTS)


def figures_of(
    result: MixedResult, effective: float, seconds: float | None
) -> list[tuple[str, str, str]]:
    """The few figures to see first."""
    chains, draws = result.lam.shape[:2]
    groupings, took = result.posterior.specification.groupings, f"{result.seconds:.2g} s"
    levels = ", ".join(f"{g.levels:,} of {_plain(g)}" for g in groupings)
    count = sum(g.levels for g in groupings)
    return [
        ("rows", f"{result.plan.num_data:,}", ""),
        ("levels", f"{count:,}", levels),
        ("sampling time", took, "")
        if seconds is None
        else ("time", f"{seconds:.0f} s", f"sampling {took}"),
        ("effective draws, at least", f"{effective:,.0f}", f"of {chains * draws:,}"),
    ]


def plan_of(result: MixedResult) -> list[str]:
    """What was run."""
    chains, draws = result.lam.shape[:2]
    lines = [f"{name}: {text}." for name, text in result.plan.lines()]
    dim = result.posterior.dim + result.posterior.specification.count
    return [*lines, f"{chains} chains made {draws:,} draws each of {dim:,} parameters."]
