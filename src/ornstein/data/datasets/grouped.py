"""The known tables with groups, each with what its file is checked against.

Their publisher gives no checksums, so a file is accepted by its content: the names of the columns,
the number of rows, and how many levels a group has.
"""

from dataclasses import dataclass

PUBLISHER = "https://vincentarelbundock.github.io/Rdatasets/csv"


@dataclass(frozen=True)
class GroupedTable:
    """What is known about one table before its file is opened; groups with their levels."""

    name: str
    title: str
    package: str
    """R's package that it comes with."""
    rows: int
    columns: tuple[str, ...]
    groups: tuple[tuple[str, int], ...]
    base_url: str = PUBLISHER
    packed: bool = False
    licence: str = "GPL"

    @property
    def filename(self) -> str:
        """Of the stored file, inside the data folder."""
        return f"mixed/{self.name}.csv{'.gz' if self.packed else ''}"

    def url(self, base_url: str | None = None) -> str:
        """Address of the original, at the publisher or below ``base_url``."""
        base = (self.base_url if base_url is None else base_url).rstrip("/")
        return f"{base}/{self.package}/{self.name}.csv"


_ALL = (
    GroupedTable(
        "sleepstudy",
        "Reaction times over days without sleep",
        "lme4",
        180,
        ("Reaction", "Days", "Subject"),
        (("Subject", 18),),
    ),
    GroupedTable(
        "cbpp",
        "Bovine pleuropneumonia in herds",
        "lme4",
        56,
        ("herd", "incidence", "size", "period"),
        (("herd", 15),),
    ),
    GroupedTable(
        "radon",
        "Radon in the houses of Minnesota's counties",
        "HLMdiag",
        919,
        ("log.radon", "basement", "uranium", "county", "county.name"),
        (("county", 85),),
    ),
    GroupedTable(
        "Contraception",
        "Use of contraception in the districts of Bangladesh",
        "mlmRev",
        1934,
        ("woman", "district", "use", "livch", "age", "urban"),
        (("district", 60),),
    ),
    GroupedTable(
        "grouseticks",
        "Ticks on red grouse chicks",
        "lme4",
        403,
        ("INDEX", "TICKS", "BROOD", "HEIGHT", "YEAR", "LOCATION", "cHEIGHT"),
        (("BROOD", 118), ("LOCATION", 63)),
    ),
    GroupedTable(
        "VerbAgg",
        "Verbal aggression: persons and items",
        "lme4",
        7584,
        ("Anger", "Gender", "item", "resp", "id", "btype", "situ", "mode", "r2"),
        (("id", 316), ("item", 24)),
    ),
    GroupedTable(
        "InstEval",
        "Students' ratings of lecturers at ETH Zurich",
        "lme4",
        73421,
        ("s", "d", "studage", "lectage", "service", "dept", "y"),
        (("s", 2972), ("d", 1128), ("dept", 14)),
        packed=True,
    ),
)

TABLES: dict[str, GroupedTable] = {table.name: table for table in _ALL}
