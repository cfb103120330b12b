"""All that a page shows, as plain texts: kept in a run's folder, and rendered again from it."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import jinja2
import pandas as pd

from ornstein._base.errors import InputError
from ornstein.results.answers import Answer, cells
from ornstein.results.report.pictures import SOURCE, Section
from ornstein.storage import codec

KEPT = "report.json"
"""The file of a run's folder that has the contents of its page."""

_VERSION = 1


@codec.register
class Grid(NamedTuple):
    """A table of texts; the first text of a row is its name."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, table: pd.DataFrame) -> "Grid":
        """The cells of a table, numbers to four digits."""
        rows = tuple((name, tuple(line)) for name, line in cells(table))
        return cls(tuple(map(str, table.columns)), rows)


@codec.register
class Piece(NamedTuple):
    """A section of the page; the pictures are sources of images."""

    heading: str
    text: str
    pictures: tuple[str, ...]
    table: Grid | None
    under: str

    @classmethod
    def of(cls, section: Section) -> "Piece":
        """The texts and pictures of a section."""
        table = None if section.table is None else Grid.of(section.table)
        return cls(section.heading, section.text, tuple(section.sources()), table, section.under)


@codec.register
class Remark(NamedTuple):
    """One thing that was found, and what to do about it."""

    verdict: str
    sentence: str
    remedy: str


@codec.register
class Reply(NamedTuple):
    """The answer to a question."""

    name: str
    question: str
    verdict: str
    sentence: str
    points: tuple[Remark, ...]
    table: Grid | None

    @classmethod
    def of(cls, answer: Answer) -> "Reply":
        """The texts of an answer."""
        points = tuple(Remark(one.verdict, one.sentence, one.remedy) for one in answer.points)
        table = None if answer.table is None else Grid.of(answer.table)
        return cls(answer.name, answer.question, answer.verdict, answer.sentence, points, table)


@codec.register
class CheckRow(NamedTuple):
    """A check of an assumption."""

    verdict: str
    title: str
    found: str
    remedy: str


@codec.register
@dataclass(frozen=True)
class Contents:
    """All that a page shows."""

    title: str
    about: dict[str, str]
    remarks: tuple[str, ...]
    answers: tuple[Reply, ...]
    figures: tuple[tuple[str, str, str], ...]
    plan: tuple[str, ...]
    warnings: tuple[str, ...]
    coefficients: Piece
    table: Grid
    own_units: bool
    left_out: int
    sections: tuple[Piece, ...]
    checks: tuple[CheckRow, ...]
    command: str
    settings: dict[str, str]

    def __post_init__(self) -> None:
        """Pictures are part of the page, and none is loaded from elsewhere."""
        for piece in (self.coefficients, *self.sections):
            if not all(source.startswith(SOURCE) for source in piece.pictures):
                raise ValueError(f"a picture under {piece.heading!r} is not part of the page")

    def html(self) -> str:
        """The page."""
        return str(_template().render(page=self))

    def under(self, part: str) -> list[Piece]:
        """The sections of a part, in their order."""
        return [piece for piece in self.sections if piece.under == part]

    def write(self, path: Path) -> None:
        """Write the page."""
        path.write_text(self.html(), encoding="utf-8")

    def keep(self, path: Path) -> None:
        """Write the contents, for :func:`kept`."""
        path.write_text(codec.to_json(self, _VERSION) + "\n")


def kept(folder: str | Path) -> Contents:
    """The contents of the page of a run's folder; anything else is an `InputError`."""
    path = Path(folder) / KEPT
    if not path.is_file():
        raise InputError(
            f"{folder} has no {KEPT}, from which its page could be made: it is not a folder that "
            "ornstein fit wrote, or is of an older release. Fit again."
        )
    return codec.from_json(path.read_bytes(), Contents, _VERSION, str(path))


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(files(__package__).joinpath("page.html").read_text())
