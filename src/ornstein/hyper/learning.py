"""The record of learned hyperparameters."""

from dataclasses import dataclass, replace

import jax
import numpy as np

from ornstein._base.trees import Layout
from ornstein._base.types import PyTree, Vector
from ornstein.models.hyperparameters import Learnable
from ornstein.storage.codec import register


@dataclass(frozen=True, eq=False)
class Learning:
    """Hyperparameters learned by variational EM; ``print`` shows a table.

    Attributes
    ----------
    values
        The hyperparameters, in their own structure.
    errors
        Their Monte-Carlo standard errors; 0 where moments are the plan's own.
    deviations
        Their posterior standard deviations on the unconstrained scale (logarithms for what is
        positive), by the curvature of the evidence.
    bias
        How far, on that scale, the values are from those that the Gaussian posterior's own moments
        would give: the bias of a sampler that is not exact (T2).
    path
        Values step by step, every leaf with a leading axis; ``stages`` says what each step was:
        an ``optimum`` found, a ``plan``, a round of ``draws``, or a step that was ``undone``.
    replans
        How often the sampler was planned again after the first plan.
    converged, message
        Whether the tolerance was met, and how learning ended.
    notes
        Caveats: hyperparameters that the data barely constrain, and the sampler's bias.
    seconds
        Time spent on learning.
    labels, layout
        A name for every hyperparameter, and their order in a flat vector.
    """

    values: PyTree
    errors: PyTree
    deviations: Vector
    bias: Vector
    path: PyTree
    stages: tuple[str, ...]
    replans: int
    converged: bool
    message: str
    notes: tuple[str, ...]
    seconds: float
    labels: tuple[str, ...]
    layout: Layout

    def to_record(self) -> "Learning":
        """For a file: trees as lists of their leaves."""
        values, errors, path = map(jax.tree.leaves, (self.values, self.errors, self.path))
        return replace(self, values=values, errors=errors, path=path)

    def from_record(self, layout: Layout) -> "Learning":
        """What :meth:`to_record` was made of, read from a file."""
        trees = (layout.treedef.unflatten(t) for t in (self.values, self.errors, self.path))
        values, errors, path = trees
        return replace(self, values=values, errors=errors, path=path, layout=layout)

    def __repr__(self) -> str:
        """One line."""
        shown = ", ".join(
            f"{label}={value:.4g}"
            for label, value in zip(self.labels[:4], _flat(self.values), strict=False)
        )
        more = ", ..." if len(self.labels) > 4 else ""
        return f"{type(self).__name__}({shown}{more}, converged={self.converged})"

    def __str__(self) -> str:
        """A readable table."""
        values, errors = _flat(self.values), _flat(self.errors)
        head = ("hyperparameter", "value", "MC error", "sd of its log")
        rows = [
            (label, f"{value:.4g}", f"{error:.2g}", f"{deviation:.2g}")
            for label, value, error, deviation in zip(
                self.labels, values, errors, self.deviations, strict=True
            )
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in [head, *rows]
        ]
        ending = f"{self.message}; {len(self.stages)} steps, {self.replans} re-plans"
        return "\n".join([*lines, ending, *(f"note: {note}" for note in self.notes)])


register(Learning, given=("layout",))


def interval(
    learning: Learning, learnable: Learnable, deviations: float = 2.0
) -> tuple[Vector, Vector, Vector]:
    """The values, flat, minus and plus some posterior standard deviations: low, value, high."""
    eta = learnable.to_real(learning.values)
    width = deviations * learning.deviations
    ends = eta - width, eta, eta + width
    low, value, high = (_flat(learnable.host_values(end)) for end in ends)
    return low, value, high


def _flat(tree: PyTree) -> Vector:
    return np.concatenate([np.reshape(leaf, -1) for leaf in jax.tree.leaves(tree)])
