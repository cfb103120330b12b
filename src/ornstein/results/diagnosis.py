"""Can the draws be trusted? And what may be wrong: with the sampler, or with the model.

The draws are judged by the posterior itself (X12). The theory's assumptions explain, one row each
with a number and a remedy; where they do not hold, the draws may be right all the same. They are
checked in ``assumptions``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ornstein._base.checks import choice
from ornstein._base.types import Vector
from ornstein.results.accuracy import Accuracy
from ornstein.results.noise import Noise
from ornstein.results.verdicts import worst

MODEL, STATIONARITY = "model", "stationarity"
"""Checks that are not of the theory's assumptions."""


@dataclass(frozen=True)
class Point:
    """One thing that was found, with what to do about it."""

    verdict: str
    sentence: str
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """One row: ``verdict``, on its own assumption, is one of :data:`verdicts.VERDICTS`.

    ``limit`` is what the number may be at most where that depends on the run.
    """

    name: str
    assumption: str
    number: float
    meaning: str
    verdict: str
    remedy: str
    limit: float | None = None

    def __str__(self) -> str:
        """What is assumed, and the name."""
        return f"{self.assumption} ({self.name})"


@dataclass(frozen=True)
class Diagnosis:
    """Whether the draws can be trusted, and all checks; ``diagnosis["A4"]`` is one row.

    Attributes
    ----------
    checks
        One per assumption.
    accuracy
        How far the draws are from the posterior (X12); None where it was not measured.
    unmeasured
        Why it was not.
    noise
        The gradient noise that A2 measured; None where it was not measured.
    roughest
        The direction in which the noise is least Gaussian (A1); None where it was not measured.
    on_model
        What a ready-made model misses in its rows, with what to do.
    allowed
        What it misses, but the draws allow for, in words.
    """

    checks: tuple[Check, ...]
    accuracy: Accuracy | None = field(default=None, repr=False, compare=False)
    unmeasured: str = ""
    noise: Noise | None = field(default=None, repr=False, compare=False)
    roughest: Vector | None = field(default=None, repr=False, compare=False)
    on_model: tuple[Point, ...] = ()
    allowed: str = ""

    @property
    def ok(self) -> bool:
        """Whether the draws can be trusted: their verdict is not ``fail``."""
        return self.verdict != "fail"

    @property
    def verdict(self) -> str:
        """On the draws, not on the model: ``ok``, ``cannot tell``, ``warn`` or ``fail``.

        By their distance from the posterior and by whether chains agree; by all assumptions of the
        sampler where the distance was not measured.
        """
        found = [check.verdict for check in self.checks if self.judges(check)]
        if self.accuracy is not None:
            found.append(self.accuracy.verdict)
        return worst(found)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.accuracy is not None:
            line = self.accuracy.sentence
        else:
            line = f"Not measured against the posterior: {self.unmeasured}."
        judging = [check for check in self.checks if self.judges(check)]
        failed, warned = (
            "; ".join(str(check) for check in judging if check.verdict == verdict)
            for verdict in ("fail", "warn")
        )
        if failed:
            return f"Do not trust these draws yet. Does not hold: {failed}. {line}"
        return f"{line} To read: {warned}." if warned else line

    def judges(self, check: Check) -> bool:
        """Whether a check decides on the draws; else it explains, or is about the model."""
        if check.name == MODEL:
            return False
        return self.accuracy is None or check.name == STATIONARITY

    def shown(self, check: Check) -> str:
        """A check's verdict for people: ``note`` if an assumption fails that decides nothing."""
        decides = check.name == MODEL or self.judges(check)
        return check.verdict if decides or check.verdict == "ok" else "note"

    def __getitem__(self, name: str) -> Check:
        """The check of that name."""
        by_name = {check.name: check for check in self.checks}
        return by_name[choice("check", name, by_name)]

    def __iter__(self) -> Iterator[Check]:
        """All checks in order."""
        return iter(self.checks)

    def __str__(self) -> str:
        """A readable table, the verdict on the draws first."""
        lines = [f"{self.verdict:<4}  {self.sentence}"]
        for heading, about_model in (("About the sampler", False), ("About the model", True)):
            lines += ["", heading]
            for check in self.checks:
                if (check.name == MODEL) == about_model:
                    lines += self._lines(check)
        return "\n".join(lines)

    def _lines(self, check: Check) -> list[str]:
        verdict = self.shown(check)
        holds = "does not hold: " if verdict == "note" else ""
        lines = [f"{verdict:<4}  {holds}{check}", f"      {check.number:.3g}: {check.meaning}"]
        if verdict not in ("ok", "note"):
            lines.append(f"      -> {check.remedy}")
        return lines
