"""A factor whose levels have effects: what a user says of it, and what the model keeps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Array, Vector
from ornstein.data.derived import Derived
from ornstein.data.on_disk import AnyRows, RowsOnDisk, ahead, map_as_rows
from ornstein.linalg import small
from ornstein.models.random_effects.covariances import AnyCovariance

INTERCEPT = "1"
_LABELS = 2**20  # read at once, where they are on disk
_SPREAD = 2**20  # labels up to this far apart are looked up in a table


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of a factor's levels, for ``ornstein.models.mixed``.

    Attributes
    ----------
    labels
        The level of every row: numbers or text, or numbers on disk.
    slopes
        Columns of X whose coefficients vary from level to level, by name or number.
    intercept
        Whether the levels differ by an intercept too.
    correlated
        Whether a level's effects are correlated, as lme4's ``(1 + x | g)``; False for ``||``.

    Examples
    --------
    >>> Effects(["a", "b", "a"], slopes=("x",), correlated=False).slopes
    ('x',)
    """

    labels: Any
    slopes: Sequence[str | int] = ()
    intercept: bool = True
    correlated: bool = True


@dataclass(frozen=True)
class Grouping:
    """A factor of the model: its number of levels, its columns, and their covariances in turn.

    ``named`` is what stands before and after the name of a fixed factor's level in that of its
    coefficient; None where effects are random.
    """

    name: str
    levels: int
    columns: tuple[str, ...]
    covariances: tuple[AnyCovariance, ...]
    named: tuple[str, str] | None = None

    @property
    def fixed(self) -> bool:
        """Whether effects are coefficients, whose prior is given, and not drawn from a group's."""
        return self.named is not None

    @property
    def width(self) -> int:
        """Effects of a level, q."""
        return len(self.columns)

    @property
    def size(self) -> int:
        """Effects of all levels."""
        return self.width * self.levels

    @property
    def count(self) -> int:
        """Hyperparameters."""
        return sum(cov.count for cov in self.covariances)

    @property
    def plain(self) -> bool:
        """Whether there is an intercept only."""
        return self.columns == (INTERCEPT,)

    def parts(self, lam: Any) -> list[Any]:
        """Hyperparameters (..., n) of every covariance."""
        ends = np.cumsum([cov.count for cov in self.covariances])[:-1]
        return [
            lam[..., start:end] for start, end in zip([0, *ends], [*ends, self.count], strict=True)
        ]

    def precision(self, lam: Array) -> Array:
        """Of a level's effects, (q, q)."""
        rows = []
        pairs = list(zip(self.covariances, self.parts(lam), strict=True))
        for number, (cov, part) in enumerate(pairs):
            before = sum(c.size for c in self.covariances[:number])
            after = self.width - before - cov.size
            rows.append(jnp.pad(cov.precision(part), ((0, 0), (before, after))))
        return jnp.concatenate(rows)

    def rescaled(self, effects: Array, lam: Array, other: Array) -> Array:
        """Effects (q, levels) under other hyperparameters, their standard normals unchanged."""
        found, at = [], 0
        parts = zip(self.covariances, self.parts(lam), self.parts(other), strict=True)
        for cov, here, there in parts:
            normal = small.lower_inverse(cov.factor(here)[:, :, None])[:, :, 0]
            found.append(cov.factor(there) @ (normal @ effects[at : at + cov.size]))
            at += cov.size
        return jnp.concatenate(found)

    def log_determinant(self, lam: Array) -> Array:
        """Of a level's precision."""
        pairs = zip(self.covariances, self.parts(lam), strict=True)
        return jnp.stack([cov.log_determinant(part) for cov, part in pairs]).sum()

    def log_prior(self, lam: Array) -> Array:
        """Log-density of the hyperparameters on the real line."""
        pairs = zip(self.covariances, self.parts(lam), strict=True)
        return jnp.stack([cov.log_prior(part) for cov, part in pairs]).sum()

    def hyper_labels(self) -> list[str]:
        """Names of standard deviations, then correlations."""
        if self.fixed:
            return []
        if self.plain:
            return [f"sd({self.name})"]
        sds = [f"sd({self.name}: {column})" for column in self.columns]
        return sds + [f"cor({self.name}: {a}, {b})" for a, b in self._pairs()]

    def described(self, draws: Vector) -> Vector:
        """Standard deviations, then correlations, of draws (..., n) on the real line."""
        found = [
            cov.described(part)
            for cov, part in zip(self.covariances, self.parts(draws), strict=True)
        ]
        return np.concatenate([*(sds for sds, _ in found), *(cors for _, cors in found)], axis=-1)

    def _pairs(self) -> list[tuple[str, str]]:
        pairs, start = [], 0
        for cov in self.covariances:
            own = self.columns[start : start + cov.size]
            pairs += [(own[j], own[i]) for i in range(cov.size) for j in range(i)]
            start += cov.size
        return pairs

    def effect_labels(self, levels: Sequence[Any]) -> list[str]:
        """Names of all effects, column by column."""
        if self.named is not None:
            before, after = self.named
            return [f"{before}{level}{after}" for level in levels]
        if self.plain:
            return [f"b[{self.name}={level}]" for level in levels]
        return [f"b[{self.name}={level}: {c}]" for c in self.columns for level in levels]


