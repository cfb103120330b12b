"""The section "mixed" as Markdown."""

from typing import Any

from benchmarks.markdown import number, table

_ABOUT = """## Mixed models

A random intercept for every group, four columns; simulated. Ours are draws of the whole posterior,
by the defaults, from arrays, compilation apart; GPBoost and statsmodels give a point estimate. Each
runs in a process of its own, in turn; the median of {repeats}. "Effective" is the smallest
effective sample size of coefficients, the groups' standard deviation and 20 of the effects. "Per
draw" is the time of sampling, warm-up included, over all draws."""

_HEAD = [
    "",
    "",
    "seconds",
    "processor seconds",
    "sd of the groups",
    "effective",
    "per draw, ms",
    "memory, GiB",
]


def as_markdown(found: dict[str, Any]) -> str:
    """What it is about, and a line for every contestant of each case."""
    rows = []
    for case in found["cases"]:
        title = f"{case['family']}, {case['rows']:,} rows, {case['groups']:,} groups"
        for name, record in case["records"].items():
            rows.append([f"{title} (true sd {case['sd']})" if title else "", *_line(name, record)])
            title = ""
    return "\n\n".join([_ABOUT.format(repeats=found["repeats"]), table(_HEAD, rows)])


def _line(name: str, record: dict[str, Any]) -> list[str]:
    if "unavailable" in record:
        return [name, *["-"] * 2, str(record["unavailable"])[:80], *["-"] * 3]
    error = record.get("sd_error")
    sd = f"{record['sd']:.4g}" + (f" +- {error:.2g}" if error else "")
    each = 1000 * record["sampling"] / record["draws"] if "sampling" in record else None
    clocks = [number(record["seconds"]), number(record["processor"])]
    return [name, *clocks, sd, number(record.get("ess")), number(each), number(record["gib"])]
