"""Dates become columns of numbers: days since the first, weekday, season and time of day."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ornstein._base.checks import names_of, shown
from ornstein._base.errors import InputError
from ornstein.storage import codec
from ornstein.tables import columns
from ornstein.tables.columns import Floats

DateFormats: TypeAlias = Sequence[str] | Mapping[str, str | None]
"""Columns of dates, each with the format it is written in if its values leave a doubt."""

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ISO = "ISO8601"
_FORMATS = [
    day + time
    for day in (
        *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y"),
        *("%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y%m%d"),
    )
    for time in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")
]
_CYCLES = ("season, sine", "season, cosine", "time of day, sine", "time of day, cosine")
_PARTS = ("days", *WEEKDAYS, *_CYCLES)
_DAY = np.timedelta64(1, "D")

Times = npt.NDArray[np.datetime64]


@codec.register
@dataclass(frozen=True)
class DateColumn:
    """A column of dates as the numbers named by ``parts``, centred and scaled.

    ``format`` is how they are written where they are text, as ``strptime`` takes it; ``origin`` is
    the first date. Weekdays are compared with the first that occurs.
    """

    name: str
    format: str
    origin: str
    parts: tuple[str, ...]
    centres: tuple[float, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse parts that are not known, and numbers that do not belong to them."""
        wrong = [part for part in self.parts if part not in _PARTS]
        if wrong or not self.parts or np.isnat(_times_of([self.origin], _ISO)).any():
            raise InputError(
                f"parts must be some of {', '.join(_PARTS)}, counted from a date; found "
                f"{shown(self.parts)} from {shown(self.origin)}."
            )
        if not len(self.parts) == len(self.centres) == len(self.scales):
            raise InputError(f"centres and scales must be {len(self.parts)} numbers.")
        if not all(0 < scale < np.inf for scale in self.scales):
            raise InputError(f"scales must be finite numbers above 0, found {self.scales}.")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of ``X`` this one becomes."""
        return tuple(
            f"{self.name}={part}" if part in WEEKDAYS else f"{self.name} ({part})"
            for part in self.parts
        )

    def encode(self, column: Any, unseen: str = "error") -> Floats:
        """Columns of ``X``; a missing date is replaced by the mean."""
        del unseen
        times = self.times(column)
        table = _numbers(self.parts, times, np.datetime64(self.origin, "us"))
        encoded = (table - np.array(self.centres)) / np.array(self.scales)
        return np.where(np.isnat(times)[:, None], 0.0, encoded)

    def times(self, column: Any) -> Times:
        """Its dates and times, missing ones NaT."""
        return _times(self.name, column, self.format)

    def sentence(self) -> str:
        """What the column became."""
        said = [f"days since {self.origin[:10]}"] if "days" in self.parts else []
        weekdays = [part for part in self.parts if part in WEEKDAYS]
        said += [f"weekdays ({', '.join(weekdays)})"] if weekdays else []
        said += [word for word in ("season", "time of day") if f"{word}, sine" in self.parts]
        return f"Dates of {shown(self.name)} became {', '.join(said)}."


def learn_dates(name: str, column: Any, format: str | None = None) -> DateColumn:
    """What a column of dates, or of texts that are dates, becomes.

    Days always; weekdays where there are two weeks or more, the season where there are ten months
    or more, the time of day where it varies.
    """
    format = _format(name, column) if format is None else format
    times = _times(name, column, format)
    present = times[~np.isnat(times)]
    if not present.size or present.min() == present.max():
        raise InputError(f"Column {shown(name)} has one date only. {columns.leave_out(name)}")
    first, span = present.min(), (present.max() - present.min()) / _DAY
    parts = ["days"]
    if span >= 14:
        occurring = np.unique(_weekday(present))[1:]  # the first is the reference
        parts += [WEEKDAYS[int(day)] for day in occurring]
    if span >= 300:
        parts += _CYCLES[:2]
    if np.unique(present - present.astype("datetime64[D]")).size > 1:
        parts += _CYCLES[2:]
    table = _numbers(parts, present, first)
    scales = [float(table[:, 0].std()), *(1.0 for _ in parts[1:])]
    means = tuple(table.mean(axis=0).tolist())
    return DateColumn(name, format, str(first), tuple(parts), means, tuple(scales))


def formats_of(given: DateFormats) -> dict[str, str | None]:
    """Formats by column, None where one is to be found; texts may be ``column=%d.%m.%Y``."""
    if isinstance(given, Mapping):
        return dict(given)
    parts = (text.partition("=%") for text in given)
    return {name: f"%{rest}" if mark else None for name, mark, rest in parts}


def _format(name: str, column: Any) -> str:
    """The one format in which all texts are dates; refused if there is none, or a doubt."""
    if pa.types.is_timestamp(column.type):
        return ""
    texts = columns.labels(name, column).levels
    if not np.isnat(_times_of(texts, _ISO)).any():
        return _ISO
    found = [one for one in _FORMATS if not np.isnat(_times_of(texts, one)).any()]
    if len(found) == 1:
        return found[0]
    such = f"'{name}=%d/%m/%Y'"
    if not found:
        raise InputError(
            f"Column {shown(name)} has values that are not dates in one format, such as "
            f"{names_of(_odd(texts))}. Correct them, or say how they are written: "
            f"parse_dates=[{such}]."
        )
    raise InputError(
        f"Column {shown(name)} has dates that can be read in several ways, such as "
        f"{shown(texts[0])}: {' or '.join(found[:3])}. Say which: parse_dates=[{such}]."
    )


def _odd(texts: Sequence[str]) -> list[str]:
    """Texts that the format of most of them does not fit."""
    wrong = [np.isnat(_times_of(texts, one)) for one in (_ISO, *_FORMATS)]
    best = min(wrong, key=np.sum)
    return [text for text, is_wrong in zip(texts, best, strict=True) if is_wrong][:3]


def _times(name: str, column: Any, format: str) -> Times:
    """Dates and times of a column, missing ones NaT."""
    if pa.types.is_timestamp(column.type):
        return np.asarray(column.to_numpy(), "datetime64[us]")
    found = columns.labels(name, column)
    times = _times_of(found.levels, format or _ISO)
    wrong = np.isnat(times)
    if wrong.any():
        levels = [level for level, one in zip(found.levels, wrong, strict=True) if one]
        raise InputError(
            f"Column {shown(name)} has values that are not dates written as the others "
            f"({format or _ISO}): {names_of(levels)}. Correct them."
        )
    return np.append(times, np.datetime64("NaT", "us"))[found.codes]


def _times_of(texts: Iterable[str], format: str) -> Times:
    found = pd.to_datetime(
        pd.Series(list(texts), dtype=object), format=format, errors="coerce", utc=True
    )
    return found.dt.tz_localize(None).to_numpy("datetime64[us]")


def _numbers(parts: Sequence[str], times: Times, first: np.datetime64) -> Floats:
    """The parts of every date, one column each."""
    return np.column_stack([_part(part, times, first) for part in parts])


def _part(part: str, times: Times, first: np.datetime64) -> Floats:
    if part == "days":
        return np.asarray((times - first) / _DAY, float)
    if part in WEEKDAYS:
        return np.asarray(_weekday(times) == WEEKDAYS.index(part), float)
    cycle, wave = part.split(", ")
    since, length = {
        "season": (times - times.astype("datetime64[Y]"), 365.25),
        "time of day": (times - times.astype("datetime64[D]"), 1.0),
    }[cycle]
    angle = 2 * np.pi * np.asarray(since / _DAY, float) / length
    return np.sin(angle) if wave == "sine" else np.cos(angle)


def _weekday(times: Times) -> npt.NDArray[np.int64]:
    """Monday is 0."""
    return (times.astype("datetime64[D]").astype(np.int64) + 3) % 7
