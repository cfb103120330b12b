"""What a model misses in its rows, in words, with one next step that works for each."""

from collections.abc import Iterator

from ornstein._base.checks import few, shown
from ornstein.results.misfit import (
    BEND,
    INTERVALS,
    OUTLIERS,
    SEPARATION,
    SPREAD,
    TAILS,
    ZEROS,
    Finding,
    Misfit,
)

_ALLOWED = {
    OUTLIERS: "In this family they pull little.",
    TAILS: "They make room for rows that lie far off.",
    INTERVALS: "That is so without method='sandwich'; these allow for it.",
}
_CAUSES = {INTERVALS: {SPREAD, OUTLIERS, ZEROS}, SPREAD: {ZEROS}}
"""Findings that others bring about."""

TARGET = "TARGET"
"""What stands for the target's name in formulas."""

_SANDWICH = "method='sandwich' (--method sandwich) has intervals that are right all the same"


def sentences(found: Misfit, family: str, target: str) -> Iterator[tuple[Finding, str, str]]:
    """Every finding, what it says, and what to do.

    ``target`` is what the draws aim at: those of the sandwich have right intervals already.
    """
    kinds = {one.kind for one in found.findings}
    for one in found.findings:
        if one.kind in _allowed(found, family, target) or kinds & _CAUSES.get(one.kind, set()):
            continue
        yield one, _said(one), _step(one, family)


def explained(found: Misfit, family: str, target: str) -> str:
    """What is allowed for already; empty if nothing is."""
    allowed = [one for one in found.findings if one.kind in _allowed(found, family, target)]
    return " ".join(f"{_said(one)} {_ALLOWED[one.kind]}" for one in allowed)


def _allowed(found: Misfit, family: str, target: str) -> set[str]:
    """Kinds of findings that the draws allow for."""
    far = family == "student_t" and any(one.kind == OUTLIERS for one in found.findings)
    outliers = {OUTLIERS, TAILS} if far else set()
    return outliers | ({INTERVALS} if target == "sandwich" else set())


def _said(one: Finding) -> str:
    times = f"{max(one.size, 1 / max(one.size, 1e-9)):.1f} times"
    names = few([shown(name) for name in one.names])
    if one.kind == OUTLIERS:
        rows = few([f"{row + 1:,}" for row in one.rows])
        what, lie = ("row", "lies") if len(one.rows) == 1 else ("rows", "lie")
        return (
            f"{len(one.rows):,} {what} {lie} far from what the model expects, up to {one.size:.1f} "
            f"standard deviations: {what} {rows} of those in use."
        )
    if one.kind == SPREAD:
        more = "more" if one.size > 1 else "less"
        return f"The rows scatter {times} {more} than the model says (in standard deviations)."
    if one.kind == ZEROS:
        more = "more" if one.size > 0 else "fewer"
        return f"There are {more} zeros than the model expects, by {abs(one.size):.0%} of the rows."
    if one.kind == TAILS:
        return (
            f"Intervals for new rows are off: those of {one.names[0]} contain {one.size:.0%} of "
            "the rows."
        )
    if one.kind == BEND:
        return (
            f"The target bends with {names}: a square of it explains {one.size:.0%} of what is "
            "left."
        )
    if one.kind == SEPARATION:
        where = f" {names}" if one.names else ""
        return f"The columns{where} separate the classes: how large the effect is, the prior says."
    narrow = "narrow" if one.size > 1 else "wide"
    return f"Intervals of {names} are about {times} too {narrow}, if rows are independent."


def _step(one: Finding, family: str) -> str:
    if one.kind == OUTLIERS:
        look = "look at these rows and correct or leave out what is wrong"
        other = {
            "linear": "student_t (--family student_t), by which outliers pull less",
            "poisson": "negative_binomial (--family negative_binomial), if counts are like that",
        }
        return f"{look}; if they are right, use {other[family]}" if family in other else look
    if one.kind in (SPREAD, ZEROS):
        return _of_counts(one, family)
    if one.kind == TAILS:
        if one.names[0] == "50%" and one.size < 0.5:  # flatter than any family here
            return (
                "look at the residuals for two heaps or an end; a column or a term that is missing "
                "may explain them"
            )
        if family == "linear":
            return (
                "use student_t (--family student_t) for outliers to both sides; for a skewed "
                "target above 0, gamma (--family gamma)"
            )
        return f"try another family than {family} (--family)"
    if one.kind == BEND:
        name = _quoted(one.names[0])
        return f"add the square: --formula '{TARGET} ~ . + I({name}**2)', or poly({name}, 2)"
    if one.kind == SEPARATION:
        if one.names:
            drop = f"leave the column out (--drop {shown(one.names[0])})"
            return f"give the prior (--prior-precision), or {drop}"
        return "give the prior (--prior-precision): nothing in these rows limits the effects"
    return _SANDWICH


def _of_counts(one: Finding, family: str) -> str:
    if family == "poisson":
        if one.kind == ZEROS and one.size > 0:
            return "use zero_inflated_poisson (--family zero_inflated_poisson)"
        return "use negative_binomial (--family negative_binomial), whose counts vary as they do"
    if family == "negative_binomial" and one.kind == ZEROS:
        return "use zero_inflated_poisson or hurdle_poisson (--family hurdle_poisson)"
    if family in ("zero_inflated_poisson", "hurdle_poisson"):
        return "use negative_binomial (--family negative_binomial), whose counts vary more"
    if family == "linear":
        return (
            "the noise scale does not suit: leave it out (--noise-scale), so that it is drawn; in "
            "Python, sample with hyper='draw'"
        )
    if family == "exponential":
        return "use gamma or weibull (--family weibull), whose spread is learned"
    return _SANDWICH


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
