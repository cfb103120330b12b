"""Options of every command that reads a table, and how it is read."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ornstein._base.errors import AmbiguousTargetError, InputError

if TYPE_CHECKING:
    import pandas as pd

    from ornstein.tables import EncodedTable

Missing = Annotated[
    str, typer.Option(help="What to do with missing values: refuse, drop or impute.")
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="Leave this column out; may be repeated.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", help="Use this column though it looks like an identifier; repeatable."),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", help="Numbers of this column are codes; may be repeated."),
]
ParseDates = Annotated[
    list[str] | None,
    typer.Option(
        "--parse-dates",
        help="Dates of this column become days, weekday, season and time of day; a format may "
        "follow: 'day=%d/%m/%Y'; may be repeated.",
    ),
]
Decimal = Annotated[str, typer.Option(help="Mark of decimals in a text file: . or ,")]
Thousands = Annotated[str, typer.Option(help="What separates thousands in a text file, if any.")]

WISHES = ("drop", "keep", "categorical", "parse_dates")
READING = ("target", "formula", "model", "missing", *WISHES, "decimal", "thousands")
"""Options that say how a table is read, by name."""


def reading(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those among a command's arguments."""
    return {name: given[name] for name in READING if name in given}


def read_table(path: Path, options: Mapping[str, Any]) -> "pd.DataFrame":
    """The table, numbers written as the options say."""
    from ornstein import tables
    from ornstein.tables.dates import formats_of

    text = [*(options["categorical"] or ()), *formats_of(options["parse_dates"] or ())]
    return tables.read(path, text, options["decimal"], options["thousands"])


def learn_table(frame: Any, options: Mapping[str, Any]) -> "EncodedTable":
    """What the table becomes; at a terminal, a target that leaves a doubt is asked about."""
    from ornstein import tables

    wishes: dict[str, Any] = {name: options[name] or () for name in WISHES}
    learn: Any = partial(
        tables.learn, frame, options["target"], missing=options["missing"], **wishes
    )
    if options.get("formula") is not None:
        learn = partial(_learn_formula, frame, options)
    try:
        return learn(model=options["model"])
    except AmbiguousTargetError as error:
        if not _at_terminal():
            raise
        model = _asked(error)
    return learn(model=model)


def _learn_formula(frame: Any, options: Mapping[str, Any], model: str | None) -> Any:
    from ornstein import tables

    others = [name for name in WISHES[1:] if options[name]]
    if others:
        raise InputError(
            f"--{others[0].replace('_', '-')} is for --target; a formula names its columns, and "
            "C(column) takes numbers for labels."
        )
    drop = options["drop"] or []
    tables.require_columns(frame, drop)
    some = frame.drop(columns=drop)
    return tables.learn_formula(some, options["formula"], model, options["missing"])


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _asked(error: AmbiguousTargetError) -> str:
    """The model that a user chooses."""
    from rich.console import Console
    from rich.prompt import Prompt

    say = Console(stderr=True, highlight=False)
    say.print(
        str(error).split(" They may be ")[0] + " What are they?", markup=False, soft_wrap=True
    )
    meanings = {meaning: model for model, meaning in error.choices.items()}
    return meanings[Prompt.ask("They are", choices=list(meanings), console=say)]
