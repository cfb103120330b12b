"""An encoding as JSON. The reader is strict: what the writer would not write is refused."""

from collections.abc import Collection
from typing import Any, NoReturn

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein.models.families import MODELS
from ornstein.storage import codec
from ornstein.tables.encoding import MISSING, CategoricalColumn, Encoding, NumericColumn, Target

VERSION = 2

for _kind in (Encoding, NumericColumn, CategoricalColumn, Target):
    codec.register(_kind)


def dump(encoding: Encoding) -> str:
    """The encoding as JSON text, in ASCII."""
    return codec.to_json(encoding, VERSION)


def load(text: str) -> Encoding:
    """Read what :func:`dump` wrote."""
    encoding = codec.from_json(text, Encoding, VERSION, "The encoding")
    _one_of("model", encoding.model, MODELS)
    _one_of("missing", encoding.missing, MISSING)
    for i, column in enumerate(encoding.columns):
        _check_column(f"columns[{i}]", column)
    _check_target(encoding.model, encoding.target)
    names = [column.name for column in encoding.columns] + [encoding.target.name]
    if len(set(names)) < len(names) or not encoding.columns:
        _fail("columns", "one column or more, of distinct names", names)
    return encoding


def _check_column(where: str, column: NumericColumn | CategoricalColumn) -> None:
    if isinstance(column, NumericColumn):
        _check_units(where, column)
        return
    levels, centres = column.levels, column.centres
    if len(set(levels)) < len(levels) or len(levels) < 2 or levels[0] is None:
        _fail(f"{where}.levels", "two or more distinct texts", levels)
    if len(centres) != len(levels) - 1:
        _fail(f"{where}.centres", f"{len(levels) - 1} numbers", centres)
    if not all(0 <= share <= 1 for share in centres):
        _fail(f"{where}.centres", "numbers between 0 and 1", centres)


def _check_target(model: str, target: Target) -> None:
    _check_units("target", target)
    units, classes = (target.centre, target.scale), target.classes
    if model != "linear" and units != (0.0, 1.0):
        _fail("target.centre and target.scale", f"0 and 1 for a {model} model", units)
    if model in ("linear", "poisson"):
        if classes is not None:
            _fail("target.classes", f"null for a {model} model", classes)
        return
    many = "two" if model == "logistic" else "two or more"
    count = len(set(classes or ()))
    if count < 2 or count != len(classes or ()) or (count > 2 and model == "logistic"):
        _fail("target.classes", f"{many} distinct texts", classes)


def _check_units(where: str, units: NumericColumn | Target) -> None:
    for name, value in (("centre", units.centre), ("scale", units.scale)):
        if not abs(value) <= 1e308:
            _fail(f"{where}.{name}", "a finite number", value)
    if units.scale <= 0:
        _fail(f"{where}.scale", "a number above 0", units.scale)


def _one_of(where: str, found: str, known: Collection[str]) -> None:
    if found not in known:
        _fail(where, f"one of {', '.join(known)}", found)


def _fail(where: str, expected: str, found: Any) -> NoReturn:
    raise InputError(f"The encoding is damaged: {where} must be {expected}, found {shown(found)}.")
