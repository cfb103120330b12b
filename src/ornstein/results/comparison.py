"""The results of a comparison of methods, as a table."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ornstein._base.checks import aligned, choice
from ornstein.results.result import Result


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


@dataclass(frozen=True)
class Comparison:
    """All entries; ``print`` shows a table.

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

    def records(self) -> list[dict[str, Any]]:
        """Entries as plain dictionaries."""
        return [asdict(entry) for entry in self.entries]

    def save(self, path: str | Path) -> None:
        """Write the entries as JSON."""
        record = {"reference": self.reference, "methods": self.records()}
        Path(path).write_text(json.dumps(record, indent=1) + "\n")

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells, head first."""
        head = ("method", "KL predicted", "KL measured", "MC error", "ESS/s", "seconds", "rows")
        columns = ("predicted_kl", "measured_kl", "mc_error", "ess_per_second", "seconds")
        cells = [
            (
                entry.method,
                *(number(getattr(entry, column)) for column in columns),
                f"{entry.gradient_evaluations:.2g}",
            )
            for entry in self.entries
        ]
        return [head, *cells]

    def __str__(self) -> str:
        """A readable table, and the notes."""
        notes = [f"{entry.method}: {entry.note}" for entry in self.entries if entry.note]
        return "\n".join([*aligned(self.rows()), f"KL from {self.reference}.", *notes])


def number(value: float | None) -> str:
    """Three digits; a dash for nothing."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
