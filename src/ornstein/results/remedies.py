"""What a model misses in its rows, in words, with one next step that works for each."""

import re
from collections.abc import Iterator

from ornstein._base.checks import few, shown
from ornstein.results.misfit import (
    BEND,
    INTERVALS,
    OUTLIERS,
    SEPARATION,
    SKEWED,
    SPREAD,
    TAILS,
    ZEROS,
    Finding,
    Misfit,
)

_ALLOWED = {
    OUTLIERS: "In this family they pull little.",
    TAILS: "They make room for rows that lie far off.",
}
_GIVEN = "That prior is given."
_LEARNED = "To give it: prior_precision=1, or what is known."
_WIDER = "Intervals of coefficients allow for it, those of predictions do not."
_CAUSES = {
    INTERVALS: {SPREAD, OUTLIERS, ZEROS, BEND, SEPARATION},
    SPREAD: {ZEROS},
    TAILS: {SPREAD, BEND},
}
"""Findings that others bring about."""

TARGET = "TARGET"
"""What stands for the target's name in formulas."""

ALL = f"{TARGET} ~ ."
"""What stands for the formula of the fit in those that are recommended."""

_SANDWICH = "use method='sandwich', by which intervals of coefficients are right all the same"
_LOGARITHM = (
    "model its logarithm, which takes values far above the others: "
    f"formula='log({TARGET}) ~ .' with family='student_t'"
)
_POSITIVE = ("gamma", "weibull", "exponential")


def sentences(found: Misfit, family: str, target: str) -> Iterator[tuple[Finding, str, str]]:
    """Every finding, what it says, and what to do.

    ``target`` is what the draws aim at: those of the sandwich have right intervals already.
    """
    kinds = {one.kind for one in found.findings}
    for one in found.findings:
        if _allowance(one, found, family, target) or kinds & _CAUSES.get(one.kind, set()):
            continue
        yield one, _said(one), _step(one, family)


def explained(found: Misfit, family: str, target: str) -> str:
    """What is allowed for already; empty if nothing is."""
    allowed = [(one, _allowance(one, found, family, target)) for one in found.findings]
    return " ".join(f"{_said(one)} {why}" for one, why in allowed if why)


def _allowance(one: Finding, found: Misfit, family: str, target: str) -> str:
    """How the draws allow for a finding, whose remedy was followed; empty if they do not."""
    if target == "sandwich" and _SANDWICH in _step(one, family):
        return _WIDER
    far = family == "student_t" and any(other.kind == OUTLIERS for other in found.findings)
    if far and one.kind in _ALLOWED:
        return _ALLOWED[one.kind]
    if one.kind == SEPARATION and found.prior_given:
        return _GIVEN
    return _LEARNED if one.kind == SEPARATION and family == "softmax" else ""


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
        which = "the classes" if one.names or not one.size else f"{one.size:.0f} of the classes"
        return f"The columns{where} separate {which}: how large effects are, the prior says."
    narrow = "narrow" if one.size > 1 else "wide"
    return f"Intervals of {names} are about {times} too {narrow}, if rows are independent."


def _step(one: Finding, family: str) -> str:
    if one.kind == OUTLIERS:
        return f"{_LOOK}; if they are right, {_beyond_outliers(family)}"
    if one.kind in (SPREAD, ZEROS):
        return _of_scatter(one, family)
    if one.kind == TAILS:
        return _of_tails(one, family)
    if one.kind == BEND:
        return _of_bends(one.names)
    if one.kind == SEPARATION:
        prior = "give the prior, such as prior_precision=1"
        if one.names:
            return f"{prior}, or leave the column out, drop=[{_column(one.names[0])!r}]"
        return f"{prior}: nothing in these rows limits the effects"
    return _SANDWICH


_LOOK = "look at these rows and correct or leave out what is wrong"


def _beyond_outliers(family: str) -> str:
    if family == "linear":
        return "use family='student_t', by which outliers pull less"
    if family == "poisson":
        return "use family='negative_binomial', if counts are like that"
    return _LOGARITHM if family in _POSITIVE else _SANDWICH


def _of_scatter(one: Finding, family: str) -> str:
    """Of counts, and of families whose variance follows from their mean."""
    if one.kind == ZEROS and one.size < 0 and family != "hurdle_poisson":
        return "use family='hurdle_poisson', whose share of zeros is its own"
    if family == "poisson":
        if one.kind == ZEROS:
            return "use family='zero_inflated_poisson'"
        return "use family='negative_binomial', whose counts vary as they do"
    if family == "negative_binomial" and one.kind == ZEROS:
        return (
            "use family='zero_inflated_poisson'; if counts above zero vary more than it says, "
            f"{_SANDWICH}"
        )
    if family == "linear":
        return "the noise scale does not suit: leave out noise_scale, so that it is drawn"
    if family == "exponential":
        return "use family='weibull', whose spread is learned"
    return _LOGARITHM if family in _POSITIVE else _SANDWICH


def _of_tails(one: Finding, family: str) -> str:
    if one.names[0] == "50%" and one.size < 0.5 and family not in _POSITIVE:
        return (  # flatter than any family here
            "look at the residuals for two heaps or an end, which a missing column may explain; if "
            f"there is none, {_SANDWICH}"
        )
    if SKEWED in one.names and family in ("linear", "student_t"):
        return f"if {TARGET} is above 0 throughout, {_LOGARITHM}; else {_SANDWICH}"
    if family == "linear":
        return "use family='student_t', which has room for rows that lie far off"
    if family == "exponential":
        return "use family='weibull', whose spread is learned"
    return _LOGARITHM if family in _POSITIVE else _SANDWICH


_TERM = re.compile(r"(I|poly|bs|ns|cr|log|sqrt|exp)\(\s*(`[^`]+`|\w+)\s*(?:\*\*|,|\)).*")
_POWERS = ("I", "poly")
_SPLINES = ("bs", "ns", "cr")
_OF_DATES = re.compile(r" \((days|(season|time of day), (sine|cosine))\)$")  # columns of no formula


_MOST_BENDS = 6  # columns, that a formula is offered for at once


def _of_bends(names: tuple[str, ...]) -> str:
    """Squares of columns; splines where there are powers already, with more knots if it is one.

    Names of a formula's columns are its terms.
    """
    first = _TERM.fullmatch(names[0])
    if _OF_DATES.search(names[0]):
        return f"add a column with its square to the table; else {_SANDWICH}"
    if first is not None and first[1] in _SPLINES:
        return f"give the spline of {first[2]} more knots, a larger df; or {_SANDWICH}"
    terms = [_bent(name) for name in names[:_MOST_BENDS] if not _OF_DATES.search(name)]
    added = dict.fromkeys(term for term in terms if term)
    what = "add squares" if all(term.startswith("I(") for term in added) else "add curves"
    return f"{what}: formula='{ALL} + {' + '.join(added)}'"


def _bent(name: str) -> str:
    """What follows a term that bends; empty for a spline's."""
    term = _TERM.fullmatch(name)
    if term is None:
        return f"I({_quoted(name)}**2)"
    kind, column = term[1], term[2]
    if kind in _POWERS:
        return f"bs({column}, df=5)"
    return "" if kind in _SPLINES else f"I({name}**2)"


def _column(name: str) -> str:
    """The column of a level, such as town of ``town=Ulm`` or ``town[T.Ulm]``."""
    return re.split(r"=|\[T\.", name)[0]


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
