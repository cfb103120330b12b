"""The section "families" as Markdown."""

from collections.abc import Sequence
from typing import Any

from benchmarks.markdown import number, table

ERRORS = ("mean", "sd", "q05", "q95")


def shown(worst: Sequence[Any]) -> str:
    """An error and, in brackets, its Monte-Carlo error; of (error, Monte-Carlo error, label)."""
    return f"{worst[0]:.3f} ({worst[1]:.3f})"


_ABOUT = """## Families: posteriors that are not Gaussian

The largest error over all parameters against long NUTS runs (`benchmarks/references.json`): means
and quantiles in posterior standard deviations, standard deviations as a share. In brackets the
Monte-Carlo error of that entry, of the draws and the reference together; the largest of many
entries exceeds it two- or threefold by chance. Runs by the defaults, to a bulk ESS of {ess:,.0f}
(Laplace and NUTS: as many draws). `check` is the verdict of `orn.check`, which does not see the
reference. Effective draws are the smaller of bulk and tail ESS of the worst parameter; their rows
include those of the warm-up, and those that kicks and tests of a step read again. Seconds include
planning and compilation; they were not measured again where none are given."""

_HEAD = [
    "",
    "",
    "mean",
    "sd",
    "5 % quantile",
    "95 % quantile",
    "check",
    "batch",
    "rows per effective draw",
    "seconds",
]


def as_markdown(found: dict[str, Any]) -> str:
    """What it is about, and a line for each method of each family."""
    rows = []
    for name, family in found["families"].items():
        title = f"{name}: {family['rows']:,} x {family['parameters']}"
        for method, record in family["records"].items():
            if "errors" in record:
                errors = [shown(record["errors"][part]) for part in ERRORS]
                batch, cost = record["batch_size"], record["rows_per_effective"]
                more = [record["verdict"], number(batch), number(cost), number(record["seconds"])]
            else:
                errors, more = ["-"] * 4, ["no draws", "-", "-", number(record["seconds"])]
            rows.append([title, method, *errors, *more])
            title = ""
    about = _ABOUT.format(ess=found["target_ess"])
    return "\n\n".join([about, table(_HEAD, rows)])
