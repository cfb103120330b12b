"""Whether targets that a model simulates look like those that were observed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.results.arviz import interval_ends, mass

if TYPE_CHECKING:
    import pandas as pd

_STATISTICS: Mapping[str, Callable[[Vector], Vector]] = {
    "mean": lambda y: y.mean(axis=-1),
    "sd": lambda y: y.std(axis=-1),
    "min": lambda y: y.min(axis=-1),
    "max": lambda y: y.max(axis=-1),
}


@dataclass(frozen=True, eq=False)
class Replications:
    """Targets that were observed, and those that every draw simulates for the same rows.

    ``simulated`` is (draws, rows). Targets are in their own unit, or class numbers of ``classes``;
    ``discrete`` ones are counts or classes.
    """

    observed: Vector
    simulated: Vector
    target: str
    discrete: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.simulated.ndim != 2 or self.simulated.shape[1:] != self.observed.shape:
            raise InputError(
                "simulated targets must be (draws, rows) for the rows that were observed; found "
                f"{self.simulated.shape} and {self.observed.shape}."
            )

    @property
    def statistics(self) -> dict[str, tuple[float, Vector]]:
        """By name: a statistic of the observed targets, and of every draw's simulated ones."""
        found: dict[str, Callable[[Vector], Vector]]
        if self.classes:
            found = {f"share of {name}": _share(number) for number, name in enumerate(self.classes)}
        else:
            found = {"share of zeros": _share(0)} if self.discrete else {}
            found |= _STATISTICS
        return {
            name: (float(statistic(self.observed)), np.asarray(statistic(self.simulated)))
            for name, statistic in found.items()
        }

    def table(self, interval: float = 0.9) -> "pd.DataFrame":
        """A line per statistic: observed, simulated with its interval, and how far out it is.

        ``above`` is the share of simulations that are above what was observed, ties counted half:
        near 0 or 1 the model does not make such data.
        """
        import pandas as pd

        tail, (low, high) = (1 - mass(interval)) / 2, interval_ends(interval)
        lines = {}
        for name, (seen, made) in self.statistics.items():
            ends = np.quantile(made, [tail, 1 - tail])
            above = float(np.mean(made > seen) + 0.5 * np.mean(made == seen))
            lines[name] = [seen, made.mean(), *ends, above]
        columns = ["observed", "simulated", low, high, "above"]
        found = pd.DataFrame.from_dict(lines, orient="index", columns=columns)
        return found.rename_axis("statistic")


def _share(number: int) -> Callable[[Vector], Vector]:
    return lambda y: np.mean(y == number, axis=-1)
