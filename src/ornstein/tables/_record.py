"""An encoding as JSON. The reader is strict: what the writer would not write is refused."""

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein.models.families import MODELS
from ornstein.tables.encoding import (
    MISSING,
    CategoricalColumn,
    Encoding,
    NumericColumn,
    Target,
)

VERSION = 1

Record = dict[str, Any]


def dump(encoding: Encoding) -> str:
    """The encoding as JSON text, in ASCII."""
    record = {
        "version": VERSION,
        "model": encoding.model,
        "missing": encoding.missing,
        "columns": [_column_record(column) for column in encoding.columns],
        "target": {
            "name": encoding.target.name,
            "classes": encoding.target.classes,
            "centre": encoding.target.centre,
            "scale": encoding.target.scale,
        },
    }
    return json.dumps(record, indent=1, allow_nan=False)


def _column_record(column: NumericColumn | CategoricalColumn) -> Record:
    if isinstance(column, NumericColumn):
        numbers = {"centre": column.centre, "scale": column.scale}
        return {"kind": "numeric", "name": column.name, **numbers}
    levels = {"levels": column.levels, "centres": column.centres}
    return {"kind": "categorical", "name": column.name, **levels}


def load(text: str) -> Encoding:
    """Read what :func:`dump` wrote."""
    try:
        found = json.loads(text, object_pairs_hook=_without_repeats)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"The encoding is not JSON: {error}") from error
    if not isinstance(found, dict):
        _fail("the whole", "an object", found)
    if found.get("version") != VERSION or isinstance(found["version"], bool):
        raise InputError(
            f"The encoding has version {shown(found.get('version'))}; this release reads version "
            f"{VERSION}. Learn it again, or use the release that wrote it."
        )
    record = _object("the whole", found, "version", "model", "missing", "columns", "target")
    model = _word("model", record["model"], MODELS)
    columns = tuple(
        _column(f"columns[{i}]", column) for i, column in enumerate(_list("columns", record))
    )
    target = _target(model, record["target"])
    names = [column.name for column in columns] + [target.name]
    if len(set(names)) < len(names) or not columns:
        _fail("columns", "one column or more, of distinct names", names)
    return Encoding(model, _word("missing", record["missing"], MISSING), columns, target)


def _column(where: str, found: Any) -> NumericColumn | CategoricalColumn:
    if isinstance(found, dict) and found.get("kind") == "numeric":
        record = _object(where, found, "kind", "name", "centre", "scale")
        return NumericColumn(_text(where, record), *_centre_and_scale(where, record))
    record = _object(where, found, "kind", "name", "levels", "centres")
    if record["kind"] != "categorical":
        _fail(f"{where}.kind", "numeric or categorical", record["kind"])
    levels, centres = _list("levels", record, where), _list("centres", record, where)
    words = all(level is None or isinstance(level, str) for level in levels)
    if not words or len(set(levels)) < len(levels) or len(levels) < 2 or levels[0] is None:
        _fail(f"{where}.levels", "two or more distinct texts", levels)
    if len(centres) != len(levels) - 1:
        _fail(f"{where}.centres", f"{len(levels) - 1} numbers", centres)
    shares = tuple(_number(f"{where}.centres", centre) for centre in centres)
    if not all(0 <= share <= 1 for share in shares):
        _fail(f"{where}.centres", "numbers between 0 and 1", centres)
    return CategoricalColumn(_text(where, record), tuple(levels), shares)


def _target(model: str, found: Any) -> Target:
    record = _object("target", found, "name", "classes", "centre", "scale")
    centre, scale = _centre_and_scale("target", record)
    if model != "linear" and (centre, scale) != (0.0, 1.0):
        _fail("target.centre and target.scale", f"0 and 1 for a {model} model", (centre, scale))
    if model in ("linear", "poisson"):
        if record["classes"] is not None:
            _fail("target.classes", f"null for a {model} model", record["classes"])
        return Target(_text("target", record), None, centre, scale)
    classes = _list("classes", record, "target")
    few = len(classes) != 2 if model == "logistic" else len(classes) < 2
    if few or not all(isinstance(c, str) for c in classes) or len(set(classes)) < len(classes):
        count = "two" if model == "logistic" else "two or more"
        _fail("target.classes", f"{count} distinct texts", classes)
    return Target(_text("target", record), tuple(classes))


def _centre_and_scale(where: str, record: Record) -> tuple[float, float]:
    centre = _number(f"{where}.centre", record["centre"])
    scale = _number(f"{where}.scale", record["scale"])
    if scale <= 0:
        _fail(f"{where}.scale", "a number above 0", scale)
    return centre, scale


def _object(where: str, found: Any, *keys: str) -> Record:
    if not isinstance(found, dict) or set(found) != set(keys):
        keys_found = sorted(found) if isinstance(found, dict) else found
        _fail(where, f"an object of {', '.join(keys)}", keys_found)
    return found


def _list(key: str, record: Record, where: str = "") -> list[Any]:
    if not isinstance(record[key], list):
        _fail(f"{where}.{key}".lstrip("."), "a list", record[key])
    return record[key]


def _text(where: str, record: Record) -> str:
    if not isinstance(record["name"], str):
        _fail(f"{where}.name", "a text", record["name"])
    return record["name"]


def _word(where: str, found: Any, known: Collection[str]) -> str:
    if not isinstance(found, str) or found not in known:
        _fail(where, f"one of {', '.join(known)}", found)
    return found


def _number(where: str, found: Any) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float):
        _fail(where, "a number", found)
    if abs(found) > 1e308 or not math.isfinite(found):
        _fail(where, "a finite number", found)
    return float(found)


def _fail(where: str, expected: str, found: Any) -> NoReturn:
    raise InputError(f"The encoding is damaged: {where} must be {expected}, found {shown(found)}.")


def _without_repeats(pairs: list[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("an object names a key twice")
    return record
