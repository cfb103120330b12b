"""The section "duel" as Markdown."""

from typing import Any

from benchmarks.families_page import ERRORS, shown
from benchmarks.markdown import number, table

_ABOUT = """## Duel: exact samplers on many rows

Logistic regressions on nine columns and an intercept, prior precision 0.01. Effective draws (the
smaller of bulk and tail ESS of the worst parameter) per second of sampling: medians of {repeats}
interleaved rounds, quartiles in brackets. Setup is optimum, plan, warm-up and whatever else comes
before the first kept draw; NumPyro's includes the compilation of its warm-up. HMCECS has a Taylor
proxy of second order, a thousand rows and 100 blocks; MH-SS has control variates of second order,
no prior, and is written in NumPy. Errors are the largest over all parameters, as above, of all
rounds' draws together."""

_HEAD = [
    "",
    "effective draws per second",
    "rows per effective draw",
    "setup, s",
    "compilation, s",
    "setup and 1,000 effective draws, s",
    "mean",
    "sd",
    "5 % quantile",
    "95 % quantile",
]


def as_markdown(found: dict[str, Any]) -> str:
    """What it is about, and a table for each number of rows."""
    parts = [_ABOUT.format(repeats=found["repeats"])]
    for known in found["tables"].values():
        reference = known["reference"]
        parts.append(
            f"### {known['rows']:,} rows, {known['positives']:,} of them positive\n\n"
            f"The reference: {reference['effective']:,} effective draws of NUTS, "
            f"{reference['rows_per_effective']:,} rows each in coordinates whitened by Laplace."
        )
        rows = []
        for name, record in known["records"].items():
            title = found["contestants"][name]
            if "errors" not in record:
                rows.append([title, record["note"], *["-"] * (len(_HEAD) - 2)])
                continue
            rate = number(record["effective_per_second"])
            spread = f"({number(record['low'])}-{number(record['high'])})"
            costs = ("rows_per_effective", "setup_seconds", "compile_seconds")
            rows.append(
                [
                    title,
                    f"{rate} {spread}",
                    *(number(record[cost]) for cost in costs),
                    number(record["setup_seconds"] + 1000 / record["effective_per_second"]),
                    *(shown(record["errors"][part]) for part in ERRORS),
                ]
            )
        parts.append(table(_HEAD, rows))
    return "\n\n".join(parts)
