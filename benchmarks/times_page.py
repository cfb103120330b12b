"""The section "times" as Markdown."""

from typing import Any

from benchmarks.markdown import number, table

_ABOUT = """## Times: from a file to a page

`ornstein fit` in a process of its own, everything counted: reading, rows kept aside, draws,
checks, pictures, page. `mushroom` (8,124 rows, 22 columns of 117 levels), `letter` (20,000 x 16, 26
classes) and `penbased` (10,992 x 16, 10 classes) are simulated tables of the shapes of UCI's;
`bike` is UCI's, with 30,000 draws; `million` is a CSV file of a million rows of 20 columns. Seconds
are those of the clock on a machine that did other things, too; processor seconds those of all cores
together.
The prior precision is drawn or learned: a faster release must not change it."""

_HEAD = ["", "seconds", "processor seconds", "to stay below", "memory, GB", "to stay below"]
_HEAD += ["prior precision"]


def as_markdown(found: dict[str, Any]) -> str:
    """What it is about, and a line for each table."""
    rows = [_line(name, one) for name, one in found["tables"].items()]
    return "\n\n".join([_ABOUT, table(_HEAD, rows)])


def _line(name: str, found: dict[str, Any]) -> list[str]:
    limit, precision = found["limit_bytes"], found["prior_precision"]
    several = isinstance(precision, list)
    return [
        name,
        number(found["seconds"]),
        number(found["processor"]),
        number(found["limit_seconds"]),
        f"{found['bytes'] / 1e9:.2f}",
        "-" if limit is None else f"{limit / 1e9:.2f}",
        "one for each column" if several else number(precision),
    ]
