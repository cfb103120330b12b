"""Folders of fitted models: a record in JSON seals the draws beside it, so that damage is seen."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.storage import codec
from ornstein.storage.records import digest

DRAWS = "draws.nc"
_VERSION = 3
_REMEDY = "fit again, and save."


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a folder says of a model, and checksums of other files in it."""

    seals: dict[str, str] = field(default_factory=dict)


R = TypeVar("R", bound=Record)


def write_record(path: Path, record: Record, sealed: tuple[str, ...]) -> None:
    """Write a record and the checksums of files that are there already."""
    seals = {name: digest(path.with_name(name).read_bytes()) for name in sealed}
    path.write_text(codec.to_json(replace(record, seals=seals), _VERSION) + "\n")


def read_record(path: Path, kind: type[R], sealed: tuple[str, ...]) -> R:
    """Read what :func:`write_record` wrote; sealed files must be as they were."""
    for name in (path.name, *sealed):
        if not path.with_name(name).is_file():
            raise InputError(f"{path.parent} is not the folder of a model: it has no {name}.")
    try:
        record = codec.from_json(path.read_bytes(), kind, _VERSION, str(path))
    except InputError as error:
        raise InputError(f"{str(error).rstrip('.')}; {_REMEDY}") from None
    for file in map(path.with_name, sealed):
        if digest(file.read_bytes()) != record.seals.get(file.name):
            raise InputError(f"{file} is damaged, or does not belong to {path.name}; {_REMEDY}")
    return record


def read_draws(path: Path, shape: tuple[int, ...]) -> tuple[Vector, Vector]:
    """``coef``, (chains, draws, *shape), and ``intercept``, of a file with a whole seal."""
    import xarray

    with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as found:
        coef, intercept = (np.asarray(found[name].values, float) for name in ("coef", "intercept"))
    if coef.shape[2:] != shape:
        raise InputError(f"{path} is damaged: it has other columns than its record; {_REMEDY}")
    return coef, intercept
