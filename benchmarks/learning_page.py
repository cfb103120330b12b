"""The section "learning" as Markdown."""

from typing import Any

from benchmarks.markdown import number, table

_ABOUT = """## Learning a prior precision, and cross-validation

The paper's Figure 3: softmax regression, one prior precision learned from a start of 10, then
{draws} draws at the learned value (the joint run). For comparison: planning and sampling with that
value fixed, and five-fold cross-validation of the optimum over the figure's grid, where every
search starts at the end of the last one. Cross-validation is done by `orn.cross_validate`, which
finds optima to a hundredth (MNIST) or a thousandth (covertype) of a posterior standard deviation,
and by scikit-learn's `LogisticRegression` at its default tolerance (one fold, times five). Seconds,
with compilation: each in a fresh process; the joint run was measured before, between and after the
others, and its median is shown."""

_HEAD = [
    "",
    "values tried",
    "learned, and by cross-validation",
    "joint run",
    "fixed value",
    "cross-validation",
    "scikit-learn's",
    "joint / fixed",
    "joint / cross-validation",
    "joint / scikit-learn's",
]


def as_markdown(found: dict[str, Any]) -> str:
    """What it is about, and a line for each data set."""
    rows = []
    for name, record in found["problems"].items():
        joint, fixed, ours, theirs = (
            record[f"{part}_seconds"]
            for part in ("joint", "fixed", "cross_validation", "scikit_learn")
        )
        rows.append(
            [
                f"{name}: {record['rows']:,} rows, {record['parameters']:,} parameters",
                str(record["values"]),
                f"{number(record['lambda'])}, {number(record['cross_validated'])}",
                *map(number, (joint, fixed, ours, theirs)),
                *map(number, (joint / fixed, joint / ours, joint / theirs)),
            ]
        )
    return "\n\n".join([_ABOUT.format(draws=found["draws"]), table(_HEAD, rows)])
