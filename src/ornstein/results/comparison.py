"""The results of a comparison of methods, as a table that ends with a recommendation."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ornstein._base.checks import aligned, choice
from ornstein.results.result import Result
from ornstein.results.spread import GOOD
from ornstein.results.verdicts import CANNOT_TELL

EFFECTIVE = 1000
"""Effective draws whose time methods are compared by."""

_DEFAULT = "rotation"  # what method="auto" takes where curvature is a matrix
_CLEARLY = 2.0  # times as quick: less may be chance, and only the default draws hyperparameters
_SHORT = 10.0  # seconds: to save a part of them is no reason for another method


@dataclass(frozen=True)
class Entry:
    """One method's row.

    Attributes
    ----------
    method
        Its name in :data:`ornstein.VARIANTS`.
    predicted_kl, measured_kl
        Divergence from the reference in nats, by the plan and of the draws; None where it was not
        planned or not run.
    mc_error
        Monte-Carlo error of ``measured_kl``: what it adds on average, and its standard error.
    divergence_from_prediction
        Of the draws from the plan's own Gaussian; about ``prediction_floor`` where the plan holds.
    draws, chains, steps
        Kept draws in all, chains, steps of each.
    seconds, planning_seconds
        Time to plan and sample, and of planning alone.
    ess_per_second
        Bulk effective draws of the worst parameter per second of sampling.
    gradient_evaluations
        Rows whose gradient was taken while sampling.
    note
        What to know: why it was not run, or how.
    mean_error, sd_error
        Of the draws from the posterior itself (X12): the largest error of a mean, in posterior
        standard deviations, and the largest relative error of a standard deviation; None where they
        are not known.
    spread_error
        The largest relative error of a standard deviation along any direction, which correlations
        decide; None where it is not known.
    verdict
        As :func:`ornstein.check` gives it: ``ok``, ``warn``, ``fail`` or ``cannot tell``; empty
        where the draws were not judged.
    """

    method: str
    predicted_kl: float | None = None
    measured_kl: float | None = None
    mc_error: float | None = None
    divergence_from_prediction: float | None = None
    prediction_floor: float | None = None
    draws: int = 0
    chains: int = 0
    steps: int = 0
    seconds: float = 0.0
    planning_seconds: float = 0.0
    ess_per_second: float | None = None
    gradient_evaluations: int = 0
    note: str = ""
    mean_error: float | None = None
    sd_error: float | None = None
    verdict: str = ""
    spread_error: float | None = None

    @property
    def ran(self) -> bool:
        """Whether there are draws."""
        return self.draws > 0

    @property
    def seconds_needed(self) -> float | None:
        """Time to plan and to make 1,000 effective draws; None where that is not known."""
        if not self.ess_per_second:
            return None
        return self.planning_seconds + EFFECTIVE / self.ess_per_second


class Recommendation(NamedTuple):
    """Which method to take, and why; ``method`` is None where none can be recommended."""

    method: str | None
    reason: str


@dataclass(frozen=True)
class Comparison:
    """All entries; ``print`` shows a table and a recommendation.

    Attributes
    ----------
    entries
        One per method.
    reference
        What divergences are measured from.
    results
        The runs by name, for plots.
    """

    entries: tuple[Entry, ...]
    reference: str
    results: Mapping[str, Result] = field(repr=False)

    def __getitem__(self, name: str) -> Entry:
        """The entry of a method."""
        by_name = {entry.method: entry for entry in self.entries}
        return by_name[choice("method", name, by_name)]

    @property
    def recommendation(self) -> Recommendation:
        """The method to take: of those whose draws are right, the quickest.

        Draws are right if their verdict is ``ok``. The default is preferred if it needs less than
        ten seconds or no other is twice as quick: in ``fit`` it draws hyperparameters, too.
        """
        ran = [entry for entry in self.entries if entry.ran]
        if not ran:
            return Recommendation(None, "No method could be run: the notes say why.")
        timed = [(e.seconds_needed, e) for e in ran if e.verdict == "ok"]
        right = {e.method: (needed, e) for needed, e in timed if needed is not None}
        if not right:
            return Recommendation(None, _none_is_right(ran))
        quickest, best = min(right.values(), key=lambda pair: pair[0])
        needed, usual = right.get(_DEFAULT, (math.inf, best))
        if needed <= max(_SHORT, _CLEARLY * quickest):
            best = usual
        return Recommendation(best.method, _why(best, right))

    def records(self) -> list[dict[str, Any]]:
        """Entries as plain dictionaries."""
        return [asdict(entry) for entry in self.entries]

    def save(self, path: str | Path) -> None:
        """Write the entries and the recommendation as JSON."""
        record = {
            "reference": self.reference,
            "methods": self.records(),
            "recommendation": self.recommendation._asdict(),
        }
        Path(path).write_text(json.dumps(record, indent=1) + "\n")

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells, head first."""
        head = ("method", "draws", "means off by", "sds off by", "time needed", "rows read")
        return [head, *(_cells(entry) for entry in self.entries)]

    @property
    def legend(self) -> str:
        """How to read the table."""
        return (
            "How far draws are from the posterior, at worst: their means in its standard "
            "deviations (sd), their standard deviations (sds) in percent. The time is that of "
            f"planning and of {EFFECTIVE:,} effective draws, worth as many independent ones."
        )

    @property
    def notes(self) -> list[str]:
        """Why methods were not run, or how, a sentence each; methods of one note together."""
        together: dict[tuple[str, str], list[str]] = {}
        for entry in self.entries:
            if entry.note:
                key = ("" if entry.ran else " not run", entry.note)
                together.setdefault(key, []).append(entry.method)
        return [f"{', '.join(names)}{how}: {note}" for (how, note), names in together.items()]

    def __str__(self) -> str:
        """A readable table, the notes, and the recommendation."""
        return "\n".join(
            [*aligned(self.rows()), self.legend, *self.notes, self.recommendation.reason]
        )


