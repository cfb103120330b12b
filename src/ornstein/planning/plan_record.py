"""A plan as a record and back, to the last bit: a run goes on without planning again.

Parameters' layout and model are not kept: they are the posterior's, which the run is given again.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import numpy as np

from ornstein._base.checks import shown
from ornstein._base.errors import CheckpointError
from ornstein.curvature.control_variates import Anchor
from ornstein.curvature.geometry import Geometry, Missed
from ornstein.data.batches import Batches
from ornstein.linalg.bases import ClassBasis, KroneckerBasis
from ornstein.linalg.operators import AlongBasis, AlongDual, Dense, Diagonal
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Rule
from ornstein.planning.rules import from_record as rule_from_record
from ornstein.theory import Spectrum

_TYPES: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Plan, Batches, Geometry, Missed, Spectrum, Anchor),
        *(Diagonal, Dense, AlongBasis, AlongDual, KroneckerBasis, ClassBasis),
    )
}
_GIVEN = ("layout", "model")


def to_record(plan: Plan) -> dict[str, Any]:
    """Parts by number, the whole last; what is shared is kept once, and shared again later."""
    writer = _Writer()
    writer.value(plan)
    return {"parts": writer.parts}


def from_record(record: Any, post: Posterior) -> Plan:
    """The plan, for the posterior it was made for."""
    reader = _Reader(post)
    try:
        for part in record["parts"]:
            reader.add(part)
        plan = reader.made[-1]
    except (TypeError, KeyError, IndexError, AttributeError, ValueError) as error:
        raise CheckpointError(f"its plan makes no sense ({shown(str(error))})") from error
    if not isinstance(plan, Plan):
        raise CheckpointError("it holds no plan")
    return plan


class _Writer:
    """Parts of a plan, each by the number of its place."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self.places: dict[int, int] = {}
        self.held: list[Any] = []  # alive, so that no identity comes twice

    def value(self, value: Any) -> Any:
        """What JSON knows, or where the part is."""
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if id(value) not in self.places:
            part = self.part(value)
            self.places[id(value)] = len(self.parts)
            self.parts.append(part)
            self.held.append(value)
        return {"part": self.places[id(value)]}

    def part(self, value: Any) -> dict[str, Any]:
        """One part, after those it is made of."""
        if isinstance(value, np.ndarray | jax.Array):
            return {"type": "array", "value": np.asarray(value)}
        if isinstance(value, Mapping):
            return {"type": "dict", "value": {name: self.value(v) for name, v in value.items()}}
        if isinstance(value, Rule):
            record = value.record()
            return {"type": "rule", "value": {name: self.value(v) for name, v in record.items()}}
        kind = type(value).__name__
        if _TYPES.get(kind) is type(value):
            return {
                "type": kind,
                "value": {name: self.value(getattr(value, name)) for name in _names(type(value))},
            }
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {"type": kind, "value": [self.value(v) for v in value]}
        raise TypeError(f"a checkpoint cannot keep a plan that holds a {kind}")


class _Reader:
    """The parts made so far."""

    def __init__(self, post: Posterior) -> None:
        self.post = post
        self.made: list[Any] = []

    def add(self, part: Any) -> None:
        """Make one part from those before it."""
        kind, value = part["type"], part["value"]
        if kind == "array":
            self.made.append(np.asarray(value))
        elif kind == "list":
            self.made.append([self.value(v) for v in value])
        elif kind == "tuple":
            self.made.append(tuple(self.value(v) for v in value))
        else:
            found = {name: self.value(v) for name, v in value.items()}
            if kind == "Plan":
                found |= {name: getattr(self.post, name) for name in _GIVEN}
            if kind == "rule":
                self.made.append(rule_from_record(found))
            else:
                self.made.append(found if kind == "dict" else _TYPES[kind](**found))

    def value(self, value: Any) -> Any:
        return self.made[value["part"]] if isinstance(value, dict) else value


def _names(kind: type[Any]) -> list[str]:
    if is_dataclass(kind):
        return [f.name for f in fields(kind) if kind is not Plan or f.name not in _GIVEN]
    return list(kind._fields)
