"""The section "walk" as Markdown."""

from typing import Any

from benchmarks.markdown import number, table
from benchmarks.walk import NUTS_ROWS, agrees, gain, looks_right, warns, went_away, without_need

_ABOUT = """## Walk: what a new user meets

`ornstein fit` with its defaults on tables at hand, at most {rows:,} rows of each. Three questions
have verdicts: did it converge, can the intervals be trusted, does the model fit its rows. Where an
answer warns, the first option that it recommends is followed once; "gone" says whether the warning
went away.

Three cross-checks are no part of the verdicts. "Held out" is the share of rows kept aside that 90 %
intervals contain, or, of classes, how far probabilities are from shares; one that chance does not
explain is marked with `!`. "Gain" is by how many nats the remedy predicts such a row better. "NUTS"
is the largest difference between means of the default's draws and of NUTS's, in posterior standard
deviations, on {nuts} of the rows and with a given prior (Monte-Carlo error in brackets; tables of
many columns are left out). A warning is needless where none of them finds anything.

Of {tables} tables, {warned} warn, {needless} of them needlessly; {followed} remedies were followed,
{gone} of them made the warning go away."""

_HEAD = ["", "model", "rows", "converged", "intervals", "model fits", "held out", "NUTS"]
_HEAD += ["followed", "gone", "gain", "processor s"]


def as_markdown(found: dict[str, Any]) -> str:
    """What it is about, and a line for each table."""
    every = found["tables"]
    gone = [went_away(one) for one in every.values()]
    about = _ABOUT.format(
        rows=found["rows"],
        nuts=NUTS_ROWS,
        tables=len(every),
        warned=sum(bool(warns(one)) for one in every.values()),
        needless=sum(map(without_need, every.values())),
        followed=sum(one is not None for one in gone),
        gone=sum(map(bool, gone)),
    )
    said = [
        f"- {name}: {' '.join(sentence.split())}"
        for name, one in every.items()
        for sentence in one.get("said", [])
    ]
    lines = table(_HEAD, [_line(name, one) for name, one in every.items()])
    return "\n\n".join(
        [about, lines, *(["What the warnings say:", "\n".join(said)] if said else [])]
    )


def _line(name: str, found: dict[str, Any]) -> list[str]:
    if "refused" in found:
        return [name, "refused", *["-"] * 10]
    held, verdicts = found["held_out"], found["verdicts"]
    share = held.get("90% coverage", held.get("calibration error"))
    seen = "-" if share is None else f"{share:.1%}{'' if looks_right(found) else ' !'}"
    gone = went_away(found)
    return [
        name,
        found["model"],
        number(held.get("rows")),
        *(verdicts.get(key) or "-" for key in ("convergence", "intervals", "fit")),
        seen,
        _from_nuts(found),
        f"`{found['followed']['options']}`" if "followed" in found else "-",
        "-" if gone is None else "yes" if gone else "no",
        "-" if (better := gain(found)) is None else f"{better:.3f}",
        number(found["processor"]),
    ]


def _from_nuts(found: dict[str, Any]) -> str:
    if agrees(found) is None:
        return "-"
    off = found["nuts"]
    return f"{off['mean']:.2f} ({off['mc']:.2f}){'' if agrees(found) else ' !'}"