_WORDS = {
    "ok": "right",
    "warn": "uncertain",
    "fail": "wrong",
    CANNOT_TELL: CANNOT_TELL,
    "": "not judged",
}


def _cells(entry: Entry) -> tuple[str, ...]:
    if not entry.ran:
        return (entry.method, "not run", "-", "-", "-", "-")
    needed = entry.seconds_needed
    mean, sd = entry.mean_error, entry.sd_error
    return (
        entry.method,
        _WORDS[entry.verdict],
        "-" if mean is None else f"{mean:.2g} sd",
        "-" if sd is None else f"{sd:.0%}",
        "-" if needed is None else _seconds(needed),
        f"{entry.gradient_evaluations:.2g}",
    )


def _why(best: Entry, right: Mapping[str, tuple[float, Entry]]) -> str:
    """What speaks for a method, in one line."""
    needed = right[best.method][0]
    quicker = [(other, name) for name, (other, _) in right.items() if other < needed]
    usual = "the default; " if best.method == _DEFAULT else ""
    among = f"and it is the quickest of {len(right)} methods whose draws are right"
    if len(right) == 1:
        among = "and no other method's draws are right"
    if quicker:
        other, name = min(quicker)
        among = (
            f"and the quickest, {name} ({_seconds(other)}, {_off(right[name][1])}), saves little"
        )
    return (
        f"Take {best.method}: {usual}its draws are {_off(best)}, {EFFECTIVE:,} effective ones take "
        f"{_seconds(needed)}, {among}."
    )


def _off(entry: Entry) -> str:
    """How far its draws are off, in words."""
    said = f"off by at most {entry.mean_error:.2g} sd in means and {entry.sd_error:.0%} in sds"
    spread = entry.spread_error or 0.0
    return f"{said}, {spread:.0%} along any direction" if spread > GOOD else said


def _largest(entry: Entry) -> float:
    return max(entry.mean_error or 0.0, entry.sd_error or 0.0, entry.spread_error or 0.0)


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.2g} s"


_NUTS = "Use method nuts, which needs the extra ornstein[reference], or fewer columns."


def _none_is_right(ran: Iterable[Entry]) -> str:
    """What to do where no draws are."""
    ran = list(ran)
    judged = [entry for entry in ran if entry.mean_error is not None]
    if not judged and all(entry.verdict == "fail" for entry in ran):
        return f"Take none of these: no method's draws are the posterior's. {_NUTS}"
    if not judged:
        return "No recommendation: no draws could be judged. Make more of them (draws)."
    best = min(judged, key=_largest)
    if any(entry.verdict == "warn" for entry in judged):
        return (
            f"No recommendation yet: {best.method} is nearest, {_off(best)}; more draws may show "
            "that it is right."
        )
    return f"Take none of these: {best.method} is nearest, and {_off(best)}. {_NUTS}"


def number(value: float | None) -> str:
    """Three digits; a dash for nothing."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