def levels_of(name: str, labels: Any, rows: int) -> tuple[npt.NDArray[Any], AnyRows]:
    """Distinct levels in order, and the number of every row's."""
    where, labels = f"groups[{name!r}]", map_as_rows(labels)
    if isinstance(labels, RowsOnDisk):
        return _levels_on_disk(where, labels, rows)
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) != rows:
        raise InputError(
            f"{where} must have one label for each of {rows} rows, found shape {array.shape}."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmax(~np.isfinite(array)))
        raise InputError(f"{where} has a missing label in row {row}. Drop it, or name a level.")
    if array.dtype.kind == "O":
        missing = [n for n, label in enumerate(array) if label is None or label != label]
        if missing:
            raise InputError(
                f"{where} has a missing label in row {missing[0]}. Drop it, or name a level."
            )
        array = array.astype(str)
    if array.dtype.kind not in "iufbUS":
        raise InputError(f"{where} must hold numbers or text, found {shown(labels)}.")
    levels, index = np.unique(array, return_inverse=True)
    return _several(where, levels), index.astype(np.int32)


def _several(where: str, levels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if len(levels) < 2:
        raise InputError(
            f"{where} has one level only, {shown(levels[0].item())}: its effect cannot be told "
            "from the intercept. Leave this group out."
        )
    return levels


def _levels_on_disk(
    where: str, labels: RowsOnDisk, rows: int
) -> tuple[npt.NDArray[Any], RowsOnDisk]:
    """By one pass; whole numbers that are stored as floats become whole again."""
    if labels.shape != (rows,):
        raise InputError(
            f"{where} must have one label for each of {rows} rows, found shape {labels.shape}."
        )
    if labels.dtype.kind == "f":
        if labels.scan.bad.any():
            raise InputError(
                f"{where} has a missing label in row {labels.scan.first_bad}. Drop it, or name a "
                "level."
            )
        if labels.scan.whole and np.abs([labels.scan.low, labels.scan.high]).max() < 2**53:
            labels = labels.astype(np.int64)
    levels = np.empty(0, labels.dtype)
    for block in ahead(labels[start : start + _LABELS] for start in range(0, rows, _LABELS)):
        levels = np.union1d(levels, block)
    return _several(where, levels), Derived(_numbers_of(levels), labels, dtype=np.int32)


def _numbers_of(levels: npt.NDArray[Any]) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    """What gives labels their levels' numbers: by a table where they lie close together."""
    if levels.dtype.kind in "iu":
        low, high = int(levels[0]), int(levels[-1])
        if high - low < max(_SPREAD, 8 * len(levels)) and high < 2**63:
            table = np.zeros(high - low + 1, np.int32)
            table[levels.astype(np.int64) - low] = np.arange(len(levels))
            return lambda labels: table[labels.astype(np.int64) - low]
    return lambda labels: np.searchsorted(levels, labels)
