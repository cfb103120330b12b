"""Options that several commands on tables share, and what they refuse or say alike."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ornstein._base.errors import InputError

if TYPE_CHECKING:
    from ornstein.tables import TableModel

Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--family",
        "--model",
        "-m",
        help="Of the target, as ornstein fit --help lists them; guessed if not given.",
    ),
]
TablePath = Annotated[Path, typer.Argument(help="CSV or Parquet file.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Rows per minibatch.")]
Draws = Annotated[int, typer.Option(min=8, help="Draws per chain; there are four.")]
SomeDraws = Annotated[
    int | None,
    typer.Option(
        min=8,
        help="Draws per chain; there are four. 1,000 if not given, or as many as are enough where "
        "draws take long.",
    ),
]
PriorPrecision = Annotated[
    float | None, typer.Option(help="Of standardised coefficients; drawn if not given.")
]
NoiseScale = Annotated[
    float | None,
    typer.Option(help="Of a linear model, in the target's unit; drawn if not given."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Interval = Annotated[float, typer.Option(help="Probability that the intervals contain.")]
Unseen = Annotated[
    str,
    typer.Option(
        help="Levels of new rows that were not learned: error, or predict them as the first level "
        "(baseline) or as the mean of all (average)."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the draws.")]


def refuse_picture(option: str, path: Path) -> None:
    """Raise if a picture cannot be written in that format, before anything is computed."""
    from ornstein._base import checks

    checks.choice(option, path.suffix.lower(), (".png", ".pdf", ".svg", ".jpg"))
    refuse_file(option, path)


def refuse_file(option: str, path: Path) -> None:
    """Raise if a file cannot be written there, before anything is computed."""
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it.")
    if not path.absolute().parent.is_dir():
        raise InputError(
            f"{option} {path}: there is no folder {path.parent}. Make it, or name another file."
        )


def say_unseen(model: "TableModel", frame: Any, say: Console) -> None:
    """Name the rows that were predicted for levels which were not learned."""
    for new in model.new_levels(frame):
        what = f"{new.column!r} has {new.sentence('levels')}. Predicted as asked for (--unseen)."
        say.print(what, markup=False, soft_wrap=True)
