"""What the page of a mixed model shows: coefficients, effects of groups, variances."""

from ornstein.results import plots
from ornstein.results.answers import CONVERGENCE
from ornstein.results.mixed import MixedResult
from ornstein.results.report.pictures import COEFFICIENTS, Section

_FEW = 40  # levels that are named in a picture


def coefficients_of(result: MixedResult) -> Section:
    """The forest of intervals."""
    text = "Mean and central 90% interval of every coefficient, standard deviation and correlation."
    table = result.summary().iloc[: plots.MOST_PARAMETERS]
    return Section("Coefficients", text, plots.caterpillar(table, named=True), under=COEFFICIENTS)


def sections_of(result: MixedResult) -> list[Section]:
    """Effects of every group, variance components, traces."""
    sections = [_effects(result, group.name) for group in result.posterior.specification.groupings]
    text = (
        "The variance that groups and single rows add to the predictor, and the share that each "
        "has of the whole; of random intercepts the share is the intraclass correlation."
    )
    table = result.variance_components()
    sections.append(Section("Variance components", text, table=table, under=COEFFICIENTS))
    text = (
        "The parameters with the fewest effective draws. The chains' traces should look alike, and "
        "their ranks should be level."
    )
    pictures = plots.traces_of(result.flat, result.names)
    return [*sections, Section("Traces and ranks", text, pictures, under=CONVERGENCE)]


def _effects(result: MixedResult, group: str) -> Section:
    """A caterpillar for every column."""
    table = result.effects(group)
    grouping = next(g for g in result.posterior.specification.groupings if g.name == group)
    figures = []
    for number, column in enumerate(grouping.columns):
        own = table.iloc[number * grouping.levels : (number + 1) * grouping.levels]
        few = grouping.levels <= _FEW
        figures.append(
            plots.caterpillar(own.sort_values("mean"), few, "" if grouping.plain else column)
        )
    text = (
        f"Mean and central 90% interval of the effect of each of {grouping.levels:,} levels, in "
        "the predictor's unit, from the lowest to the highest. An interval that does not cross "
        "zero belongs to a level that differs from the average one."
    )
    return Section(f"Effects of {group}", text, figures, under=COEFFICIENTS)


def figures_of(
    result: MixedResult, effective: float, seconds: float | None
) -> list[tuple[str, str, str]]:
    """The few figures to see first."""
    chains, draws = result.lam.shape[:2]
    groupings, took = result.posterior.specification.groupings, f"{result.seconds:.2g} s"
    levels = ", ".join(f"{g.levels:,} of {g.name}" for g in groupings)
    count = sum(g.levels for g in groupings)
    return [
        ("rows", f"{result.plan.num_data:,}", ""),
        ("levels of groups", f"{count:,}", levels),
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
