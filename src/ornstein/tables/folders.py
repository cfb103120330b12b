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
_VERSION = 5
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


def read_draws(
    path: Path, shape: tuple[int, ...], auxiliary: tuple[str, ...] = ()
) -> tuple[Vector, Vector | None, dict[str, Vector]]:
    """``coef``, (chains, draws, *shape), ``intercept`` and others, of a file with a whole seal.

    ``auxiliary`` are parameters as they were sampled, on the real line.
    """
    import xarray

    group = "unconstrained_posterior" if auxiliary else "posterior"
    with xarray.open_dataset(path, group=group, engine="h5netcdf") as found:
        leaves = {
            name: np.asarray(found[name].values, float)
            for name in ("coef", "intercept", *auxiliary)
            if name in found
        }
    coef, intercept = leaves.pop("coef"), leaves.pop("intercept", None)
    if coef.shape[2:] != shape:
        raise InputError(f"{path} is damaged: it has other columns than its record; {_REMEDY}")
    return coef, intercept, leaves
